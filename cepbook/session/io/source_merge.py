"""The total order of a replay: events of several sources by (time, sequence, order of sources, order in the source).

Without sequence numbers the order in the source decides.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from cepbook.engine.vectorized.array_columns import StoredColumn
from cepbook.lang.plan.catalog import LATE_EVENT
from cepbook.session.io.column_readers import ColumnValues
from cepbook.session.io.frame_source import EventChunk, ReplaySource, late_chunk


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Consecutive events of source number `source`: ascending `times` (clock units), columns on demand.

    `ranks` are the positions of the events among all events that were taken together; None if they are alone.
    """

    source: int
    type_name: str
    times: list[int]
    chunk: EventChunk
    start: int
    ranks: list[int] | None = None

    def column(self, name: str) -> ColumnValues:
        """Return the values of one property, as long as `times`."""
        values = self.chunk.column(name)
        end = self.start + len(self.times)
        return values if len(self.times) == len(values) else values[self.start : end]

    def columns(self, names: Collection[str]) -> Mapping[str, ColumnValues]:
        """Return the values of the properties `names`."""
        return self.chunk.columns(names, self.start, self.start + len(self.times))

    @property
    def place(self) -> tuple[object, int] | None:
        """The array that the times are a part of, and the row of the first one; None if there is no such array."""
        place = self.chunk.place if self.ranks is None else None
        return None if place is None else (place[0], place[1] + self.start)

    def stored(self, name: str | None, count: int) -> StoredColumn | None:
        """Return a property, or the times (None), as an array if it is one.

        If the batch has a `place`, `count` may include events that follow it there.
        """
        return self.chunk.stored(name, self.start, self.start + count)

    def before(self, count: int) -> SourceBatch:
        """Return the first `count` events of the batch."""
        ranks = None if self.ranks is None else self.ranks[:count]
        return SourceBatch(self.source, self.type_name, self.times[:count], self.chunk, self.start, ranks)

    def after(self, count: int) -> SourceBatch:
        """Return the batch without its first `count` events."""
        ranks = None if self.ranks is None else self.ranks[count:]
        return SourceBatch(self.source, self.type_name, self.times[count:], self.chunk, self.start + count, ranks)


@dataclass(frozen=True, slots=True)
class BelatedEvent:
    """An event that comes before the clock: its rank among the events that were taken together, and its values."""

    rank: int
    type_name: str
    time: int
    event: dict[str, Any]


def split_belated(
    batches: Sequence[SourceBatch], now: int, properties: Callable[[str], Collection[str]]
) -> tuple[list[SourceBatch], list[BelatedEvent]]:
    """Return the events that are not before `now`, and the others in order. `properties` are those of a type."""
    on_time, belated = [], list[BelatedEvent]()
    for batch in batches:
        count = bisect_left(batch.times, now)
        if count:
            columns = {name: batch.column(name) for name in properties(batch.type_name)}
            ranks = batch.ranks or range(count)
            for number, (rank, time) in enumerate(zip(ranks[:count], batch.times, strict=False)):
                event = {name: values[number] for name, values in columns.items()}
                belated.append(BelatedEvent(rank, batch.type_name, time, event))
        if count < len(batch.times):
            on_time.append(batch.after(count))
    return on_time, sorted(belated, key=attrgetter("rank"))


