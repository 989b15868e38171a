"""What drives the engine: replays of historic events, live sources, the wall clock."""
