"""Rows into files, a batch at a time: Parquet, CSV, JSON lines, SQLite.

Numbers, truth values and texts are kept as they are. Parquet has types for dates and arrays, too. All other values
(events, maps, arrays) are written as JSON text, exact numbers (biginteger, bigdecimal) as digits, dates in ISO 8601.
Times of the clock (`io.output_times`) are dates, in text with their offset from UTC.
In CSV null is an empty field and the empty text is ``""``. JSON has NaN and the infinities as texts, SQLite has null
for NaN and 0 and 1 for truth values. Half of a surrogate pair, which no file can have, is written as ``\\ud800``.

A process can be killed between any two writes. Lines then end with a torn one at worst, which `append` cuts off. A
`ParquetStreamWriter` keeps its rows in an Arrow stream until the file is closed.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from cepbook.errors import UsageError
from cepbook.lang.types import Type
from cepbook.session.io.files import PARQUET
from cepbook.session.io.output.parquet_writers import ParquetStreamWriter, ParquetWriter
from cepbook.session.io.output.row_writer import (
    PLAIN,
    BusyError,
    RowDates,
    Rows,
    RowWriter,
    encodable,
    file_text,
    json_text,
    other_columns,
    take_mode,
)

SQLITE = (".sqlite", ".sqlite3", ".db")
WRITABLE_KINDS = ".parquet, .csv, .jsonl, .ndjson, .sqlite, .db"
_TO_QUOTE = frozenset('"\r\n')
_OPENING_TIMEOUT, _TIMEOUT = 5.0, 0.1  # seconds that a locked database is waited for, at first and by each write
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class _Lines(RowWriter):
    """A text file; ``-`` is the standard output."""

    def __init__(self, path: str, columns: Mapping[str, Type], append: bool) -> None:
        self.place = path
        self._dated = RowDates(columns)
        self._is_file = path != "-"
        self._file: IO[str] = sys.stdout
        if self._is_file:
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
        self._file.write(encodable(self.text(rows)))
        self._file.flush()

    @property
    def position(self) -> int:
        return os.fstat(self._file.fileno()).st_size if self._is_file else 0

    def close(self) -> None:
        if not self._file.closed:
            self._file.close() if self._is_file else self._file.flush()


class CsvWriter(_Lines):
    """A header, then a line per row. Every batch is formatted before its first line is written."""

    def __init__(self, path: str, columns: Mapping[str, Type], append: bool = False) -> None:
        header = _first_record(path, columns) if append and os.path.exists(path) else []
        if header and header != list(columns):
            raise other_columns(path, header)
        super().__init__(path, columns, append)
        if not header:
            self._write([list(columns)])

    def text(self, rows: Rows) -> str:
        return csv_lines(rows)


def csv_lines(rows: Rows, separator: str = ",") -> str:
    """Return rows as lines of CSV."""
    columns = [_csv_fields(values, separator) for values in zip(*rows, strict=True)]
    if len(columns) == 1:  # a line of one null would be blank, which readers skip
        columns = [[text or '""' for text in columns[0]]]
    lines = map(separator.join, zip(*columns, strict=True)) if columns else ("" for _ in rows)
    return "".join([f"{line}\n" for line in lines])


def _csv_fields(values: Sequence[Any], separator: str) -> Sequence[str]:
    """Return a column as fields. Numbers need no quotes, and most columns of texts need none either."""
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        return list(map(repr, values))
    if kinds <= {int, float, type(None)}:
        return ["" if value is None else repr(value) for value in values]
    if kinds == {str} and "" not in values:
        text = "".join(values)
        if separator not in text and not any(character in text for character in _TO_QUOTE):
            return values
    return [_csv_text(None if value is None else _field(value), separator) for value in values]


def _csv_text(field: object, separator: str) -> str:
    if field is None:
        return ""
    text = str(field)
    if text and separator not in text and _TO_QUOTE.isdisjoint(text):
        return text
    return f'"{text.replace(chr(34), chr(34) * 2)}"'


def _first_record(path: str, columns: Iterable[str]) -> list[str]:
    """Return the names in the first line of a file; none if it is empty or holds the torn beginning of our own line."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        record = next(csv.reader(file), [])
        own = csv_lines([list(columns)])
        file.seek(0)
        text = file.read(len(own))
    return [] if text != own and own.startswith(text) else record


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
        if rest and not quotes and _is_json_object(rest):
            file.write(b"\n")
        elif rest:
            file.truncate(end)
            text = rest.decode("utf-8", "replace")
            sys.stderr.write(f"cepbook: {path!r} ended within a line, which was removed: {text!r}\n")


