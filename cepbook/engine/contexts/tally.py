"""How many events context partitions get, and when the last one came: counted while somebody looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from cepbook.engine.contexts.partition import Partition

SETTLED = 65_536  # events that wait to be counted


class Tally:
    """`counts` and times of the `last` event by partition, since engine time `since`. None: events in no partition.

    Events of a slice are only taken note of, and counted when somebody reads.
    """

    __slots__ = ("_counts", "_last", "_reached", "_size", "_waiting", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self._counts: Counter[Partition | None] = Counter()
        self._last: dict[Partition | None, int] = {}
        self._reached = since
        self._waiting: list[tuple[Sequence[Partition | None], Sequence[int]]] = []
        self._size = 0

    def batch(self, partitions: Sequence[Partition | None], times: Sequence[int]) -> None:
        """Events in order, of each the partition and the time; both lists stay as they are."""
        self._waiting.append((partitions, times))
        self._size += len(times)
        if self._size >= SETTLED:
            self._settle()

    def event(self, partitions: Iterable[Partition], time: int) -> None:
        """One event, which is for all of `partitions`."""
        if self._waiting:
            self._settle()
        self._reached = time
        for partition in partitions:
            self._counts[partition] += 1
            self._last[partition] = time

    def _settle(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        for partitions, times in waiting:
            self._counts.update(partitions)
            if times and times[0] >= self._reached:
                self._last.update(zip(partitions, times, strict=True))
                self._reached = times[-1]
                continue
            for partition, time in dict(zip(partitions, times, strict=True)).items():  # another type in the same slice
                self._last[partition] = max(time, self._last.get(partition, time))

    def of(self, partition: Partition) -> tuple[int, int | None]:
        """How many events a partition got, and when the last."""
        if self._waiting:
            self._settle()
        return self._counts.get(partition, 0), self._last.get(partition)

    def forget_ended(self, living: int) -> None:
        """Keep nothing of partitions that are no more, once they are most of what is kept."""
        if len(self._counts) > 2 * living + 100:
            for partition in [each for each in self._counts if each is not None and each.ended]:
                del self._counts[partition]
                self._last.pop(partition, None)
