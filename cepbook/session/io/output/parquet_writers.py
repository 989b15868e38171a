"""Rows as Arrow tables, and into Parquet files."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC
from typing import Any, BinaryIO

from cepbook.errors import UsageError
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.types import Type
from cepbook.session.io.output.row_writer import PLAIN, Rows, RowWriter, encodable, file_text, other_columns, take_mode

# Metadata key with the id of the Arrow stream whose rows the Parquet file already has. `_rescued` skips such a stream.
_STREAM = b"cepbook.stream"
_GROUP = 1 << 16  # rows of a row group, at least


def arrow_table(rows: Rows, columns: Mapping[str, Type]) -> Any:
    """Return rows as a `pyarrow.Table`, values without an Arrow type as text. Raises UsageError without pyarrow."""
    try:
        import pyarrow  # optional: only Parquet files and frames of Arrow need it
    except ImportError:
        raise UsageError("Parquet files and frames of Arrow need pyarrow: pip install 'cepbook[lab]'") from None
    kinds = [_arrow_type(pyarrow, of) for of in columns.values()]
    schema = pyarrow.schema(
        [(name, pyarrow.string() if kind is None else kind) for name, kind in zip(columns, kinds, strict=True)]
    )
    values = zip(*rows, strict=True) if rows else [()] * len(kinds)
    columns_of_values = [
        [None if value is None else file_text(value) for value in column] if kind is None else list(column)
        for column, kind in zip(values, kinds, strict=True)
    ]
    try:
        arrays = [pyarrow.array(column, field.type) for column, field in zip(columns_of_values, schema, strict=True)]
    except UnicodeEncodeError:
        columns_of_values = _all_encodable(columns_of_values)
        arrays = [pyarrow.array(column, field.type) for column, field in zip(columns_of_values, schema, strict=True)]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _all_encodable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_all_encodable(item) for item in value]
    return encodable(value) if isinstance(value, str) else value


class ParquetWriter(RowWriter):
    """Row groups as they come. The file is complete when it is closed."""

    survives = False

    def __init__(self, path: str, columns: Mapping[str, Type]) -> None:
        self.place = path
        self._columns = dict(columns)
        schema = arrow_table((), columns).schema
        from pyarrow import parquet  # optional, and installed here

        self._writer: Any = parquet.ParquetWriter(path, schema)

    def write(self, rows: Rows) -> None:
        if rows:
            self._writer.write_table(arrow_table(rows, self._columns))

    def close(self) -> None:
        self._writer.close()


class _ArrowFile:
    """The file of an Arrow stream. `rename` works while the stream is open, also on Windows."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO = open(path, "wb")  # noqa: SIM115  until `close`

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def rename(self, path: str) -> None:
        self._file.close()
        os.replace(self._path, path)
        self._file = open(path, "ab")  # noqa: SIM115

    def close(self) -> None:
        self._file.close()


class ParquetStreamWriter(RowWriter):
    """A Parquet file `path` that is written as a whole when it is closed; its rows are in an Arrow stream until then.

    The stream, `stream_name`, is readable up to the last complete batch if the process is killed. With `earlier`, the
    rows of that Parquet file come first, then those of a stream that a killed process left. So rows come once:

    1. A new stream is begun as ``.new``, gets the rows of a former stream, and replaces it.
    2. `close` writes the Parquet file from `earlier` and the stream. Its metadata have the id of the stream.
    3. The file gets its name, then `clean` removes the stream.

    A process that is killed between 2 and 3 leaves a stream whose id the Parquet file has: its rows are not added.
    """

    def __init__(
        self, path: str, columns: Mapping[str, Type], earlier: str | None = None, *, resumed: bool = False
    ) -> None:
        schema = arrow_table((), columns).schema
        import pyarrow  # optional, and installed here

        self._path, self._columns, self._earlier = path, dict(columns), earlier
        self.place = stream_name(path)
        id_ = uuid.uuid4().hex.encode()
        rescued: Iterator[Any] = iter(())
        if earlier is not None:
            existing = _schema_to_add_to(earlier, schema) if os.path.exists(earlier) else None
            self._earlier = None if existing is None else earlier
            rescued = _rescued(self.place, schema, {} if existing is None else existing.metadata or {})
        elif resumed:
            rescued = _rescued(self.place, schema, {})
        begun = f"{self.place}.new" if os.path.exists(self.place) else self.place
        self._file = _ArrowFile(begun)
        try:
            self._stream = pyarrow.ipc.new_stream(self._file, schema.with_metadata({_STREAM: id_}))
            self._rows = 0
            for batch in rescued:
                self._stream.write_batch(batch)
                self._rows += batch.num_rows
            self._file.flush()
            if begun != self.place:
                self._file.rename(self.place)
        except BaseException:
            self._file.close()
            os.remove(begun)
            raise

    def write(self, rows: Rows) -> None:
        if rows:
            self._stream.write_table(arrow_table(rows, self._columns))
            self._file.flush()
            self._rows += len(rows)

    @property
    def position(self) -> int:
        return self._rows

    def close(self) -> None:
        if self._file.closed:
            return
        self._stream.close()
        self._file.close()
        import pyarrow  # as above
        from pyarrow import parquet

        with pyarrow.OSFile(self.place) as file, pyarrow.ipc.open_stream(file) as stream:
            schema = stream.schema
            with open(self._path, "wb") as target, parquet.ParquetWriter(target, schema) as writer:
                take_mode(self._path, self.place)
                if self._earlier is not None:
                    with parquet.ParquetFile(self._earlier) as former:
                        for batch in former.iter_batches(_GROUP):
                            writer.write_table(pyarrow.Table.from_batches([batch]).cast(schema))
                for group in _row_groups(stream):
                    writer.write_table(pyarrow.Table.from_batches(group))

    def clean(self) -> None:
        with suppress(OSError):
            os.remove(self.place)


