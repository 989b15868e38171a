"""Events as columns of bytes, and back.

The columns of a batch are described in the header of its frame. A column is a list ``[name, type, form, detail]``, and
the next block of the frame has its bytes. The name is that of a property, or the number `TIMES` or `RANKS`. The type is
``text``, or that of an array of numpy, always little-endian: ``<i8`` (byte, short, int, long, and biginteger if 64 bits
have room for all values), ``<f8``, ``|b1``; for whole numbers from an array the smallest that has them all, from
``|i1`` to ``<u8``. The forms:

========  ==============================================================================================
values    the values; texts are UTF-8 with a NUL between two of them
present   the values that are not null; `detail` has the positions of the others
gaps      fractions from an array, in which NaN stands for null
codes     positions in the dictionary with the number `detail`, which an earlier frame wrote; its last entry is null
steps     times that ascend: `detail` is the first, the values are the distances of the others to the one before
graph     `detail` has the values, in the form of `value_graph`; there is no block. Other types have this form, and any
          column with a value that its type does not have: a number beyond 64 bits, a NUL or half a surrogate in a text
========  ==============================================================================================

Record batches of Arrow would take longer to make: of lists of Python's values twice as long, of arrays one copy more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from cepbook.engine.snapshot.value_graph import GraphReader, GraphWriter, UnsavableValue
from cepbook.engine.vectorized.array_columns import StoredColumn, with_nulls
from cepbook.errors import JournalError, SnapshotError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import Type, is_integral

TIMES, RANKS = 0, 1  # names of columns that no property has, which are texts
WHOLE, FRACTION, TRUTH, TEXT, GRAPH = "<i8", "<f8", "|b1", "text", "graph"
NumberOf = Callable[[Any], int]  # the number of an array of texts, which is written into a frame if it has none yet
Columns = dict[str | int, list[Any]]
_ARRAY_TYPES = {np.dtype(code).str for code in "?bBhHiIlLqQfd"}
_CODES = {WHOLE: "q", FRACTION: "d"}  # of `struct`


def column_type(of: Type) -> str:
    """Return the type of the column that values of a type go into, or `GRAPH`."""
    if of.of is not None or of.event is not None:
        return GRAPH
    if is_integral(of):
        return WHOLE
    types = {"float": FRACTION, "double": FRACTION, "boolean": TRUTH, "string": TEXT, "char": TEXT}
    return types.get(of.name, GRAPH)


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
    """A batch: columns are added one by one to `blocks`, and `header` has what describes them."""

    def __init__(self, name: str, count: int) -> None:
        self.header: dict[str, Any] = {"type": name, "count": count, "columns": []}
        self.blocks: list[Any] = []

    def add(self, name: str | int, type: str, values: Sequence[Any]) -> None:
        """Add a column of engine values. Raises JournalError for one that nothing can hold."""
        if type != GRAPH:
            with suppress(ValueError, TypeError, struct.error):
                return self._add(name, type, "values", _packed(type, values))
            with suppress(ValueError, TypeError, struct.error):
                packed = _packed(type, [value for value in values if value is not None])
                nulls = [position for position, value in enumerate(values) if value is None]
                return self._add(name, type, "present", packed, nulls)
        self.header["columns"].append([name, type, "graph", as_graph(list(values))])

    def add_times(self, times: npt.NDArray[np.int64]) -> None:
        """Add times that ascend."""
        self._add_array(TIMES, "steps", _small(np.diff(times)), int(times[0]))

    def add_stored(self, name: str, column: StoredColumn, number_of: NumberOf) -> None:
        """Add a column that is an array. If it has texts, `number_of` may write a frame of its own for them."""
        if column.texts is None:
            self._add_array(name, "gaps" if column.gaps else "values", _small(column.values))
        else:
            codes = column.values.astype(np.min_scalar_type(-len(column.texts)), copy=False)
            self._add_array(name, "codes", codes, number_of(column.texts))

    def _add_array(self, name: str | int, form: str, array: npt.NDArray[Any], detail: int | None = None) -> None:
        self._add(name, array.dtype.str, form, np.ascontiguousarray(array), detail)

    def _add(self, name: str | int, type: str, form: str, block: Any, detail: Any = None) -> None:
        self.blocks.append(block)
        self.header["columns"].append([name, type, form, detail])


def _packed(type: str, values: Sequence[Any]) -> bytes:
    """Return values without null as bytes. Raises an error if the type does not have one of them."""
    if type == TEXT:
        joined = "\0".join(values)
        if joined.count("\0") > max(0, len(values) - 1):
            raise ValueError("a NUL in a text")
        return joined.encode()
    if type == TRUTH:
        return bytes(values)
    return struct.pack(f"<{len(values)}{_CODES[type]}", *values)


def read_batch(
    header: Mapping[str, Any], blocks: Iterator[memoryview], dictionaries: Mapping[int, Sequence[Any]]
) -> Columns:
    """Return the columns of a `BatchWriter` as lists of engine values. Raises SnapshotError if they are invalid."""
    try:
        columns: Columns = {}
        for name, of, form, detail in header["columns"]:
            if form == "graph":
                columns[name] = from_graph(detail)
                if type(columns[name]) is not list or len(columns[name]) != header["count"]:
                    raise ValueError(f"no list of {header['count']} values")
            elif form == "present":
                absent = set(detail)
                present = iter(_values(of, "values", None, header["count"] - len(absent), next(blocks), dictionaries))
                columns[name] = [None if at in absent else next(present) for at in range(header["count"])]
            else:
                columns[name] = _values(of, form, detail, header["count"], next(blocks), dictionaries)
        return columns
    except (LookupError, TypeError, ValueError, ArithmeticError, StopIteration) as error:
        raise SnapshotError(f"the journal is damaged: {type(error).__name__}: {error}") from error


def _values(
    of: str, form: str, detail: Any, count: int, block: memoryview, dictionaries: Mapping[int, Sequence[Any]]
) -> list[Any]:
    values: list[Any]
    if of == TEXT:
        values = str(block, "utf-8").split("\0") if count else []
    elif of not in _ARRAY_TYPES:
        raise ValueError(f"unknown type {of!r}")
    else:
        array: npt.NDArray[Any] = np.frombuffer(block, of)
        if form == "gaps":
            values = with_nulls(array)
        elif form == "codes":
            values = list(map(dictionaries[detail].__getitem__, array.tolist()))
        elif form == "steps":
            values = [detail, *(detail + np.cumsum(array, dtype=np.int64)).tolist()]
        else:
            values = array.tolist()
    if len(values) != count:
        raise ValueError(f"{len(values)} values, not {count}")
    return values


def _small(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return whole numbers in the smallest type that has them all, fractions as double, truth values as they are."""
    if values.dtype.kind not in "iu":
        return values.astype(float, copy=False) if values.dtype.kind == "f" else values
    least, most = int(values.min(initial=0)), int(values.max(initial=0))
    return values.astype(np.min_scalar_type(most if least >= 0 else min(least, -most - 1)), copy=False)


def check_event(event_type: EventType) -> Callable[[Mapping[str, Any]], None] | None:
    """Return a check that raises JournalError for an event that cannot be written; None if all of the type can be."""
    graph_names = [name for name, of in event_type.properties.items() if column_type(of) == GRAPH]
    if not graph_names:
        return None

    def check(event: Mapping[str, Any]) -> None:
        as_graph([event[name] for name in graph_names])

    return check
