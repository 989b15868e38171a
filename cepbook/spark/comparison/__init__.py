"""Comparison of the rows that two runs delivered."""
