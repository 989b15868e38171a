"""Which ids are in which partitions, and the patterns that fire of it.

An *immediate* pattern (nothing unwanted) fires when an arrival makes it hold: an id is in all its partitions. A
*delayed* one, with something unwanted, is watched from the arrival that makes it hold, and fires when one of the wanted
rows leaves while it still does; an unwanted arrival ends the watch. What has fired is spent until the id is in none of
its partitions.

In a cycle departures come first, partition by partition, then all arrivals at once (StreamCruncher - Basics, section
"Multi-Stream Correlation/Pattern Matching").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cepbook.engine.cycles.stage_windows import RowValues, StageRow
from cepbook.engine.expressions.hashable import canonical_nan
from cepbook.engine.state import State
from cepbook.lang.plan.cycles import Correlation

CycleChange = tuple[Sequence[StageRow], Sequence[StageRow]]


class PatternPresence(State):
    """One id under one pattern: `bits` has one for each partition that it is in."""

    __slots__ = ("bits", "spent", "watched")

    def __init__(self) -> None:
        self.bits = 0
        self.spent = False
        self.watched = False


class Correlator(State):
    """The ids that are anywhere, by pattern, and the last row of each by partition."""

    __slots__ = ("_presences", "_values")

    def __init__(self, patterns: int, partitions: int) -> None:
        self._presences: list[dict[Any, PatternPresence]] = [{} for _ in range(patterns)]
        self._values: list[dict[Any, RowValues]] = [{} for _ in range(partitions)]

    @property
    def held(self) -> int:
        """How many ids are watched, pattern by pattern."""
        return sum(map(len, self._presences))

    def step(self, changes: Sequence[CycleChange], node: Correlation) -> list[RowValues]:
        """The rows of the patterns that fire in a cycle: (new, dead) of each partition."""
        fired: list[list[RowValues]] = [[] for _ in node.patterns]
        for partition, (_, dead) in enumerate(changes):
            for id_ in _ids(dead, node.ids[partition]):
                for number in range(len(node.patterns)):
                    self._departed(number, partition, id_, node, fired[number])
        for partition, (_, dead) in enumerate(changes):
            for id_ in _ids(dead, node.ids[partition]):
                self._values[partition].pop(id_, None)
        arrived: dict[Any, int] = {}  # the partitions in which an id is new
        for partition, (new, _) in enumerate(changes):
            for row in new:
                id_ = canonical_nan(row[2][node.ids[partition]])
                if id_ is not None:
                    self._values[partition][id_] = row[2]
                    arrived[id_] = arrived.get(id_, 0) | 1 << partition
        for number in range(len(node.patterns)):
            for id_, bits in arrived.items():
                self._arrived(number, bits, id_, node, fired[number])
        return [row for rows in fired for row in rows]

    def _departed(self, number: int, partition: int, id_: Any, node: Correlation, fired: list[RowValues]) -> None:
        found = self._presences[number].get(id_)
        bit = 1 << partition
        if found is None or not found.bits & bit:
            return
        wanted = _bits(node.patterns[number].wanted)
        if found.watched and not found.spent and found.bits == wanted and bit & wanted:
            fired.append(self._row(number, id_, node))
            found.spent, found.watched = True, False
        found.bits &= ~bit
        if not found.bits:
            del self._presences[number][id_]

    def _arrived(self, number: int, bits: int, id_: Any, node: Correlation, fired: list[RowValues]) -> None:
        pattern, presences = node.patterns[number], self._presences[number]
        wanted = _bits(pattern.wanted)
        bits &= wanted | _bits(pattern.unwanted)
        if not bits:
            return
        found = presences.get(id_)
        if found is None:
            found = presences[id_] = PatternPresence()
        held = found.bits == wanted
        found.bits |= bits
        holds = found.bits == wanted
        if found.spent:
            return
        if holds and not pattern.unwanted:
            fired.append(self._row(number, id_, node))
            found.spent = True
        elif holds and not held:
            found.watched = True
        elif not holds:
            found.watched = False

    def _row(self, number: int, id_: Any, node: Correlation) -> RowValues:
        """The columns of the wanted rows; those of others are null."""
        wanted = node.patterns[number].wanted
        values = self._values
        return {
            name: values[partition][id_][column] if partition in wanted and id_ in values[partition] else None
            for partition, column, name in node.columns
        }


def _ids(rows: Sequence[StageRow], column: str) -> list[Any]:
    """The ids of rows; null is none."""
    found = (canonical_nan(row[2][column]) for row in rows)
    return [id_ for id_ in found if id_ is not None]


def _bits(partitions: Sequence[int]) -> int:
    return sum(1 << each for each in partitions)
