"""Large files as sources of events, read piece by piece.

pandas decides by the values of a column what its dtype is. If it decides alike for all pieces, it would for the whole
file, which then need not be read at once. Only whole numbers and fractions may differ, for a numeric property.

A file is checked completely before its first event, like a DataFrame. If the check would take longer than a moment, the
file is sampled (`files.file_samples`); if all samples are good, it is checked while it is read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pandas as pd

from cepbook.errors import EventError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import SIZED_NUMBERS
from cepbook.session.io import files
from cepbook.session.io.column_readers import ROW_OF_FILE
from cepbook.session.io.csv_records import Reject
from cepbook.session.io.frame_source import (
    EventChunk,
    FrameSource,
    ReplaySource,
    SourceOptions,
    backwards_time_error,
    open_frame,
)
from cepbook.session.io.text_files import DEFAULT, TextFormat

LARGE = 500_000  # rows from which a Parquet file is read in pieces, if its rows are in order
SIZE = 32_000_000  # bytes from which another file is
PIECE = 65_536  # rows of a piece
HUGE = 2  # a text file this many times as large is checked while it is read

NUMBERS = frozenset(("int64", "float64", "Int64"))
_ALIKE = {
    **dict.fromkeys(SIZED_NUMBERS, NUMBERS),
    "boolean": frozenset(("bool", "boolean", "object")),
}  # by property type: dtypes with the same values for it
PLAIN = NUMBERS | {"bool", "boolean", "str", "string"}  # dtypes that determine the type of their values
SMALLER = 4  # a compressed file, or JSON lines, takes as much memory as a CSV file this many times as large


@dataclass(slots=True)
class _Column:
    """The dtypes of the pieces that have values of a column, in order. `gaps`: some values are missing."""

    kinds: dict[str, None] = field(default_factory=dict)
    gaps: bool = False


class DtypeTally:
    """The dtypes of the columns of all pieces so far."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._pieces = 0

    def take(self, frame: pd.DataFrame) -> None:
        """Add a piece."""
        for name, values in frame.items():
            column = self._columns.setdefault(str(name), _Column(gaps=self._pieces > 0))
            present = values.notna()
            if present.any():
                column.kinds[str(values.dtype)] = None
            column.gaps = column.gaps or not present.all()
        for name in self._columns.keys() - set(map(str, frame.columns)):
            self._columns[name].gaps = True
        self._pieces += 1

    def empty(self) -> set[str]:
        """Return the columns that have no value at all."""
        return {name for name, column in self._columns.items() if not column.kinds}

    def odd(self, event_type: EventType, exact: Collection[str]) -> str | None:
        """Return a column whose values differ between the pieces and the whole for events of the type; None if there is
        none.

        In columns `exact` all pieces must have the same dtype.
        """
        for name, column in self._columns.items():
            if len(column.kinds) <= 1 and not (column.gaps and "int64" in column.kinds):
                continue
            type_ = event_type.properties.get(name)
            allowed = _ALIKE.get("" if type_ is None else type_.name, frozenset())
            if name in exact or not allowed.issuperset(column.kinds):
                return name
        return None

    def frame(self) -> pd.DataFrame | None:
        """Return an empty frame with the dtypes of the whole; None if they depend on values."""
        dtypes = {name: _whole(column) for name, column in self._columns.items()}
        if not self._pieces or None in dtypes.values():
            return None
        return pd.DataFrame({name: pd.Series([], dtype=dtype) for name, dtype in dtypes.items()})


def _whole(column: _Column) -> Any:
    if not PLAIN.issuperset(column.kinds):
        return None
    if len(column.kinds) == 1:
        (kind,) = column.kinds
        if not column.gaps or kind not in ("int64", "bool"):
            return kind
        return "float64" if kind == "int64" else None
    return "float64" if column.kinds and NUMBERS.issuperset(column.kinds) else None


