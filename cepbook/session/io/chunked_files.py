"""Large files, which are read a piece at a time: as sources of events, and which values their columns have.

pandas decides by the values of a column what it is. Where it decides alike for all pieces, and so would for the whole,
a file need not be read at once. Of what differs only whole numbers and fractions go together, where a property is one.

A file is checked completely before its first event, as a DataFrame is. One that takes longer than a moment to check is
looked at here and there (`files.probes`); if all is well there, it is checked while it is read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from cepbook.errors import EventError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import SIZED_NUMBERS
from cepbook.session.io.column_readers import ROW_OF_FILE
from cepbook.session.io.files import (
    CSV,
    JSON_LINES,
    PARQUET,
    ColumnSelection,
    check_numeric_columns,
    file_samples,
    parquet_rows,
    pieces,
)
from cepbook.session.io.frame_source import EventChunk, FrameSource, ReplaySource, SourceOptions, backwards_time_error

LARGE = 500_000  # rows of a Parquet file that is read in pieces, where its rows are in order,
SIZE = 32_000_000  # and bytes of another file
PIECE = 65_536  # rows of a piece
HUGE = 2  # a file of text so many times as large is checked while it is read

NUMBERS = frozenset(("int64", "float64", "Int64"))
_ALIKE = {
    **dict.fromkeys(SIZED_NUMBERS, NUMBERS),
    "boolean": frozenset(("bool", "boolean", "object")),
}  # by the type of a property: dtypes whose values are the same to it
PLAIN = NUMBERS | {"bool", "boolean", "str", "string"}  # dtypes that tell all of their values
SMALLER = 4  # a compressed file, or one of JSON lines, takes as much memory as a CSV file so many times as large


@dataclass(slots=True)
class _Column:
    """The dtypes of the pieces that have values of it, in order; `gaps`: it lacks some."""

    kinds: dict[str, None] = field(default_factory=dict)
    gaps: bool = False


class DtypeTally:
    """The dtypes of the columns of all pieces that were taken."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._taken = 0

    def take(self, frame: pd.DataFrame) -> None:
        """Look at one more piece."""
        for name, values in frame.items():
            column = self._columns.setdefault(str(name), _Column(gaps=self._taken > 0))
            present = values.notna()
            if present.any():
                column.kinds[str(values.dtype)] = None
            column.gaps = column.gaps or not present.all()
        for name in self._columns.keys() - set(map(str, frame.columns)):
            self._columns[name].gaps = True
        self._taken += 1

    def empty(self) -> set[str]:
        """The columns that have no value at all."""
        return {name for name, column in self._columns.items() if not column.kinds}

    def odd(self, event_type: EventType, exact: Collection[str]) -> str | None:
        """A column of which events of the type are others out of the pieces than out of the whole; None: all are alike.

        In columns `exact` all pieces must be alike.
        """
        for name, column in self._columns.items():
            if len(column.kinds) <= 1 and not (column.gaps and "int64" in column.kinds):
                continue
            of = event_type.properties.get(name)
            alike = _ALIKE.get("" if of is None else of.name, frozenset())
            if name in exact or not alike.issuperset(column.kinds):
                return name
        return None

    def frame(self) -> pd.DataFrame | None:
        """No rows, in columns of the dtypes that the whole has; None where that depends on values."""
        found = {name: _whole(column) for name, column in self._columns.items()}
        if not self._taken or None in found.values():
            return None
        return pd.DataFrame({name: pd.Series([], dtype=of) for name, of in found.items()})


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
    """Whether a file is `times` as large as one that is read in pieces."""
    lower = path.lower()
    if lower.endswith(PARQUET):
        return parquet_rows(path) >= times * LARGE
    if not lower.endswith((*CSV, *JSON_LINES)) or not os.path.isfile(path):
        return False
    return os.path.getsize(path) >= times * (SIZE if lower.endswith(".csv") else SIZE // SMALLER)


def empty_frame_of(path: str) -> pd.DataFrame | None:
    """`DtypeTally.frame` of a file. Errors as `read_file`."""
    kinds = DtypeTally()
    for piece in pieces(path, None, PIECE):
        kinds.take(piece)
    return kinds.frame()


class ChunkedFileSource(ReplaySource):
    """A large file whose rows are in the order of time, read a piece at a time.

    It was checked completely and has `total` events; or that is None, and it is checked while it is read: an EventError
    comes after the last good piece. `estimate`: about how many events it has then, where that is known.
    """

    def __init__(
        self,
        path: str,
        columns: ColumnSelection,
        wanted: SourceOptions,
        *,
        first_time: int,
        stamp: object,
        checked: bool,
        total: int | None = None,
        estimate: int | None = None,
    ) -> None:
        self.type_name = wanted.event_type.name
        self.total = total
        self.estimate = estimate
        self.first_time = self._first_time = first_time
        self.late = 0
        self._path, self._columns, self._wanted, self._stamp = path, columns, wanted, stamp
        self._checked = checked

    def fits(self, wanted: SourceOptions) -> bool:
        """Whether the file is what it was when it was checked for the same events."""
        mine = self._wanted
        same = (mine.event_type, mine.time, mine.sequence) == (wanted.event_type, wanted.time, wanted.sequence)
        return same and _stamp(self._path) == self._stamp

    def again(self, wanted: SourceOptions) -> ChunkedFileSource:
        """The events up to another time, of which nobody has counted how many they are."""
        wanted = replace(wanted, path=self._path)
        first, stamp = self._first_time, self._stamp
        return ChunkedFileSource(
            self._path, self._columns, wanted, first_time=first, stamp=stamp, checked=self._checked
        )

    def chunks(self) -> Iterator[EventChunk]:
        left = self.total
        check = None if self._checked else _Check(self._path, self._wanted)
        for frame in pieces(self._path, self._columns, PIECE):
            piece = FrameSource(frame, self._wanted) if check is None else check.piece(frame)
            yield from piece.chunks()
            left = None if left is None else left - piece.before(None)
            if piece.before(None) < len(frame) or (left is not None and left <= 0):
                return


class _Check:
    """What was seen of a file that is checked while it is read."""

    def __init__(self, path: str, wanted: SourceOptions) -> None:
        self._path = path
        self._wanted = replace(wanted, sort=False, late="error")
        self._texts = path.lower().endswith(CSV)
        self._kinds = DtypeTally()
        self._rows = 0
        self._last: int | None = None

    def piece(self, frame: pd.DataFrame) -> FrameSource:
        """The next piece as a source. Errors: EventError, with the file and the place in it."""
        wanted, rows = self._wanted, self._rows
        frame.index = pd.RangeIndex(rows, rows + len(frame), name=ROW_OF_FILE)
        try:
            if self._texts:
                check_numeric_columns(self._path, frame, wanted.event_type, {wanted.time}, rows)
            found = FrameSource(frame, wanted)
            self._kinds.take(frame)
            odd = self._kinds.odd(wanted.event_type, {wanted.time})
            if odd is not None:
                hint = "`read_csv` or `read_json` of pandas, and replay the DataFrame: it is read as a whole"
                raise EventError(f"column `{odd}` is of another kind from row {rows} on\n  hint: {hint}")
            if self._last is not None and found.total and found.ends[0] < self._last:
                raise backwards_time_error(f"row {rows}", found.type_name, found.ends[0], self._last, wanted.second)
        except EventError as error:
            raise self._told(str(error)) from None
        self._rows += len(frame)
        self._last = found.ends[1] if found.total else self._last
        return found

    def _told(self, what: str) -> EventError:
        fact, _, hint = what.partition("\n  hint: ")
        told = fact if repr(self._path) in fact else f"{self._path!r}: {fact}"
        told += f" (the first {self._rows:,} rows of the file came)"
        return EventError(f"{told}\n  hint: {hint}" if hint else told)


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def open_chunked(path: str, columns: ColumnSelection, wanted: SourceOptions) -> ChunkedFileSource | None:
    """The source of a large file that is in order; None where it must be sorted, or has a mistake, which reading it all
    tells, or where pieces would be read otherwise than the whole.
    """
    if wanted.sequence is not None or not is_large(path):
        return None
    if wanted.late == "error" and is_large(path, HUGE):
        begun = _looked_at(path, columns, wanted)
        if begun is not None:
            return begun
    total, first, last, stamp = 0, None, None, _stamp(path)
    kinds = DtypeTally()
    asked = replace(wanted, sort=False, late="error", until=None)
    try:
        for frame in pieces(path, columns, PIECE):
            if frame.empty:
                continue
            kinds.take(frame)
            piece = FrameSource(frame, asked)
            begin, end = piece.ends
            if last is not None and begin < last:
                return None
            first, last = begin if first is None else first, end
            total += piece.before(wanted.until)
    except EventError:
        return None
    if first is None or not _agree(kinds, path, wanted):
        return None
    return ChunkedFileSource(path, columns, wanted, first_time=first, stamp=stamp, checked=True, total=total)


def _looked_at(path: str, columns: ColumnSelection, wanted: SourceOptions) -> ChunkedFileSource | None:
    """The source of a file of text that is checked while it is read; None where it has to be checked before, as not all
    is well at the places that were looked at, or where none can be.
    """
    first, last, stamp = None, None, _stamp(path)
    kinds = DtypeTally()
    asked = replace(wanted, sort=False, late="error", until=None)
    size = rows = 0
    try:
        for probe in file_samples(path, columns):
            if probe.frame.empty:
                continue
            kinds.take(probe.frame)
            begin, end = FrameSource(probe.frame, asked).ends
            if last is not None and begin < last:
                return None
            first, last = begin if first is None else first, end
            size, rows = size + probe.size, rows + len(probe.frame)
    except EventError:
        return None
    if first is None or not _agree(kinds, path, wanted):
        return None
    about = os.path.getsize(path) * rows // size if wanted.until is None else None
    return ChunkedFileSource(path, columns, wanted, first_time=first, stamp=stamp, checked=False, estimate=about)


def _agree(kinds: DtypeTally, path: str, wanted: SourceOptions) -> bool:
    if not path.lower().endswith(PARQUET) and kinds.odd(wanted.event_type, {wanted.time}) is not None:
        return False
    # whether there is a property that no line has a value of, only the whole tells
    return not (path.lower().endswith(JSON_LINES) and kinds.empty())
