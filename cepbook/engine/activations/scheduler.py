"""Activations: one stimulus, several events in, one change out.

Statements that *take part* in activations do not act on each event by itself. What comes in for them waits until all
statements have seen the present event (or all events that arrived together), and then they are run, at most once each:
in their order, which is one of dependency, since a statement is deployed behind those whose rows it reads. What one
hands on to another meets what that one has from elsewhere, so that both branches of a diamond are one change.

An instant is the time of an activation. When the clock goes to T every instant at or before T at which something is
due has its own activation, in order of time, with ``now`` the instant, not T. Time comes before events: what is due at
t is done before an event of t. A statement that is woken by its own activation (its buffers are not empty yet, or
something is due at or before the present time) is run again, in a further activation, until it asks for no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any, Protocol

from cepbook.engine.time.clock import Clock

ActivationOrder = tuple[int, ...]


class Activated(Protocol):
    """What takes part in activations. `order` is its place: parts that read its rows come later."""

    @property
    def order(self) -> ActivationOrder: ...

    def activate(self, now: int) -> None:
        """Take what waits, and what is due at `now`; wake the parts that read what this makes."""

    def failed(self, failure: Exception) -> None:
        """It failed; the others are run all the same."""


class BufferedReader(Protocol):
    """What takes the rows that statements insert in an activation, all together."""

    def put(self, number: int, rows: list[Any]) -> None:
        """Rows for the input `number`."""


class ActivationScheduler:
    """Who is to be run, and at which instant. `waits` makes the round look when the present event was seen.

    `waiting` is the heap of (instant, order) of those, empty while nobody is to be run. Nothing here is state: between
    two rounds nothing waits, and what is due later stands in the timers of the parts.
    """

    PASSING = ("_gathered", "_gathering", "_now", "_woken", "waiting")

    def __init__(self, clock: Clock, waits: Callable[[], None]) -> None:
        self._clock = clock
        self._waits = waits
        self.readers: dict[
            str, list[tuple[BufferedReader, int]]
        ] = {}  # of lots, by the type that they are inserted into
        self.waiting: list[tuple[int, ActivationOrder]] = []
        self._gathering = False
        self._gathered: list[
            tuple[int, ActivationOrder]
        ] = []  # who is to be run when all has come in that comes together
        self._woken: dict[tuple[int, ActivationOrder], Activated] = {}
        self._now: int | None = None

    @property
    def now(self) -> int:
        """The instant of the present activation; between activations engine time."""
        return self._clock.now if self._now is None else self._now

    def wake(self, part: Activated, at: int | None = None) -> None:
        """Run `part` at the instant `at`, not after engine time; without one in the present activation.

        Where that part was run in it already it is run once more.
        """
        key = self.now if at is None else at, part.order
        if key in self._woken:
            return
        self._woken[key] = part
        if self._gathering:
            self._gathered.append(key)
            return
        if not self.waiting:
            self._waits()
        heappush(self.waiting, key)

    def read(self, reader: BufferedReader, inputs: Iterable[tuple[str, int]]) -> None:
        """Give `reader` what is inserted into these types, each for one of its inputs."""
        for type_name, number in inputs:
            self.readers.setdefault(type_name, []).append((reader, number))

    def leave(self, reader: BufferedReader) -> None:
        """Give it no more."""
        self.readers = {
            name: kept
            for name, found in self.readers.items()
            if (kept := [each for each in found if each[0] is not reader])
        }

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Within, what comes in waits: it is one activation."""
        self._gathering = True
        try:
            yield
        finally:
            self._gathering = False
            if self._gathered:
                self._waits()
            for key in self._gathered:
                heappush(self.waiting, key)
            self._gathered.clear()

    def spread(self) -> None:
        """Run what was woken, and what that wakes, by instant and in order."""
        before = self._now
        try:
            while self.waiting:
                key = heappop(self.waiting)
                part = self._woken.pop(key)
                self._now = key[0]
                try:
                    part.activate(key[0])
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    part.failed(failure)
        finally:
            self._now = before
