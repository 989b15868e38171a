"""Live sources."""
