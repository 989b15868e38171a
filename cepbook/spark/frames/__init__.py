"""Frames of events as one stream, and what Spark calculates of it itself."""
