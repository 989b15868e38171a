"""The rows of a batch in the order of their partitions of `match_recognize`, and the variables that accept each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cepbook.engine.vectorized.array_columns import ArrayColumns, BooleanMask, StoredColumn, distinct_keys
from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.engine.vectorized.column_batch import ColumnBatch, iterate_events
from cepbook.engine.vectorized.kernel_form import OutputForm
from cepbook.engine.vectorized.output_arrays import ColumnArrays
from cepbook.engine.vectorized.recognition_form import RecognitionForm, RowTest
from cepbook.engine.vectorized.row_store import Array, is_exact, is_stored_as

LEAST_ROWS = 8  # rows of a partition, and for each row that arrays do not decide, on average
_COMPARED = {"int", "short", "byte"}  # whole numbers that are compared as floats; a `long` is only a key


class PartitionedRows:
    """The rows that are in partitions, by place: in the order of `keys`, within a partition in that of the batch.

    - `columns` are those of the batch.
    - `order` has the row of each place in the batch, `bounds` the first place of each partition, and the end.
    - `accepted` has the variables that accept the row of each place, by bits. Arrays do not decide it for the first
      rows of each partition, whose conditions read rows of former batches.
    """

    def __init__(
        self, form: RecognitionForm, columns: ArrayColumns, count: int, stored: Mapping[str, StoredColumn]
    ) -> None:
        self.columns = columns
        self.order: Array = np.arange(count)
        self.order = self.order[self._meets(form.admits, _RowsInOrder(stored))]
        self.keys: list[Any] = [None] if len(self.order) else []
        bounds: Array = np.array([0, *[len(self.order)] * len(self.keys)])
        if form.keys:
            own = [stored[name]._replace(values=stored[name].values[self.order]) for name in form.keys]
            first, numbers = distinct_keys([column.values for column in own])
            keys = [ArrayValues.of_column(column._replace(values=column.values[first])).tolist() for column in own]
            self.keys = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
            self.order = self.order[np.argsort(numbers, kind="stable")]
            bounds = np.cumsum([0, *np.bincount(numbers, minlength=len(first))])
        if LEAST_ROWS * max(form.back, 1) * len(self.keys) > len(self.order) or len(set(self.keys)) < len(self.keys):
            raise _Undecided
        self.bounds: list[int] = bounds.tolist()
        arrays = _RowsInOrder(
            {name: column._replace(values=column.values[self.order]) for name, column in stored.items()}
        )
        self.accepted: Array = np.zeros(len(self.order), np.int64)
        for number, test in enumerate(form.variables):
            self.accepted |= self._meets(test, arrays).astype(np.int64) << number

    def events(self, needed: bytearray, names: Sequence[str]) -> list[Any]:
        """Return the events, with the properties `names`, of the places where `needed` is true; None at all others."""
        places = np.flatnonzero(np.frombuffer(needed, np.uint8))
        columns = self.columns.of_rows(self.order[places])
        rows = iterate_events({name: columns[name] for name in names}, len(places))
        events: list[Any] = [None] * len(self.order)
        for place, event in zip(places.tolist(), rows, strict=True):
            events[place] = event
        return events

    def _meets(self, test: RowTest, arrays: ColumnArrays) -> BooleanMask:
        """Return a mask of the rows that meet a test; `arrays` have them in the same order."""
        met = np.ones(len(self.order), bool)
        for condition in test.plain:
            mask = self.columns.meets(condition)
            if mask is None:
                raise _Undecided
            met &= mask[self.order]
        for form in test.computed:
            met &= arrays.meets(form)
        return met


class _Undecided(Exception):
    """Values do not compare as the engine compares them, or there are too few rows."""


class _RowsInOrder(ColumnArrays):
    """The properties in the order of partitions. Before the first rows of a partition stand those of another one."""

    def other(self, output: OutputForm) -> ArrayValues:
        column = self._columns[output.name]
        return ArrayValues.of_column(column._replace(values=np.roll(column.values, output.number)))


def partitioned_rows(form: RecognitionForm, batch: ColumnBatch) -> PartitionedRows | None:
    """Return the rows of a batch; None if arrays cannot evaluate the conditions, or for too few rows."""
    columns = batch.columns
    if not isinstance(columns, ArrayColumns):
        return None
    stored = {}
    for name, of in form.types.items():
        column = columns.stored(name)
        if column is None or not is_stored_as(column, of) or (column.gaps and name in form.keys):
            return None
        if of in _COMPARED and not is_exact(column):
            return None
        stored[name] = column
    try:
        return PartitionedRows(form, columns, len(batch.times), stored)
    except _Undecided:
        return None
