"""Queries that are run in cycles: events wait at partitions, a cycle takes them all, a select reads the result.

A partition is a chain of stages (`stage`), each with one window per key (`stage_windows`) and aggregates
(`stage_accumulators`). The rows of the last stage are a relation with a status per row (`versioned_relation`), or
departures and arrivals that are correlated (`correlator`). `cycle` runs a cycle, `cycle_program` generates code.
"""
