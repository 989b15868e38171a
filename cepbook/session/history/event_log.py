"""The event log: the latest events, clock stops, assignments and manual actions of a workbench, in order.

Reruns (marble diagrams, why, `Workbench.again`) read the log. Writing costs one append per sent event and one per
replayed batch, of which only a reference is kept; events are made from batches when the log is read. Per event type the
log keeps the last `KEPT` sent and the last `KEPT` replayed events, and as many clock stops, assignments and manual
actions. A batch holds a reference to its source, so the source of the last replay of a type lives until the next one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol, Self

from cepbook.engine.runtime import Deployment, Runtime
from cepbook.lang.plan.catalog import EventType

KEPT = 2_000
HORIZON = f"the workbench knows at most the latest {KEPT:,} events of each type"
LogPosition = tuple[int, int]  # number of the call, index of the event in its batch
Event = dict[str, Any]
EventRecorder = Callable[[int, Event, LogPosition | None], None]  # time, event, position if several arrive together
ManualAction = Callable[[Runtime], object]  # an action of the user, repeatable on another runtime


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of the log.

    At engine time `time` an event of `type_name` came, or `variable` was assigned `value`, or the user did
    `manual_action`; otherwise the clock stopped. `query` is the text of a query that is the whole action; `description`
    describes any other action, and `stores` are the stores that the action reads or changes. With `stepping` the clock
    visited every due time on the way. With `simultaneous` several events came with one call, as one change.
    """

    position: LogPosition
    time: int
    type_name: str | None = None
    event: Event = field(default_factory=dict)
    variable: str | None = None
    value: object = None
    stepping: bool = False
    simultaneous: bool = False
    manual_action: ManualAction | None = None
    query: str | None = None
    description: str = ""
    stores: frozenset[str] = frozenset()


class ReplayedBatch(Protocol):
    """Consecutive events of one type, as a replay hands them to the engine (`io.source_merge`)."""

    @property
    def type_name(self) -> str: ...

    @property
    def times(self) -> list[int]: ...

    @property
    def ranks(self) -> list[int] | None: ...

    def column(self, name: str) -> list[Any]: ...

    def before(self, count: int) -> Self: ...


class _Tail:
    """The last replayed batches of one event type, with at least the last `KEPT` events."""

    __slots__ = ("batches", "count", "lost")

    def __init__(self) -> None:
        self.batches: deque[tuple[int, ReplayedBatch, bool]] = deque()
        self.count = 0
        self.lost = False

    def append(self, number: int, batch: ReplayedBatch, stepping: bool) -> None:
        batches = self.batches
        batches.append((number, batch, stepping))
        self.count += len(batch.times)
        while self.count - len(batches[0][1].times) >= KEPT:
            self.count -= len(batches.popleft()[1].times)
            self.lost = True

    def shorten(self, left_out: int) -> None:
        """Remove the last events of the last batch."""
        number, batch, stepping = self.batches.pop()
        self.count -= left_out
        if left_out < len(batch.times):
            self.batches.append((number, batch.before(len(batch.times) - left_out), stepping))

    def log_entries(self, start: int, properties: Sequence[str], *, events: bool) -> Iterator[LogEntry]:
        """Yield the last `KEPT` events from call number `start` on; without `events` their times only."""
        skip = max(0, self.count - KEPT)
        for number, batch, stepping in self.batches:
            if number < start:
                skip = 0
                continue
            columns = [batch.column(name) for name in properties] if events else []
            for i in range(skip, len(batch.times)):
                position = number, i if batch.ranks is None else batch.ranks[i]
                if events:
                    event = {name: values[i] for name, values in zip(properties, columns, strict=True)}
                    yield LogEntry(position, batch.times[i], batch.type_name, event, stepping=stepping)
                else:
                    yield LogEntry(position, batch.times[i], stepping=stepping)
            skip = 0


@dataclass(frozen=True, slots=True)
class DeployedAt:
    """When a deployment was made: its position in the log, and the clock."""

    deployment: Deployment
    position: LogPosition
    time: int


