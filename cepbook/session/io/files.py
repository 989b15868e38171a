"""Files of events: Parquet, CSV and JSON lines, as DataFrames.

========================================  ============================================================================
``.parquet``, ``.pq``                     needs pyarrow
``.csv``, also ``.csv.gz``, ``.csv.zst``  the first line names the columns; columns of string properties are read as
                                          text (``007`` stays), empty fields are null
``.jsonl``, ``.ndjson``, also ``.gz``     a JSON object per line; empty lines are skipped, a property that a line does
                                          not have is null
========================================  ============================================================================
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from typing import Any, NamedTuple

import pandas as pd
from pandas.api.types import is_numeric_dtype

from cepbook.errors import EventError, UsageError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import is_numeric
from cepbook.session.io.foreign_frames import frame_of_table

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip", ".csv.zst")
JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
KINDS = "Parquet (.parquet, .pq), CSV (.csv, .csv.gz) nor JSON lines (.jsonl, .ndjson)"

PLACES = 33  # places of a file that are sampled
BLOCK = 65_536  # bytes per sample

ColumnSelection = Mapping[str, bool]
"""Selected columns: name -> True if the column is read as text."""


def required_columns(event_type: EventType, *others: str | None) -> ColumnSelection:
    """Return the columns that events of a type need, and `others`: time and sequence."""
    columns = {name: type_.name in ("string", "char") for name, type_ in event_type.properties.items()}
    return columns | {name: False for name in others if name is not None and name not in columns}


def read_file(path: str, columns: ColumnSelection | None = None) -> pd.DataFrame:
    """Return the rows of a file, with those of `columns` that it has; None: all.

    Raises UsageError if there is no such file or its kind is unknown, EventError if it cannot be read.
    """
    if not os.path.exists(path):
        raise UsageError(f"there is no file {path!r}")
    lower = path.lower()
    if lower.endswith(PARQUET):
        return _parquet(path, columns)
    if lower.endswith(CSV):
        return _csv(path, columns)
    if lower.endswith(JSON_LINES):
        rows = list(_objects(path))
        return frame_of_objects(rows, [name for name in _names(rows) if columns is None or name in columns])
    raise UsageError(f"{path!r} is neither a {KINDS} file")


def _parquet(path: str, columns: ColumnSelection | None) -> pd.DataFrame:
    parquet = _reader()
    try:
        present = set(parquet.read_schema(path).names)
        selected = None if columns is None else [c for c in columns if c in present]
        return frame_of_table(parquet.read_table(path, columns=selected))
    except (ValueError, OSError) as error:  # Arrow's errors are subclasses of these
        raise EventError(f"{path!r} cannot be read as a Parquet file: {error}") from error


def parquet_rows(path: str) -> int:
    """Return the number of rows of a Parquet file; 0 for other files and for folders."""
    if not os.path.isfile(path) or not path.lower().endswith(PARQUET):
        return 0
    try:
        return int(_reader().read_metadata(path).num_rows)
    except (ValueError, OSError):
        return 0


def parquet_chunks(path: str, columns: ColumnSelection, rows: int) -> Iterator[pd.DataFrame]:
    """Yield the rows of a Parquet file as in `read_file`, `rows` at a time. Raises EventError if it cannot be read."""
    parquet = _reader()
    import pyarrow  # optional, and there

    try:
        with parquet.ParquetFile(path) as file:
            selected = [name for name in columns if name in set(file.schema_arrow.names)]
            for batch in file.iter_batches(rows, columns=selected):
                yield frame_of_table(pyarrow.Table.from_batches([batch]))
    except (ValueError, OSError) as error:
        raise EventError(f"{path!r} cannot be read as a Parquet file: {error}") from error


def parquet_head(path: str) -> Any:
    """Return the columns of a Parquet file as an Arrow table without rows. Raises as `read_file` does."""
    parquet = _reader()
    if not os.path.exists(path):
        raise UsageError(f"there is no file {path!r}")
    try:
        return parquet.read_schema(path).empty_table()
    except (ValueError, OSError) as error:
        raise EventError(f"{path!r} cannot be read as a Parquet file: {error}") from error


def pieces(path: str, columns: ColumnSelection | None, rows: int) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file as in `read_file`, `rows` at a time. Columns have the dtypes of their piece.

    Each piece of JSON lines has all of `columns` (None: those of its lines), null where no line has them.
    """
    lower = path.lower()
    if lower.endswith(PARQUET):
        yield from parquet_chunks(path, columns or {}, rows)
    elif lower.endswith(CSV):
        with _csv_errors(path), _csv_reader(path, columns, chunksize=rows) as reader:
            yield from reader
    else:
        lines = _objects(path)
        while some := list(islice(lines, rows)):
            yield frame_of_objects(some, _names(some) if columns is None else columns)


class FileSample(NamedTuple):
    """Some rows from within a file, and their size in bytes."""

    frame: pd.DataFrame
    size: int


