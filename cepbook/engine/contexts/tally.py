"""How many events context partitions get, and when the last one came: counted while somebody looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from cepbook.engine.contexts.partition import Partition


class Tally:
    """`counts` and times of the `last` event by partition, since engine time `since`. None: events in no partition."""

    __slots__ = ("counts", "last", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.counts: Counter[Partition | None] = Counter()
        self.last: dict[Partition | None, int] = {}

    def batch(self, partitions: Sequence[Partition | None], times: Sequence[int]) -> None:
        """Events in order, of each the partition and the time."""
        self.counts.update(partitions)
        for partition, time in dict(zip(partitions, times, strict=True)).items():
            self.last[partition] = max(time, self.last.get(partition, time))

    def event(self, partitions: Iterable[Partition], time: int) -> None:
        """One event, which is for all of `partitions`."""
        for partition in partitions:
            self.counts[partition] += 1
            self.last[partition] = time

    def forget_ended(self) -> None:
        """Keep nothing of partitions that are no more."""
        for partition in [each for each in self.counts if each is not None and each.ended]:
            del self.counts[partition]
            self.last.pop(partition, None)
