"""What leaves the workbench: result frames, files of rows, sinks and streams."""
