"""What there is now, as plain data: statements, stores, variables, partitions, partial matches; queries of it."""
