"""Frames and files: events are read from them as columns, event types and rows go back into them."""
