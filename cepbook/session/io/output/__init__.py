"""The way out of the workbench: result frames, files of rows, sinks and streams."""