def _row_groups(batches: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the batches in groups of at least `_GROUP` rows; the last group may have fewer."""
    group: list[Any] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += batch.num_rows
        if size >= _GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def stream_name(path: str) -> str:
    """Return the path of the Arrow stream with the rows of a Parquet file that is not closed yet."""
    return f"{os.path.splitext(path)[0]}.arrows"


def stream_batches(path: str) -> Iterator[Any]:
    """Yield the complete batches of an Arrow stream whose end may be torn."""
    import pyarrow  # optional, and installed here

    try:
        with pyarrow.OSFile(path) as file, pyarrow.ipc.open_stream(file) as stream:
            yield from stream
    except (OSError, ValueError):  # the end is torn
        return


def _schema_to_add_to(path: str, schema: Any) -> Any:
    """Return the schema of a Parquet file. Raises UsageError if rows of `schema` cannot be added to it."""
    from pyarrow import parquet  # optional, and installed here

    existing = parquet.read_schema(path)
    try:
        existing.empty_table().cast(schema)
    except (ValueError, TypeError, NotImplementedError):  # Arrow's errors are of these classes
        raise other_columns(path, [f"{field.name} {field.type}" for field in existing]) from None
    return existing


def _rescued(path: str, schema: Any, of_file: Mapping[bytes, bytes]) -> Iterator[Any]:
    """Yield the complete batches of a stream that a killed process left.

    Nothing if they are in the Parquet file with the metadata `of_file` already. Raises UsageError for other columns.
    """
    import pyarrow  # optional, and installed here

    try:
        with pyarrow.OSFile(path) as file, pyarrow.ipc.open_stream(file) as stream:
            if (stream.schema.metadata or {}).get(_STREAM) == of_file.get(_STREAM, b""):
                return
            if not stream.schema.equals(schema):
                raise other_columns(path, stream.schema.names)
            yield from stream
    except (OSError, ValueError):  # there is none, or its end is torn
        return


def _arrow_type(arrow: Any, of: Type) -> Any:
    names = {"byte": "int8", "short": "int16", "int": "int32", "long": "int64", "float": "float32"}
    if of.of is not None:
        element = _arrow_type(arrow, of.of)
        return None if element is None else arrow.list_(element)
    if of.name in PLAIN:
        plain: Any = {"double": arrow.float64, "boolean": arrow.bool_, "char": arrow.string, "string": arrow.string}
        return plain[of.name]() if of.name in plain else getattr(arrow, names[of.name])()
    if of.name == "clock time":
        clock: Any = of
        zone = zone_of(clock.zone)
        return arrow.timestamp(clock.unit, tz=None if zone is UTC else str(zone))
    if of.name in ("timestamp", "moment", "calendar", "zoneddatetime"):
        return arrow.timestamp("us", tz="UTC")
    dates: dict[str, Any] = {
        "localdatetime": lambda: arrow.timestamp("us"),
        "localdate": arrow.date32,
        "localtime": lambda: arrow.time64("us"),
    }
    return dates[of.name]() if of.name in dates else None
