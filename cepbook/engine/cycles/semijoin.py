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
from cepbook.lang.plan.references import expressions_in


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
        pairs = [pair for e in conditions for pair in _pairs(e) if pair[0][0] in large - known]
        ready = next((pair for pair in pairs if pair[1][0] in known), None)
        if ready is None:
            return semijoins
        (stream, name), other = ready
        semijoins[stream] = SemiJoin(name, *other)
        known.add(stream)


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
            if own.property_name and other.parameter_index is not None:
                value = reference.args[other.parameter_index]
                if value.property_name and value.read_stream is not None:
                    return SemiJoin(own.property_name, value.read_stream, value.property_name)
    return None


def _pairs(e: x.BoundExpr) -> list[tuple[tuple[int, str], tuple[int, str]]]:
    """Return the properties of two streams, each with its stream, that a condition compares for equality."""
    sides = [(side.read_stream, side.property_name) for side, _ in x.equality_sides(e)]
    read = [(stream, name) for stream, name in sides if stream is not None and name]
    return [(read[0], read[1]), (read[1], read[0])] if len({stream for stream, _ in read}) == 2 else []
