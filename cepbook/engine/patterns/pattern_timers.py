"""The timers of a matcher, by time."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from cepbook.engine.patterns.state_node import TimerNode
from cepbook.engine.state import State
from cepbook.engine.time.clock import NEVER

_FEW = 64  # times of no use that are not worth a clean-up


class PatternTimers(State):
    """Which timers are due when. `due` is the earliest time, `NEVER` if nothing is due.

    The one timer of a time stands in the table itself, several in a dict by serial, in order of start. Nothing else is
    made for a timer: most of them guard what ends before they are due.
    """

    __slots__ = ("_at", "_times", "due")

    def __init__(self) -> None:
        self.due = NEVER
        self._at: dict[int, TimerNode | dict[int, TimerNode]] = {}
        self._times: list[int] = []  # a heap; also times that are in `_at` no more

    def add(self, timer: TimerNode) -> None:
        """`timer`, which is not in here and the latest by serial, is due at its time."""
        due = timer.due
        held = self._at.get(due)
        if held is None:
            heappush(self._times, due)  # first: a failure between the two leaves a time of no use, and loses no timer
            self._at[due] = timer
            if due < self.due:
                self.due = due
            if len(self._times) > _FEW + 2 * len(self._at):
                self._times = list(self._at)
                heapify(self._times)
        elif isinstance(held, dict):
            held[timer.serial] = timer
        else:
            self._at[due] = {held.serial: held, timer.serial: timer}

    def drop(self, timer: TimerNode) -> None:
        """`timer` is due no more, if it was."""
        due = timer.due
        held = self._at.get(due)
        if isinstance(held, dict):
            if held.pop(timer.serial, None) is None or held:
                return
        elif held is not timer:
            return
        del self._at[due]
        if due == self.due:
            self._settle()

    def first(self) -> Sequence[TimerNode]:
        """The timers that are due first, in order of start."""
        held = self._at[self.due]
        return list(held.values()) if isinstance(held, dict) else (held,)

    def lose(self, upto: int) -> None:
        """Forget what is due at or before `upto`."""
        while self.due <= upto:
            del self._at[self.due]
            self._settle()

    def clear(self) -> None:
        """Forget everything."""
        self._at.clear()
        self._times.clear()
        self.due = NEVER

    def _settle(self) -> None:
        """Drop times of no use at the front."""
        times, at = self._times, self._at
        while times and times[0] not in at:
            heappop(times)
        self.due = times[0] if times else NEVER