class UnwrittenEntries:
    """The entries of a journal that are not written yet. `depth` stimuli are under way, one within the other.

    `entries` has name and value in turn. Whoever appends to it calls `make_room` first, if its length is `check_at` or
    more, or `depth` is above 1.
    """

    def __init__(self, check_at: int) -> None:
        self.entries: list[Any] = []  # never rebound: recorders hold it
        self.check_at = check_at
        self.depth = 0

    def make_room(self) -> None:
        """Prepare for one more stimulus. Raises JournalError if it cannot be written; then it must not happen."""
        raise NotImplementedError


class EventLog:
    """The log of one workbench."""

    def __init__(self) -> None:
        self._number = count(1).__next__
        self._sent: dict[str, deque[tuple[LogPosition, int, Event, bool]]] = {}
        self._replayed: dict[str, _Tail] = {}
        self._stops: deque[tuple[int, int, bool]] = deque(maxlen=KEPT)
        self._assigned: deque[LogEntry] = deque(maxlen=KEPT)
        self._done: deque[LogEntry] = deque(maxlen=KEPT)
        self._born: dict[str, DeployedAt] = {}
        self._forgotten: LogPosition | None = None
        self._read: dict[frozenset[str], list[LogEntry]] | None = None  # cache of `cached_reads`
        self.counts: Counter[str] = Counter()  # of all events by type, including forgotten ones
        self.by_hand: Counter[str] = Counter()  # of events that were sent, not replayed
        self.clock_by_hand: int | None = None  # where a call moved the clock last, if no event was replayed since

    def recorder(self, type_name: str, journal: UnwrittenEntries | None = None) -> EventRecorder:
        """Return the function that logs an event of the type. The event is kept, not copied.

        With a `journal` it is an entry there first; JournalError is raised if that is not possible.
        """
        append = self._sent.setdefault(type_name, deque(maxlen=KEPT)).append
        number, counts, by_hand = self._number, self.counts, self.by_hand
        entries = [] if journal is None else journal.entries
        extend = entries.extend

        def record(time: int, event: Event, position: LogPosition | None) -> None:
            if journal is not None:  # no call of its own: every event comes here
                if journal.depth > 1 or len(entries) >= journal.check_at:
                    journal.make_room()
                extend((type_name, event))
            append(((number(), 0) if position is None else position, time, event, position is not None))
            counts[type_name] += 1
            by_hand[type_name] += 1

        return record

    def positions(self, size: int) -> list[LogPosition]:
        """Return the positions of `size` events that arrive together."""
        number = self._number()
        return [(number, index) for index in range(size)]

    def record_replayed(self, batches: Sequence[ReplayedBatch], *, stepping: bool = False) -> None:
        """Log batches that are replayed together. With `stepping` the clock visits every due time on the way."""
        number = self._number()
        self.clock_by_hand = None
        for batch in batches:
            tail = self._replayed.get(batch.type_name)
            if tail is None:
                tail = self._replayed[batch.type_name] = _Tail()
            tail.append(number, batch, stepping)
            self.counts[batch.type_name] += len(batch.times)

    def shorten_replayed(self, batches: Sequence[ReplayedBatch], counts: Sequence[int]) -> None:
        """Keep the first `counts` events of each of the `batches` that were logged last: the others did not come."""
        for batch, taken in zip(batches, counts, strict=True):
            left_out = len(batch.times) - taken
            if left_out:
                self._replayed[batch.type_name].shorten(left_out)
                self.counts[batch.type_name] -= left_out

    def record_stop(self, time: int, *, stepping: bool = False, by_hand: bool = False) -> None:
        """Log that the clock was set to `time`; `by_hand` if a call of the user did that, and no replay."""
        if by_hand:
            self.clock_by_hand = time
        self._stops.append((self._number(), time, stepping))

    def record_assignment(self, time: int, variable: str, value: object) -> None:
        """Log that a variable was assigned from outside."""
        self._assigned.append(LogEntry((self._number(), 0), time, variable=variable, value=value))

    def record_action(
        self, time: int, manual_action: ManualAction, query: str | None, what: str, stores: frozenset[str] = frozenset()
    ) -> None:
        """Log that the user changes a store or a context."""
        self._done.append(
            LogEntry(
                (self._number(), 0), time, manual_action=manual_action, query=query, description=what, stores=stores
            )
        )

    def record_deployment(self, id_: str, deployment: Deployment | None, now: int) -> None:
        """Note the current deployment of an id, or None. What is left of a known one keeps its position."""
        known = self._born.get(id_)
        if deployment is None:
            self._born.pop(id_, None)
        elif known is None or not deployment.continues(known.deployment):
            self._born[id_] = DeployedAt(deployment, (self._number(), 0), now)
        else:
            self._born[id_] = replace(known, deployment=deployment)

    def deployed_at(self, deployment: Deployment) -> DeployedAt:
        """Return when a deployment was made."""
        return self._born[deployment.id]

    def events_before(self, deployment: Deployment) -> int:
        """Return the number of all events if they came before a deployment was made; 0 if one came since."""
        replayed = (tail.batches[-1][0] for tail in self._replayed.values())
        sent = (events[-1][0][0] for events in self._sent.values() if events)
        latest = max((*replayed, *sent), default=0)
        return self.counts.total() if latest < self._born[deployment.id].position[0] else 0

    def forget_past(self) -> None:
        """Mark everything before now as unknown, because the state was loaded."""
        self._forgotten = self._number(), 0

    def incomplete_before(self, types: Collection[str]) -> LogPosition | None:
        """Return the position before which events of `types` or clock stops are missing; None if all are known."""
        positions: list[LogPosition] = [] if self._forgotten is None else [self._forgotten]
        for name in types:
            sent, tail = self._sent.get(name), self._replayed.get(name)
            if sent is not None and len(sent) == KEPT:
                positions.append(sent[0][0])
            if tail is not None and (tail.lost or tail.count > KEPT):
                positions.append(next(tail.log_entries(0, (), events=False)).position)
        if len(self._stops) == KEPT:
            positions.append((self._stops[0][0], 0))
        for actions in (self._done, self._assigned):
            if len(actions) == KEPT:
                positions.append(actions[0].position)
        return max(positions, default=None)

    def stores_read_with(self, stores: Set[str]) -> frozenset[str]:
        """Return all stores that manual actions read or changed together with one of `stores`."""
        return frozenset[str]().union(*(action.stores for action in self._done if action.stores & stores))

    def latest_values(self, type_name: str, name: str) -> Iterator[object]:
        """Yield the values of one property in the events that are known, at most `KEPT` of each way they came."""
        yield from (event.get(name) for _, _, event, _ in self._sent.get(type_name, ()))
        tail = self._replayed.get(type_name)
        if tail is not None:
            yield from tail.batches[-1][1].column(name)[-KEPT:]

    @property
    def assignments(self) -> Sequence[LogEntry]:
        """All logged assignments of variables from outside, oldest first."""
        return tuple(self._assigned)

    @contextmanager
    def cached_reads(self) -> Iterator[None]:
        """Context manager in which nothing is written and repeated reads are served from a cache."""
        self._read = {}
        try:
            yield
        finally:
            self._read = None

    def entries_since(
        self, start: LogPosition, types: Collection[str], known: Mapping[str, EventType]
    ) -> list[LogEntry]:
        """Return the entries from position `start` on, in order: events of `types`, of other types the times only."""
        if self._read is None:
            return self._read_since(start, types, known)
        key = frozenset(types)
        if key not in self._read:
            self._read[key] = self._read_since((0, 0), types, known)
        return self._read[key][bisect_left(self._read[key], start, key=_place) :]

    def _read_since(self, start: LogPosition, types: Collection[str], known: Mapping[str, EventType]) -> list[LogEntry]:
        entries = [LogEntry((number, 0), time, stepping=stepping) for number, time, stepping in self._stops]
        entries += self._done
        for name, sent in self._sent.items():
            if name in types:
                entries += [
                    LogEntry(position, time, name, event, simultaneous=simultaneous)
                    for position, time, event, simultaneous in sent
                ]
            else:
                entries += [LogEntry(position, time) for position, time, _, _ in sent]
        for name, tail in self._replayed.items():
            properties = tuple(known[name].properties) if name in types else ()
            entries += tail.log_entries(start[0], properties, events=name in types)
        entries = [entry for entry in entries if entry.position >= start]
        entries.sort(key=_place)
        return entries


def _place(log_entry: LogEntry) -> LogPosition:
    return log_entry.position
