"""The aggregate cells of all groups of a statement as arrays, for the time of one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Literal

import numpy as np

from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.engine.vectorized.kernel_form import ArgumentForm, KernelForm
from cepbook.engine.vectorized.row_store import GROUP, Array, RowStore

_EXACT = 2**53  # whole numbers below this are exact as floats


class GroupCells:
    """The cells of the groups of `state`, a `StatementState`; group number n has the key with code n in `rows`.

    `counts` has the number of values by argument and group, `totals` their sums, `rows_of` the rows of each group.
    """

    def __init__(self, form: KernelForm, rows: RowStore, state: Any) -> None:
        self._form = form
        self._rows = rows
        self._table: dict[Any, list[Any]] = state.groups if form.grouped else {None: state.cells}
        self._counts: list[Array] = []
        self._totals: list[Array] = []
        self._out: list[tuple[Array, Array]] = []
        self._sizes = self._created = np.empty(0, np.int64)

    def load(self, new: Mapping[str, Array], count: int) -> bool:
        """Read the cells, before `count` rows with the values `new` enter. Return False if arrays cannot hold them."""
        form = self._form
        if not form.aggregates:
            return True
        numbers = self._numbers(list(self._table))
        if numbers is None:
            return False
        size = len(self._rows.codes[str(form.key)]) if form.grouped else 1
        cells = [[*column] for column in zip(*self._table.values(), strict=True)] or [[] for _ in form.cells]
        self._created = np.full(size, -1)
        self._created[numbers] = np.arange(len(numbers))
        self._sizes = np.zeros(size, np.int64)
        self._sizes[numbers] = 1  # without a count of rows they never leave: it matters only whether there are any
        for argument in form.arguments:
            if argument.name is None and argument.count is not None:
                self._sizes[numbers] = cells[argument.count]
        for argument in form.arguments:
            counts, totals = np.zeros(size, np.int64), np.zeros(size, np.float64 if argument.floating else np.int64)
            if argument.total is not None:
                known = cells[argument.total]
                own = {float} if argument.floating else {int}
                if not own.issuperset({type(total) for total in known if total is not None}):
                    return False
                most = max((abs(total) for total in known if total is not None), default=0)
                if not argument.floating and not self._exact(argument, new, count, most):
                    return False
                if form.cells[argument.total] is None:  # the first value is the sum, also if it is -0.0
                    totals[:] = -0.0
                totals[numbers] = [totals[0].item() if total is None else total for total in known]
                counts[numbers] = [total is not None for total in known]
            if argument.count is not None:
                counts[numbers] = cells[argument.count]
            elif argument.nulls is not None:
                counts[numbers] = self._sizes[numbers] - np.array(cells[argument.nulls], np.int64)
            elif form.ends:
                counts[numbers] = self._sizes[numbers]
            self._counts.append(counts)
            self._totals.append(totals)
        return True

    def _numbers(self, keys: Sequence[Any]) -> list[int] | None:
        if not self._form.grouped:
            return [0]
        codes = self._rows.codes[str(self._form.key)]
        if not {str, type(None)}.issuperset(map(type, keys)):
            return None
        return [codes.code(key) for key in keys]

    def _exact(self, argument: ArgumentForm, new: Mapping[str, Array], count: int, most: int) -> bool:
        """Return whether the sums of a batch are exact, whatever the order: also as floats, which averages are."""
        name = str(argument.name)
        retained = self._rows.arrays[name][self._rows.begin : self._rows.end]
        highest = max(int(abs(values).max(initial=0)) for values in (new[name].astype(np.float64), retained))
        return most + highest * (count + len(retained)) < _EXACT

    def update(self, kernels: ModuleType, leaving: Array, ends: Array, first: int, *, early: bool) -> None:
        """Let the rows from `first` on enter, and those in `leaving` leave (see `kernels`)."""
        form, end = self._form, self._rows.end
        if not form.aggregates:
            return
        arrays, count = self._rows.arrays, end - first
        groups = arrays[GROUP] if form.grouped or form.key is None else np.zeros(end, np.int64)
        sizes = np.empty(count, np.int64)
        kernels.count_rows(
            groups, leaving, ends, first, end, early, not form.ends, self._sizes, self._created, len(self._table), sizes
        )
        for argument, counts, totals in zip(form.arguments, self._counts, self._totals, strict=True):
            if argument.name is None:
                self._out.append((sizes, sizes))
                continue
            out = np.empty(count, np.int64), np.empty(count, totals.dtype)
            add = kernels.sum_floats if argument.floating else kernels.sum_integers
            add(arrays[argument.name], groups, leaving, ends, first, end, early, counts, totals, *out)
            self._out.append(out)

    def values(self, kind: Literal["property", "count", "sum", "avg"], argument: int) -> ArrayValues:
        """Return an aggregate after each row."""
        counts, totals = self._out[argument]
        if kind == "count":
            return ArrayValues(counts)
        missing = counts == 0
        bits = self._form.arguments[argument].bits
        if bits == 32:
            totals = totals.astype(np.int32)  # Java's sum of int wraps
        if kind == "avg":
            with np.errstate(invalid="ignore", divide="ignore"):
                totals = totals / counts
        return ArrayValues(totals, missing if missing.any() else None)

    def store(self, leaving: Array, first: int) -> None:
        """Write the cells of the groups that have changed. A group that has begun anew comes last."""
        form, table = self._form, self._table
        if not form.aggregates:
            return
        changed = np.zeros(len(self._sizes), bool)
        if form.grouped:
            groups = self._rows.arrays[GROUP]
            changed[groups[first : self._rows.end]] = True
            changed[groups[leaving]] = True
        else:
            changed[:] = True
        numbers = np.flatnonzero(changed)
        numbers = numbers[np.argsort(self._created[numbers])]
        columns: list[Sequence[Any]] = [[]] * len(form.cells)
        for argument, counts, totals in zip(form.arguments, self._counts, self._totals, strict=True):
            rows = self._sizes[numbers]
            counted = rows if argument.name is None else counts[numbers]
            if argument.count is not None:
                columns[argument.count] = counted.tolist()
            if argument.nulls is not None:
                columns[argument.nulls] = (rows - counted).tolist()
            if argument.total is not None:
                empty = form.cells[argument.total]
                sums = zip(counted.tolist(), totals[numbers].tolist(), strict=True)
                columns[argument.total] = [total if some else empty for some, total in sums]
        old = len(table)
        keys = self._rows.codes[str(form.key)].texts if form.grouped else [None]
        for number, *cells in zip(numbers.tolist(), *columns, strict=True):
            key = keys[number]
            if self._sizes[number] == 0 and form.grouped:
                table.pop(key, None)
            elif self._created[number] < old or not form.grouped:
                table[key][:] = cells
            else:
                table.pop(key, None)
                table[key] = cells
