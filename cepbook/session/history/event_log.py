"""The latest events and clock stops of a workbench, in their order: what a marble diagram runs a statement over again.

Writing costs one append per event sent, and one per replayed slice, of which only a reference is kept; events are made
of slices when somebody asks. For each event type the last `KEPT` events that were sent and the last `KEPT` that were
replayed are known, and as many clock stops and assignments of variables. A slice holds on to its source, so the source
of the last replay of a type lives until the next one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from cepbook.engine.runtime import Deployment, Runtime
from cepbook.lang.plan.catalog import EventType
from cepbook.session.io.source_merge import SourceBatch

KEPT = 2_000
LogPosition = tuple[int, int]  # order of happening: number of the call, place of the event within a slice
Event = dict[str, Any]
EventRecorder = Callable[[int, Event, LogPosition | None], None]  # time, event, position if several arrive together
ManualAction = Callable[[Runtime], object]  # something done by hand, to be done to another runtime again


@dataclass(frozen=True, slots=True)
class LogEntry:
    """At engine time `time` an event of `type_name`, `variable` is given a value or a `manual_action` done; else a
    clock stop.

    `query` is the text of the query that the deed is, where that says all; else it says `what` it is; `stores` are the
    named windows and tables that it reads or changes. `stepping`: the
    clock visited every due time on the way. `lot`: several events came with one call, as one change.
    """

    place: LogPosition
    time: int
    type_name: str | None = None
    event: Event = field(default_factory=dict)
    variable: str | None = None
    value: object = None
    stepping: bool = False
    lot: bool = False
    manual_action: ManualAction | None = None
    query: str | None = None
    what: str = ""
    stores: frozenset[str] = frozenset()


class _Tail:
    """The last replayed slices of one event type, with at least the last `KEPT` events."""

    __slots__ = ("count", "lost", "parts")

    def __init__(self) -> None:
        self.parts: deque[tuple[int, SourceBatch, bool]] = deque()
        self.count = 0
        self.lost = False

    def append(self, number: int, part: SourceBatch, stepping: bool) -> None:
        parts = self.parts
        parts.append((number, part, stepping))
        self.count += len(part.times)
        while self.count - len(parts[0][1].times) >= KEPT:
            self.count -= len(parts.popleft()[1].times)
            self.lost = True

    def log_entries(self, start: int, properties: Sequence[str], *, events: bool) -> Iterator[LogEntry]:
        """The last `KEPT` events from call number `start` on; without `events` only when they were."""
        skip = max(0, self.count - KEPT)
        for number, part, stepping in self.parts:
            if number < start:
                skip = 0
                continue
            columns = [part.column(name) for name in properties] if events else []
            for i in range(skip, len(part.times)):
                place = number, i if part.ranks is None else part.ranks[i]
                if events:
                    event = {name: values[i] for name, values in zip(properties, columns, strict=True)}
                    yield LogEntry(place, part.times[i], part.type_name, event, stepping=stepping)
                else:
                    yield LogEntry(place, part.times[i], stepping=stepping)
            skip = 0


@dataclass(frozen=True, slots=True)
class DeployedAt:
    """When a deployment was made: its place among the happenings, and the clock."""

    deployment: Deployment
    place: LogPosition
    time: int


class EventLog:
    """The record of one workbench."""

    def __init__(self) -> None:
        self._number = count(1).__next__
        self._sent: dict[str, deque[tuple[LogPosition, int, Event, bool]]] = {}
        self._replayed: dict[str, _Tail] = {}
        self._stops: deque[tuple[int, int, bool]] = deque(maxlen=KEPT)
        self._assigned: deque[LogEntry] = deque(maxlen=KEPT)
        self._done: deque[LogEntry] = deque(maxlen=KEPT)
        self._born: dict[str, DeployedAt] = {}
        self._forgotten: LogPosition | None = None
        self._read: dict[frozenset[str], list[LogEntry]] | None = None  # while it is read several times
        self.counts: Counter[str] = Counter()  # of all events by type, kept or not
        self.by_hand: Counter[str] = Counter()  # of those that were sent, not replayed

    # ---- writing

    def recorder(self, type_name: str) -> EventRecorder:
        """The function that notes an event of the type, sent at a time. The dict is kept, not copied."""
        append = self._sent.setdefault(type_name, deque(maxlen=KEPT)).append
        number, counts, by_hand = self._number, self.counts, self.by_hand

        def record(time: int, event: Event, place: LogPosition | None) -> None:
            append(((number(), 0) if place is None else place, time, event, place is not None))
            counts[type_name] += 1
            by_hand[type_name] += 1

        return record

    def together(self, size: int) -> list[LogPosition]:
        """The places of events that arrive together."""
        number = self._number()
        return [(number, place) for place in range(size)]

    def replayed(self, parts: Sequence[SourceBatch], *, stepping: bool = False) -> None:
        """Note what is replayed together; `stepping`: the clock visits every due time on the way."""
        number = self._number()
        for part in parts:
            tail = self._replayed.get(part.type_name)
            if tail is None:
                tail = self._replayed[part.type_name] = _Tail()
            tail.append(number, part, stepping)
            self.counts[part.type_name] += len(part.times)

    def stopped(self, time: int, *, stepping: bool = False) -> None:
        """Note that the clock was set to `time`."""
        self._stops.append((self._number(), time, stepping))

    def assigned(self, time: int, variable: str, value: object) -> None:
        """Note that a variable was given a value from outside."""
        self._assigned.append(LogEntry((self._number(), 0), time, variable=variable, value=value))

    def done(
        self, time: int, manual_action: ManualAction, query: str | None, what: str, stores: frozenset[str] = frozenset()
    ) -> None:
        """Note that somebody changes a store or a context by hand."""
        self._done.append(
            LogEntry((self._number(), 0), time, manual_action=manual_action, query=query, what=what, stores=stores)
        )

    def deployed(self, deployments: Mapping[str, Deployment], now: int) -> None:
        """Note which deployments there are now, and since when."""
        known = self._born
        self._born = {
            id_: replace(known[id_], deployment=each)
            if id_ in known and each.continues(known[id_].deployment)
            else DeployedAt(each, (self._number(), 0), now)
            for id_, each in deployments.items()
        }

    # ---- reading

    def born(self, deployment: Deployment) -> DeployedAt:
        """Since when there is a deployment."""
        return self._born[deployment.id]

    def forget(self) -> None:
        """What happened before is not known: the state was loaded."""
        self._forgotten = self._number(), 0

    def lost(self, types: Collection[str]) -> LogPosition | None:
        """The place before which not all events of `types`, or not all clock stops, are known; None: all are."""
        places: list[LogPosition] = [] if self._forgotten is None else [self._forgotten]
        for name in types:
            sent, tail = self._sent.get(name), self._replayed.get(name)
            if sent is not None and len(sent) == KEPT:
                places.append(sent[0][0])
            if tail is not None and (tail.lost or tail.count > KEPT):
                places.append(next(tail.log_entries(0, (), events=False)).place)
        if len(self._stops) == KEPT:
            places.append((self._stops[0][0], 0))
        if len(self._done) == KEPT:
            places.append(self._done[0].place)
        return max(places, default=None)

    def read_with(self, stores: Set[str]) -> frozenset[str]:
        """All stores that were read or changed by hand together with one of `stores`."""
        return frozenset[str]().union(*(each.stores for each in self._done if each.stores & stores))

    @property
    def assignments(self) -> Sequence[LogEntry]:
        """What was given to variables from outside, from the beginning on."""
        return tuple(self._assigned)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Within, nothing is written: what is read twice is put together once."""
        self._read = {}
        try:
            yield
        finally:
            self._read = None

    def since(self, start: LogPosition, types: Collection[str], known: Mapping[str, EventType]) -> list[LogEntry]:
        """What happened from `start` on, in order: events of `types`, and of all others the times."""
        if self._read is None:
            return self._since(start, types, known)
        key = frozenset(types)
        if key not in self._read:
            self._read[key] = self._since((0, 0), types, known)
        return self._read[key][bisect_left(self._read[key], start, key=_place) :]

    def _since(self, start: LogPosition, types: Collection[str], known: Mapping[str, EventType]) -> list[LogEntry]:
        found = [LogEntry((number, 0), time, stepping=stepping) for number, time, stepping in self._stops]
        found += self._done
        for name, sent in self._sent.items():
            if name in types:
                found += [LogEntry(place, time, name, event, lot=lot) for place, time, event, lot in sent]
            else:
                found += [LogEntry(place, time) for place, time, _, _ in sent]
        for name, tail in self._replayed.items():
            properties = tuple(known[name].properties) if name in types else ()
            found += tail.log_entries(start[0], properties, events=name in types)
        found = [each for each in found if each.place >= start]
        found.sort(key=_place)
        return found


def _place(log_entry: LogEntry) -> LogPosition:
    return log_entry.place
