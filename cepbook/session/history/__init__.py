"""The event log, and running it again."""
