"""A run: statements are placed, the stream is divided among tasks, the tasks run, and their output becomes frames."""
