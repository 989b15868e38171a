"""Columns of a task's events as the engine reads them: filters run over arrays, and values are made of rows that pass.

Light: Spark's workers load this module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from cepbook.engine.vectorized.array_columns import (
    ArrayColumn,
    ArrayColumns,
    ComputedColumn,
    NullableColumn,
    NumberColumn,
    TextColumn,
)
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import Type
from cepbook.spark.task.delivery_columns import Int64Array
from cepbook.spark.task.stream_columns import TIME
from cepbook.spark.task.type_mapping import TEXT_TYPES, from_array


class ArrowEvents:
    """Events of one type in order: their `clock`, and a `batch` with the `columns` of some `properties`.

    A property whose column is `TIME` is the event time; a property without a column is null.
    """

    def __init__(
        self,
        batch: pa.RecordBatch,
        clock: Int64Array,
        properties: Sequence[str],
        columns: Sequence[str],
        of: EventType,
        types: Mapping[str, EventType],
    ) -> None:
        self.times: list[int] = clock.tolist()
        self._batch, self._of, self._types = batch, of, types
        self._column_names = dict(zip(properties, columns, strict=True))
        self._clock = NumberColumn(clock)
        self._columns: dict[str, ArrayColumn] = {}

    def read(self, names: Collection[str]) -> ArrayColumns:
        """Return the properties `names` for the engine."""
        return ArrayColumns(names, self._column, self._clock, slice(0, len(self.times)), self.times)

    def _column(self, name: str) -> ArrayColumn:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = self._load_column(name)
        return column

    def _load_column(self, name: str) -> ArrayColumn:
        column = self._column_names.get(name)
        if column is None:
            missing = [None] * len(self.times)
            return ComputedColumn(lambda rows: missing[rows] if isinstance(rows, slice) else missing[: len(rows)])
        if column == TIME:
            return self._clock
        return engine_column(self._batch.column(column), self._of.properties[name], self._types)


def engine_column(array: pa.Array, type_: Type, types: Mapping[str, EventType]) -> ArrayColumn:
    """Return a column for the engine; equal texts that repeat become one object, which compares fast."""
    actual = array.type
    if pa.types.is_integer(actual) or pa.types.is_floating(actual) or pa.types.is_boolean(actual):
        return _number_column(array)
    if pa.types.is_string(actual) and len(array) and type_.name not in TEXT_TYPES:
        coded = array.dictionary_encode()
        if 2 * len(coded.dictionary) < len(array):
            words = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
            return TextColumn(coded.indices.fill_null(len(words) - 1).to_numpy(), words)
    return ComputedColumn(
        lambda rows: from_array(array[rows] if isinstance(rows, slice) else array.take(pa.array(rows)), type_, types)
    )


def _number_column(array: pa.Array) -> ArrayColumn:
    """Return numbers as an array; single-precision floats become doubles, with which numbers are compared."""
    filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0) if array.null_count else array
    values = filled.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        values = values.astype(np.float64)
        if array.null_count and not np.isnan(values).any():
            return NumberColumn(np.where(array.is_null().to_numpy(zero_copy_only=False), np.nan, values), gaps=True)
    column = NumberColumn(values)
    return NullableColumn(column, array.is_null().to_numpy(zero_copy_only=False)) if array.null_count else column
