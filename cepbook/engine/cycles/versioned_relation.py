"""The rows of a partition as a select reads them, each with its status in the present cycle.

================  ======================================================
new               added in this cycle
not dead          all present rows, including new ones
dead              removed in this cycle; the next cycle drops them
no condition      present rows and dead rows
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
from cepbook.engine.state import State, created, initial
from cepbook.lang.plan.cycles import DEAD, NEW, STATUS, STAYING

_FEW = 64

_by_id = itemgetter(0)


class VersionedRelation(State):
    """The rows after a cycle. Each has its status among its values."""

    rows: dict[int, StageRow] = created(dict)
    new: list[StageRow] = created(list)
    dead: list[StageRow] = created(list)
    _indexes: dict[str, HashIndex] = created(dict)  # by column
    _ordered: bool = initial(True)  # True if `rows` are in the order of their ids
    _removals: int = initial(0)  # number of rows removed from `rows` since it was built

    def turn(self, new: Iterable[StageRow], dead: Iterable[StageRow]) -> None:
        """Add the new rows of a cycle and remove the dead ones."""
        for _, _, values in self.new:
            values[STATUS] = STAYING
        rows = self.rows
        self.dead = sorted(dead, key=_by_id)
        for id_, _, values in self.dead:
            values[STATUS] = DEAD
            row = rows.pop(id_)
            for index in self._indexes.values():
                index.leave(row)
        self._removals += len(self.dead)
        if self._removals > len(rows) + _FEW:  # gaps in a dict cost as much to read as entries
            rows = self.rows = dict(rows)
            self._removals = 0
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
        """Return the rows of these statuses, and maybe others."""
        if STAYING not in statuses:
            rows = [*(self.new if NEW in statuses else ()), *(self.dead if DEAD in statuses else ())]
            return sorted(rows, key=_by_id) if len(statuses) > 1 else rows
        if not self._ordered:
            self.rows = dict(sorted(self.rows.items()))
            self._ordered = True
        present = list(self.rows.values())
        if DEAD in statuses:
            present = sorted([*present, *self.dead], key=_by_id) if self.dead else present
        return present

    def among(self, column: str, keys: set[Any], statuses: frozenset[int]) -> list[StageRow]:
        """Return the rows of these statuses that have one of `keys` in `column`, and maybe others."""
        if STAYING not in statuses or 2 * len(keys) > len(self.rows):
            return self.read(statuses)
        index = self._indexes.get(column)
        if index is None:
            index = self._indexes[column] = HashIndex(ColumnKey((column,)))
            for row in self.rows.values():
                index.enter(row)
        rows: list[Any] = [row for key in keys for row in index.table.get(key, {}).values()]
        rows += self.dead if DEAD in statuses else []
        return sorted(rows, key=_by_id)
