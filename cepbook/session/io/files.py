"""Files of events: Parquet, CSV and JSON lines, as DataFrames, or line by line while they grow.

========================================  ============================================================================
``.parquet``, ``.pq``                     needs pyarrow
``.csv``, also ``.csv.gz``, ``.csv.zst``  the first line names the columns
``.jsonl``, ``.ndjson``, also ``.gz``     a JSON object per line; empty lines are skipped, a property that a line does
                                          not have is null
========================================  ============================================================================

`text_files` says what a text is.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from io import StringIO
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype, is_string_dtype
from pandas.io.common import get_handle  # type: ignore[import-not-found]  # the stubs lack it

from cepbook.errors import CepbookError, EventError, UsageError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import Type, is_integral, is_numeric
from cepbook.session.io.csv_records import EMPTY, CsvRecords, Reject
from cepbook.session.io.event_validation import is_missing
from cepbook.session.io.foreign_frames import date_index, frame_of_table
from cepbook.session.io.text_files import DEFAULT, FLOATS, TEXTS, TextFormat, field_value, text_format

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip", ".csv.zst")
JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
KINDS = "Parquet (.parquet, .pq), CSV (.csv, .csv.gz) nor JSON lines (.jsonl, .ndjson)"

PLACES = 33  # places of a file that are sampled
BLOCK = 65_536  # bytes per sample

ColumnSelection = Mapping[str, Type | None]
"""Selected columns of text files, with the type of the property that decides how a text is read; None: its looks do."""

_EXACT = 2**53  # all whole numbers up to it are doubles
_PLAIN_WHOLE = r"-?[0-9]{1,15}"  # which are converted together
_AS_TEXT = ("string", "char", "biginteger", "bigdecimal")
_NULLS = ("na", "n/a", "nan", "null", "none", "nil", "missing", "-", "--", "?", ".", "\\n")  # of other programs


def required_columns(event_type: EventType, *others: str | None) -> ColumnSelection:
    """Return the columns that events of a type need, and `others`: time and sequence."""
    columns: dict[str, Type | None] = dict(event_type.properties)
    return columns | {name: None for name in others if name is not None and name not in columns}


def is_file(source: object) -> bool:
    """Return whether a source of events is the path of a file: a path, or a text that ends like one."""
    kinds = (*PARQUET, *CSV, *JSON_LINES)
    return isinstance(source, os.PathLike) or (isinstance(source, str) and source.lower().endswith(kinds))


def format_of(
    sources: Iterable[object], sep: str | None, encoding: str | None, comment: str | None, na: str | Iterable[str]
) -> TextFormat:
    """Return the format with these options of the workbench. Raises UsageError for wrong ones, and if no source is a
    file of text.
    """
    form = text_format(sep, encoding, comment, na)
    files = [os.fspath(source) for source in sources if isinstance(source, str | os.PathLike)]
    if form != DEFAULT and all(file.lower().endswith(PARQUET) for file in files):
        other = "Parquet has types of its own: read it with pandas and replace there" if files else "there is none"
        raise UsageError(f"`sep`, `encoding`, `comment` and `na` say how a file of text is read, and {other}")
    return form


def read_file(
    path: str, columns: ColumnSelection | None = None, form: TextFormat = DEFAULT, reject: Reject | None = None
) -> pd.DataFrame:
    """Return the rows of a file, with those of `columns` that it has; None: all. `reject` gets lines that are no rows.

    Raises UsageError if there is no such file or its kind is unknown, EventError if it cannot be read.
    """
    if not os.path.exists(path):
        raise UsageError(f"there is no file {path!r}")
    lower = path.lower()
    if lower.endswith(PARQUET):
        return _read_parquet(path, columns)
    if lower.endswith(CSV):
        return next(_csv_chunks(path, columns, None, form, reject))
    if lower.endswith(JSON_LINES):
        rows = [row for _, row in _json_objects(path, form, reject)]
        return frame_of_objects(rows, [name for name in _keys_of(rows) if columns is None or name in columns])
    raise UsageError(f"{path!r} is neither a {KINDS} file")


def _read_parquet(path: str, columns: ColumnSelection | None) -> pd.DataFrame:
    parquet = _parquet_module()
    try:
        selected = None if columns is None else _stored_columns(parquet.read_schema(path), columns)
        return frame_of_table(parquet.read_table(path, columns=selected))
    except (ValueError, OSError) as error:  # Arrow's errors are subclasses of these
        raise EventError(f"{path!r} cannot be read as a Parquet file: {error}") from error


def _stored_columns(schema: Any, columns: ColumnSelection | None) -> list[str]:
    """Return those of `columns` that a file has (None: all), and its index of dates, which may be the column `time`."""
    index = date_index(schema)
    return [name for name in schema.names if columns is None or name in columns or name == index]


def parquet_rows(path: str) -> int:
    """Return the number of rows of a Parquet file; 0 for other files and for folders."""
    if not os.path.isfile(path) or not path.lower().endswith(PARQUET):
        return 0
    try:
        return int(_parquet_module().read_metadata(path).num_rows)
    except (ValueError, OSError):
        return 0


def parquet_chunks(path: str, columns: ColumnSelection | None, rows: int) -> Iterator[pd.DataFrame]:
    """Yield the rows of a Parquet file as in `read_file`, `rows` at a time. Raises EventError if it cannot be read."""
    parquet = _parquet_module()
    import pyarrow  # optional, and there

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(rows, columns=_stored_columns(file.schema_arrow, columns)):
                yield frame_of_table(pyarrow.Table.from_batches([batch]))
    except (ValueError, OSError) as error:
        raise EventError(f"{path!r} cannot be read as a Parquet file: {error}") from error


def parquet_head(path: str) -> Any:
    """Return the columns of a Parquet file as an Arrow table without rows. Raises as `read_file` does."""
    parquet = _parquet_module()
    if not os.path.exists(path):
        raise UsageError(f"there is no file {path!r}")
    try:
        return parquet.read_schema(path).empty_table()
    except (ValueError, OSError) as error:
        raise EventError(f"{path!r} cannot be read as a Parquet file: {error}") from error


def read_chunks(
    path: str,
    columns: ColumnSelection | None,
    rows: int,
    form: TextFormat = DEFAULT,
    reject: Reject | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file as in `read_file`, `rows` at a time. Columns have the dtypes of their chunk.

    Each chunk of JSON lines has all of `columns` (None: those of its lines), null where no line has them.
    """
    lower = path.lower()
    if lower.endswith(PARQUET):
        yield from parquet_chunks(path, columns, rows)
    elif lower.endswith(CSV):
        yield from _csv_chunks(path, columns, rows, form, reject)
    else:
        lines = (row for _, row in _json_objects(path, form, reject))
        while chunk := list(islice(lines, rows)):
            yield frame_of_objects(chunk, _keys_of(chunk) if columns is None else columns)


