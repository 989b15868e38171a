"""The rows of a partition as a select reads them: each with what became of it in the present cycle.

================  ======================================================
new               put in in this cycle
not dead          all that are there, new ones included
dead              taken out in this cycle; the next cycle forgets them
no condition      those that are there, and those that are dead
================  ======================================================

Rows are read in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from cepbook.engine.cycles.stage_windows import StageRow
from cepbook.engine.relations.relation import HashIndex
from cepbook.engine.relations.store_indexes import ColumnKey
from cepbook.engine.state import State
from cepbook.lang.plan.cycles import DEAD, NEW, STATUS, STAYING

_FEW = 64

_by_id = itemgetter(0)


class VersionedRelation(State):
    """The rows after a cycle. Each has its status among its values."""

    __slots__ = ("_gone", "_indexes", "_ordered", "dead", "new", "rows")

    def __init__(self) -> None:
        self.rows: dict[int, StageRow] = {}
        self.new: list[StageRow] = []
        self.dead: list[StageRow] = []
        self._indexes: dict[str, HashIndex] = {}  # by the column that rows are looked up by
        self._ordered = True  # whether `rows` stand in the order of their ids
        self._gone = 0  # rows taken out of `rows` since it was made

    def turn(self, new: Iterable[StageRow], dead: Iterable[StageRow]) -> None:
        """A cycle has put rows in and taken others out."""
        for _, _, values in self.new:
            values[STATUS] = STAYING
        rows = self.rows
        self.dead = sorted(dead, key=_by_id)
        for id_, _, values in self.dead:
            values[STATUS] = DEAD
            row = rows.pop(id_)
            for index in self._indexes.values():
                index.leave(row)
        self._gone += len(self.dead)
        if self._gone > len(rows) + _FEW:  # the gaps in a dict cost as much to read as what is there
            rows = self.rows = dict(rows)
            self._gone = 0
        last = next(reversed(rows), 0)
        self.new = sorted(new, key=_by_id)
        for row in self.new:
            row[2][STATUS] = NEW
            self._ordered = self._ordered and row[0] >= last
            last = row[0]
            rows[row[0]] = row
            for index in self._indexes.values():
                index.enter(row)

    def read(self, statuses: frozenset[int]) -> list[StageRow]:
        """The rows of these statuses, and maybe others."""
        if STAYING not in statuses:
            found = [*(self.new if NEW in statuses else ()), *(self.dead if DEAD in statuses else ())]
            return sorted(found, key=_by_id) if len(statuses) > 1 else found
        if not self._ordered:
            self.rows = dict(sorted(self.rows.items()))
            self._ordered = True
        held = list(self.rows.values())
        if DEAD in statuses:
            held = sorted([*held, *self.dead], key=_by_id) if self.dead else held
        return held

    def among(self, column: str, keys: set[Any], statuses: frozenset[int]) -> list[StageRow]:
        """The rows of these statuses that have one of `keys` in `column`, and maybe others."""
        if STAYING not in statuses or 2 * len(keys) > len(self.rows):
            return self.read(statuses)
        index = self._indexes.get(column)
        if index is None:
            index = self._indexes[column] = HashIndex(ColumnKey((column,)))
            for row in self.rows.values():
                index.enter(row)
        found: list[Any] = [row for key in keys for row in index.table.get(key, {}).values()]
        found += self.dead if DEAD in statuses else []
        return sorted(found, key=_by_id)
