"""Row order within one delivery: distinct, order by, limit and offset (Esper reference, "EPL Reference: Clauses").

Insert rows and remove rows are ordered separately. Sorting is stable, and null is the lowest value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from cepbook.engine.expressions.hashable import hashable
from cepbook.engine.expressions.to_python import ReadableVariable
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.nodes import Projection

KeyedRow = tuple[tuple[Any, ...], Any]  # (sort key, row)


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The order and limit of rows. `descending` has one flag per criterion. `limit` and `offset` may be variables,
    which are read at each delivery. A negative or null limit keeps all rows after the offset; a null offset is 0.
    """

    distinct: bool
    descending: tuple[bool, ...]
    limit: int | ReadableVariable | None
    offset: int | ReadableVariable | None
    distinct_last: bool = False  # distinct applies after the limit (recorded: ts_distinct_order)

    @classmethod
    def of(cls, projection: Projection, variables: Mapping[str, ReadableVariable], distinct_last: bool) -> RowOrder:
        """Return the order of the rows of a projection, whose limits may be `variables`."""

        def count(e: BoundExpr | None) -> int | ReadableVariable | None:
            if e is not None and e.variable_name:
                return variables[e.variable_name]
            constant = None if e is None else e.constant
            return constant if isinstance(constant, int) else None

        descending = tuple(descending for _, descending in projection.order_by)
        limits = count(projection.limit), count(projection.offset)
        return cls(projection.distinct, descending, *limits, projection.distinct and distinct_last)

    def __call__(self, keyed: list[KeyedRow] | None) -> list[Any] | None:
        """Return the rows of (sort key, row) pairs in order; None if none is left."""
        if not keyed:
            return None
        if self.distinct and not self.distinct_last:
            keyed = _distinct(keyed)
        for position in reversed(range(len(self.descending))):
            keyed = sorted(keyed, key=partial(_nulls_first, position), reverse=self.descending[position])
        limit, offset = _present(self.limit), _present(self.offset) or 0
        keyed = keyed[max(offset, 0) :]
        keyed = keyed if limit is None or limit < 0 else keyed[:limit]
        if self.distinct_last:
            keyed = _distinct(keyed)
        return [row for _, row in keyed] or None


def _present(count: int | ReadableVariable | None) -> int | None:
    number: int | None = count if count is None or isinstance(count, int) else count.value
    return number


def _nulls_first(position: int, item: KeyedRow) -> tuple[bool, Any]:
    value = item[0][position]
    return (value is not None, value if value is not None else 0)


def _distinct(keyed: list[KeyedRow]) -> list[KeyedRow]:
    seen: set[Any] = set()
    rows: list[KeyedRow] = []
    for item in keyed:
        row = item[1]
        identity = hashable(row) if isinstance(row, dict) else tuple(map(hashable, row))
        if identity not in seen:
            seen.add(identity)
            rows.append(item)
    return rows