def is_large(path: str, times: int = 1) -> bool:
    """Return True if a file is `times` as large as one that is read in pieces."""
    lower = path.lower()
    if lower.endswith(files.PARQUET):
        return files.parquet_rows(path) >= times * LARGE
    if not lower.endswith((*files.CSV, *files.JSON_LINES)) or not os.path.isfile(path):
        return False
    return os.path.getsize(path) >= times * (SIZE if lower.endswith(".csv") else SIZE // SMALLER)


def empty_frame_of(path: str, form: TextFormat = DEFAULT, reject: Reject | None = None) -> pd.DataFrame | None:
    """Return `DtypeTally.frame` of a file. Raises as `read_file` does."""
    kinds = DtypeTally()
    for piece in files.read_chunks(path, None, PIECE, form, reject):
        kinds.take(piece)
    return kinds.frame()


@dataclass(frozen=True, slots=True)
class FileCheck:
    """The result of checking a file: its first event time, its modification time and size, its number of events.

    `complete`: all rows were checked, and there are `total` events unless that is None. Otherwise the file is checked
    while it is read, and `estimate` is the approximate number of events, if known.
    """

    first_time: int
    stamp: object
    complete: bool
    total: int | None = None
    estimate: int | None = None


class ChunkedFileSource(ReplaySource):
    """A large file whose rows are in the order of time, read piece by piece.

    If it is checked while it is read, an EventError comes after the last good piece.
    """

    def __init__(self, path: str, columns: files.ColumnSelection, options: SourceOptions, check: FileCheck) -> None:
        super().__init__()
        self.type_name = options.event_type.name
        self.total = check.total
        self.estimate = check.estimate
        self.first_time = check.first_time
        self.late = 0
        self._path, self._columns, self._options, self._check = path, columns, options, check

    def fits(self, options: SourceOptions) -> bool:
        """Return True if the file has not changed since it was checked for the same events."""
        mine = self._options
        same = (mine.event_type, mine.time, mine.sequence) == (options.event_type, options.time, options.sequence)
        return same and files.file_stamp(self._path) == self._check.stamp

    def again(self, options: SourceOptions) -> ChunkedFileSource:
        """Return the source up to another time. Its number of events is unknown."""
        check = replace(self._check, total=None, estimate=None)
        return ChunkedFileSource(self._path, self._columns, replace(options, path=self._path), check)

    def chunks(self) -> Iterator[EventChunk]:
        left = self.total
        options = self._options
        check = None if self._check.complete else _Check(self._path, options)
        reject = None if options.reject is None else self._leave_out
        for frame in files.read_chunks(self._path, self._columns, PIECE, options.replay.form, reject):
            piece, rows = (FrameSource(frame, options), frame) if check is None else check.piece(frame)
            self.rejections.update(piece.rejections)
            yield from piece.chunks()
            left = None if left is None else left - piece.before(None)
            if piece.before(None) < len(rows) or (left is not None and left <= 0):
                return

    def _leave_out(self, reason: str, line: str) -> None:
        self.leave_out(self._options, reason, line, self._options.now)


class _Check:
    """The state of a file that is checked while it is read."""

    def __init__(self, path: str, options: SourceOptions) -> None:
        self._path = path
        self._options = replace(options.in_order(options.replay.until), path=path)
        self._kinds = DtypeTally()
        self._rows = 0
        self._last: int | None = None

    def piece(self, frame: pd.DataFrame) -> tuple[FrameSource, pd.DataFrame]:
        """Return the next piece as `open_frame` does. Raises EventError with the file and the place in it."""
        options, rows = self._options, self._rows
        frame.index = pd.RangeIndex(rows, rows + len(frame), name=ROW_OF_FILE)
        try:
            source, fitting = open_frame(frame, options, rows)
            self._kinds.take(fitting)
            odd = self._kinds.odd(options.event_type, {options.time})
            if odd is not None:
                hint = "`read_csv` or `read_json` of pandas, and replay the DataFrame: it is read as a whole"
                raise EventError(f"column `{odd}` is of another kind from row {rows} on\n  hint: {hint}")
            if self._last is not None and source.total and source.ends[0] < self._last:
                raise backwards_time_error(f"row {rows}", source.type_name, source.ends[0], self._last, options.second)
        except EventError as error:
            raise self._placed_error(str(error)) from None
        self._rows += len(frame)
        self._last = source.ends[1] if source.total else self._last
        return source, fitting

    def _placed_error(self, what: str) -> EventError:
        fact, _, hint = what.partition("\n  hint: ")
        text = fact if repr(self._path) in fact else f"{self._path!r}: {fact}"
        text += f" (the first {self._rows:,} rows of the file came)"
        return EventError(f"{text}\n  hint: {hint}" if hint else text)


def open_chunked(path: str, columns: files.ColumnSelection, options: SourceOptions) -> ChunkedFileSource | None:
    """Return the source of a large file that is in order.

    None if it must be sorted, or has an error, which reading all of it reports, or if pieces would be read otherwise
    than the whole.
    """
    if options.sequence is not None or not is_large(path):
        return None
    stamp, form = files.file_stamp(path), options.replay.form
    if options.replay.late == "error" and is_large(path, HUGE):
        tally = _tally_in_order(files.file_samples(path, columns, form), path, options)
        if tally is not None:  # the rest is checked while it is read
            about = os.path.getsize(path) * tally.rows // tally.size if options.replay.until is None else None
            return ChunkedFileSource(path, columns, options, FileCheck(tally.first_time, stamp, False, estimate=about))
    chunks = (files.FileSample(frame, 0) for frame in files.read_chunks(path, columns, PIECE, form))
    tally = _tally_in_order(chunks, path, options)
    if tally is None:
        return None
    return ChunkedFileSource(path, columns, options, FileCheck(tally.first_time, stamp, True, tally.events))


class _Tally(NamedTuple):
    """The first time of rows, their number, that of their events up to the end of the replay, and their bytes."""

    first_time: int
    rows: int
    events: int
    size: int


def _tally_in_order(samples: Iterable[files.FileSample], path: str, options: SourceOptions) -> _Tally | None:
    """Count rows; None if they have an error, are not in order of time, or would be read otherwise as a whole."""
    first = last = None
    rows = events = size = 0
    kinds = DtypeTally()
    check_options = replace(options.in_order(None), reject=None)
    try:
        for sample in samples:
            if sample.frame.empty:
                continue
            kinds.take(sample.frame)
            source = FrameSource(sample.frame, check_options)
            begin, end = source.ends
            if last is not None and begin < last:
                return None
            first, last = begin if first is None else first, end
            rows += len(sample.frame)
            events += source.before(options.replay.until)
            size += sample.size
    except EventError:
        return None
    return None if first is None or not _agree(kinds, path, options) else _Tally(first, rows, events, size)


def _agree(kinds: DtypeTally, path: str, options: SourceOptions) -> bool:
    if not path.lower().endswith(files.PARQUET) and kinds.odd(options.event_type, {options.time}) is not None:
        return False
    # only the whole file tells if a property has no value in any line
    return not (path.lower().endswith(files.JSON_LINES) and kinds.empty())
