"""Typed plan to running statements, in this process."""
