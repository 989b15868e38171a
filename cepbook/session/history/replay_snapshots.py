"""Snapshots that a replay takes on its way, from which `Replay.at` restores the workbench of an instant."""

from __future__ import annotations

import time as wall
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, NamedTuple, TypeVar

from cepbook.errors import SnapshotError, UsageError
from cepbook.session.io.frame_source import ReplaySource
from cepbook.session.io.time_conversion import TimeLike, clock_text, period_units

MAX_SNAPSHOTS = 512  # snapshots, and their bytes; beyond that every second one is dropped and the interval doubled
MAX_SNAPSHOT_BYTES = 2**26
FEWEST = 8  # minimum number of snapshots, whatever their size
APART = 0.05  # minimum seconds of processor time between two snapshots by cost
SHARE = 20  # a snapshot that cost t seconds is followed by the next after SHARE * t; t is the least of the last `USUAL`
USUAL = 3  # costs, because a garbage collection within one would otherwise leave a long gap

SnapshotInterval = int | str | timedelta | bool  # number of events, period; True: by cost, False: none


class ReplaySnapshot(NamedTuple):
    """A saved state: the events `taken` from the sources and the `events` sent so far, the clock, the file.

    `counts` are the numbers of events by type. `by_hand`: it follows a manual action, which no replay repeats.
    """

    taken: int
    events: int
    time: int
    data: bytes
    counts: Mapping[str, int]
    by_hand: bool = False


WorkbenchT = TypeVar("WorkbenchT")


@dataclass(frozen=True, slots=True)
class SnapshotHost(Generic[WorkbenchT]):
    """The workbench of a replay, as its snapshots need it.

    `save` and `load` are those of the workbench; `moment` reads a time from the user, and `second` is the number of
    clock units in a second. `acts` counts manual actions, and `counts` the events by type.
    """

    save: Callable[[], bytes]
    load: Callable[[bytes], WorkbenchT]
    moment: Callable[[TimeLike], int]
    second: int
    acts: Callable[[], int]
    counts: Callable[[], Mapping[str, int]]


class ReplaySnapshots(Generic[WorkbenchT]):
    """The snapshots of one replay: one at its start, then at an interval of events or event time, or by cost.

    By cost means: snapshots take at most a twentieth of the time, and replaying from one to any instant before the next
    takes about `APART` seconds. After a manual action one more snapshot is taken before the next event, and is never
    dropped. If a state cannot be saved, SnapshotError is raised if snapshots are `required`; otherwise no more are
    taken. `lacks` gives the reason why there are none, or no more. Raises UsageError for a bad `keep`.

    `open_sources` opens the sources again up to an instant.
    """

    def __init__(
        self,
        keep: SnapshotInterval,
        open_sources: Callable[[int], Sequence[ReplaySource]],
        host: SnapshotHost[WorkbenchT],
        *,
        required: bool = True,
        unavailable: str = "",
    ) -> None:
        self._by_cost = keep is True
        self._required = required
        self.lacks = unavailable
        self._events = isinstance(keep, int) and not isinstance(keep, bool)
        self._every = keep if isinstance(keep, int) else period_units(keep, host.second)
        self._apart, self._due = APART, 0.0
        self._costs: deque[float] = deque(maxlen=USUAL)
        if self._every < 1:
            raise UsageError(f"a replay keeps a snapshot every so many events or every period, not every {keep!r}")
        self.open_sources = open_sources
        self.load = host.load
        self._host = host
        self._manual_actions = host.acts()
        self._snapshots: list[ReplaySnapshot] = []
        self._end = 0
        self.began: int | None = None  # the time of the first event

    def events_until_due(self, taken: int, most: int) -> int:
        """Return how many of the next `most` events may be taken before `record_progress` must be called."""
        return min(most, self._snapshots[-1].taken + self._every - taken) if self._events and self._snapshots else most

    def record_progress(self, taken: int, events: int, now: int, first: int | None = None) -> None:
        """Note the position (`first`: time of the last batch's first event); take a snapshot if one is due."""
        self.began = first if self.began is None else self.began
        if self.lacks:
            if self._manual_actions == self._host.acts():  # no replay of events repeats a manual action
                self._end = now
            return
        self._end = now
        if self._snapshots:
            last = self._snapshots[-1]
            if taken == last.taken and now == last.time:
                return
            if self._by_cost and wall.thread_time() < self._due:
                return
            if not self._by_cost and (taken - last.taken if self._events else now - last.time) < self._every:
                return
        self._keep(taken, events, now, by_hand=False)

    def record_manual_actions(self, taken: int, events: int, now: int) -> None:
        """Take a snapshot if there was a manual action since the last call."""
        if self._manual_actions != self._host.acts() and not self.lacks:
            self._end = now
            self._keep(taken, events, now, by_hand=True)

    def _keep(self, taken: int, events: int, now: int, *, by_hand: bool) -> None:
        began = wall.thread_time()
        try:
            data = self._host.save()
        except SnapshotError as error:
            if self._required:
                raise
            self.lacks = str(error)
            return
        self._manual_actions = self._host.acts()
        self._snapshots.append(ReplaySnapshot(taken, events, now, data, self._host.counts(), by_hand))
        done = wall.thread_time()
        regular = [snapshot for snapshot in self._snapshots if not snapshot.by_hand]
        if len(regular) > MAX_SNAPSHOTS or (
            len(regular) > FEWEST and sum(len(snapshot.data) for snapshot in regular) > MAX_SNAPSHOT_BYTES
        ):
            dropped = set(map(id, regular[1::2]))
            self._snapshots = [snapshot for snapshot in self._snapshots if id(snapshot) not in dropped]
            self._every *= 2
            self._apart *= 2
        self._costs.append(done - began)
        self._due = done + max(self._apart, SHARE * min(self._costs))

    def forget(self, reason: str) -> None:
        """Drop all snapshots and the events."""
        self._snapshots, self.lacks = [], reason
        self.open_sources = lambda _: ()

    @property
    def size(self) -> int:
        """The size of all snapshots in bytes."""
        return sum(len(snapshot.data) for snapshot in self._snapshots)

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and last instant that can be restored; None if there is none (`lacks` says why)."""
        return (self._snapshots[0].time, self._end) if self._snapshots else None

    def before(self, at: TimeLike, lookback: int = 0) -> tuple[int, ReplaySnapshot]:
        """Return an instant and the last snapshot that at least `lookback` events separate from it; if there is none,
        the first. Manual actions, which no replay repeats, are never between the two.

        Raises UsageError if the replay did not pass the instant.
        """
        if not self._snapshots:
            raise UsageError(f"this replay keeps no snapshots: {self.lacks}")
        time = self._host.moment(at)
        first = self._snapshots[0].time
        if not first <= time <= self._end:
            begin, end, asked = (clock_text(value, self._host.second) for value in (first, self._end, time))
            raise UsageError(f"the replay has been from {begin} to {end}, and not at {asked}")
        candidates = [snapshot for snapshot in reversed(self._snapshots) if snapshot.time <= time]
        most = candidates[0].events - lookback
        return time, next((s for s in candidates if s.events <= most or s.by_hand), candidates[-1])
