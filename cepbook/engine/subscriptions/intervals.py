"""Intervals of constants, and the tree that finds those that contain a value.

An interval has two ends. An end is a cut of the ordered values: ``(5, 0)`` lies just before 5 and ``(5, 1)`` just after
it, so cuts are ordered as pairs are. ``v >= 5 and v < 7`` is the interval from ``(5, 0)`` to ``(7, 0)``.

All cuts of a set of intervals divide the values into segments. An interval is a run of them. A binary tree over the
segments (a segment tree) stores an interval at the highest nodes that cover only segments of the run: at most two for
each level. The intervals that contain a value are those on the path from its segment to the root.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Cut = tuple[Any, int]


class Interval(NamedTuple):
    """The values after the cut `low` and before the cut `high`; None stands for no end on this side."""

    low: Cut | None = None
    high: Cut | None = None

    @classmethod
    def where(cls, op: str, bound: Any) -> Interval:
        """Return the values that are `op` (one of ``< <= > >=``) `bound`."""
        if op in ("<", "<="):
            return cls(high=(bound, int(op == "<=")))
        return cls(low=(bound, int(op == ">")))

    def __and__(self, other: Interval) -> Interval:
        """Return the values that are in both intervals."""
        low = self.low if other.low is None else other.low if self.low is None else max(self.low, other.low)
        high = self.high if other.high is None else other.high if self.high is None else min(self.high, other.high)
        return Interval(low, high)


class IntervalTree(Generic[Item]):
    """Items by interval: n of them take O(n log n) memory, and `containing` takes O(log n) steps and one per item. All
    bounds, and the values that are looked for, compare with each other.
    """

    __slots__ = ("_cuts", "_nodes")

    def __init__(self, items: Mapping[Interval, Item]) -> None:
        self._cuts = sorted({cut for interval in items for cut in interval if cut is not None})
        segments = len(self._cuts) + 1
        segment_after = {cut: segment for segment, cut in enumerate(self._cuts, 1)}
        # Node i has the nodes 2i and 2i + 1 below it. The segments are the last nodes, whatever their number is.
        self._nodes: list[list[Item]] = [[] for _ in range(2 * segments)]
        for (low, high), item in items.items():
            begin = segments if low is None else segments + segment_after[low]
            end = 2 * segments if high is None else segments + segment_after[high]
            while begin < end:  # else the interval is empty
                if begin % 2:
                    self._nodes[begin].append(item)
                    begin += 1
                if end % 2:
                    end -= 1
                    self._nodes[end].append(item)
                begin //= 2
                end //= 2

    def containing(self, value: Any) -> list[Item]:
        """Return the items whose intervals contain `value`, in no particular order."""
        items: list[Item] = []
        node = len(self._cuts) + 1 + bisect_left(self._cuts, (value, 1))
        while node:
            items += self._nodes[node]
            node //= 2
        return items


class IntervalForest(Generic[Item]):
    """Items by interval that come and go: a few trees, the sizes of which at least double.

    A new interval is merged with the trees that are not larger into one tree, so an interval is in O(log n) trees in
    turn. The item of an interval that was removed stays in its tree until as many are gone as remain: `containing` may
    still return it.
    """

    __slots__ = ("_removals", "_trees")

    def __init__(self, items: dict[Interval, Item]) -> None:
        self._removals = 0
        self._trees = [(items, IntervalTree(items))]  # the largest first; their present items

    def __len__(self) -> int:
        return sum(len(items) for items, _ in self._trees)

    def get(self, interval: Interval) -> Item | None:
        """Return the item of an interval, or None."""
        return next((items[interval] for items, _ in self._trees if interval in items), None)

    def add(self, interval: Interval, item: Item) -> None:
        """Add the item of an interval that has none."""
        items = {interval: item}
        while self._trees and len(self._trees[-1][0]) <= len(items):
            items = {**self._trees.pop()[0], **items}
        self._trees.append((items, IntervalTree(items)))

    def remove(self, interval: Interval) -> None:
        """Remove the item of an interval."""
        for items, _ in self._trees:
            items.pop(interval, None)
        self._removals += 1
        if self._removals > len(self):
            present = {known: item for items, _ in self._trees for known, item in items.items()}
            self._removals, self._trees = 0, [(present, IntervalTree(present))]

    def containing(self, value: Any) -> list[Item]:
        """Return the items whose intervals contain `value`, in no particular order."""
        (_, tree), *others = self._trees
        items = tree.containing(value)
        for _, other in others:
            items += other.containing(value)
        return items
