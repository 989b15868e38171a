"""The total order of a replay: events of several sources by (time, order of the sources, order in the source)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from cepbook.session.sources import Chunk, Row, Source


class Run(NamedTuple):
    """A stretch of the total order in which all events come from source number `source`; times ascend."""

    source: int
    times: list[int]
    rows: list[Row]


class _Head:
    """The unread part of a source's present chunk."""

    __slots__ = ("at", "chunk", "chunks", "number", "source")

    def __init__(self, number: int, source: Source) -> None:
        self.number = number
        self.source = source
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


class Merge:
    """Hands out runs of the total order; nothing later than `until` (inclusive).

    An EventError of a source is raised when its last good event was handed out and the next one is needed.
    """

    def __init__(self, sources: Sequence[Source], until: int | None = None) -> None:
        self._until = until
        self._heads = [_Head(number, source) for number, source in enumerate(sources)]

    def peek(self) -> int | None:
        """Time of the next event, None at the end."""
        heads = self._filled()
        if not heads:
            return None
        time = min(head.chunk.times[head.at] for head in heads)
        return None if self._until is not None and time > self._until else time

    def take(self, most: int, upto: int | None = None) -> Run | None:
        """The next run of at most `most` events (at least 1), none later than `upto`. None: there is no such event."""
        heads = self._filled()
        if not heads:
            return None
        first = heads[0]
        if len(heads) > 1:
            first = min(heads, key=_place)
        times, rows, _ = first.chunk
        start = first.at
        end = min(len(times), start + most)
        for limit in (upto, self._until):
            if limit is not None and times[end - 1] > limit:
                end = bisect_right(times, limit, start, end)
        for other in heads:
            if other is not first and end > start:
                bound = other.chunk.times[other.at]
                # At equal times the earlier source goes first.
                search = bisect_right if first.number < other.number else bisect_left
                end = search(times, bound, start, end)
        if end <= start:
            return None
        first.at = end
        if end - start == len(times):
            return Run(first.number, times, rows)
        return Run(first.number, times[start:end], rows[start:end])

    def reread(self, number: int, columns: tuple[str, ...]) -> None:
        """From now on rows of source `number` have these columns, the chunk that is partly read included."""
        for head in self._heads:
            if head.number == number:
                head.chunk = head.source.reread(head.chunk, columns)

    def _filled(self) -> list[_Head]:
        for head in self._heads:
            if head.at >= len(head.chunk.times) and not head.fill():
                self._heads = [h for h in self._heads if h is not head]
                return self._filled()
        return self._heads


def _place(head: _Head) -> tuple[int, int]:
    return head.chunk.times[head.at], head.number
