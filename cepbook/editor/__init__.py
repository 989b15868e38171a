"""Help while EPL is written, for cells of notebooks and for the playground: completion, and what a word means."""
