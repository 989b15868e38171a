"""Semijoins: which rows of a large relation a cycle can reach, found by an index.

Most selects join new rows with held rows by an equality of columns. Then only those held rows count whose column has
the value of a new row. The same holds for correlated subqueries. Without such an equality all rows are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.engine.expressions.hashable import canonical_nan
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.references import expressions_in, streams_read


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """Restricts rows to those whose `column` has a value that a row of the input `other` has in `its`."""

    column: str
    other: int
    its: str

    def keys(self, rows: Sequence[Any]) -> set[Any]:
        """Return the values in the rows of the other input; null equals nothing."""
        values = {canonical_nan(row[-1][self.its]) for row in rows}
        values.discard(None)
        return values


def input_semijoins(steps: PhysicalPlan, small: set[int], large: set[int]) -> dict[int, SemiJoin]:
    """Return semijoins for the `large` inputs of a select, in an order in which they can be applied."""
    semijoins: dict[int, SemiJoin] = {}
    conditions = () if steps.join is None or not steps.join.inner else steps.join.conditions
    known = set(small)
    while True:
        pairs = [pair for e in conditions for pair in _pairs(e) if pair[0].stream in large - known]
        ready = next((pair for pair in pairs if pair[1].stream in known), None)
        if ready is None:
            return semijoins
        own, other = ready
        semijoins[own.stream] = SemiJoin(own.name, other.stream, other.name)
        known.add(own.stream)


def subquery_semijoin(number: int, steps: PhysicalPlan, select: PhysicalPlan) -> SemiJoin | None:
    """Return the semijoin for a subquery that `select` reads in exactly one place; else None."""
    lookup = steps.lookup
    reading = (select.where, select.row and select.row.projection, select.having, select.keys, select.calls)
    references = {e for e in expressions_in(reading, x.SubqueryRef) if e.index == number}
    if lookup is None or len(references) != 1:
        return None
    (reference,) = references
    for condition in x.conjuncts(steps.where):
        for own, other in x.equality_sides(condition):
            if isinstance(own, x.Prop) and isinstance(other, x.SubqueryParameter):
                value = reference.args[other.index]
                if isinstance(value, x.Prop):
                    return SemiJoin(own.name, value.stream, value.name)
    return None


def _pairs(e: x.BoundExpr) -> list[tuple[x.Prop, x.Prop]]:
    sides = x.equality_sides(e)
    equalities = [(a, b) for a, b in sides if isinstance(a, x.Prop) and isinstance(b, x.Prop)]
    return [pair for pair in equalities if streams_read(pair[0]) != streams_read(pair[1])]
