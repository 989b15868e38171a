"""Values and conditions of the rows of a batch, computed from columns of events, retained rows, and aggregates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np

from cepbook.engine.vectorized.array_columns import COMPARE, StoredColumn, distinct
from cepbook.engine.vectorized.array_values import ARITHMETIC, ArrayValues
from cepbook.engine.vectorized.group_cells import GroupCells
from cepbook.engine.vectorized.kernel_form import GROUP, OutputForm
from cepbook.engine.vectorized.row_store import Array, RowStore


class ColumnArrays(ABC):
    """Values and conditions of rows, from the properties in `columns`."""

    def __init__(self, columns: Mapping[str, StoredColumn]) -> None:
        self._columns = columns

    @abstractmethod
    def other(self, output: OutputForm) -> ArrayValues:
        """Return a value that is neither a property of the row nor computed from other values."""

    def values(self, output: OutputForm) -> ArrayValues:
        """Return a value of each row."""
        if output.kind == "property":
            return ArrayValues.of_column(self._columns[output.name])
        return self._computed(output) if output.operands else self.other(output)

    def meets(self, condition: OutputForm) -> Array:
        """Return for each row whether a condition is true, as opposed to false or null."""
        if condition.kind in ("and", "or"):
            met: Array = reduce(and_ if condition.kind == "and" else or_, map(self.meets, condition.operands))
            return met
        (a, b), missing = zip(*map(self.number, condition.operands), strict=True)
        met = np.asarray(COMPARE[condition.kind](a, b))
        for mask in missing:
            if mask is not None:
                met = met & ~mask
        return met

    def _computed(self, output: OutputForm) -> ArrayValues:
        """Return a double. Null if an operand is; a division by zero is infinite, whatever the sign of the zero."""
        (a, b), missing = zip(*map(self.number, output.operands), strict=True)
        with np.errstate(all="ignore"):
            if output.kind == "/":
                values = np.where(b == 0, np.where((a == 0) | np.isnan(a), np.nan, np.copysign(np.inf, a)), a / b)
            else:
                values = ARITHMETIC[output.kind](a, b)
        some = [mask for mask in missing if mask is not None]
        return ArrayValues(values, some[0] if len(some) == 1 else some[0] | some[1] if some else None)

    def number(self, output: OutputForm) -> tuple[Any, Array | None]:
        """Return a value of each row as doubles, or one for all rows, and a mask of nulls; None without nulls."""
        if output.kind == "constant":
            return np.float64(output.constant), None
        operand = self.values(output)
        return operand.values.astype(np.float64, copy=False), operand.missing


class OutputArrays(ColumnArrays):
    """Values of a batch, whose rows are those from `first` on.

    ``places(n)`` returns for each of them the row n places before it, -1 if there is none.
    """

    def __init__(
        self,
        columns: Mapping[str, StoredColumn],
        cells: GroupCells,
        rows: RowStore,
        places: Callable[[int], Array],
        first: int,
    ) -> None:
        super().__init__(columns)
        self._cells = cells
        self._rows = rows
        self._places = places
        self._first = first

    def other(self, output: OutputForm) -> ArrayValues:
        if output.kind == "context":
            return self._of_partition(output.name)
        if output.kind == "previous":
            return self._previous(output.name, output.number)
        return self._cells.values(output.kind, output.number)

    def _previous(self, name: str, number: int) -> ArrayValues:
        places = self._places(number)
        column, missing = self._rows.array_values(name, np.maximum(places, 0)), places < 0
        return ArrayValues(column.values, missing if column.missing is None else column.missing | missing, column.texts)

    def _of_partition(self, name: str) -> ArrayValues:
        rows = self._rows
        groups = rows.arrays[GROUP][self._first : rows.end]
        places, numbers = distinct(groups)
        partitions = rows.groups.of_codes(groups[places])
        values = [getattr(p, name) if name in ("id", "name") else p.properties[name] for p in partitions]
        if {int, type(None)}.issuperset(map(type, values)):
            missing = np.array([value is None for value in values])[numbers]
            known = np.array([value or 0 for value in values], np.int64)
            return ArrayValues(known[numbers], missing if missing.any() else None)
        return ArrayValues(numbers, texts=np.array([*values, None], object))