def merge_late(batches: list[SourceBatch]) -> list[SourceBatch]:
    """Return the batches with those of `LateEvent` as one, since the engine takes one batch per event type."""
    late = [batch for batch in batches if batch.type_name == LATE_EVENT.name]
    if len(late) < 2:
        return batches
    entries = list[tuple[int, int, dict[str, Any]]]()
    for batch in late:
        columns = batch.columns(LATE_EVENT.properties)
        rows = [dict(zip(LATE_EVENT.properties, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        entries += zip(batch.ranks or range(len(rows)), batch.times, rows, strict=True)
    entries.sort(key=itemgetter(0))
    chunk = late_chunk([time for _, time, _ in entries], [row for _, _, row in entries])
    merged = SourceBatch(late[0].source, LATE_EVENT.name, chunk.times, chunk, 0, [rank for rank, _, _ in entries])
    return [merged, *(batch for batch in batches if batch.type_name != LATE_EVENT.name)]


class _Head:
    """The unread part of a source's current chunk."""

    __slots__ = ("at", "chunk", "chunks", "number", "source")

    def __init__(self, number: int, source: ReplaySource) -> None:
        self.number = number
        self.source = source
        self.chunks = source.chunks()
        self.chunk: EventChunk | None = None
        self.at = 0

    @property
    def times(self) -> list[int]:
        return [] if self.chunk is None else self.chunk.times

    @property
    def sequences(self) -> list[int]:
        """The sequence numbers of the chunk; empty if there are none."""
        return [] if self.chunk is None or self.chunk.sequences is None else self.chunk.sequences

    @property
    def last(self) -> tuple[int, int, int]:
        """The position of the chunk's last event in the total order."""
        return self.times[-1], self.sequences[-1] if self.sequences else 0, self.number

    def behind(self, bound: tuple[int, int, int]) -> int:
        """Return the index of the first event after `bound` in the total order."""
        time, sequence, number = bound
        search = bisect_right if self.number <= number else bisect_left
        if not self.sequences:
            return search(self.times, time, self.at)
        start = bisect_left(self.times, time, self.at)
        return search(self.sequences, sequence, start, bisect_right(self.times, time, start))

    def fill(self) -> bool:
        """Return True if there is an unread event, fetching the next chunk if necessary."""
        while self.at >= len(self.times):
            self.chunk = next(self.chunks, None)
            self.at = 0
            if self.chunk is None:
                return False
        return True

    def part(self, count: int, ranks: list[int] | None = None) -> SourceBatch:
        assert self.chunk is not None  # only filled heads are read
        start, end = self.at, self.at + count
        self.at = end
        times = self.chunk.times
        times = times if count == len(times) else times[start:end]
        name = self.chunk.type_name or self.source.type_name
        return SourceBatch(self.number, name, times, self.chunk, start, ranks)


class SourceMerge:
    """Hands out the total order batch by batch; nothing later than `until` (inclusive).

    An EventError of a source is raised when its last good event was handed out and the next one is needed.
    """

    def __init__(self, sources: Sequence[ReplaySource], until: int | None = None) -> None:
        self._until = until
        self._heads = [_Head(number, source) for number, source in enumerate(sources)]

    def peek(self) -> int | None:
        """Return the time of the next event; None at the end."""
        heads = self._filled()
        if not heads:
            return None
        time = min(head.times[head.at] for head in heads)
        return None if self._until is not None and time > self._until else time

    def take(self, most: int, upto: int | None = None) -> list[SourceBatch]:
        """Return the next events, at most `most` and none later than `upto`: one batch per source that has some.

        Empty if there is no such event. There may be fewer than `most` although more follow: batches end with chunks.
        """
        heads = self._filled()
        if not heads:
            return []
        limit = min((t for t in (upto, self._until) if t is not None), default=None)
        if len(heads) == 1:
            (head,) = heads
            end = min(len(head.times), head.at + most)
            if limit is not None and head.times[end - 1] > limit:
                end = bisect_right(head.times, limit, head.at, end)
            return [head.part(end - head.at)] if end > head.at else []
        return self._take_merged(heads, most, limit)

    def put_back(self, batches: Sequence[SourceBatch]) -> None:
        """Hand out these events again: the ends of batches that `take` returned last, of which none was merged."""
        heads = {head.number: head for head in self._heads}
        for batch in batches:
            heads[batch.source].at -= len(batch.times)

    def _take_merged(self, heads: list[_Head], most: int, limit: int | None) -> list[SourceBatch]:
        # The order is known up to the end of the chunk that ends first; its source may have more events.
        bound = min(head.last for head in heads)
        ends = []
        for head in heads:
            end = head.behind(bound)
            if limit is not None:
                end = bisect_right(head.times, limit, head.at, end)
            ends.append(min(end, head.at + most))
        counts = [end - head.at for head, end in zip(heads, ends, strict=True)]
        if sum(1 for count in counts if count) <= 1:
            return [head.part(count) for head, count in zip(heads, counts, strict=True) if count]
        times = np.concatenate([np.array(h.times[h.at : end], "int64") for h, end in zip(heads, ends, strict=True)])
        numbers = [h.sequences[h.at : end] for h, end in zip(heads, ends, strict=True)]
        keys = (np.concatenate([np.array(n, "int64") for n in numbers]), times) if any(numbers) else (times,)
        order = np.lexsort(keys)[:most]  # stable: at equal times and sequences the earlier source goes first
        places = np.full(len(times), len(times))
        places[order] = np.arange(len(order))
        batches = []
        for head, count, offset in zip(heads, counts, accumulate(counts, initial=0), strict=False):
            ranks = places[offset : offset + count]
            ranks = ranks[ranks < len(times)]
            if len(ranks):
                batches.append(head.part(len(ranks), ranks.tolist()))
        return merge_late(batches)

    def _filled(self) -> list[_Head]:
        for head in self._heads:
            if head.at >= len(head.times) and not head.fill():
                self._heads = [h for h in self._heads if h is not head]
                return self._filled()
        return self._heads
