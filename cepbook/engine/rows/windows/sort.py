"""``sort(n, criteria …)``: the first n events in the sort order; the last in the order leaves.

::

    sort(2, x)
    arrivals   a3   b1   c2   d9
    contents   a    ba   bc   bc
    leaves               a    d

An event outside the range enters and leaves in one delivery. Of equals the newer comes first; null is the lowest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sortedcontainers import SortedDict

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.sorting import sort_key_code
from cepbook.engine.rows.windows.form import General, size
from cepbook.engine.rows.windows.view import Change, Item, View
from cepbook.lang.plan import WindowSpec


class Sort(View):
    """The view of ``sort``; the sort key stands at position `at` of items."""

    __slots__ = ("at", "ordered", "size")

    def __init__(self, at: int, size: int) -> None:
        super().__init__()
        self.at = at
        self.size = size
        self.ordered: SortedDict[Any, Item] = SortedDict()  # by (sort key, -ordinal)

    def arrive(self, item: Item, now: int) -> Change:
        self.ordered[item[self.at], -item[0]] = item
        if len(self.ordered) <= self.size:
            return (item,), ()
        return (item,), (self.ordered.popitem()[1],)

    def discard(self, item: Item) -> None:
        self.ordered.pop((item[self.at], -item[0]), None)

    def contents(self) -> Iterable[Item]:
        found: Sequence[Item] = self.ordered.values()
        return found

    def retained(self) -> int:
        return len(self.ordered)

    def ahead(self, item: Item) -> tuple[Sequence[Item], int]:
        """In the window's own order."""
        return self.ordered.values(), 0


def _view(code: Code, spec: WindowSpec, at: int) -> str:
    return f"{code.source.bind('_Sort', Sort)}({at}, {size(code, spec)})"


def _operands(code: Code, spec: WindowSpec) -> list[str]:
    return [sort_key_code(code.arriving("now"), spec.criteria)]


VIEW = General(_view, _operands)
