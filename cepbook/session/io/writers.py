"""Rows into files, a batch at a time: Parquet, CSV, JSON lines, SQLite.

Numbers, truth values and texts are kept as they are. Parquet has types for dates and arrays, too. All other values
(events, maps, arrays) are written as JSON text, exact numbers (biginteger, bigdecimal) as digits, dates in ISO 8601.
Null is an empty field in CSV.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from cepbook.errors import UsageError
from cepbook.lang.types import Type
from cepbook.session.io.files import PARQUET

Rows = Sequence[Sequence[Any]]
SQLITE = (".sqlite", ".sqlite3", ".db")
WRITABLE_KINDS = ".parquet, .csv, .jsonl, .ndjson, .sqlite, .db"
_PLAIN = ("byte", "short", "int", "long", "float", "double", "boolean", "string", "char")


class RowWriter:
    """An open file of rows of the same columns."""

    def write(self, rows: Rows) -> None:
        """Append rows. Rows of a Parquet file count when the file is closed; all others are in the file at once."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish the file. A second call does nothing."""
        raise NotImplementedError


def file_text(value: object) -> str:
    """Return a value that the file has no type for as text: JSON, dates in ISO 8601, exact numbers as digits."""
    return value if isinstance(value, str) else _other(value) or json.dumps(value, ensure_ascii=False, default=_json_of)


def _other(value: object) -> str | None:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else None


def _json_of(value: object) -> str:
    return _other(value) or str(value)


class _Lines(RowWriter):
    """A text file; ``-`` is the standard output."""

    def __init__(self, path: str) -> None:
        self._own = path != "-"
        self._file: IO[str] = sys.stdout
        if self._own:
            self._file = Path(path).open("w", encoding="utf-8", newline="")  # noqa: SIM115  until `close`

    def close(self) -> None:
        if not self._file.closed:
            self._file.close() if self._own else self._file.flush()


class CsvWriter(_Lines):
    """A header, then a line per row."""

    def __init__(self, path: str, columns: Mapping[str, Type]) -> None:
        super().__init__(path)
        self._csv = csv.writer(self._file, lineterminator="\n")
        self._csv.writerow(list(columns))

    def write(self, rows: Rows) -> None:
        self._csv.writerows([["" if value is None else _field(value) for value in row] for row in rows])
        self._file.flush()


def _field(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, int | float | str) else file_text(value)


class JsonLinesWriter(_Lines):
    """An object per line, all columns in their order."""

    def __init__(self, path: str, columns: Mapping[str, Type]) -> None:
        super().__init__(path)
        self._names = list(columns)

    def write(self, rows: Rows) -> None:
        for row in rows:
            self._file.write(_json(dict(zip(self._names, row, strict=True))) + "\n")
        self._file.flush()


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

    def __init__(self, path: str, columns: Mapping[str, Type]) -> None:
        self._columns = dict(columns)
        schema = arrow_table((), columns).schema
        from pyarrow import parquet  # optional, and installed here

        self._writer: Any = parquet.ParquetWriter(path, schema)

    def write(self, rows: Rows) -> None:
        if rows:
            self._writer.write_table(arrow_table(rows, self._columns))

    def close(self) -> None:
        self._writer.close()


def _arrow_type(arrow: Any, of: Type) -> Any:
    names = {"byte": "int8", "short": "int16", "int": "int32", "long": "int64", "float": "float32"}
    if of.of is not None:
        element = _arrow_type(arrow, of.of)
        return None if element is None else arrow.list_(element)
    if of.name in _PLAIN:
        plain: Any = {"double": arrow.float64, "boolean": arrow.bool_, "char": arrow.string, "string": arrow.string}
        return plain[of.name]() if of.name in plain else getattr(arrow, names[of.name])()
    if of.name in ("timestamp", "calendar", "zoneddatetime"):
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
        self._base: sqlite3.Connection | None = sqlite3.connect(path, check_same_thread=False)
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
                self._base.executemany(self._insert, [list(map(_cell, row, self._as_text)) for row in rows])

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


def open_writer(path: str | os.PathLike[str], columns: Mapping[str, Type], table: str) -> RowWriter:
    """Return the writer for the kind of file that the name says. Files are replaced, SQLite databases are added to.

    ``-`` is JSON lines on the standard output. `table` is for SQLite. Raises UsageError for an unknown kind, and for a
    file that cannot be written.
    """
    name = os.fspath(path)
    lower = name.lower()
    make: Callable[[], RowWriter]
    if lower.endswith(PARQUET):
        make = lambda: ParquetWriter(name, columns)  # noqa: E731
    elif lower.endswith(".csv"):
        make = lambda: CsvWriter(name, columns)  # noqa: E731
    elif lower.endswith((".jsonl", ".ndjson")) or name == "-":
        make = lambda: JsonLinesWriter(name, columns)  # noqa: E731
    elif lower.endswith(SQLITE):
        make = lambda: SqliteWriter(name, columns, table)  # noqa: E731
    else:
        raise UsageError(f"rows cannot be written to {name!r}\n  hint: the kinds of files are {WRITABLE_KINDS}")
    try:
        return make()
    except (OSError, ValueError, sqlite3.Error) as error:  # a name with a null character is a ValueError
        reason = getattr(error, "strerror", None) or re.sub(r"^\[Errno \d+\] ", "", str(error))
        raise UsageError(f"{name!r} cannot be written: {reason}") from None


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
