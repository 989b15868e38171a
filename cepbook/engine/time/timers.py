"""Timer queues: one protocol for the clock and for everything that runs on it.

A queue has entries `(due, path)`. A path is a key that names a piece of state (the id of a partition and a place in its
state, the key of a group, a number). It does not reference the state, so a pending timer keeps no dropped state alive.
A path has at most one due time. Queues are derived data: the owner of the state can rebuild them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

from cepbook.engine.state import State, created, initial

NEVER = 1 << 62  # later than any time: events and advances beyond `clock.LAST` are refused
# The places of timers in the state of a statement, as they run at one instant; subqueries and patterns add their number
# (recorded: outer_expiry_and_subquery_expiry).
WINDOW, SUBQUERY, OUTPUT, PATTERN = (kind << 16 for kind in range(4))
_FEW = 64  # number of stale entries that are not worth a cleanup

DispatchOrder = tuple[int, ...]
TimerPath = Any  # hashable, and comparable with the other paths of its queue
P = TypeVar("P")
DueEntry = tuple[int, TimerPath]


class DueQueue(State, Generic[P]):
    """A queue of paths by due time. `due` is the earliest due time, `NEVER` if the queue is empty."""

    due: int = initial(NEVER)
    _when: dict[P, int] = created(dict)
    _heap: list[tuple[int, P]] = created(list)  # with stale entries: see `_settle`

    def resumed(self) -> None:
        """Rebuild the heap, because the due times were replaced."""
        self._heap = [(due, path) for path, due in self._when.items()]
        heapify(self._heap)
        self._settle()

    def __len__(self) -> int:
        return len(self._when)

    def at(self, path: P) -> int:
        """Return the due time of `path`, `NEVER` if it has none."""
        return self._when.get(path, NEVER)

    def beyond(self, time: int) -> int:
        """Return the earliest due time after `time`."""
        if self.due > time:
            return self.due
        return min((due for due in self._when.values() if due > time), default=NEVER)

    def arm(self, path: P, due: int) -> None:
        """Set the only due time of `path`; `NEVER` removes it."""
        # The heap before `_when`: a failure between the two leaves an entry of no use, and loses none.
        if not self._heap:  # the most common case: an owner whose one timer was taken
            if due < NEVER:
                self._heap.append((due, path))
                self._when[path] = due
            self.due = due
            return
        before = self._when.get(path, NEVER)
        if before == due:  # after a failure in between, `due` may be another
            if due >= NEVER:
                self._settle()
            else:
                self.due = min(self.due, due)
            return
        if due >= NEVER:
            del self._when[path]
        else:
            heappush(self._heap, (due, path))
            self._when[path] = due
        if due < self.due:
            self.due = due
        elif before == self.due:
            self._settle()
        if len(self._heap) > _FEW + 2 * len(self._when):
            self.resumed()

    def pop(self) -> P:
        """Remove and return the path with the earliest due time."""
        path = heappop(self._heap)[1]
        del self._when[path]
        if self._heap:
            self._settle()
        else:
            self.due = NEVER
        return path

    def take(self, upto: int) -> list[tuple[int, P]]:
        """Remove and return the entries due at or before `upto`, by time and then by path."""
        entries: list[tuple[int, P]] = []
        if len(self._heap) == 1 and self.due <= upto:  # the most common case
            entries.append(self._heap.pop())
            self._when.clear()
            self.due = NEVER
            return entries
        while self.due <= upto:
            entry = heappop(self._heap)
            del self._when[entry[1]]
            entries.append(entry)
            self._settle()
        return entries

    def upto(self, time: int) -> list[tuple[int, P]]:
        """Return the entries due at or before `time`, by time and then by path, without removing them."""
        heap, when = self._heap, self._when
        count = len(heap)
        if self.due <= time and (count < 2 or heap[1][0] > time) and (count < 3 or heap[2][0] > time):
            return heap[:1]
        entries: list[tuple[int, P]] = []
        places = [0]
        for place in places:
            if place < count and heap[place][0] <= time:
                due, path = heap[place]
                if when.get(path) == due:
                    entries.append(heap[place])
                places += (2 * place + 1, 2 * place + 2)
        return list(dict.fromkeys(sorted(entries)))

    def clear(self) -> None:
        """Remove all entries."""
        self._when.clear()
        self._heap.clear()
        self.due = NEVER

    def keep(self, predicate: Callable[[P], bool]) -> None:
        """Remove the paths for which `predicate` is false."""
        self._when = {path: due for path, due in self._when.items() if predicate(path)}
        DueQueue.resumed(self)

    def _settle(self) -> None:
        heap, when = self._heap, self._when
        while heap and when.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        self.due = heap[0][0] if heap else NEVER


class TimerFollower(ABC):
    """Notified when the earliest due time of an owner changes."""

    __slots__ = ()

    @abstractmethod
    def follow(self, timers: OwnerTimers) -> None: ...

    @abstractmethod
    def leave(self, timers: OwnerTimers) -> None: ...

    @abstractmethod
    def arm(self, path: DispatchOrder, due: int, /) -> None: ...


class _Silenced(TimerFollower):
    """Stands in for a clock that must not be notified of due times for a while."""

    def __init__(self, clock: TimerFollower) -> None:
        self._clock = clock

    def follow(self, timers: OwnerTimers) -> None:
        self._clock.follow(timers)

    def leave(self, timers: OwnerTimers) -> None:
        self._clock.leave(timers)

    def arm(self, path: DispatchOrder, due: int, /) -> None: ...


class OwnerTimers(DueQueue[TimerPath]):
    """The timers of one owner: a statement or a context. `order` is the owner's position among all owners and
    identifies it.

    `run(now, entries)` runs entries that are due, and `failed` reports a failure. At one advance owners run one after
    the other in their order, each with its entries by time. An owner that `leads` (a context) runs at its own due time
    in between, so timers of a partition that are due before the partition ends still run. An owner that `drops`
    (`@Drop`) runs first in its priority; the due entries of the owners after it are discarded (recorded:
    drop_of_timers).
    """

    __slots__ = ("_clock", "drops", "failed", "leads", "order", "run")
    SAVED: tuple[str, ...] = ("_when", "order")

    def __init__(
        self,
        order: DispatchOrder,
        run: Callable[[int, list[DueEntry]], None],
        failed: Callable[[Exception], None],
        *,
        leads: bool = False,
    ) -> None:
        super().__init__()
        self.order = order
        self.run = run
        self.failed = failed
        self.leads = leads
        self.drops = False
        self._clock: TimerFollower | None = None

    def attach(self, clock: TimerFollower) -> None:
        """Let `clock` run these timers from now on."""
        self._clock = clock
        clock.follow(self)

    def detach(self) -> None:
        """Remove all timers and leave the clock."""
        self.clear()
        if self._clock is not None:
            self._clock.leave(self)
            self._clock = None

    def arm(self, path: TimerPath, due: int) -> None:
        if not self._heap and due < NEVER:  # the most common case: its one timer was taken
            self._when[path] = due
            self._heap.append((due, path))
            self.due = due
            if self._clock is not None:
                self._clock.arm(self.order, due)
            return
        before = self.due
        super().arm(path, due)
        if self.due != before:
            self._moved()

    def take(self, upto: int) -> list[DueEntry]:
        entries = super().take(upto)
        if entries:
            self._moved()
        return entries

    def lose(self, now: int, entries: list[DueEntry]) -> None:
        """Handle entries that were due and are discarded. Subclasses keep the later due times of the same parts."""

    def clear(self) -> None:
        super().clear()
        self._moved()

    def keep(self, predicate: Callable[[TimerPath], bool]) -> None:
        super().keep(predicate)
        self._moved()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within the block, do not notify the clock of due times. It is updated at the end."""
        clock = self._clock
        if clock is None:
            yield
            return
        self._clock = silenced = _Silenced(clock)
        try:
            yield
        finally:
            if self._clock is silenced:
                self._clock = clock
                self._moved()

    def settle(self) -> None:
        """Repair the queue after a failure in the middle of a change, and notify the clock."""
        self._settle()
        self._moved()

    def _moved(self) -> None:
        if self._clock is not None:
            self._clock.arm(self.order, self.due)
