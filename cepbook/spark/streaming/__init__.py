"""Statements over streaming DataFrames: where they begin, the state that a task keeps."""
