"""Text to typed plan. Executes nothing: the engines see only the plan."""
