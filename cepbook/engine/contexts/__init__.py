"""Contexts at run time: separate state per key, hash, category or period. Start reading in `context`."""
