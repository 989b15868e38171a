"""Multi-stream patterns: which ids are in which partitions, and the patterns that fire.

An *immediate* pattern, without excluded partitions, fires when an arrival completes it: the id is in all its
partitions. A *delayed* pattern, with excluded partitions, is watched from the arrival that completes it. It fires when
one of the required rows leaves while the pattern is still complete; an excluded arrival ends the watch. A pattern that
has fired is spent until the id is in none of its partitions.

In a cycle departures come first, partition by partition, then all arrivals at once (StreamCruncher - Basics, section
"Multi-Stream Correlation/Pattern Matching").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cepbook.engine.cycles.stage_windows import RowValues, StageRow
from cepbook.engine.expressions.hashable import canonical_nan
from cepbook.engine.state import State, initial
from cepbook.lang.plan.cycles import Correlation

CycleChange = tuple[Sequence[StageRow], Sequence[StageRow]]


class PatternPresence(State):
    """The state of one id under one pattern; `bits` has one bit per partition that contains the id."""

    bits: int = initial(0)
    spent: bool = initial(False)
    watched: bool = initial(False)


class Correlator(State):
    """The ids under each pattern, and the last row of each id by partition."""

    __slots__ = ("_presences", "_values")

    def __init__(self, patterns: int, partitions: int) -> None:
        self._presences: list[dict[Any, PatternPresence]] = [{} for _ in range(patterns)]
        self._values: list[dict[Any, RowValues]] = [{} for _ in range(partitions)]

    @property
    def size(self) -> int:
        """The number of ids that are watched, summed over patterns."""
        return sum(map(len, self._presences))

    def step(self, changes: Sequence[CycleChange], node: Correlation) -> list[RowValues]:
        """Apply the (new, dead) rows of each partition, and return the rows of the patterns that fire."""
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
        presence = self._presences[number].get(id_)
        bit = 1 << partition
        if presence is None or not presence.bits & bit:
            return
        required_bits = _bits(node.patterns[number].required)
        if presence.watched and not presence.spent and presence.bits == required_bits and bit & required_bits:
            fired.append(self._row(number, id_, node))
            presence.spent, presence.watched = True, False
        presence.bits &= ~bit
        if not presence.bits:
            del self._presences[number][id_]

    def _arrived(self, number: int, bits: int, id_: Any, node: Correlation, fired: list[RowValues]) -> None:
        pattern, presences = node.patterns[number], self._presences[number]
        required_bits = _bits(pattern.required)
        bits &= required_bits | _bits(pattern.excluded)
        if not bits:
            return
        presence = presences.get(id_)
        if presence is None:
            presence = presences[id_] = PatternPresence()
        was_complete = presence.bits == required_bits
        presence.bits |= bits
        is_complete = presence.bits == required_bits
        if presence.spent:
            return
        if is_complete and not pattern.excluded:
            fired.append(self._row(number, id_, node))
            presence.spent = True
        elif is_complete and not was_complete:
            presence.watched = True
        elif not is_complete:
            presence.watched = False

    def _row(self, number: int, id_: Any, node: Correlation) -> RowValues:
        partitions = node.patterns[number].required
        values = self._values
        return {
            name: values[partition][id_][column] if partition in partitions and id_ in values[partition] else None
            for partition, column, name in node.columns
        }


def _ids(rows: Sequence[StageRow], column: str) -> list[Any]:
    ids = (canonical_nan(row[2][column]) for row in rows)
    return [id_ for id_ in ids if id_ is not None]


def _bits(partitions: Sequence[int]) -> int:
    return sum(1 << partition for partition in partitions)
