"""Row order inside one delivery: distinct, order by, limit and offset (Esper reference, "EPL Reference: Clauses").

Each acts on the insert rows and the remove rows apart. Sorting is stable; null is the lowest value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cepbook.engine.delta import Row
from cepbook.engine.rows.frozen import hashable

Keyed = tuple[tuple[Any, ...], Row]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """`descending` has one flag per order-by item; `limit` None keeps all rows behind `offset`."""

    distinct: bool
    descending: tuple[bool, ...]
    limit: int | None
    offset: int

    def __call__(self, keyed: list[Keyed] | None) -> list[Row] | None:
        """Rows, arranged, of (sort key, row) pairs; None when none is left."""
        if not keyed:
            return None
        if self.distinct:
            keyed = _distinct(keyed)
        for position in reversed(range(len(self.descending))):
            keyed = sorted(keyed, key=_nulls_first(position), reverse=self.descending[position])
        rows = [row for _, row in keyed][self.offset :]
        return (rows if self.limit is None else rows[: self.limit]) or None


def _nulls_first(position: int) -> Callable[[Keyed], tuple[bool, Any]]:
    def key(item: Keyed) -> tuple[bool, Any]:
        value = item[0][position]
        return (value is not None, value if value is not None else 0)

    return key


def _distinct(keyed: list[Keyed]) -> list[Keyed]:
    seen: set[Any] = set()
    kept: list[Keyed] = []
    for item in keyed:
        identity = hashable(item[1])
        if identity not in seen:
            seen.add(identity)
            kept.append(item)
    return kept
