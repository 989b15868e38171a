"""Events as record batches of Arrow, and back.

A column is a list ``[name, type, form]`` in the header of the frame. The type is that of Arrow: ``int64``, ``double``,
``bool``, ``string``, or for whole numbers from an array the smallest that has them all, from ``int8`` to ``int64``.
Values that Arrow cannot hold are in the header, with the type ``graph``, in the form of `value_graph`. The forms:

========  ==============================================================================================
values    the values; null is Arrow's null
gaps      NaN stands for null
codes     positions in the dictionary that an earlier frame wrote; the last position is null
steps     times that ascend: the distance of each one to the one before; `first` in the header is the first
========  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cepbook.engine.snapshot.value_graph import GraphReader, GraphWriter, UnsavableValue
from cepbook.engine.vectorized.array_columns import StoredColumn, with_nulls
from cepbook.errors import JournalError, SnapshotError, UsageError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import Type, is_integral

Columns = Mapping[str, Sequence[Any]]
Dictionary = Callable[[Any], int]  # the number of an array of texts, which is written if it has none yet


def arrow() -> Any:
    """Return pyarrow. Raises UsageError if it is not installed."""
    try:
        import pyarrow  # optional: only files of Arrow need it
    except ImportError:
        raise UsageError("a journal needs pyarrow: pip install pyarrow") from None
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
            f"a journal cannot hold {unknown}. Nothing was done\n"
            "  hint: send plain values (numbers, texts, dates, lists, dicts), or end the journal: "
            "`cep.journaling.close()`"
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

    def add(self, name: str, type: str, values: Sequence[Any]) -> None:
        """Add a column of engine values."""
        if type != "graph":
            try:
                return self._add(name, "values", self._arrow.array(values, self._arrow.type_for_alias(type)))
            except (ValueError, TypeError, OverflowError):  # such as half a surrogate, or a number beyond long
                pass
        self.header.setdefault("graphs", {})[name] = as_graph(list(values))
        self.header["columns"].append([name, "graph", "values"])

    def add_times(self, times: npt.NDArray[np.int64]) -> None:
        """Add times that ascend, as the column without a name."""
        steps = np.empty_like(times)
        steps[0] = 0
        np.subtract(times[1:], times[:-1], out=steps[1:])
        self.header["first"] = int(times[0])
        self._add("", "steps", self._arrow.array(_small(steps)))

    def add_stored(self, name: str, column: StoredColumn, dictionary: Dictionary) -> None:
        """Add a column that is an array."""
        form = "gaps" if column.gaps else "values"
        if column.texts is not None:
            self.header.setdefault("dictionaries", {})[name] = dictionary(column.texts)
            form = "codes"
        self._add(name, form, self._arrow.array(_small(column.values)))

    def _add(self, name: str, form: str, array: Any) -> None:
        self._arrays.append(array)
        self.header["columns"].append([name, str(array.type), form])

    def block(self) -> Any:
        """Return the record batch as a message of Arrow's stream format, without its schema."""
        names = [str(number) for number in range(len(self._arrays))]
        return self._arrow.RecordBatch.from_arrays(self._arrays, names).serialize()


def read_batch(header: Mapping[str, Any], block: Any, dictionaries: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the columns of a `BatchWriter` as lists of engine values. Raises SnapshotError if it is invalid."""
    pyarrow = arrow()
    types = [type for _, type, _ in header["columns"] if type != "graph"]
    try:
        schema = pyarrow.schema([(str(number), pyarrow.type_for_alias(type)) for number, type in enumerate(types)])
        batch = pyarrow.ipc.read_record_batch(pyarrow.py_buffer(bytes(block)), schema)
        arrays = iter(batch.columns)
        columns: dict[str, list[Any]] = {}
        for name, type, form in header["columns"]:
            if type == "graph":
                columns[name] = from_graph(header["graphs"][name])
            elif form == "gaps":
                columns[name] = with_nulls(next(arrays).to_numpy())
            elif form == "codes":
                known = dictionaries[header["dictionaries"][name]]
                columns[name] = [known[code] for code in next(arrays).to_pylist()]
            elif form == "steps":
                columns[name] = (header["first"] + np.cumsum(next(arrays).to_numpy(), dtype=np.int64)).tolist()
            else:
                columns[name] = next(arrays).to_pylist()
        return columns
    except (LookupError, TypeError, ValueError, OSError) as error:  # Arrow's errors are of these classes
        raise SnapshotError(f"the journal is damaged: {type(error).__name__}: {error}") from error


def _small(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return whole numbers in the smallest type that has them all, fractions as double, truth values as they are."""
    if values.dtype.kind not in "iu":
        return values.astype(float, copy=False) if values.dtype.kind == "f" else values
    least, most = int(values.min()), int(values.max())
    return values.astype(np.min_scalar_type(most if least >= 0 else min(least, -most - 1)), copy=False)


def check_event(event_type: EventType) -> Callable[[Mapping[str, Any]], None] | None:
    """Return a check that raises JournalError for an event that cannot be written; None if all of the type can be."""
    open_names = [name for name, of in event_type.properties.items() if column_type(of) == "graph"]
    if not open_names:
        return None

    def check(event: Mapping[str, Any]) -> None:
        as_graph([event[name] for name in open_names])

    return check
