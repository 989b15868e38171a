"""The total order of a replay: events of several sources by (time, order of the sources, order in the source)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cepbook.session.sources import Chunk, Row, Source


class Run(NamedTuple):
    """A stretch of the total order in which all events come from source number `source`."""

    source: int
    times: list[int]
    rows: list[Row]


class _Head:
    """The unread part of a source's present chunk."""

    __slots__ = ("at", "chunk", "chunks", "number")

    def __init__(self, number: int, source: Source) -> None:
        self.number = number
        self.chunks = source.chunks()
        self.chunk = Chunk([], [])
        self.at = 0

    def fill(self) -> bool:
        """Whether there is an unread event, fetching the next chunk when this one is used up."""
        while self.at >= len(self.chunk.times):
            found = next(self.chunks, None)
            if found is None:
                return False
            self.chunk, self.at = found, 0
        return True

    def take(self, end: int) -> Run:
        start, self.at = self.at, end
        times, rows = self.chunk
        if start == 0 and end == len(times):
            return Run(self.number, times, rows)
        return Run(self.number, times[start:end], rows[start:end])


def merged(sources: Sequence[Source], until: int | None = None) -> Iterator[Run]:
    """Runs of the total order, as long as possible within chunks; nothing later than `until` (inclusive).

    An EventError of a source comes when its last good event was handed out and the next one is needed.
    """
    heads = [head for number, source in enumerate(sources) if (head := _Head(number, source)).fill()]
    while heads:
        first = min(heads, key=lambda head: (head.chunk.times[head.at], head.number))
        times = first.chunk.times
        if until is not None and times[first.at] > until:
            return
        end = len(times) if until is None else bisect_right(times, until, first.at)
        for other in heads:
            if other is not first:
                bound = other.chunk.times[other.at]
                # At equal times the earlier source goes first.
                search = bisect_right if first.number < other.number else bisect_left
                end = min(end, search(times, bound, first.at))
        yield first.take(end)
        if not first.fill():
            heads.remove(first)
