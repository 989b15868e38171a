"""The engine as the workbench holds it."""
