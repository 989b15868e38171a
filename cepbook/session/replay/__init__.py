"""Historic and live events into the engine, and the wall clock."""
