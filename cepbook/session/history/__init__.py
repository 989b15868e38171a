"""What happened, and running it again."""
