"""The journal of a workbench: everything since a snapshot, recorded before it happens."""
