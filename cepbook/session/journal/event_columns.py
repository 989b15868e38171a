"""Events as record batches of Arrow, and back.

A column is a list ``[name, type, form, detail]`` in the header of the frame. The name is that of a property, or the
number `TIMES` or `RANKS`. The type is that of Arrow: ``int64`` (byte, short, int, long, and biginteger if it has them
all), ``double``, ``bool``, ``string``; for whole numbers from an array the smallest that has them all, from ``int8`` to
``uint64``. The forms:

========  ==============================================================================================
values    the values; null is Arrow's null
gaps      fractions from an array, in which NaN stands for null
codes     positions in the dictionary with the number `detail`, which an earlier frame wrote; the last one is null
steps     times that ascend: the distance of each one to the one before; `detail` is the first
graph     `detail` has the values, in the form of `value_graph`; there is no array. Other types have this form, and any
          column with a value that Arrow refuses (half a surrogate, a number beyond 64 bits)
========  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from cepbook.engine.snapshot.value_graph import GraphReader, GraphWriter, UnsavableValue
from cepbook.engine.vectorized.array_columns import StoredColumn, with_nulls
from cepbook.errors import JournalError, SnapshotError, UsageError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import Type, is_integral

TIMES, RANKS = 0, 1  # names of columns that no property has, which are texts
NumberOf = Callable[[Any], int]  # the number of an array of texts, which is written into a frame if it has none yet


def arrow() -> Any:
    """Return pyarrow. Raises UsageError if it is not installed."""
    try:
        import pyarrow  # optional: only files of Arrow need it
    except ImportError:
        raise UsageError("a journal needs pyarrow: pip install 'cepbook[lab]'") from None
    return pyarrow


def column_type(of: Type) -> str:
    """Return the type of the column that values of a type go into."""
    if of.of is not None or of.event is not None:
        return "graph"
    if is_integral(of):
        return "int64"
    return {"float": "double", "double": "double", "boolean": "bool", "string": "string", "char": "string"}.get(
        of.name, "graph"
    )


def as_graph(value: Any) -> Any:
    """Return plain data as JSON. Raises JournalError for an object that EPL has no type for."""
    writer = GraphWriter(lambda _: None)
    try:
        written = writer.value(value)
    except UnsavableValue as unknown:
        raise JournalError(
            f"a journal cannot hold {unknown}\n"
            "  hint: plain values (numbers, texts, dates, lists, dicts), or end the journal: `cep.journaling.close()`"
        ) from None
    return [written, writer.nodes]


def from_graph(data: Any) -> Any:
    """Return the value of `as_graph`. Raises SnapshotError if it is invalid."""
    try:
        written, nodes = data
        return GraphReader(nodes).value(written)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise SnapshotError(f"the journal is damaged: {type(error).__name__}: {error}") from error


class BatchWriter:
    """One record batch: columns are added one by one, then `block` gives the bytes and `header` what describes them."""

    def __init__(self, name: str, count: int) -> None:
        self.header: dict[str, Any] = {"type": name, "count": count, "columns": []}
        self._arrays: list[Any] = []
        self._arrow = arrow()

    def add(self, name: str | int, type: str, values: Sequence[Any]) -> None:
        """Add a column of engine values."""
        array = None
        if type != "graph":
            with suppress(ValueError, TypeError, OverflowError, self._arrow.ArrowException):
                array = self._arrow.array(values, self._arrow.type_for_alias(type))
        if array is None:
            self.header["columns"].append([name, type, "graph", as_graph(list(values))])
        else:
            self._add(name, "values", array)

    def add_times(self, times: npt.NDArray[np.int64]) -> None:
        """Add times that ascend."""
        steps = np.diff(times, prepend=times[:1])
        small = np.min_scalar_type(int(steps.max()))
        self._add(TIMES, "steps", self._arrow.array(steps.astype(small)), int(times[0]))

    def add_stored(self, name: str, column: StoredColumn, number_of: NumberOf) -> None:
        """Add a column that is an array. If it has texts, `number_of` may write a frame of its own for them."""
        if column.texts is None:
            self._add(name, "gaps" if column.gaps else "values", self._arrow.array(_small(column.values)))
        else:
            codes = column.values.astype(np.min_scalar_type(-len(column.texts)), copy=False)
            self._add(name, "codes", self._arrow.array(codes), number_of(column.texts))

    def _add(self, name: str | int, form: str, array: Any, detail: int | None = None) -> None:
        self._arrays.append(array)
        self.header["columns"].append([name, str(array.type), form, detail])

    def block(self) -> Any:
        """Return the record batch as a message of Arrow's stream format, without its schema."""
        names = [str(number) for number in range(len(self._arrays))]
        return self._arrow.RecordBatch.from_arrays(self._arrays, names).serialize()


def read_batch(
    header: Mapping[str, Any], block: Any, dictionaries: Mapping[int, Sequence[Any]]
) -> dict[str | int, list[Any]]:
    """Return the columns of a `BatchWriter` as lists of engine values. Raises SnapshotError if it is invalid."""
    pyarrow = arrow()
    try:
        types = [type for _, type, form, _ in header["columns"] if form != "graph"]
        schema = pyarrow.schema([(str(number), pyarrow.type_for_alias(type)) for number, type in enumerate(types)])
        batch = pyarrow.ipc.read_record_batch(pyarrow.py_buffer(bytes(block)), schema)
        arrays = iter(batch.columns)
        columns: dict[str | int, list[Any]] = {}
        for name, _, form, detail in header["columns"]:
            if form == "graph":
                columns[name] = from_graph(detail)
            elif form == "gaps":
                columns[name] = with_nulls(next(arrays).to_numpy())
            elif form == "codes":
                texts = dictionaries[detail]
                columns[name] = [texts[code] for code in next(arrays).to_pylist()]
            elif form == "steps":
                columns[name] = (detail + np.cumsum(next(arrays).to_numpy(), dtype=np.int64)).tolist()
            else:
                columns[name] = next(arrays).to_pylist()
        return columns
    except (LookupError, TypeError, ValueError, OSError, pyarrow.ArrowException) as error:
        raise SnapshotError(f"the journal is damaged: {type(error).__name__}: {error}") from error


def _small(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return whole numbers in the smallest type that has them all, fractions as double, truth values as they are."""
    if values.dtype.kind not in "iu":
        return values.astype(float, copy=False) if values.dtype.kind == "f" else values
    least, most = int(values.min()), int(values.max())
    return values.astype(np.min_scalar_type(most if least >= 0 else min(least, -most - 1)), copy=False)


def check_event(event_type: EventType) -> Callable[[Mapping[str, Any]], None] | None:
    """Return a check that raises JournalError for an event that cannot be written; None if all of the type can be."""
    graph_names = [name for name, of in event_type.properties.items() if column_type(of) == "graph"]
    if not graph_names:
        return None

    def check(event: Mapping[str, Any]) -> None:
        as_graph([event[name] for name in graph_names])

    return check
