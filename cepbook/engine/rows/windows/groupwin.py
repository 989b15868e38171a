"""``groupwin(k, …)``: a window of its own, with its own clock, for each key; ``merge`` joins them again.

::

    groupwin(k)#length(1)
    arrivals   a1  b1    a2
    contents   a1  a1b1  b1a2
    leaves               a1

Null is a key. What the windows of several groups release at one time is one delivery, group by group in order of due
time and creation. With the hint ``reclaim_group_aged`` a group without events for that long is forgotten by a later
event: silently, its events leave nothing, and aggregates keep their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from cepbook.engine.clock import NEVER
from cepbook.engine.rows.windows.view import Change, Item, View


class GroupWin(View):
    """A view per key; the key stands at position `at` of items. `reclaim` is (age, frequency) in clock units.

    ``make(state, now)`` makes the view of a new group.
    """

    __slots__ = ("_heap", "_sweep", "at", "by_key", "make", "reclaim", "seen", "state")

    def __init__(
        self, at: int, state: Any, make: Callable[[Any, int], View], reclaim: tuple[int, int] | None, now: int
    ) -> None:
        super().__init__()
        self.at = at
        self.state = state
        self.make = make
        self.reclaim = reclaim
        self.by_key: dict[Any, tuple[int, View]] = {}  # (place in order of creation, view)
        self.seen: dict[Any, int] = {}
        self._heap: list[tuple[int, int, View]] = []
        self._sweep = NEVER if reclaim is None else now + reclaim[1]

    def view(self, item: Item) -> View:
        """The view of the item's group."""
        return self.by_key[item[self.at]][1]

    def arrive(self, item: Item, now: int) -> Change | None:
        key = item[self.at]
        if self.reclaim is not None:
            self._forget(self.reclaim, now)
        found = self.by_key.get(key)
        if found is None:
            found = self.by_key[key] = (item[0], self.make(self.state, now))
        if self.reclaim is not None:
            self.seen[key] = now
        place, view = found
        change = view.arrive(item, now)
        if view.due < view.armed:
            self._arm(place, view)
        return change

    def _arm(self, place: int, view: View) -> None:
        view.armed = view.due
        heappush(self._heap, (view.due, place, view))
        self.due = self._heap[0][0]

    def advance(self, now: int) -> Change | None:
        entered: list[Item] = []
        left: list[Item] = []
        found = False
        heap = self._heap
        woken: list[tuple[int, int, View]] = []
        while heap and heap[0][0] <= now:
            due, place, view = heappop(heap)
            if view.armed == due:
                view.armed = NEVER
                woken.append((view.due, place, view))
        for due, _, view in sorted(woken):
            change = view.advance(now) if due <= now else None
            if change is not None:
                found = True
                entered += change[0]
                left += change[1]
        for _, place, view in woken:
            if view.due < NEVER:
                self._arm(place, view)
        self.due = heap[0][0] if heap else NEVER
        return (entered, left) if found else None

    def _forget(self, reclaim: tuple[int, int], now: int) -> None:
        if now < self._sweep:
            return
        age, every = reclaim
        self._sweep = now + every
        for key in [key for key, last in self.seen.items() if now - last > age]:
            del self.seen[key]
            self.by_key.pop(key)[1].armed = NEVER

    def reevaluate(self, now: int) -> None:
        for place, view in self.by_key.values():
            view.reevaluate(now)
            if view.due < view.armed:
                self._arm(place, view)

    def discard(self, item: Item) -> None:
        found = self.by_key.get(item[self.at])
        if found is not None:
            found[1].discard(item)
            if found[1].due < found[1].armed:
                self._arm(*found)

    def contents(self) -> Iterable[Item]:
        return (item for _, view in self.by_key.values() for item in view.contents())

    def retained(self) -> int:
        return sum(view.retained() for _, view in self.by_key.values())

    def ahead_by(self, item: Item, index: int) -> Item | None:
        return self.view(item).ahead_by(item, index)

    def ahead(self, item: Item) -> tuple[Sequence[Item], int]:
        return self.view(item).ahead(item)
