"""A run: statements placed, the stream dealt out, the tasks, what they give."""
