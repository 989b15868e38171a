"""The journal of a workbench: everything that happened since a snapshot, on disk before it happens."""
