"""Whether two runs delivered the same rows, and where they did not."""
