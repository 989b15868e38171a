"""The columns of a task's events as the engine asks them which events pass, and reads them: values are made of those.

Light: Spark's workers load it.
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
    """Events of one type, one after the other: their `clock`, and a `batch` of the `columns` of some `properties`.

    A property whose column is `TIME` is the time of the event; one that has none is null.
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
        self._places = dict(zip(properties, columns, strict=True))
        self._clock = NumberColumn(clock)
        self._known: dict[str, ArrayColumn] = {}

    def read(self, names: Collection[str]) -> ArrayColumns:
        """Their properties `names`."""
        return ArrayColumns(names, self._column, self._clock, slice(0, len(self.times)), self.times)

    def _column(self, name: str) -> ArrayColumn:
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._made(name)
        return found

    def _made(self, name: str) -> ArrayColumn:
        column = self._places.get(name)
        if column is None:
            missing = [None] * len(self.times)
            return ComputedColumn(lambda part: missing[part] if isinstance(part, slice) else missing[: len(part)])
        if column == TIME:
            return self._clock
        return engine_column(self._batch.column(column), self._of.properties[name], self._types)


def engine_column(array: pa.Array, of: Type, types: Mapping[str, EventType]) -> ArrayColumn:
    """A column of type `of`, as the engine takes it; equal texts that repeat are one object, quick to compare."""
    found = array.type
    if pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_boolean(found):
        return _numbers(array)
    if pa.types.is_string(found) and len(array) and of.name not in TEXT_TYPES:
        coded = array.dictionary_encode()
        if 2 * len(coded.dictionary) < len(array):
            words = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
            return TextColumn(coded.indices.fill_null(len(words) - 1).to_numpy(), words)
    return ComputedColumn(
        lambda part: from_array(array[part] if isinstance(part, slice) else array.take(pa.array(part)), of, types)
    )


def _numbers(array: pa.Array) -> ArrayColumn:
    """Singles as doubles, which numbers are compared with."""
    filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0) if array.null_count else array
    values = filled.to_numpy(zero_copy_only=False)
    column = NumberColumn(values.astype(np.float64) if values.dtype.kind == "f" else values)
    return NullableColumn(column, array.is_null().to_numpy(zero_copy_only=False)) if array.null_count else column
