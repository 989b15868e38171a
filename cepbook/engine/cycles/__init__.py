"""Queries that are run in cycles: events wait at partitions, a cycle takes them all, a select reads what came of it.

A partition is a chain of stages (`stage`), each with a window for every key (`windows`) and aggregates (`totals`). The
rows of the last stage are a relation with a status for each row (`relation`), or departures and arrivals that are
correlated (`correlator`). `cycle` says when a cycle is run and what it does, `compile` makes the program of a
statement, and `running` has it take part in activations.
"""
