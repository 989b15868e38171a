"""The step of a query that is run in cycles (`cepbook.engine.cycles`)."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.plan.nodes import CycleStatement


@dataclass(frozen=True, slots=True)
class CycleOperator:
    """Events wait at partitions; a cycle takes them through their windows, and a select reads what came of it."""

    plan: CycleStatement
