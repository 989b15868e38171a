"""Decisions about how a statement runs on Spark, made from its plan before anything is read."""
