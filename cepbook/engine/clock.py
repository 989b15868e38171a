"""Engine time: an input, in integer milliseconds. Nothing here reads a wall clock.

``advance(t)`` is one step. Everything due at or before ``t`` runs once, with the time ``t``, statement by statement in
delivery order (facts recorded from the reference: a jump over several timer points evaluates each timer once,
at the target). ``stepping`` visits every due time on the way instead.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

NEVER = 1 << 62  # later than any time: events and advances beyond `LAST` are refused
LAST = (1 << 61) - 1


class Timed:
    """One statement's place in the clock: `order` sorts statements due at one instant; `due` is its next timer."""

    __slots__ = ("due", "fire", "order")

    def __init__(self, order: tuple[int, ...], fire: Callable[[int], None]) -> None:
        self.order = order
        self.fire = fire
        self.due = NEVER


class Clock:
    """`now` is the time; `due` the earliest time at which anything is to happen (`NEVER` if nothing)."""

    __slots__ = ("_heap", "_serial", "due", "now")

    def __init__(self, start: int) -> None:
        self.now = start
        self.due = NEVER
        self._heap: list[tuple[int, tuple[int, ...], int, Timed]] = []
        self._serial = 0  # a statement that is only tried out has the order of the one before it

    def arm(self, timed: Timed, due: int) -> None:
        """Make sure that `timed` fires at `due` or earlier."""
        if due < timed.due:
            timed.due = due
            self._serial += 1
            heappush(self._heap, (due, timed.order, self._serial, timed))
            if due < self.due:
                self.due = due

    def disarm(self, timed: Timed) -> None:
        """Forget `timed` (its statement is gone). Its heap entries become stale and are dropped when met."""
        timed.due = NEVER

    def take_due(self, t: int) -> list[Timed]:
        """Remove and return everything due at or before `t`, in delivery order; they may arm again."""
        found: list[Timed] = []
        heap = self._heap
        while heap and heap[0][0] <= t:
            due, _, _, timed = heappop(heap)
            if timed.due == due:
                timed.due = NEVER
                found.append(timed)
        self.settle()
        if len(found) > 1:
            found.sort(key=_order)
        return found

    def settle(self) -> None:
        """Recompute `due` after timers were disarmed or armed behind the clock's back."""
        heap = self._heap
        while heap and heap[0][0] != heap[0][3].due:
            heappop(heap)
        self.due = heap[0][0] if heap else NEVER


def _order(timed: Timed) -> tuple[int, ...]:
    return timed.order
