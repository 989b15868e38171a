"""Time snapshots: the snapshots that a replay keeps on its way, and the workbench as it was at an instant."""

from __future__ import annotations

import time as wall
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Generic, NamedTuple, TypeVar

from cepbook.errors import SnapshotError, UsageError
from cepbook.session.io.frame_source import ReplaySource
from cepbook.session.io.time_conversion import TimeLike, format_clock_time, period_units

MAX_SNAPSHOTS = (
    512  # snapshots, and bytes of them; beyond that every second one is dropped, and they are taken half as often
)
MAX_SNAPSHOT_BYTES = 2**26
FEWEST = 8  # so many are kept however large they are
APART = 0.05  # seconds of processor time between two snapshots of a replay that keeps them by cost, at least
SHARE = 20  # and one that cost t seconds is followed by the next after SHARE * t, of the last `USUAL` costs the least:
USUAL = 3  # a collection of garbage that falls into one would leave a gap in which no instant is near a snapshot

SnapshotInterval = int | str | timedelta | bool  # every so many events, every period; True: by cost, False: none


class ReplaySnapshot(NamedTuple):
    """A snapshot: how many events had been taken from the sources and how many sent, the clock, the file.

    `by_hand`: it follows something that was done by hand, which no replay of events would do again.
    """

    taken: int
    events: int
    time: int
    data: bytes
    by_hand: bool = False


WorkbenchT = TypeVar("WorkbenchT")


class ReplaySnapshots(Generic[WorkbenchT]):
    """The snapshots of one replay: one at its start, then every so many events, every period of event time, or by cost.

    By cost: so often that they take at most a twentieth of the time, and that going on from one to any instant before
    the next takes about `APART` seconds. After what was done by hand one more is taken before the next event, and
    stays. `open_sources` opens the sources afresh, up to an instant; `save` and `load` are those of the workbench;
    `moment` reads what the user gives as time; `acts` counts what was done by hand. `asked`: somebody wants them, so
    that a state that cannot be saved is a SnapshotError; else there are no more of them from then on. `lacks` says why
    there are none, or no more. Errors: UsageError for a `keep` that is neither.
    """

    def __init__(
        self,
        keep: SnapshotInterval,
        open_sources: Callable[[int], Sequence[ReplaySource]],
        save: Callable[[], bytes],
        load: Callable[[bytes], WorkbenchT],
        moment: Callable[[TimeLike], int],
        second: int,
        acts: Callable[[], int],
        *,
        required: bool = True,
        unavailable: str = "",
    ) -> None:
        self._by_cost = keep is True
        self._required = required
        self.lacks = unavailable
        self._events = isinstance(keep, int) and not isinstance(keep, bool)
        self._every = keep if isinstance(keep, int) else period_units(keep, second)
        self._apart, self._due = APART, 0.0
        self._costs: deque[float] = deque(maxlen=USUAL)
        if self._every < 1:
            raise UsageError(f"a replay keeps a snapshot every so many events or every period, not every {keep!r}")
        self.open_sources = open_sources
        self.load = load
        self._save = save
        self._moment = moment
        self._second = second
        self._acts = acts
        self._acted = acts()
        self._kept: list[ReplaySnapshot] = []
        self._reached = 0
        self.began: int | None = None  # the time of the first event

    def events_until_due(self, taken: int, most: int) -> int:
        """How many of the next `most` events may be taken before it is time to look."""
        return min(most, self._kept[-1].taken + self._every - taken) if self._events and self._kept else most

    def record_progress(self, taken: int, events: int, now: int, first: int | None = None) -> None:
        """The replay has come so far, events from the time `first` on last: take a snapshot, if it is time."""
        self.began = first if self.began is None else self.began
        if self.lacks:
            if self._acted == self._acts():  # what was done by hand no replay of events would do again
                self._reached = now
            return
        self._reached = now
        if self._kept:
            last = self._kept[-1]
            if taken == last.taken and now == last.time:
                return
            if self._by_cost and wall.thread_time() < self._due:
                return
            if not self._by_cost and (taken - last.taken if self._events else now - last.time) < self._every:
                return
        self._keep(taken, events, now, by_hand=False)

    def record_manual_actions(self, taken: int, events: int, now: int) -> None:
        """Take a snapshot if something was done by hand since the last look."""
        if self._acted != self._acts() and not self.lacks:
            self._reached = now
            self._keep(taken, events, now, by_hand=True)

    def _keep(self, taken: int, events: int, now: int, *, by_hand: bool) -> None:
        began = wall.thread_time()
        try:
            data = self._save()
        except SnapshotError as error:
            if self._required:
                raise
            self.lacks = str(error)
            return
        self._acted = self._acts()
        self._kept.append(ReplaySnapshot(taken, events, now, data, by_hand))
        done = wall.thread_time()
        regular = [kept for kept in self._kept if not kept.by_hand]
        if len(regular) > MAX_SNAPSHOTS or (
            len(regular) > FEWEST and sum(len(kept.data) for kept in regular) > MAX_SNAPSHOT_BYTES
        ):
            gone = set(map(id, regular[1::2]))
            self._kept = [kept for kept in self._kept if id(kept) not in gone]
            self._every *= 2
            self._apart *= 2
        self._costs.append(done - began)
        self._due = done + max(self._apart, SHARE * min(self._costs))

    def forget(self, reason: str) -> None:
        """Let go of all snapshots and of the events."""
        self._kept, self.lacks = [], reason
        self.open_sources = lambda _: ()

    @property
    def size(self) -> int:
        """The bytes of all snapshots."""
        return sum(len(kept.data) for kept in self._kept)

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and the last instant that can be gone back to; None: `lacks` says why there is none."""
        return (self._kept[0].time, self._reached) if self._kept else None

    def before(self, at: TimeLike) -> tuple[int, ReplaySnapshot]:
        """An instant, and the last snapshot before it. Errors: UsageError when the replay did not come by there."""
        if not self._kept:
            raise UsageError(f"this replay keeps no snapshots: {self.lacks}")
        time = self._moment(at)
        first = self._kept[0].time
        if not first <= time <= self._reached:
            begin, end, given = (format_clock_time(each, self._second) for each in (first, self._reached, time))
            raise UsageError(f"the replay has been from {begin} to {end}, and not at {given}")
        return time, next(kept for kept in reversed(self._kept) if kept.time <= time)
