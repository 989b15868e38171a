"""Rows into files, a batch at a time: Parquet, CSV, JSON lines, SQLite.

Numbers, truth values and texts are kept as they are. Parquet has types for dates and arrays, too. All other values
(events, maps, arrays) are written as JSON text, exact numbers (biginteger, bigdecimal) as digits, dates in ISO 8601.
Times of the clock (`io.output_times`) are dates, in text with their offset from UTC.
In CSV null is an empty field and the empty text is ``""``.

A process can be killed between any two writes. Lines then end with a torn one at worst, which `append` cuts off. A
`ParquetStreamWriter` keeps its rows in an Arrow stream until the file is closed.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
import stat
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, BinaryIO

from cepbook.errors import UsageError
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.types import Type
from cepbook.session.io.files import PARQUET

Rows = Sequence[Sequence[Any]]
SQLITE = (".sqlite", ".sqlite3", ".db")
WRITABLE_KINDS = ".parquet, .csv, .jsonl, .ndjson, .sqlite, .db"
_TO_QUOTE = frozenset(',"\r\n')
_STREAM = b"cepbook.stream"  # key in the metadata of a Parquet file: the stream that its last rows are from
_GROUP = 1 << 16  # rows of a row group, at least
_PLAIN = ("byte", "short", "int", "long", "float", "double", "boolean", "string", "char")


class RowWriter:
    """An open file of rows of the same columns. `place` is the path of the file that `write` writes.

    `survives`: rows are readable after `write`, even if the process is killed.
    """

    place = ""
    survives = True

    def write(self, rows: Rows) -> None:
        """Append rows. Rows of a Parquet file count when the file is closed; all others are in the file at once."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish the file. A second call does nothing."""
        raise NotImplementedError

    @property
    def position(self) -> int:
        """How far the file is, for `sink_files.count_delivered`: bytes of text, rows of a stream, the last row id."""
        return 0

    def clean(self) -> None:
        """Remove what is no longer needed once the closed file has its name."""


def take_mode(written: str, path: str | os.PathLike[str]) -> None:
    """Give the file `written`, which will replace `path`, the owner and the permissions of `path`, if that exists."""
    with suppress(OSError):
        old = os.stat(path)
        with suppress(OSError, AttributeError):  # only root changes an owner; Windows has no such function
            os.chown(written, old.st_uid, old.st_gid)
        os.chmod(written, stat.S_IMODE(old.st_mode))


def file_text(value: object) -> str:
    """Return a value that the file has no type for as text: JSON, dates in ISO 8601, exact numbers as digits."""
    return value if isinstance(value, str) else _other(value) or json.dumps(value, ensure_ascii=False, default=_json_of)


def _other(value: object) -> str | None:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else None


def _json_of(value: object) -> str:
    return _other(value) or str(value)


def dated_rows(columns: Mapping[str, Any], rows: Rows) -> Rows:
    """Return rows with the times of the clock in ISO 8601, as files have them that have no type for them."""
    return _Dates(columns)(rows)


