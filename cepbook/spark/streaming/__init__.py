"""Statements over streaming DataFrames: the state with which they begin, and the engine inside Spark's state store."""
