"""How many events context partitions get, and when the last one came: counted while somebody looks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepbook.engine.contexts.partition import ContextPartition, PartitionAssignment
from cepbook.engine.contexts.tree_nodes import PartitionNode

Counted = ContextPartition | PartitionNode


def count_event(partitions: Iterable[ContextPartition | None], time: int) -> None:
    """One event, which is for all of `partitions`."""
    for partition in partitions:
        if partition is not None:
            partition.arrived += 1
            partition.last = time


def count_event_in_tree(partitions: Iterable[ContextPartition], time: int) -> None:
    """One event, which is for all of these partitions of a tree: it counts in the nodes around them, too."""
    for partition in partitions:
        partition.arrived += 1
        partition.last = time
        node = partition.place.branch.parent
        while node is not None:
            node.arrived += 1
            node.last = time
            node = node.branch.parent


def count_batch(partitions: Sequence[PartitionAssignment], times: Sequence[int], alone: bool) -> None:
    """Events in order, of each where it is, and the time. Unless they are `alone` in their slice later ones of another
    type may have been counted.

    The partitions were just found, so to count in them takes a fifth of what a dict beside them would (measured, with
    10,000 of them: of a dict each entry has left the processor's cache).
    """
    for partition, time in zip(partitions, times, strict=True):
        if partition is None:
            continue
        if isinstance(partition, tuple):
            count_batch(partition, [time] * len(partition), alone)
            continue
        each: Counted | None = partition
        node = partition.place.branch.parent if isinstance(partition.place, PartitionNode) else None
        while each is not None:
            each.last = time if alone or not each.arrived else max(time, each.last)
            each.arrived += 1
            each, node = node, None if node is None else node.branch.parent


class PartitionCounts:
    """What partitions got since somebody began to look, at time `since`; `living` are those that there were then, and
    the nodes around them.
    """

    __slots__ = ("_before", "since")

    def __init__(self, since: int, living: Iterable[Counted]) -> None:
        self.since = since
        self._before = {each: each.arrived for each in living if each.arrived}  # while others looked

    def of(self, partition: Counted) -> tuple[int, int | None]:
        """How many events a partition got, and when the last."""
        arrived = partition.arrived - self._before.get(partition, 0)
        return arrived, partition.last if arrived else None
