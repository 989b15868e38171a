"""``groupwin(k, …)``: a separate window with its own clock for each key; ``merge`` joins them again.

::

    groupwin(k)#length(1)
    arrivals   a1  b1    a2
    contents   a1  a1b1  b1a2
    leaves               a1

Null is a key. The windows of several groups that release events at one time make one delivery, group by group in order
of due time and creation. With the hint ``reclaim_group_aged``, a group without events for that long is dropped when a
later event arrives. Its events do not leave, and aggregates keep their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cepbook.engine.state import created, initial
from cepbook.engine.time.timers import NEVER, DueQueue
from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView


class GroupWindow(WindowView):
    """A view per key; the key is at position `at` of items. `reclaim` is (age, frequency) in clock units.

    ``make(state, now)`` returns the view of a new group. With `forgets`, a view is dropped once it is empty, because
    nothing can tell it from a new one.
    """

    at: int
    state: Any
    make: Callable[[Any, int], WindowView]
    reclaim: tuple[int, int] | None
    _sweep: int  # the time of the next search for groups to reclaim
    forgets: bool
    by_key: dict[Any, WindowView] = created(dict)
    _count: int = initial(0)  # number of views created
    seen: dict[Any, int] = created(dict)
    _timers: DueQueue[tuple[int, Any]] = created(DueQueue)  # by number and key
    _until: int = initial(NEVER)  # the next `advance` skips groups that are due later

    def view(self, item: Item) -> WindowView:
        return self.by_key[item[self.at]]

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        key = item[self.at]
        if self.reclaim is not None:
            self._reclaim_groups(self.reclaim, now)
        view = self.by_key.get(key)
        if view is None:
            view = self.open(key, now)
        if self.reclaim is not None:
            self.seen[key] = now
        change = view.arrive(item, now)
        if view.due != view.armed:
            self.arm(key, view)
        return change

    def open(self, key: Any, now: int) -> WindowView:
        view = self.by_key[key] = self.make(self.state, now)
        self._count += 1
        view.number = self._count
        return view

    def arm(self, key: Any, view: WindowView) -> None:
        """Schedule an advance of `view`, the view of `key`, for its due time."""
        view.armed = view.due
        self._timers.arm((view.number, key), view.due)
        self.due = self._timers.due

    def sweep(self, now: int) -> ViewDelta | None:
        swept = (view.sweep(now) for view in self.by_key.values())
        left = [item for change in swept if change is not None for item in change[1]]
        return ((), left) if left else None

    def limit_advance(self, until: int) -> None:
        self._until = until

    def advance(self, now: int) -> ViewDelta | None:
        entered: list[Item] = []
        left: list[Item] = []
        emits = False
        for _, (_, key) in self._timers.take(min(now, self._until)):
            view = self.by_key[key]
            view.armed = NEVER
            change = view.advance(now)
            if change is not None:
                emits = True
                entered += change[0]
                left += change[1]
            if view.due < NEVER:
                self.arm(key, view)
            elif self.forgets and not view.retained():
                del self.by_key[key]
        self.due = self._timers.due
        return (entered, left) if emits else None

    def _reclaim_groups(self, reclaim: tuple[int, int], now: int) -> None:
        if now < self._sweep:
            return
        age, every = reclaim
        self._sweep = now + every
        for key in [key for key, last in self.seen.items() if now - last > age]:
            del self.seen[key]
            self._timers.arm((self.by_key.pop(key).number, key), NEVER)
        self.due = self._timers.due

    def reevaluate(self, now: int) -> None:
        for key, view in self.by_key.items():
            view.reevaluate(now)
            if view.due != view.armed:
                self.arm(key, view)

    def discard(self, item: Item) -> None:
        view = self.by_key.get(item[self.at])
        if view is not None:
            view.discard(item)
            if view.due != view.armed:
                self.arm(item[self.at], view)

    def contents(self) -> Iterable[Item]:
        return (item for view in self.by_key.values() for item in view.contents())

    def posted(self) -> Iterable[Item]:
        return (item for view in self.by_key.values() for item in view.posted())

    def retained(self) -> int:
        return sum(view.retained() for view in self.by_key.values())

    def prev_item(self, item: Item, index: int) -> Item | None:
        return None if _is_absent(item) else self.view(item).prev_item(item, index)

    def prev_items(self, item: Item) -> tuple[Sequence[Item], int] | None:
        return None if _is_absent(item) else self.view(item).prev_items(item)


def _is_absent(item: Item) -> bool:
    """Return True for the missing side of an outer join, which is in no group."""
    return bool(item[0] < 0)
