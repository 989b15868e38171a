"""Frames of events as one tagged stream, and what Spark computes of that stream itself."""