class _Dates:
    """Writes the times of the clock among the columns of rows in ISO 8601, for files that have no type for them."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._texts = [(place, of.text) for place, of in enumerate(columns.values()) if of.name == "clock time"]

    def __call__(self, rows: Rows) -> Rows:
        if not self._texts:
            return rows
        dated = list(map(list, rows))
        for place, text in self._texts:
            for row in dated:
                row[place] = text(row[place])
        return dated


class _Lines(RowWriter):
    """A text file; ``-`` is the standard output."""

    def __init__(self, path: str, columns: Mapping[str, Type], append: bool) -> None:
        self.place = path
        self._dated = _Dates(columns)
        self._own = path != "-"
        self._file: IO[str] = sys.stdout
        if self._own:
            if append:
                _cut_torn_line(path, quotes=isinstance(self, CsvWriter))
            mode = "a" if append else "w"
            self._file = Path(path).open(mode, encoding="utf-8", newline="")  # noqa: SIM115  until `close`

    def text(self, rows: Rows) -> str:
        """Return rows as lines."""
        raise NotImplementedError

    def write(self, rows: Rows) -> None:
        self._write(self._dated(rows))

    def _write(self, rows: Rows) -> None:
        self._file.write(self.text(rows))
        self._file.flush()

    @property
    def position(self) -> int:
        return os.fstat(self._file.fileno()).st_size if self._own else 0

    def close(self) -> None:
        if not self._file.closed:
            self._file.close() if self._own else self._file.flush()


class CsvWriter(_Lines):
    """A header, then a line per row. Every batch is formatted before its first line is written."""

    def __init__(self, path: str, columns: Mapping[str, Type], append: bool = False) -> None:
        header = _first_record(path, columns) if append and os.path.exists(path) else []
        if header and header != list(columns):
            raise _other_columns(path, header)
        super().__init__(path, columns, append)
        if not header:
            self._write([list(columns)])

    def text(self, rows: Rows) -> str:
        return csv_lines(rows)


def csv_lines(rows: Rows) -> str:
    """Return rows as lines of CSV."""
    records = [[None if value is None else _field(value) for value in row] for row in rows]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(records)
    lines = text.getvalue()
    if "\r" in lines or any("" in record for record in records):  # `csv` quotes neither
        lines = "".join(map(_csv_line, records))
    return lines


def _csv_line(record: Sequence[object]) -> str:
    # a line of one null would be blank, which readers skip
    return ('""' if list(record) == [None] else ",".join(map(_csv_text, record))) + "\n"


def _csv_text(field: object) -> str:
    if field is None:
        return ""
    text = str(field)
    return text if text and _TO_QUOTE.isdisjoint(text) else f'"{text.replace(chr(34), chr(34) * 2)}"'


def _first_record(path: str, columns: Iterable[str]) -> list[str]:
    """Return the names in the first line of a file; none if it is empty or holds the torn beginning of our own line."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        record = next(csv.reader(file), [])
        own = csv_lines([list(columns)])
        file.seek(0)
        torn = own.startswith(file.read(len(own) + 1))
    return [] if torn else record


def _other_columns(path: str, names: Sequence[str]) -> UsageError:
    return UsageError(
        f"{path!r} has other columns: {', '.join(names)}\n"
        "  hint: give another name, or leave `append` out to replace the file"
    )


def _cut_torn_line(path: str, *, quotes: bool) -> None:
    """Remove the last line of a file if it has no end, as after the kill of a process, and print what was removed.

    A whole JSON object gets its line end. With `quotes`, line ends within quoted fields are part of a line.
    """
    with suppress(FileNotFoundError), Path(path).open("r+b") as file:
        inside, position, end = False, 0, 0
        for line in file:
            position += len(line)
            if quotes and line.count(b'"') % 2 == 1:  # only a quote at the beginning of a field opens one
                inside = not inside and (line.startswith(b'"') or b',"' in line)
            if line.endswith(b"\n") and not inside:
                end = position
        file.seek(end)
        rest = file.read()
        if rest and not quotes and _is_json(rest):
            file.write(b"\n")
        elif rest:
            file.truncate(end)
            text = rest.decode("utf-8", "replace")
            sys.stderr.write(f"cepbook: {path!r} ended within a line, which was removed: {text!r}\n")


