"""Compare the file of a sink with the rows that a recovery delivers again.

The file must have the first of these rows. `count_delivered` returns how many.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from cepbook.lang.types import Type
from cepbook.session.io.files import PARQUET
from cepbook.session.io.output.parquet_writers import arrow_table, stream_batches, stream_name
from cepbook.session.io.output.row_writer import Rows, dated_rows, encodable
from cepbook.session.io.output.writers import (
    SqliteCells,
    csv_lines,
    is_database,
    json_lines,
    last_row_id,
    quoted,
    table_columns,
)


class OtherRowsError(Exception):
    """The file has other rows than were delivered."""


def count_delivered(path: str, position: int, rows: Rows, columns: Mapping[str, Type], table: str) -> int:
    """Return how many of `rows` the file has after `position` (`RowWriter.position`).

    `rows` must begin with what is there. A torn last line does not count. Raises OtherRowsError if the file has other
    rows after `position`, OSError if it cannot be read, and FileNotFoundError if there is no file.
    """
    if is_database(path):
        return _count_in_database(path, position, rows, columns, table)
    if path.lower().endswith(PARQUET):
        return _count_in_stream(path, position, rows, columns)
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < position:
            raise OtherRowsError
        file.seek(position)
        written = file.read()
    csv = path.lower().endswith(".csv")
    count = end = 0
    for row in dated_rows(columns, rows):
        line = encodable(csv_lines([row]) if csv else json_lines(list(columns), [row])).encode()
        if end + len(line) > len(written):
            if not line.startswith(written[end:]):
                raise OtherRowsError
            return count
        if written[end : end + len(line)] != line:
            raise OtherRowsError
        end += len(line)
        count += 1
    if end != len(written):
        raise OtherRowsError
    return count


def _count_in_stream(path: str, position: int, rows: Rows, columns: Mapping[str, Type]) -> int:
    if not os.path.exists(stream_name(path)):
        raise FileNotFoundError(stream_name(path))
    in_file = [row for batch in stream_batches(stream_name(path)) for row in _rows_of(batch)]
    if len(in_file) < position:
        raise OtherRowsError
    return _count_equal(in_file[position:], rows, lambda some: _rows_of(arrow_table(some, columns)))


def _rows_of(table: Any) -> list[Any]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _count_in_database(path: str, position: int, rows: Rows, columns: Mapping[str, Type], table: str) -> int:
    if not os.path.exists(path):
        raise FileNotFoundError(path)
    try:
        uri = f"{Path(path).absolute().as_uri()}?mode=rw"  # creates no file; "ro" cannot open every database
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            if table_columns(connection, table) != list(columns) or last_row_id(connection, quoted(table)) < position:
                raise OtherRowsError
            after = f"select rowid, * from {quoted(table)} where rowid > ? order by rowid"
            numbered = {number: list(row) for number, *row in connection.execute(after, (position,))}
    except sqlite3.Error as error:
        raise OSError(str(error)) from error
    cells = SqliteCells(columns)
    try:
        return _count_equal(list(numbered.values()), rows, cells)
    except OtherRowsError:  # another program may have deleted rows, but not the last one
        count = max(numbered, default=position) - position
        if count > len(rows):
            raise
        _count_equal(list(numbered.values()), [rows[number - position - 1] for number in numbered], cells)
        return count


def _count_equal(in_file: Sequence[Any], delivered: Rows, as_in_file: Callable[[Rows], Sequence[Any]]) -> int:
    count = len(in_file)
    # as text, in which NaN is equal to NaN
    if count > len(delivered) or list(map(repr, in_file)) != list(map(repr, as_in_file(delivered[:count]))):
        raise OtherRowsError
    return count
