"""The aggregate cells of all groups of a statement as arrays, for the time of one batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from cepbook.engine.vectorized.array_columns import is_null
from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.engine.vectorized.kernel_form import EXACT, GROUP, ArgumentForm, KernelForm, OutputKind
from cepbook.engine.vectorized.row_chains import ExtremeQueues, Movement, null_of
from cepbook.engine.vectorized.row_store import Array, RowStore, magnitude


class ArgumentArrays:
    """The cells of one argument: by group the number of values, their sum, and the least and the greatest of them.

    After `update`, `outcome` has by cell and arrival the value in the arrival's group right after it.
    """

    def __init__(self, form: ArgumentForm, size: int, queues: Mapping[str, ExtremeQueues]) -> None:
        self.form = form
        self._queues = queues
        self._queue_cells: dict[str, Sequence[deque[Any]]] = {}
        self._places = np.full(size, -1)  # by group that of its cells in these; -1 if it has none yet
        self.counts = np.zeros(size, np.int64)
        kind = np.float64 if form.floating else np.int64
        self.numbers: dict[str, Array] = {name: np.zeros(size, kind) for name in form.number_cells}
        self.outcome: dict[str, Array] = {}

    @classmethod
    def of_new_groups(cls, form: ArgumentForm, size: int, initial: Sequence[Any]) -> ArgumentArrays:
        """Return the cells of groups that have no values yet; `initial` are those of a new group."""
        arrays = cls(form, size, {})
        arrays.load([[] for _ in initial], np.empty(0, np.int64), np.empty(0, np.int64), initial)
        return arrays

    def load(self, cells: Sequence[Sequence[Any]], groups: Array, sizes: Array, initial: Sequence[Any]) -> bool:
        """Read the cells of `groups`, which have `sizes` rows. Return False if an array cannot hold a value."""
        form = self.form
        if form.count is not None:
            self.counts[groups] = cells[form.count]
        elif form.nulls is not None:
            self.counts[groups] = sizes - np.array(cells[form.nulls], np.int64)
        elif not form.number_cells:
            self.counts[groups] = sizes
        for name, place in form.number_cells.items():
            known, array = cells[place], self.numbers[name]
            if not {float if form.floating else int}.issuperset({type(value) for value in known if value is not None}):
                return False
            if not form.floating and any(abs(value) >= EXACT for value in known if value is not None):
                return False
            if name != "total" and any(value != value for value in known):
                return False  # no value that enters is NaN, which would be the greatest
            if initial[place] is None and form.count is None and form.nulls is None:
                self.counts[groups] = [value is not None for value in known]
            if initial[place] is None and form.floating:
                array[:] = -0.0  # -0.0 + v is v for every v, also for -0.0
            array[groups] = [array[0].item() if value is None else value for value in known]
        self._places[groups] = np.arange(len(groups))
        self._queue_cells = {name: cells[place] for name, place in form.queues.items()}
        return True

    def exact(self, highest: float, rows: int) -> bool:
        """Return whether sums of so many `rows`, with no value above `highest`, are exact, also as floats."""
        if self.form.floating or "total" not in self.numbers:
            return True
        return magnitude(self.numbers["total"]) + highest * rows < EXACT

    def update(self, kernels: ModuleType, values: Array, movement: Movement, moves: int, count: int) -> None:
        """Let values enter and leave; `moves` is that of the rows."""
        before, null = self.counts.copy(), null_of(values)
        totals = self.numbers.get("total", np.zeros(len(before), values.dtype))
        counts, sums = np.empty(count, np.int64), np.empty(count, totals.dtype)
        kernels.sum_values(values, null, movement, self.counts, totals, counts, sums)
        self.outcome = {"count": counts, "total": sums}
        for name in ("least", "greatest"):
            if name in self.numbers:
                best = self.outcome[name] = np.empty(count, totals.dtype)
                extremes = before.copy(), self.numbers[name], best
                kernels.extreme_values(values, null, movement, name == "greatest", *extremes)
        for name, queues in self._queues.items():
            self.outcome[name] = queues.update(kernels, values, movement, moves, len(before))

    def columns(self, kernels: ModuleType, groups: Array, sizes: Array, initial: Sequence[Any]) -> dict[int, list[Any]]:
        """Return the cells of `groups`, which have `sizes` rows, by place."""
        form, counts = self.form, self.counts[groups]
        columns = {} if form.count is None else {form.count: counts.tolist()}
        if form.nulls is not None:
            columns[form.nulls] = (sizes - counts).tolist()
        for name, place in form.number_cells.items():
            values = zip(counts.tolist(), self.numbers[name][groups].tolist(), strict=True)
            columns[place] = [value if some else initial[place] for some, value in values]
        for name, place in form.queues.items():
            columns[place] = self._updated_queues(name, kernels, groups)
        return columns

    def _updated_queues(self, name: str, kernels: ModuleType, groups: Array) -> list[deque[Any]]:
        """Return the queues of `groups`, those of before with what has changed: an ascending column has long ones."""
        cells, updated = self._queue_cells[name], []
        changes = self._queues[name].changes(kernels, groups)
        for place, (left, overtaken, added) in zip(self._places[groups].tolist(), changes, strict=True):
            queue = deque() if place < 0 else cells[place]
            for _ in range(left):
                queue.popleft()
            for _ in range(overtaken):
                queue.pop()
            queue.extend(added)
            updated.append(queue)
        return updated


class GroupCells:
    """The cells of the groups in `table`, by key."""

    def __init__(
        self,
        form: KernelForm,
        rows: RowStore,
        table: dict[Any, list[Any]],
        queues: Sequence[Mapping[str, ExtremeQueues]],
    ) -> None:
        self._form = form
        self._rows = rows
        self._table = table
        self._queues = queues
        self._arguments: list[ArgumentArrays] = []
        self._sizes = np.empty(0, np.int64)
        self._created = np.empty(0, np.int64)  # by group its place in the order of creation; -1 if it is not there

    def load(self, new: Mapping[str, Array]) -> bool:
        """Read the cells, before rows with the values `new` enter. Return False if arrays cannot hold them."""
        form, rows = self._form, self._rows
        if not form.aggregates:
            return True
        groups = self._rows.groups.of_values(list(self._table)) if form.grouped else np.zeros(1, np.int64)
        size = len(self._rows.groups) if form.grouped else 1
        cells = [[*column] for column in zip(*self._table.values(), strict=True)] or [[] for _ in form.cells]
        self._created = np.full(size, -1)
        self._created[groups] = np.arange(len(groups))
        self._sizes = np.zeros(size, np.int64)
        self._sizes[groups] = 1  # without a count of rows, which never leave then, 1 stands for any number of rows
        for argument in form.arguments:
            if argument.name is None and argument.count is not None:
                self._sizes[groups] = cells[argument.count]
        for argument, queues in zip(form.arguments, self._queues, strict=True):
            arrays = ArgumentArrays(argument, size, queues)
            if not arrays.load(cells, groups, self._sizes[groups], form.cells):
                return False
            if argument.name is not None and not argument.floating:
                values = new[argument.name]
                highest = max(rows.highest.get(argument.name, 0.0), magnitude(values))
                if not arrays.exact(highest, len(values) + rows.end - rows.begin):
                    return False
            self._arguments.append(arrays)
        return True

    def update(self, kernels: ModuleType, leaving: Array, ends: Array, first: int, *, early: bool) -> None:
        """Let the rows from `first` on enter, and those in `leaving` leave (see `kernels`)."""
        form, end = self._form, self._rows.end
        if not form.aggregates:
            return
        arrays, count = self._rows.arrays, end - first
        groups = arrays[GROUP] if form.grouped or not form.keys else np.zeros(end, np.int64)
        movement = groups, leaving, ends, first, end, early
        sizes = np.empty(count, np.int64)
        kernels.count_rows(movement, form.keeps_groups, self._sizes, self._created, len(self._table), sizes)
        for argument in self._arguments:
            if argument.form.name is None:
                argument.counts, argument.outcome = self._sizes, {"count": sizes}
            else:
                argument.update(kernels, arrays[argument.form.name], movement, self._rows.moves, count)

    def values(self, kind: OutputKind, number: int) -> ArrayValues:
        """Return ``count``, ``total``, ``mean``, ``least`` or ``greatest`` of argument `number` after each row."""
        argument = self._arguments[number]
        return aggregate_values(argument.form, kind, argument.outcome)

    def store(self, kernels: ModuleType, leaving: Array, first: int) -> None:
        """Write the cells of the groups that have changed. A group that has begun anew comes last."""
        form, table = self._form, self._table
        if not form.aggregates:
            return
        changed = np.full(len(self._sizes), not form.grouped)
        if form.grouped:
            groups = self._rows.arrays[GROUP]
            changed[groups[first : self._rows.end]] = True
            changed[groups[leaving]] = True
        numbers = np.flatnonzero(changed)
        numbers = numbers[np.argsort(self._created[numbers])]
        columns: dict[int, list[Any]] = {}
        for argument in self._arguments:
            columns |= argument.columns(kernels, numbers, self._sizes[numbers], form.cells)
        old = len(table)
        keys = self._rows.groups.values if form.grouped else [None]
        ordered = [columns[place] for place in range(len(form.cells))]
        for number, *cells in zip(numbers.tolist(), *ordered, strict=True):
            key = keys[number]
            if self._sizes[number] == 0 and form.grouped:
                table.pop(key, None)  # it may be none if the group began within the batch
            elif self._created[number] < old or not form.grouped:
                table[key][:] = cells
            else:
                table.pop(key, None)
                table[key] = cells


def aggregate_values(form: ArgumentForm, kind: OutputKind, outcome: Mapping[str, Array]) -> ArrayValues:
    """Return ``count``, ``total``, ``mean``, ``least`` or ``greatest`` of an argument. `outcome` has the numbers of
    values, their sums, and the least and the greatest of them.
    """
    counts = outcome["count"]
    if kind == "count":
        return ArrayValues(counts)
    cell = "total" if kind == "mean" else kind
    values = outcome[cell]
    missing = is_null(values) if cell in form.queues else counts == 0
    if cell == "total" and form.bits == 32:
        values = values.astype(np.int32)  # Java's sum of int wraps
    if kind == "mean":
        with np.errstate(invalid="ignore", divide="ignore"):
            values = values / counts
    return ArrayValues(values, missing if missing.any() else None)