def _is_json(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _field(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, int | float | str) else file_text(value)


class JsonLinesWriter(_Lines):
    """An object per line, all columns in their order."""

    def __init__(self, path: str, columns: Mapping[str, Type], append: bool = False) -> None:
        super().__init__(path, columns, append)
        self._names = list(columns)

    def text(self, rows: Rows) -> str:
        return json_lines(self._names, rows)


def json_lines(names: Sequence[str], rows: Rows) -> str:
    """Return rows as JSON objects, one per line."""
    return "".join([_json(dict(zip(names, row, strict=True))) + "\n" for row in rows])


def _json(value: Mapping[str, object]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_json_of, allow_nan=False)
    except ValueError:
        return json.dumps({name: _finite(item) for name, item in value.items()}, ensure_ascii=False, default=_json_of)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return {str(k): _finite(item) for k, item in value.items()} if isinstance(value, dict) else value


def arrow_table(rows: Rows, columns: Mapping[str, Type]) -> Any:
    """Return rows as a `pyarrow.Table`, values without an Arrow type as text. Raises UsageError without pyarrow."""
    try:
        import pyarrow  # optional: only Parquet files and frames of Arrow need it
    except ImportError:
        raise UsageError("this needs pyarrow: pip install pyarrow") from None
    kinds = [_arrow_type(pyarrow, of) for of in columns.values()]
    schema = pyarrow.schema(
        [(name, pyarrow.string() if kind is None else kind) for name, kind in zip(columns, kinds, strict=True)]
    )
    values = zip(*rows, strict=True) if rows else [()] * len(kinds)
    arrays = [
        pyarrow.array(
            [None if v is None else file_text(v) for v in column] if kind is None else list(column), field.type
        )
        for column, kind, field in zip(values, kinds, schema, strict=True)
    ]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


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


class ParquetStreamWriter(RowWriter):
    """A Parquet file `path` that is written as a whole when it is closed; its rows are in an Arrow stream until then.

    The stream, `stream_name`, is readable up to the last complete batch if the process is killed. With `earlier`, the
    rows of that Parquet file come first, then those of a stream that a killed process left.
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
            there = _schema_to_add_to(earlier, schema) if os.path.exists(earlier) else None
            self._earlier = None if there is None else earlier
            rescued = _rescued(self.place, schema, {} if there is None else there.metadata or {})
        elif resumed:
            rescued = _rescued(self.place, schema, {})
        add = earlier is not None or resumed
        if not add and os.path.exists(self.place):
            unclosed = f"{os.path.splitext(path)[0]}.unclosed.arrows"
            os.replace(self.place, unclosed)
            sys.stderr.write(f"cepbook: {unclosed!r} has the rows of a run that ended before {path!r} was written\n")
        begun = f"{self.place}.new" if add and os.path.exists(self.place) else self.place
        self._file: BinaryIO = open(begun, "wb")  # noqa: SIM115  until `close`
        try:
            self._stream = pyarrow.ipc.new_stream(self._file, schema.with_metadata({_STREAM: id_}))
            self._rows = 0
            for batch in rescued:
                self._stream.write_batch(batch)
                self._rows += batch.num_rows
            self._file.flush()
            if begun != self.place:
                os.replace(begun, self.place)
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

    there = parquet.read_schema(path)
    try:
        there.empty_table().cast(schema)
    except (ValueError, TypeError, NotImplementedError):  # Arrow's errors are of these classes
        raise _other_columns(path, [f"{field.name} {field.type}" for field in there]) from None
    return there


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
                raise _other_columns(path, stream.schema.names)
            yield from stream
    except (OSError, ValueError):  # there is none, or its end is torn
        return


def _arrow_type(arrow: Any, of: Type) -> Any:
    names = {"byte": "int8", "short": "int16", "int": "int32", "long": "int64", "float": "float32"}
    if of.of is not None:
        element = _arrow_type(arrow, of.of)
        return None if element is None else arrow.list_(element)
    if of.name in _PLAIN:
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


class SqliteWriter(RowWriter):
    """A table, created if necessary. Every batch is a transaction."""

    def __init__(self, path: str, columns: Mapping[str, Type], table: str) -> None:
        self.place = path
        self._dated = _Dates(columns)
        self._base: sqlite3.Connection | None = sqlite3.connect(path, check_same_thread=False)
        self._table = _quoted(table)
        self._as_text = [not _is_sqlite(of) for of in columns.values()]
        quoted = ", ".join(f"{_quoted(name)} {_sqlite_type(of)}" for name, of in columns.items())
        try:
            self._base.execute(f"create table if not exists {_quoted(table)} ({quoted})")
            there = [row[1] for row in self._base.execute(f"pragma table_info({_quoted(table)})")]
        except sqlite3.Error as error:
            self.close()
            raise UsageError(f"{path!r} cannot be written as an SQLite database: {error}") from None
        if there != list(columns):
            self.close()
            raise UsageError(f"table `{table}` of {path!r} has other columns: {', '.join(there)}")
        places = ", ".join("?" * len(columns))
        self._insert = f"insert into {_quoted(table)} values ({places})"

    def write(self, rows: Rows) -> None:
        if self._base is not None:
            with self._base:
                self._base.executemany(self._insert, self.cells(rows))

    def cells(self, rows: Rows) -> list[list[Any]]:
        """Return rows as the database holds them."""
        return [list(map(_cell, row, self._as_text)) for row in self._dated(rows)]

    @property
    def position(self) -> int:
        return self._last() if self._base is not None else 0

    def _last(self) -> int:
        assert self._base is not None
        return int(self._base.execute(f"select coalesce(max(rowid), 0) from {self._table}").fetchone()[0])

    def behind(self, position: int) -> list[list[Any]]:
        """Return the rows that were inserted behind `position`."""
        assert self._base is not None
        rows = self._base.execute(f"select * from {self._table} where rowid > ? order by rowid", (position,))
        return list(map(list, rows))

    def close(self) -> None:
        if self._base is not None:
            self._base.close()
            self._base = None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_sqlite(of: Type) -> bool:
    return of.of is None and of.name in _PLAIN


def _sqlite_type(of: Type) -> str:
    if not _is_sqlite(of) or of.name in ("string", "char"):
        return "text"
    return "real" if of.name in ("float", "double") else "integer"


def _cell(value: Any, as_text: bool) -> Any:
    if value is None or (not as_text and isinstance(value, bool | int | float | str)):
        return value
    return file_text(value)


def open_writer(
    path: str | os.PathLike[str],
    columns: Mapping[str, Type],
    table: str,
    *,
    append: bool = False,
    becomes: str | None = None,
    resumed: bool = False,
) -> RowWriter:
    """Return the writer for the kind of file that the name says. Files are replaced, SQLite databases are added to.

    ``-`` is JSON lines on the standard output. `table` is for SQLite. With `append`, lines are added to. `becomes`: the
    file will be renamed to this name when it is closed; with `append` a Parquet file has the rows of `becomes`, too.
    With `resumed` the file continues that of a killed process. Raises UsageError for an unknown kind, and for a file
    that cannot be written.
    """
    add = append or resumed
    name = os.fspath(path)
    lower = name.lower()
    make: Callable[[], RowWriter]
    if lower.endswith(PARQUET) and becomes is not None:
        make = lambda: ParquetStreamWriter(name, columns, becomes if append else None, resumed=resumed)  # noqa: E731
    elif lower.endswith(PARQUET):
        make = lambda: ParquetWriter(name, columns)  # noqa: E731
    elif lower.endswith(".csv"):
        make = lambda: CsvWriter(name, columns, add)  # noqa: E731
    elif lower.endswith((".jsonl", ".ndjson")) or name == "-":
        make = lambda: JsonLinesWriter(name, columns, add)  # noqa: E731
    elif lower.endswith(SQLITE):
        make = lambda: SqliteWriter(name, columns, table)  # noqa: E731
    else:
        raise UsageError(f"rows cannot be written to {name!r}\n  hint: the kinds of files are {WRITABLE_KINDS}")
    try:
        writer = make()
    except (OSError, ValueError, sqlite3.Error) as error:  # a name with a null character is a ValueError
        reason = getattr(error, "strerror", None) or re.sub(r"^\[Errno \d+\] ", "", str(error))
        raise UsageError(f"{name!r} cannot be written: {reason}") from None
    if becomes is not None:
        take_mode(writer.place, becomes)
    return writer


def check_file_kind(path: str | os.PathLike[str]) -> None:
    """Raise UsageError if no writer knows files of this name. Nothing is opened."""
    name = os.fspath(path).lower()
    if name != "-" and not name.endswith((*PARQUET, ".csv", ".jsonl", ".ndjson", *SQLITE)):
        raise UsageError(
            f"rows cannot be written to {os.fspath(path)!r}\n  hint: the kinds of files are {WRITABLE_KINDS}"
        )


def is_overwritten(path: str) -> bool:
    """Return True if writing replaces a file of this name instead of adding to it."""
    return not path.lower().endswith(SQLITE)
