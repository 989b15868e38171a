"""How far a sink's file is, and which rows it has of those that are delivered again after a kill."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from cepbook.lang.types import Type
from cepbook.session.io.files import PARQUET
from cepbook.session.io.writers import (
    SQLITE,
    Rows,
    SqliteWriter,
    arrow_table,
    csv_lines,
    dated_rows,
    json_lines,
    stream_batches,
    stream_name,
)


class OtherRowsError(Exception):
    """The file has other rows than were delivered."""


def count_delivered(path: str, position: int, rows: Rows, columns: Mapping[str, Type], table: str) -> int:
    """Return how many of `rows` are in the file behind `position` (`RowWriter.position`), in order.

    A last line that is torn does not count. Raises OtherRowsError if the file has other rows there, and
    FileNotFoundError if there is no file.
    """
    lower = path.lower()
    if lower.endswith(SQLITE):
        return _in_database(path, position, rows, columns, table)
    if lower.endswith(PARQUET):
        return _in_stream(path, position, rows, columns)
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < position:
            raise OtherRowsError
        file.seek(position)
        there = file.read()
    csv = lower.endswith(".csv")
    count = end = 0
    for row in dated_rows(columns, rows):
        line = (csv_lines([row]) if csv else json_lines(list(columns), [row])).encode()
        if end + len(line) > len(there):
            if not line.startswith(there[end:]):
                raise OtherRowsError
            return count
        if there[end : end + len(line)] != line:
            raise OtherRowsError
        end += len(line)
        count += 1
    if end != len(there):
        raise OtherRowsError
    return count


def _in_stream(path: str, position: int, rows: Rows, columns: Mapping[str, Type]) -> int:
    if not os.path.exists(stream_name(path)):
        raise FileNotFoundError(stream_name(path))
    tables = list(stream_batches(stream_name(path)))
    there = [row for batch in tables for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
    return _compared(there[position:], rows, lambda some: _as_arrow(some, columns), len(there) < position)


def _as_arrow(rows: Rows, columns: Mapping[str, Type]) -> list[Any]:
    return list(zip(*(column.to_pylist() for column in arrow_table(rows, columns).columns), strict=True))


def _in_database(path: str, position: int, rows: Rows, columns: Mapping[str, Type], table: str) -> int:
    if not os.path.exists(path):
        raise FileNotFoundError(path)
    with closing(SqliteWriter(path, columns, table)) as writer:
        try:
            there = list(map(tuple, writer.behind(position)))
        except sqlite3.Error as error:
            raise OSError(str(error)) from error
        return _compared(there, rows, lambda some: list(map(tuple, writer.cells(some))), writer.position < position)


def _compared(there: Sequence[Any], rows: Rows, converted: Any, short: bool) -> int:
    count = len(there)
    # as text, in which NaN is equal to NaN
    if short or count > len(rows) or list(map(repr, there)) != list(map(repr, converted(rows[:count]))):
        raise OtherRowsError
    return count