def _is_json_object(text: bytes) -> bool:
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
    return "".join([json_text(dict(zip(names, row, strict=True))) + "\n" for row in rows])


class SqliteWriter(RowWriter):
    """A table, created if necessary. Every batch is a transaction."""

    def __init__(self, path: str, columns: Mapping[str, Type], table: str) -> None:
        self.place = path
        self._cells = SqliteCells(columns)
        self._table = quoted(table)
        declared = ", ".join(f"{quoted(name)} {_sqlite_type(of)}" for name, of in columns.items())
        connection = sqlite3.connect(path, timeout=_OPENING_TIMEOUT, check_same_thread=False)
        self._connection: sqlite3.Connection | None = connection
        try:
            connection.execute(f"create table if not exists {self._table} ({declared})")
            existing = table_columns(connection, table)
            connection.execute(f"pragma busy_timeout = {_TIMEOUT * 1000:.0f}")
        except sqlite3.Error as error:
            self.close()
            raise UsageError(f"{path!r} cannot be written as an SQLite database: {error}") from None
        if existing != list(columns):
            self.close()
            raise UsageError(f"table `{table}` of {path!r} has other columns: {', '.join(existing)}")
        places = ", ".join("?" * len(columns))
        self._insert = f"insert into {self._table} values ({places})"

    def write(self, rows: Rows) -> None:
        if self._connection is not None:
            try:
                with self._connection:
                    self._connection.executemany(self._insert, self._cells(rows))
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF in _BUSY:
                    raise BusyError(str(error)) from error
                raise

    @property
    def position(self) -> int:
        return 0 if self._connection is None else last_row_id(self._connection, self._table)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class SqliteCells:
    """Returns rows as a table of `SqliteWriter` has them."""

    def __init__(self, columns: Mapping[str, Type]) -> None:
        self._dated = RowDates(columns)
        self._kinds = [_sqlite_type(of) for of in columns.values()]

    def __call__(self, rows: Rows) -> list[list[Any]]:
        return [list(map(_cell, row, self._kinds)) for row in self._dated(rows)]


def table_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the names of the columns of a table, none if there is no such table."""
    return [row[1] for row in connection.execute(f"pragma table_info({quoted(table)})")]


def last_row_id(connection: sqlite3.Connection, quoted_table: str) -> int:
    """Return the id of the last row of a table, 0 if it is empty."""
    return int(connection.execute(f"select coalesce(max(rowid), 0) from {quoted_table}").fetchone()[0])


def quoted(name: str) -> str:
    """Return a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _sqlite_type(of: Type) -> str:
    if of.of is not None or of.name not in PLAIN or of.name in ("string", "char"):
        return "text"
    return "real" if of.name in ("float", "double") else "integer"


def _cell(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "text":
        return encodable(file_text(value))
    number = float(value) if kind == "real" else int(value)
    return number + 0 if number == number else None  # 0.0 for -0.0


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

    ``-`` is JSON lines on the standard output. `table` is for SQLite. With `append`, new lines follow the existing
    ones. `becomes`: the file will be renamed to this name when it is closed; with `append` a Parquet file has the rows
    of `becomes`, too. With `resumed` the file continues that of a killed process. Raises UsageError for an unknown
    kind, and for a file that cannot be written.
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


def is_database(path: str) -> bool:
    """Return True if files of this name are databases, which have several tables and are never replaced."""
    return path.lower().endswith(SQLITE)