def file_samples(path: str, columns: ColumnSelection) -> Iterator[FileSample]:
    """Yield rows from `PLACES` places of a text file, in order, from its beginning to its end.

    Nothing for compressed files and for files no larger than the samples. The previous line break tells where a line
    begins; within quoted cells that is wrong, and the rows look odd. Raises EventError for unreadable content.
    """
    lower = path.lower()
    if lower.endswith(".csv"):
        with _csv_errors(path):
            names = list(pd.read_csv(path, nrows=0).columns)
            for text in _texts(path, heading=True):
                yield FileSample(_csv_reader(BytesIO(text), columns, names=names, header=None), len(text))
    elif lower.endswith((".jsonl", ".ndjson")):
        for text in _texts(path, heading=False):
            try:
                rows = [json_object(line) for line in text.decode("utf-8").splitlines() if line.strip()]
            except ValueError as error:
                raise EventError(f"{path!r}: {error}") from None
            yield FileSample(frame_of_objects(rows, columns), len(text))


def _texts(path: str, *, heading: bool) -> Iterator[bytes]:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        for place in range(PLACES if size > PLACES * BLOCK else 0):
            file.seek(place * (size - BLOCK) // (PLACES - 1))
            if place or heading:
                file.readline()
            text = file.read(BLOCK)
            yield text if place == PLACES - 1 else text[: text.rfind(b"\n") + 1]


def _reader() -> Any:
    try:
        from pyarrow import parquet  # optional: only Parquet files need it
    except ImportError:
        raise UsageError("reading Parquet files needs pyarrow: pip install pyarrow") from None
    return parquet


def _csv(path: str, columns: ColumnSelection | None) -> pd.DataFrame:
    with _csv_errors(path):
        frame: pd.DataFrame = _csv_reader(path, columns)
    return frame


def _csv_reader(path: str | BytesIO, columns: ColumnSelection | None, **settings: Any) -> Any:
    if columns is None:
        return pd.read_csv(path, **settings)
    text: Any = {name: "str" for name, as_text in columns.items() if as_text}
    return pd.read_csv(path, usecols=lambda c: c in columns, dtype=text, **settings)


@contextmanager
def _csv_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError, EOFError) as error:  # the errors of pandas' parser are ValueErrors
        raise EventError(f"{path!r} cannot be read as a CSV file: {error}") from error


def check_numeric_columns(
    path: str, frame: pd.DataFrame, event_type: EventType, others: Collection[str | None], before: int = 0
) -> None:
    """Raise EventError with file, line and column of the first cell that is no number in a numeric column.

    One such word makes a whole column text. `others` are columns that need not be numbers, such as times. `before` is
    the number of rows of the file before the frame.
    """
    for name, of in event_type.properties.items():
        if not is_numeric(of) or name in others or name not in frame.columns or is_numeric_dtype(frame[name].dtype):
            continue
        column = frame[name]
        wrong = (column.notna() & pd.to_numeric(column, errors="coerce").isna()).to_numpy()
        if wrong.any():
            row = int(wrong.argmax())
            place = _line(path, before + row)
            raise EventError(f"{path!r}, {place}, column `{name}`: {column.iloc[row]!r} is no {of.name}")


def _line(path: str, row: int) -> str:
    opened: Any = gzip.open if path.lower().endswith(".gz") else open
    if not path.lower().endswith((".csv", ".csv.gz")):
        return f"row {row + 1}"
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        reader, row_index, before = csv.reader(file), -2, 0
        for cells in reader:
            row_index += bool(cells)
            if row_index == row:
                return f"line {before + 1}"
            before = reader.line_num
    return f"row {row + 1}"


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _objects(path: str) -> Iterator[dict[str, Any]]:
    try:
        opened: Any = gzip.open if path.lower().endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        row = json_object(line)
                    except ValueError as error:
                        raise EventError(f"{path!r}, line {number}: {error}") from None
                    yield row
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise EventError(f"{path!r} cannot be read as JSON lines: {error}") from error


def json_object(line: str) -> dict[str, Any]:
    """Return the object of a line of JSON. Raises ValueError with the problem."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ValueError(f"this is no JSON: {error}") from None
    except RecursionError:
        raise ValueError("this JSON is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"an event is a JSON object, not {type(value).__name__}")
    return value


def frame_of_objects(rows: Sequence[Mapping[str, Any]], names: Collection[str]) -> pd.DataFrame:
    """Return columns with the dtype of their values. Whole numbers with gaps stay whole numbers."""
    return pd.DataFrame({name: _column([row.get(name) for row in rows]) for name in names}, columns=list(names))


def _column(values: list[Any]) -> pd.Series[Any]:
    kinds = {type(value) for value in values} - {type(None)}
    dtype = "object"
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        dtype = "Int64"
    elif kinds and kinds <= {int, float} and float in kinds:
        dtype = "float64"
    elif kinds == {bool}:
        dtype = "boolean"
    elif kinds == {str}:
        dtype = "string"
    return pd.Series(values, dtype=dtype)
