"""Which rows of a large relation a cycle can meet at all, found by an index.

Most selects join what is new with what is held, by an equality of columns: of what is held only the rows count whose
column has the value of some new row. The same holds for subqueries that are correlated so. Where there is no such
equality all rows are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.engine.expressions.hashable import canonical_nan
from cepbook.engine.physical.access import inputs_read
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.references import expressions_in


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """The rows of interest have in `column` a value that a row of the input `other` has in `its`."""

    column: str
    other: int
    its: str

    def keys(self, rows: Sequence[Any]) -> set[Any]:
        """The values in the rows of the other input; null equals nothing."""
        found = {canonical_nan(row[-1][self.its]) for row in rows}
        found.discard(None)
        return found


def input_semijoins(steps: PhysicalPlan, small: set[int], large: set[int]) -> dict[int, SemiJoin]:
    """How inputs of a select that are `large` are narrowed, in an order that each can be done in."""
    found: dict[int, SemiJoin] = {}
    conditions = () if steps.join is None or not steps.join.inner else steps.join.conditions
    known = set(small)
    while True:
        pairs = [pair for e in conditions for pair in _pairs(e) if pair[0].stream in large - known]
        ready = next((pair for pair in pairs if pair[1].stream in known), None)
        if ready is None:
            return found
        own, other = ready
        found[own.stream] = SemiJoin(own.name, other.stream, other.name)
        known.add(own.stream)


def subquery_semijoin(number: int, steps: PhysicalPlan, select: PhysicalPlan) -> SemiJoin | None:
    """How what a subquery of `select` reads is narrowed: by the one place where it is asked."""
    lookup = steps.lookup
    asked = {e for e in expressions_in((_parts(select),)) if isinstance(e, x.SubqueryRef) and e.index == number}
    if lookup is None or len(asked) != 1:
        return None
    (reference,) = asked
    for part in x.conjuncts(steps.where):
        for own, other in _sides(part):
            if isinstance(own, x.Prop) and isinstance(other, x.SubqueryParameter):
                value = reference.args[other.index]
                if isinstance(value, x.Prop):
                    return SemiJoin(own.name, value.stream, value.name)
    return None


def _parts(select: PhysicalPlan) -> tuple[Any, ...]:
    """What of a select may ask subqueries."""
    return (select.where, select.row and select.row.projection, select.having, select.keys, select.calls)


def _sides(e: x.BoundExpr) -> tuple[tuple[x.BoundExpr, x.BoundExpr], ...]:
    """The sides of an equality, either way round. One that is safe for null is none."""
    if not isinstance(e, x.ComparisonExpr) or e.op != "=":
        return ()
    return (e.left, e.right), (e.right, e.left)


def _pairs(e: x.BoundExpr) -> list[tuple[x.Prop, x.Prop]]:
    """Columns of two inputs that are equal."""
    sides = _sides(e)
    found = [(a, b) for a, b in sides if isinstance(a, x.Prop) and isinstance(b, x.Prop)]
    return [pair for pair in found if inputs_read(pair[0]) != inputs_read(pair[1])]
