"""Values, times, frames, files, sources and sinks."""
