"""``unique(k, …)``: the last event for each key; a newer event of the key pushes out the older. Null is a key.

An iterator shows the events in the order of Java's hash table (`lang.java.hashes`), as recorded.

::

    unique(k)
    arrivals   a1  b1  a2
    contents   a1  a1b1  b1a2
    leaves             a1
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cepbook.engine.state import created, initial
from cepbook.engine.windows.window_codegen import (
    ARRIVAL_ONLY,
    EmittedChange,
    WindowArrival,
    WindowCodegen,
    creates,
    key,
    operands_at,
)
from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView
from cepbook.lang.java.hashes import in_hash_order


def _arrive(arrival: WindowArrival) -> EmittedChange:
    source, (key,) = arrival.source, arrival.operands
    source.line(f"by_key = {arrival.view}.by_key")
    if arrival.evicts_unseen:
        source.line(f"by_key[{key}] = {arrival.item}")
        return ARRIVAL_ONLY
    source.line(f"old = by_key.get({key})")
    source.line(f"by_key[{key}] = {arrival.item}")
    return EmittedChange(left=("if old is not None:", "old"))


class UniqueWindow(WindowView):
    """The view of ``unique``; the key is at position `at` of items. After a batch that ran over arrays the items are
    deferred (`state.defer`).
    """

    at: int
    by_key: dict[Any, Item] = created(dict)
    stored: Any = initial(None)
    PASSING = ("stored",)
    DEFERRED = ("by_key",)

    def arrive(self, item: Item, now: int) -> ViewDelta:
        key = item[self.at]
        former = self.by_key.get(key)
        self.by_key[key] = item
        return (item,), (() if former is None else (former,))

    def discard(self, item: Item) -> None:
        if self.by_key.get(item[self.at]) is item:
            del self.by_key[item[self.at]]

    def contents(self) -> Iterable[Item]:
        return self.by_key.values()

    def display_order(self) -> Iterable[Item]:
        return in_hash_order(self.by_key)

    def retained(self) -> int:
        return len(self.by_key)


WINDOW = WindowCodegen(creates(UniqueWindow, operands_at), key, _arrive, kernel="latest")
