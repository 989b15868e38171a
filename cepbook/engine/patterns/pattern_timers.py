"""The timers of a matcher by due time."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from cepbook.engine.patterns.state_node import TimerNode
from cepbook.engine.state import State, created, initial
from cepbook.engine.time.clock import NEVER

_MAX_UNUSED = 64  # unused times in the heap that are tolerated before it is rebuilt


class PatternTimers(State):
    """Timers by due time. `due` is the earliest time, `NEVER` if there is no timer.

    A single timer of a time is stored in the table itself, several in a dict by serial, in order of start. Nothing else
    is allocated per timer, because most timers guard a sub-expression that ends before they are due.
    """

    due: int = initial(NEVER)
    _at: dict[int, TimerNode | dict[int, TimerNode]] = created(dict)
    _times: list[int] = created(list)  # a heap; it may contain times that are no longer in `_at`

    def add(self, timer: TimerNode) -> None:
        due = timer.due
        entry = self._at.get(due)
        if entry is None:
            heappush(
                self._times, due
            )  # first: an interrupt between the two lines then leaves an unused time and loses no timer
            self._at[due] = timer
            if due < self.due:
                self.due = due
            if len(self._times) > _MAX_UNUSED + 2 * len(self._at):
                self._times = list(self._at)
                heapify(self._times)
        elif isinstance(entry, dict):
            entry[timer.serial] = timer
        else:
            self._at[due] = {entry.serial: entry, timer.serial: timer}

    def drop(self, timer: TimerNode) -> None:
        """Remove a timer if it is in the table."""
        due = timer.due
        entry = self._at.get(due)
        if isinstance(entry, dict):
            if entry.pop(timer.serial, None) is None or entry:
                return
        elif entry is not timer:
            return
        del self._at[due]
        if due == self.due:
            self._drop_unused()

    def first(self) -> Sequence[TimerNode]:
        """Return the timers of the earliest time, in order of start."""
        entry = self._at[self.due]
        return list(entry.values()) if isinstance(entry, dict) else (entry,)

    def skip_due(self, upto: int) -> None:
        """Forget the timers that are due at or before `upto`."""
        while self.due <= upto:
            del self._at[self.due]
            self._drop_unused()

    def clear(self) -> None:
        self._at.clear()
        self._times.clear()
        self.due = NEVER

    def _drop_unused(self) -> None:
        times, at = self._times, self._at
        while times and times[0] not in at:
            heappop(times)
        self.due = times[0] if times else NEVER
