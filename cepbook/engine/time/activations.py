"""Activations: one stimulus, several events in, one delta out.

Most statements process each event by itself. A statement that is an *activation member* does not: its input is buffered
until all statements have seen the present event (or all events that arrived together). Then the scheduler activates
every member that has input, at most once each, in deployment order.

::

              ┌─ B ─┐
    event ─ A ┤     ├─ D        order of activation: A, B, C, D
              └─ C ─┘           D sees the rows of B and C together, as one delta

Deployment order is an order of dependency, because a statement is deployed after the statements whose rows it reads.
So both branches of a diamond arrive as one delta.

The time of an activation is an *instant*. When the clock advances to T, every instant at or before T at which something
is due has an activation of its own, in order of time, and `now` is the instant, not T. Timers due at t are processed
before an event of t. A member that is woken while it is activated (it has buffered input again, or something is due at
or before the present time) is activated again, until it is not woken any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any

from cepbook.engine.time.clock import Clock
from cepbook.engine.time.timers import NEVER, DispatchOrder, DueEntry, OwnerTimers


class ActivationOwner(ABC):
    """A statement that has an activation member."""

    order: tuple[int, int]
    """Position among all statements; statements that read this one's rows come later."""

    state: Any
    """The one state. Its second element knows in `due` when it must run, and keeps in `armed` the time of its timer."""

    @property
    @abstractmethod
    def now(self) -> int:
        """Engine time in ms."""

    @abstractmethod
    def failed(self, failure: Exception) -> None:
        """Report a run-time failure."""


class ActivationMember(ABC):
    """Base class of the buffers that run a statement in activations. `arm(due, state)` arms the statement's timer."""

    def __init__(
        self,
        owner: ActivationOwner,
        timers: OwnerTimers,
        arm: Callable[[int, Any], None],
        activations: ActivationScheduler,
    ) -> None:
        self._owner = owner
        self._arm = arm
        self._activations = activations
        timers.run = self._wake_at_due_times

    @property
    def order(self) -> DispatchOrder:
        """The position of the statement."""
        return self._owner.order

    def failed(self, failure: Exception) -> None:
        """Report a run-time failure of the statement."""
        self._owner.failed(failure)

    def put(self, number: int, rows: list[Any]) -> None:
        """Buffer rows that a statement inserted in this activation, for the input `number` (see `read`)."""
        raise NotImplementedError

    @abstractmethod
    def activate(self, now: int) -> None:
        """Process the buffered input and everything due at `now`, then call `rest`."""

    def rest(self, now: int) -> None:
        """Schedule the next run: a further activation if something is due by now, else a timer."""
        view = self._owner.state.view
        due: int = view.due
        if due <= self._owner.now:
            self._activations.wake(self, max(due, now))
        elif due != view.armed:
            view.armed = due
            self._arm(due, self._owner.state)

    def _wake_at_due_times(self, now: int, entries: list[DueEntry]) -> None:
        self._owner.state.view.armed = NEVER
        for due, _ in entries:
            self._activations.wake(self, due)


class ActivationScheduler:
    """Activates members by instant and in order.

    `waiting` is a heap of (instant, order), empty while no member is woken. Nothing here is saved: between two turns
    nothing waits, and later due times are in the timers of the members.
    """

    PASSING = ("_gathered", "_gathering", "_now", "_woken", "waiting")

    def __init__(self, clock: Clock, request_flush: Callable[[], None]) -> None:
        self._clock = clock
        self._request_flush = request_flush
        self.readers: dict[str, list[tuple[ActivationMember, int]]] = {}  # (member, input) by the type inserted into
        self.waiting: list[tuple[int, DispatchOrder]] = []
        self._gathering = False
        self._gathered: list[tuple[int, DispatchOrder]] = []  # woken while events that arrive together come in
        self._woken: dict[tuple[int, DispatchOrder], ActivationMember] = {}
        self._now: int | None = None

    @property
    def now(self) -> int:
        """The instant of the present activation in ms; engine time between activations."""
        return self._clock.now if self._now is None else self._now

    def wake(self, member: ActivationMember, at: int | None = None) -> None:
        """Activate `member` at the instant `at`, which is not after engine time; None: in the present activation.

        A member that was activated in it already is activated once more.
        """
        key = self.now if at is None else at, member.order
        if key in self._woken:
            return
        self._woken[key] = member
        if self._gathering:
            self._gathered.append(key)
            return
        if not self.waiting:
            self._request_flush()
        heappush(self.waiting, key)

    def read(self, member: ActivationMember, inputs: Iterable[tuple[str, int]]) -> None:
        """Pass rows inserted into these types to `member`, each type for one of its inputs."""
        for type_name, number in inputs:
            self.readers.setdefault(type_name, []).append((member, number))

    def leave(self, member: ActivationMember) -> None:
        """Stop passing rows to `member`."""
        remaining = {name: [pair for pair in pairs if pair[0] is not member] for name, pairs in self.readers.items()}
        self.readers = {name: pairs for name, pairs in remaining.items() if pairs}

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Collect all events that are sent within this block into one activation."""
        self._gathering = True
        try:
            yield
        finally:
            self._gathering = False
            if self._gathered:
                self._request_flush()
            for key in self._gathered:
                heappush(self.waiting, key)
            self._gathered.clear()

    def spread(self) -> None:
        """Activate the woken members, and those that they wake, by instant and in order."""
        before = self._now
        try:
            while self.waiting:
                key = heappop(self.waiting)
                member = self._woken.pop(key)
                self._now = key[0]
                try:
                    member.activate(key[0])
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    member.failed(failure)
        finally:
            self._now = before