def file_stamp(path: str) -> list[int] | None:
    """Return what tells a file from a later one of the same name, None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]  # a copy of a folder keeps both


class FileSample(NamedTuple):
    """Some rows from within a file, and their size in bytes."""

    frame: pd.DataFrame
    size: int


def file_samples(path: str, columns: ColumnSelection, form: TextFormat = DEFAULT) -> Iterator[FileSample]:
    """Yield rows from `PLACES` places of a text file, in order, from its beginning to its end.

    Nothing for compressed files, for files with comments, and for files no larger than the samples. The previous line
    break tells where a line begins; within quoted cells that is wrong, and the rows look odd. Raises EventError for
    unreadable content.
    """
    lower = path.lower()
    if form.comment is not None or "\n".encode(form.encoding) != b"\n":
        return
    if lower.endswith(".csv"):
        with _csv_records(path, form) as whole:
            for text in _sampled_blocks(path, heading=True):
                records = CsvRecords(StringIO(text.decode(form.encoding), newline=""), form, names=whole.names)
                yield FileSample(_converted(_csv_frame(records, columns, form), columns, records), len(text))
    elif lower.endswith((".jsonl", ".ndjson")):
        for text in _sampled_blocks(path, heading=False):
            try:
                lines = text.decode(form.marked).split("\n")
                rows = [row for line in lines if (row := form.object(line)) is not None]
            except ValueError as error:
                raise EventError(f"{path!r}: {error}") from None
            yield FileSample(frame_of_objects(rows, columns), len(text))


def _sampled_blocks(path: str, *, heading: bool) -> Iterator[bytes]:
    """Yield whole lines from `PLACES` places of a file; the first line is left out if it is a `heading`."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        for place in range(PLACES if size > PLACES * BLOCK else 0):
            file.seek(place * (size - BLOCK) // (PLACES - 1))
            if place or heading:
                file.readline()
            text = file.read(BLOCK)
            yield text if place == PLACES - 1 else text[: text.rfind(b"\n") + 1]


def _parquet_module() -> Any:
    try:
        from pyarrow import parquet  # optional: only Parquet files need it
    except ImportError:
        raise UsageError("reading Parquet files needs pyarrow: pip install 'cepbook[lab]'") from None
    return parquet


def _csv_chunks(
    path: str, columns: ColumnSelection | None, rows: int | None, form: TextFormat, reject: Reject | None
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a CSV file, `rows` at a time; None: all at once.

    pandas reads whole numbers with gaps as doubles. Where these are too large for that, the file is read again from its
    beginning, with such columns as texts.
    """
    exact: set[str] = set()
    yielded = rejected = 0
    while True:
        repeated = rejected

        def report(reason: str, text: str) -> None:
            nonlocal repeated, rejected
            if repeated:
                repeated -= 1
                return
            rejected += 1
            assert reject is not None
            reject(reason, text)

        with _csv_records(path, form, report if reject is not None else None) as records:
            tables = _csv_frame(records, columns, form, exact, chunksize=rows)
            with tables if rows is not None else nullcontext([tables]) as frames:
                for frame in islice(frames, yielded, None):
                    rounded = _rounded_columns(frame, columns)
                    if rounded:
                        break
                    yielded += 1
                    yield _converted(frame, columns, records)
                else:
                    return
        exact |= rounded


def _rounded_columns(frame: pd.DataFrame, columns: ColumnSelection | None) -> set[str]:
    """Return the columns of whole numbers that are doubles beyond the whole numbers that a double can hold."""
    whole = {name for name, of in (columns or {}).items() if of is not None and is_integral(of)}
    doubles = [name for name in whole.intersection(frame.columns) if frame[name].dtype == "float64"]
    return {name for name in doubles if frame[name].abs().max() >= _EXACT}


def _csv_frame(
    records: CsvRecords, columns: ColumnSelection | None, form: TextFormat, exact: Iterable[str] = (), **settings: Any
) -> Any:
    """Return what pandas reads, with texts in the columns `exact`."""
    text: Any = {name: "str" for name, of in (columns or {}).items() if of is not None and of.name in _AS_TEXT}
    text |= dict.fromkeys(exact, "str")
    nulls = ["", *form.na]
    nan = {name: [*nulls, "nan"] for name, of in (columns or {}).items() if of is not None and of.name in FLOATS}
    return pd.read_csv(
        records,
        sep=form.sep,
        names=records.names,
        header=None,
        usecols=None if columns is None else columns.__contains__,
        dtype=text,
        index_col=False,
        keep_default_na=False,
        na_values=nulls if columns is None else {**dict.fromkeys(records.names, nulls), **nan},
        low_memory=False,  # else the dtype of a value depends on its neighbours
        **settings,
    )


def _converted(frame: pd.DataFrame, columns: ColumnSelection | None, records: CsvRecords) -> pd.DataFrame:
    """Return a frame in which numbers that pandas leaves as texts, because of their size, are numbers, and empty texts
    are empty, or null in columns of other values.
    """
    for name in frame.columns if records.has_empty else ():
        if is_string_dtype(frame[name].dtype):
            frame[name] = _without_marks(frame[name], (columns or {}).get(name))
    for name, of in (columns or {}).items():
        if of is not None and is_numeric(of) and name in frame.columns and not is_numeric_dtype(frame[name].dtype):
            texts = frame[name]
            if of.name not in _AS_TEXT and isinstance(field_value(next(iter(texts.dropna()), None), of), str):
                continue  # dates, or no numbers
            values = _field_values(texts, of)
            if of.name in _AS_TEXT or not any(isinstance(value, str) for value in values):
                frame[name] = values
    return frame


def _field_values(texts: pd.Series[Any], of: Type) -> pd.Series[Any]:
    """Return the values of a column for a property of type `of`, as objects."""
    values = texts.astype(object)
    plain = values.astype("str").str.fullmatch(_PLAIN_WHOLE) if is_integral(of) else np.zeros(len(values), bool)
    rest = [None if is_missing(value) else field_value(value, of) for value in values[~plain]]
    values[plain] = values[plain].astype("int64").astype(object)
    values[~plain] = pd.Series(rest, values.index[~plain], object)
    return values


def _without_marks(values: pd.Series[Any], of: Type | None) -> pd.Series[Any]:
    """Return a column with empty texts for `EMPTY`; with nulls if its type, or its other values, are no texts."""
    empty = values == EMPTY
    others = values[values.notna() & ~empty]
    if (of is not None and of.name in TEXTS) or not empty.any():
        return values.mask(empty, "")
    if len(others) and pd.to_numeric(others, errors="coerce").notna().all():
        return pd.to_numeric(values.mask(empty))
    if len(others) and others.str.lower().isin(("true", "false")).all():
        return values.mask(empty).str.lower().map({"true": True, "false": False})
    return values.mask(empty, "" if of is None else None)


@contextmanager
def _csv_records(path: str, form: TextFormat, reject: Reject | None = None) -> Iterator[CsvRecords]:
    """Open the records of a CSV file. Raises EventError, also in the block."""
    try:
        with get_handle(path, "r", encoding=form.marked, compression="infer") as handles:
            yield CsvRecords(handles.handle, form, reject=reject)
    except UnicodeDecodeError as error:
        raise EventError(f"{path!r} cannot be read as a CSV file: {form.wrong_encoding(error)}") from error
    except CepbookError:
        raise
    except Exception as error:  # decompressors raise errors of their own classes
        raise EventError(f"{path!r} cannot be read as a CSV file: {error}") from error


def check_numeric_columns(
    path: str,
    frame: pd.DataFrame,
    event_type: EventType,
    others: Collection[str | None],
    before: int = 0,
    form: TextFormat = DEFAULT,
) -> None:
    """Raise EventError with file, line and column of the first cell that is no number in a numeric column.

    One such word makes a whole column text. `others` are columns that need not be numbers, such as times. `before` is
    the number of rows of the file before the frame.
    """
    for name, of in event_type.properties.items():
        if not is_numeric(of) or name in others or name not in frame.columns or is_numeric_dtype(frame[name].dtype):
            continue
        column = frame[name]
        if is_string_dtype(column.dtype) or of.name not in _AS_TEXT:
            wrong = (column.notna() & pd.to_numeric(column, errors="coerce").isna()).to_numpy()
        else:
            wrong = column.map(lambda value: isinstance(value, str)).to_numpy(dtype=bool)
        if wrong.any():
            row = int(wrong.argmax())
            (line,), text = lines_of(path, (before + row,), form), column.iloc[row]
            hint = (
                f'\n  hint: if it means null, na=["{text}"] (in a shell --na {text})' if text.lower() in _NULLS else ""
            )
            raise EventError(f"{path!r}, line {line}, column `{name}`: {text!r} is no {of.name}{hint}")


def fields_as_values(frame: pd.DataFrame, columns: Mapping[str, Type]) -> pd.DataFrame:
    """Return a frame of CSV in which the texts of numbers and booleans are such values. Others stay texts."""
    texts = [name for name in columns if name in frame.columns and is_string_dtype(frame[name].dtype)]
    return frame.assign(**{name: _field_values(frame[name], columns[name]) for name in texts})


def with_dtypes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the dtypes of the values that columns of objects have."""
    changed = dict[str, Any]()
    for name in [name for name in frame.columns if frame[name].dtype == object]:
        column = _series_of([None if is_missing(value) else value for value in frame[name].tolist()])
        whole = column.dtype == "Int64" and not column.isna().any()
        changed[name] = (column.astype("int64") if whole else column).set_axis(frame.index)
    return frame.assign(**changed)


def lines_of(path: str, rows: Sequence[int], form: TextFormat = DEFAULT) -> list[int]:
    """Return the lines at which rows of a text file begin. Lines that are no rows do not count as rows."""

    def select(lines: Iterator[int]) -> list[int]:
        selected = set(rows)
        return [line for row, line in enumerate(islice(lines, max(rows) + 1)) if row in selected]

    if path.lower().endswith(JSON_LINES):
        return select(number for number, _ in _json_objects(path, form, _ignore))
    with _csv_records(path, form, _ignore) as records:
        return select(records.lines())


def _ignore(reason: str, text: str) -> None:
    """Leave a line out that was reported before."""


def _keys_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _json_objects(path: str, form: TextFormat, reject: Reject | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines with the numbers of their lines."""
    try:
        with get_handle(path, "r", encoding=form.marked, compression="infer") as handles:
            for number, line in enumerate(handles.handle, 1):
                try:
                    row = form.object(line)
                except ValueError as error:
                    if reject is None:
                        raise EventError(f"{path!r}, line {number}: {error}") from None
                    reject(f"line {number}: {error}", line.rstrip("\r\n"))
                    continue
                if row is not None:
                    yield number, row
    except UnicodeDecodeError as error:
        raise EventError(f"{path!r} cannot be read as JSON lines: {form.wrong_encoding(error)}") from error
    except CepbookError:
        raise
    except Exception as error:  # as above
        raise EventError(f"{path!r} cannot be read as JSON lines: {error}") from error


def frame_of_objects(rows: Sequence[Mapping[str, Any]], names: Collection[str]) -> pd.DataFrame:
    """Return columns with the dtype of their values. Whole numbers with gaps stay whole numbers, and keep all their
    digits beside fractions.
    """
    return pd.DataFrame({name: _series_of([row.get(name) for row in rows]) for name in names}, columns=list(names))


def _series_of(values: list[Any]) -> pd.Series[Any]:
    kinds = {type(value) for value in values} - {type(None)}
    exact = kinds == {int, float} and any(type(value) is int and abs(value) > _EXACT for value in values)
    if exact:
        values = [int(value) if type(value) is float and value.is_integer() else value for value in values]
        kinds = {type(value) for value in values} - {type(None)}
    dtype = "object"
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        dtype = "Int64"
    elif kinds and kinds <= {int, float} and float in kinds and not exact:
        dtype = "float64"
    elif kinds == {bool}:
        dtype = "boolean"
    elif kinds == {str}:
        dtype = "string"
    return pd.Series(values, dtype=dtype)
