"""Events as record batches of Arrow, and back.

A column is a list ``[name, kind]`` in the header of the frame:

=======  ================================================================================================
int      int64: byte, short, int, long; null is Arrow's null
float    double: float and double
gaps     double from an array, in which NaN stands for null
bool     boolean
text     string: string and char
code     int32: positions in the dictionary that an earlier frame wrote; the last position is null
graph    all other types, and values that Arrow cannot hold: in the header, in the form of `value_graph`
=======  ================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

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


def column_kind(of: Type) -> str:
    """Return the kind of column that values of a type go into."""
    if of.of is not None or of.event is not None:
        return "graph"
    if is_integral(of):
        return "int"
    return {"float": "float", "double": "float", "boolean": "bool", "string": "text", "char": "text"}.get(
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

    def add(self, name: str, kind: str, values: Sequence[Any]) -> None:
        """Add a column of engine values."""
        if kind != "graph":
            try:
                return self._add(name, kind, self._arrow.array(values, _type(self._arrow, kind)))
            except (ValueError, TypeError, OverflowError):  # such as half a surrogate, or a number beyond long
                pass
        self.header.setdefault("graphs", {})[name] = as_graph(list(values))
        self.header["columns"].append([name, "graph"])

    def add_stored(self, name: str, column: StoredColumn, dictionary: Dictionary) -> bool:
        """Add a column that is an array. Return False, and add nothing, if Arrow has no such array."""
        values = column.values
        kinds = {"f": "gaps" if column.gaps else "float", "i": "int", "b": "bool"}
        kind = "code" if column.texts is not None else kinds.get(values.dtype.kind)
        if kind is None:
            return False
        if column.texts is not None:
            self.header.setdefault("dictionaries", {})[name] = dictionary(column.texts)
        array, of = self._arrow.array(values), _type(self._arrow, kind)
        self._add(name, kind, array if array.type == of else array.cast(of))
        return True

    def _add(self, name: str, kind: str, array: Any) -> None:
        self._arrays.append(array)
        self.header["columns"].append([name, kind])

    def block(self) -> Any:
        """Return the record batch as a message of Arrow's stream format, without its schema."""
        names = [str(number) for number in range(len(self._arrays))]
        return self._arrow.RecordBatch.from_arrays(self._arrays, names).serialize()


def read_batch(header: Mapping[str, Any], block: Any, dictionaries: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the columns of a `BatchWriter` as lists of engine values. Raises SnapshotError if it is invalid."""
    pyarrow = arrow()
    kinds = [kind for _, kind in header["columns"] if kind != "graph"]
    schema = pyarrow.schema([(str(number), _type(pyarrow, kind)) for number, kind in enumerate(kinds)])
    try:
        batch = pyarrow.ipc.read_record_batch(pyarrow.py_buffer(bytes(block)), schema)
        arrays = iter(batch.columns)
        columns: dict[str, list[Any]] = {}
        for name, kind in header["columns"]:
            if kind == "graph":
                columns[name] = from_graph(header["graphs"][name])
            elif kind == "gaps":
                columns[name] = with_nulls(next(arrays).to_numpy())
            elif kind == "code":
                known = dictionaries[header["dictionaries"][name]]
                columns[name] = [known[code] for code in next(arrays).to_pylist()]
            else:
                columns[name] = next(arrays).to_pylist()
        return columns
    except (LookupError, TypeError, ValueError, OSError) as error:  # Arrow's errors are of these classes
        raise SnapshotError(f"the journal is damaged: {type(error).__name__}: {error}") from error


def _type(pyarrow: Any, kind: str) -> Any:
    make: dict[str, Any] = {
        "int": pyarrow.int64,
        "float": pyarrow.float64,
        "gaps": pyarrow.float64,
        "bool": pyarrow.bool_,
        "text": pyarrow.string,
        "code": pyarrow.int32,
    }
    return make[kind]()


def check_event(event_type: EventType) -> Callable[[Mapping[str, Any]], None] | None:
    """Return a check that raises JournalError for an event that cannot be written; None if all of the type can be."""
    open_names = [name for name, of in event_type.properties.items() if column_kind(of) == "graph"]
    if not open_names:
        return None

    def check(event: Mapping[str, Any]) -> None:
        as_graph([event[name] for name in open_names])

    return check
