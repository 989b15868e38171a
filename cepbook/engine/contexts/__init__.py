"""Contexts at run time: `keyed` for plain ``partition by``, a tree of levels for all others."""
