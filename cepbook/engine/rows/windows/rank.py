"""``rank(keys …, n, criteria …)``: the last event of each key, and of these the first n in the sort order.

::

    rank(k, 2, x)
    arrivals   a3   b1   c2   a9
    contents   a3   b1a3 b1c2 b1c2
    leaves               a3   a9

An update replaces its key's event, and takes its own place behind its equals. When there are too many, the last in the
order leaves, of equals the oldest; a key that fell out is new again.
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


class Rank(View):
    """The view of ``rank``; key and sort key stand at positions `at` and `at` + 1 of items."""

    __slots__ = ("at", "by_key", "ordered", "size")

    def __init__(self, at: int, size: int) -> None:
        super().__init__()
        self.at = at
        self.size = size
        self.by_key: dict[Any, Item] = {}
        self.ordered: SortedDict[Any, Item] = SortedDict()  # by (sort key, ordinal)

    def arrive(self, item: Item, now: int) -> Change:
        former = self.by_key.get(item[self.at])
        if former is not None:
            self.discard(former)
        self.by_key[item[self.at]] = item
        self.ordered[item[self.at + 1], item[0]] = item
        if former is not None:
            return (item,), (former,)
        if len(self.ordered) <= self.size:
            return (item,), ()
        last = self.ordered.peekitem()[0][0]
        oldest = self.ordered.peekitem(self.ordered.bisect_left((last, -1)))[1]
        self.discard(oldest)
        return (item,), (oldest,)

    def discard(self, item: Item) -> None:
        if self.by_key.get(item[self.at]) is item:
            del self.by_key[item[self.at]]
            del self.ordered[item[self.at + 1], item[0]]

    def contents(self) -> Iterable[Item]:
        found: Sequence[Item] = self.ordered.values()
        return found

    def retained(self) -> int:
        return len(self.ordered)

    def ahead(self, item: Item) -> tuple[Sequence[Item], int]:
        """In the window's own order."""
        return self.ordered.values(), 0


def _view(code: Code, spec: WindowSpec, at: int) -> str:
    return f"{code.source.bind('_Rank', Rank)}({at}, {size(code, spec)})"


def _operands(code: Code, spec: WindowSpec) -> list[str]:
    return [code.window_key(code.arriving("now"), spec.args[1:]), sort_key_code(code.arriving("now"), spec.criteria)]


VIEW = General(_view, _operands)
