"""The code of a task: events in, the engine or whole columns, deliveries out. Workers load nothing else."""
