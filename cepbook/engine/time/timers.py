"""What is due when: one protocol for the clock and for everything that runs on it.

A queue has entries ``(due, path)``. A path names a piece of state (the id of a partition and the place in its state,
the key of a group, a number) and holds none of it, so nothing that was dropped is kept alive by a timer that is still
ahead. Each path is due at one time at most. Queues are derived from state: whoever owns the state can fill them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

from cepbook.engine.state import State

NEVER = 1 << 62  # later than any time: events and advances beyond `clock.LAST` are refused
_FEW = 64  # entries of no use that are not worth a clean-up

DispatchOrder = tuple[int, ...]
TimerPath = Any  # what is hashable and can be compared with the other paths of its queue
P = TypeVar("P")
DueEntry = tuple[int, TimerPath]


class DueQueue(State, Generic[P]):
    """What is due when, by path. `due` is the earliest time, `NEVER` if nothing is due."""

    __slots__ = ("_heap", "_when", "due")

    def __init__(self) -> None:
        self.due = NEVER
        self._when: dict[P, int] = {}
        self._heap: list[tuple[int, P]] = []  # also entries that are in `_when` no more, or with another time

    def resumed(self) -> None:
        """Other paths are due now."""
        self._heap = [(due, path) for path, due in self._when.items()]
        heapify(self._heap)
        self._settle()

    def __len__(self) -> int:
        return len(self._when)

    def at(self, path: P) -> int:
        """When `path` is due; `NEVER` if it is not."""
        return self._when.get(path, NEVER)

    def beyond(self, time: int) -> int:
        """The earliest time behind `time` at which anything is due."""
        if self.due > time:
            return self.due
        return min((due for due in self._when.values() if due > time), default=NEVER)

    def arm(self, path: P, due: int) -> None:
        """`path` is due at `due` and at no other time; `NEVER`: not at all."""
        # The heap before `_when`: a failure between the two leaves an entry of no use, and loses none.
        if not self._heap:  # the commonest: an owner with one timer, which was taken
            if due < NEVER:
                self._heap.append((due, path))
                self._when[path] = due
                if due < self.due:
                    self.due = due
            return
        before = self._when.get(path, NEVER)
        if before == due:
            self.due = min(self.due, due)  # later only where a failure came between
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
        """Remove and return the path that is due first."""
        path = heappop(self._heap)[1]
        del self._when[path]
        if self._heap:
            self._settle()
        else:
            self.due = NEVER
        return path

    def take(self, upto: int) -> list[tuple[int, P]]:
        """Remove and return what is due at or before `upto`, by time and then by path."""
        found: list[tuple[int, P]] = []
        if len(self._heap) == 1 and self.due <= upto:  # the commonest
            found.append(self._heap.pop())
            self._when.clear()
            self.due = NEVER
            return found
        while self.due <= upto:
            entry = heappop(self._heap)
            del self._when[entry[1]]
            found.append(entry)
            self._settle()
        return found

    def upto(self, time: int) -> list[tuple[int, P]]:
        """What is due at or before `time`, by time and then by path; it stays due."""
        heap, when = self._heap, self._when
        count = len(heap)
        if self.due <= time and (count < 2 or heap[1][0] > time) and (count < 3 or heap[2][0] > time):  # the commonest
            return heap[:1]
        found: list[tuple[int, P]] = []
        places = [0]
        for place in places:
            if place < count and heap[place][0] <= time:
                due, path = heap[place]
                if when.get(path) == due:
                    found.append(heap[place])
                places += (2 * place + 1, 2 * place + 2)
        return list(dict.fromkeys(sorted(found)))

    def clear(self) -> None:
        """Forget everything."""
        self._when.clear()
        self._heap.clear()
        self.due = NEVER

    def keep(self, wanted: Callable[[P], bool]) -> None:
        """Forget the paths that are not `wanted`."""
        self._when = {path: due for path, due in self._when.items() if wanted(path)}
        DueQueue.resumed(self)

    def _settle(self) -> None:
        """Drop entries of no use at the front."""
        heap, when = self._heap, self._when
        while heap and when.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        self.due = heap[0][0] if heap else NEVER


class TimerFollower(Protocol):
    """What wants to know when the earliest time of an owner's queue changes: the clock."""

    def follow(self, timers: OwnerTimers) -> None: ...
    def leave(self, timers: OwnerTimers) -> None: ...
    def arm(self, path: DispatchOrder, due: int, /) -> None: ...


class _Aside:
    """Stands for a clock that is told of no time for a while."""

    def __init__(self, clock: TimerFollower) -> None:
        self._clock = clock

    def follow(self, timers: OwnerTimers) -> None:
        self._clock.follow(timers)

    def leave(self, timers: OwnerTimers) -> None:
        self._clock.leave(timers)

    def arm(self, path: DispatchOrder, due: int, /) -> None: ...


class OwnerTimers(DueQueue[TimerPath]):
    """The timers of one owner, a statement or a context. `order` is its place among all owners, and names it.

    ``run(now, entries)`` runs what is due; `failed` is told if it cannot. At one advance owners run one after the
    other, in their order, each what is due in order of time. What an owner that `leads` (a context) has to do stands
    between them at its own time: what is due in a partition before its end is run before it ends. One that `drops`
    (``@Drop``) comes first in its priority; those behind it are not run, and what was due there is lost (recorded:
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
        """From now on `clock` runs them."""
        self._clock = clock
        clock.follow(self)

    def detach(self) -> None:
        """The owner is gone."""
        self.clear()
        if self._clock is not None:
            self._clock.leave(self)
            self._clock = None

    def arm(self, path: TimerPath, due: int) -> None:
        if not self._heap and due < NEVER:  # the commonest: its one timer was taken
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
        found = super().take(upto)
        if found:
            self._moved()
        return found

    def lose(self, now: int, entries: list[DueEntry]) -> None:
        """These were due and are not to be run; who keeps further times of the same parts sees to them."""

    def clear(self) -> None:
        super().clear()
        self._moved()

    def keep(self, wanted: Callable[[TimerPath], bool]) -> None:
        super().keep(wanted)
        self._moved()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within, the clock is not told when something is due; it is afterwards."""
        clock = self._clock
        if clock is None:
            yield
            return
        self._clock = aside = _Aside(clock)
        try:
            yield
        finally:
            if self._clock is aside:
                self._clock = clock
                self._moved()

    def settle(self) -> None:
        """A failure may have come in the middle of a change: what is due first is found again, and the clock told."""
        self._settle()
        self._moved()

    def _moved(self) -> None:
        if self._clock is not None:
            self._clock.arm(self.order, self.due)
