"""The engine at work: its lock and feeds, what came and what is kept of it, what is deployed, states, sinks."""
