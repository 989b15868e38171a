"""Where replayed events come from: DataFrames, files (`session.data.files`), iterables. All become chunks of columns.

A chunk makes the columns that the engine asks for when it asks, so a replay never holds a second copy of its input.
Rules:

- A DataFrame (or file) must have a column for every property; more columns are ignored. It is a set of rows: with
  ``sort=True`` (default) rows are taken in the order of (time, position), so an unsorted frame is no error.
- An iterable is a sequence: its times must not go backwards. Its events are those of `Workbench.send`: a missing
  property is null, an unknown one an error.
- ``late="drop"`` leaves out, and counts, rows that go backwards in time instead of raising EventError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from cepbook.engine.columns import Arrays, Column, Numbers
from cepbook.errors import CepbookError, EventError, UsageError, hint_line
from cepbook.lang.catalog import EventType
from cepbook.lang.types import LONG
from cepbook.session.data.define import check_columns
from cepbook.session.data.files import (
    CSV,
    JSON_LINES,
    PARQUET,
    Columns,
    check_numbers,
    columns_of,
    pieces,
    read_file,
)
from cepbook.session.data.frames import as_pandas
from cepbook.session.data.pieces import Kinds, is_large
from cepbook.session.values.clock import in_range, show, to_time
from cepbook.session.values.columns import Read, Values, at_hand, column_reader, event_times, row_name
from cepbook.session.values.validate import EventCheck, EventTypes, as_mapping, find_type, is_missing

Late = Literal["error", "drop"]
FRAME_CHUNK = 8_192  # rows, the most that a replay hands over at once: each slice has its fixed costs
LARGE = 500_000  # rows of a Parquet file that is read in pieces, where its rows are in order,
SIZE = 32_000_000  # and bytes of another file
PIECE = 65_536  # rows of a piece
EVENT_CHUNK = 256  # events that are read ahead of a generator


class Nothing(Enum):
    """What a generator yields while nothing is at hand: events that came so far are not held back for more."""

    YET = "nothing yet"


class Chunk:
    """Consecutive events of one source: `times` ascending in ms, and any property as a list of engine values.

    `sequences`, when there are any, order events of one time.
    """

    __slots__ = ("_columns", "_read", "sequences", "times")

    def __init__(self, times: list[int], read: Callable[[str], Values], sequences: list[int] | None = None) -> None:
        self.times = times
        self.sequences = sequences
        self._read = read
        self._columns: dict[str, Values] = {}

    def columns(self, names: Collection[str], begin: int, end: int) -> Mapping[str, Values]:
        """The properties `names` of the events from number `begin` to before `end`."""
        whole = end - begin == len(self.times)
        return {name: self.column(name) if whole else self.column(name)[begin:end] for name in names}

    def column(self, name: str) -> Values:
        """The values of property `name`, one per event."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._all(name)
        return found

    def _all(self, name: str) -> Values:
        return self._read(name)


class Source(Protocol):
    """Events of one type in order. `total` is None when it cannot be known; `late` counts dropped rows so far."""

    @property
    def type_name(self) -> str: ...
    @property
    def total(self) -> int | None: ...
    @property
    def late(self) -> int: ...
    @property
    def first_time(self) -> int | None:
        """Time of the first event when it is known beforehand."""

    def chunks(self) -> Iterator[Chunk]:
        """The events. An EventError comes after the last good row."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a replay asks of a source: the type, the time column, the rules of order, units of the clock per second."""

    event_type: EventType
    time: str
    types: EventTypes
    sort: bool = True
    late: Late = "error"
    until: int | None = None
    second: int = 1000
    sequence: str | None = None
    path: str | None = None  # of the file that a DataFrame was read from

    def origin(self, what: str) -> str:
        """What lacks something: the file, or the DataFrame for `what`."""
        return f"the DataFrame for {what}" if self.path is None else f"the file {self.path!r} for {what}"


def open_source(given: object, wanted: Wanted) -> Source:
    """The source for a DataFrame, a path or an iterable of events. Checks all that can be checked before reading."""
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        columns = columns_of(wanted.event_type, wanted.time, wanted.sequence)
        large = _in_pieces(path, columns, replace(wanted, path=path)) if is_large(path, LARGE, SIZE) else None
        if large is not None:
            return large
        given = read_file(path, columns)
        if path.lower().endswith(CSV):
            check_numbers(path, given, wanted.event_type, {wanted.time, wanted.sequence})
        wanted = replace(wanted, path=path)
    given = as_pandas(given)
    if isinstance(given, pd.DataFrame):
        return FrameSource(given, wanted)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise UsageError(
            f"events of `{wanted.event_type.name}` cannot come from {type(given).__name__}: "
            "expected a DataFrame, an Arrow table, a path of a Parquet, CSV or JSON-lines file, or an iterable of "
            "dicts or of dataclass instances"
        )
    return EventSource(given, wanted)


@dataclass(frozen=True, slots=True)
class Given:
    """What a replay was given: sources by event type, and how to read them; see `Wanted` and `time_column`."""

    sources: Mapping[str, object]
    time: str | Mapping[str, str] | None
    sequence: str | Mapping[str, str] | None
    types: EventTypes
    sort: bool
    late: Late
    second: int
    checked: dict[str, PiecedSource] = field(default_factory=dict)  # of large files, which need not be checked again

    def open(self, until: int | None) -> list[Source]:
        """The sources, in order. Errors: EventError as `open_source`."""
        found: list[Source] = []
        for name, source in self.sources.items():
            event_type = find_type(name, self.types)
            column = time_column(event_type, self.time)
            number = self.sequence if isinstance(self.sequence, str | None) else self.sequence.get(name)
            if number is None and self.sequence is not None:
                raise UsageError(f"sequence= names no column for `{name}`")
            wanted = Wanted(event_type, column, self.types, self.sort, self.late, until, self.second, number)
            known = self.checked.get(name)
            opened = open_source(source, wanted) if known is None or not known.fits(wanted) else known.again(wanted)
            if isinstance(opened, PiecedSource):
                self.checked[name] = opened
            found.append(opened)
        return found

    @property
    def only_once(self) -> str:
        """Says which events can be read only once; "": all can be read again."""
        name = next((name for name, source in self.sources.items() if isinstance(source, Iterator)), None)
        if name is None:
            return ""
        return f"the events of `{name}` can be read only once\n  hint: give the replay a list of them"

    def again(self, until: int) -> list[Source]:
        """The same afresh. Errors: UsageError when one can be read only once."""
        if self.only_once:
            raise UsageError(self.only_once)
        return self.open(until)


class FrameChunk(Chunk):
    """Events of a frame, which number `start` begins; `at_hand` finds its columns, `clock` has its times."""

    __slots__ = ("_at_hand", "_clock", "_start")

    def __init__(
        self, times: list[int], sequences: list[int] | None, start: int, at_hand: Callable[[str], Column], clock: Column
    ) -> None:
        super().__init__(times, _nothing, sequences)
        self._start = start
        self._at_hand = at_hand
        self._clock = clock

    def _all(self, name: str) -> Values:
        return self.columns((name,), 0, len(self.times))[name]  # no function that holds itself: it would be a cycle

    def columns(self, names: Collection[str], begin: int, end: int) -> Mapping[str, Values]:
        times = self.times if end - begin == len(self.times) else self.times[begin:end]
        return Arrays(names, self._at_hand, self._clock, slice(self._start + begin, self._start + end), times)


def _nothing(name: str) -> Values:
    return []


class FrameSource:
    """A DataFrame, completely checked when it is opened."""

    def __init__(self, frame: pd.DataFrame, wanted: Wanted) -> None:
        self.type_name = name = wanted.event_type.name
        check_columns(frame)
        time = _time_column(frame, wanted)
        _check_present(frame, wanted)
        self._readers: dict[str, tuple[pd.Series[Any], Read]] = {}
        for column, of in wanted.event_type.properties.items():
            read = column_reader(f"column `{column}` of `{name}`", frame[column], of, wanted.types, wanted.second)
            self._readers[column] = (frame[column], read)
        self._columns: dict[str, Column] = {}  # that are in use
        self.late = 0
        times = event_times(f"time column `{wanted.time}` of `{name}`", time, wanted.second)
        numbers = _sequences(frame, wanted)
        self._times, self._order = self._in_order(times, numbers, wanted, frame.index)
        self._sequences = numbers if numbers is None or self._order is None else numbers[self._order]
        for extreme in self._times[[0, -1]].tolist() if len(times) else ():
            try:
                in_range(extreme, wanted.second)
            except UsageError as error:
                raise EventError(f"time column `{wanted.time}` of `{name}`: {error}") from None
        if wanted.until is not None:
            self._times = self._times[: int(np.searchsorted(self._times, wanted.until, "right"))]
        self._clock = Numbers(self._times)
        # Where the time is a property that holds just these milliseconds, it need not be read twice.
        if wanted.event_type.properties.get(wanted.time) == LONG:
            self._columns[wanted.time] = self._clock
        self.total = len(self._times)
        self.first_time = int(self._times[0]) if self.total else None

    def _in_order(
        self,
        times: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.int64] | None,
        wanted: Wanted,
        index: pd.Index[Any],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp] | None]:
        backwards = times[1:] < times[:-1]
        if numbers is not None:
            return self._in_sequence(times, numbers, wanted, index)
        if not backwards.any():
            return times, None
        if wanted.sort:
            order = np.argsort(times, kind="stable")
            return times[order], order
        if wanted.late == "drop":
            order = np.flatnonzero(times >= np.maximum.accumulate(times))
            self.late = len(times) - len(order)
            return times[order], order
        at = int(backwards.argmax()) + 1
        raise _backwards(row_name(index, at), self.type_name, int(times[at]), int(times[at - 1]), wanted.second)

    def _in_sequence(
        self, times: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], wanted: Wanted, index: pd.Index[Any]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]:
        order = np.lexsort((numbers, times))
        if not wanted.sort and (order[1:] < order[:-1]).any():
            at = int((order[1:] < order[:-1]).argmax()) + 1
            place = row_name(index, int(order[at]))
            raise EventError(f"{place} of `{self.type_name}` is not in the order of time and sequence")
        sorted_times, sorted_numbers = times[order], numbers[order]
        same = (sorted_times[1:] == sorted_times[:-1]) & (sorted_numbers[1:] == sorted_numbers[:-1])
        if same.any():
            at = int(same.argmax())
            raise _undefined(wanted, int(sorted_times[at]), int(sorted_numbers[at]))
        return sorted_times, order

    @property
    def ends(self) -> tuple[int, int]:
        """The times of the first and the last event, of which there are some."""
        return int(self._times[0]), int(self._times[-1])

    def before(self, until: int | None) -> int:
        """How many events there are up to a time."""
        return self.total if until is None else int(np.searchsorted(self._times, until, "right"))

    def chunks(self) -> Iterator[Chunk]:
        for start in range(0, self.total, FRAME_CHUNK):
            times = self._times[start : start + FRAME_CHUNK].tolist()
            numbers = self._sequences
            own = None if numbers is None else numbers[start : start + len(times)].tolist()
            yield FrameChunk(times, own, start, self._column, self._clock)

    def _column(self, name: str) -> Column:
        """In the order of the events: sorted once, because taking rows here and there costs several times as much."""
        found = self._columns.get(name)
        if found is None:
            values, read = self._readers.pop(name)
            ordered = values if self._order is None else values.take(self._order)
            found = self._columns[name] = at_hand(ordered, read)
        return found


class PiecedSource:
    """A large file whose rows are in the order of time, read a piece at a time. It was checked completely."""

    def __init__(
        self, path: str, columns: Columns, wanted: Wanted, total: int | None, first_time: int, stamp: object
    ) -> None:
        self.type_name = wanted.event_type.name
        self.total = total
        self.first_time = first_time
        self.late = 0
        self._path, self._columns, self._wanted, self._stamp = path, columns, wanted, stamp

    def fits(self, wanted: Wanted) -> bool:
        """Whether the file is what it was when it was checked for the same events."""
        mine = self._wanted
        same = (mine.event_type, mine.time, mine.sequence) == (wanted.event_type, wanted.time, wanted.sequence)
        return same and _stamp(self._path) == self._stamp

    def again(self, wanted: Wanted) -> PiecedSource:
        """The events up to another time, of which nobody has counted how many they are."""
        wanted = replace(wanted, path=self._path)
        return PiecedSource(self._path, self._columns, wanted, None, self.first_time, self._stamp)

    def chunks(self) -> Iterator[Chunk]:
        left = self.total
        for frame in pieces(self._path, self._columns, PIECE):
            piece = FrameSource(frame, self._wanted)
            yield from piece.chunks()
            left = None if left is None else left - piece.total
            if piece.total < len(frame) or (left is not None and left <= 0):
                return


def _stamp(path: str) -> object:
    """What changes with a file; None where it is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _in_pieces(path: str, columns: Columns, wanted: Wanted) -> PiecedSource | None:
    """The source of a file that is in order; None where it must be sorted, or has a mistake, which reading it all
    tells, or where pieces would be read otherwise than the whole.
    """
    if wanted.sequence is not None:
        return None
    total, first, last, stamp = 0, None, None, _stamp(path)
    kinds = Kinds()
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
    if not path.lower().endswith(PARQUET) and not kinds.agree(wanted.event_type, {wanted.time}):
        return None
    if path.lower().endswith(JSON_LINES) and kinds.empty():
        return None  # whether there is a property that no line has a value of, only the whole tells
    return None if first is None else PiecedSource(path, columns, wanted, total, first, stamp)


def _undefined(wanted: Wanted, time: int, number: int) -> EventError:
    return EventError(
        f"two events of {wanted.event_type.name} at {show(time, wanted.second)} have the sequence number {number}: "
        "their order is not defined"
    )


def _sequences(frame: pd.DataFrame, wanted: Wanted) -> npt.NDArray[np.int64] | None:
    if wanted.sequence is None:
        return None
    name = wanted.event_type.name
    where = f"sequence column `{wanted.sequence}` of `{name}`"
    if wanted.sequence not in frame.columns:
        hint = hint_line(wanted.sequence, [str(c) for c in frame.columns])
        raise EventError(f"{wanted.origin(f'`{name}`')} has no sequence column `{wanted.sequence}`{hint}")
    values = frame[wanted.sequence]
    if values.isna().any() or not pd.api.types.is_integer_dtype(values.dtype):
        raise EventError(f"{where}: a sequence is whole numbers without gaps, not {values.dtype}")
    return values.to_numpy(dtype="int64")


def _backwards(place: str, name: str, time: int, before: int, second: int) -> EventError:
    return EventError(
        f"{place} of `{name}` goes back in time: {show(time, second)} after {show(before, second)}\n"
        '  hint: sort the input, or pass late="drop" to leave such events out'
    )


def _time_column(frame: pd.DataFrame, wanted: Wanted) -> pd.Series[Any]:
    if wanted.time in frame.columns:
        return frame[wanted.time]
    if wanted.time == frame.index.name:
        return frame.index.to_series()
    hint = hint_line(wanted.time, [str(c) for c in frame.columns])
    raise EventError(f"{wanted.origin(f'`{wanted.event_type.name}`')} has no time column `{wanted.time}`{hint}")


def _check_present(frame: pd.DataFrame, wanted: Wanted) -> None:
    lacking = [name for name in wanted.event_type.properties if name not in frame.columns]
    if not lacking:
        return
    spare = [str(c) for c in frame.columns if c not in wanted.event_type.properties]
    hint = hint_line(lacking[0], spare)
    names = ", ".join(f"`{name}`" for name in lacking)
    what = "column" if len(lacking) == 1 else "columns"
    raise EventError(f"{wanted.origin(f'event type `{wanted.event_type.name}`')} lacks the {what} {names}{hint}")


class EventSource:
    """Dicts, dataclass instances or named tuples, read a few ahead."""

    def __init__(self, events: Iterable[object], wanted: Wanted) -> None:
        self.type_name = wanted.event_type.name
        self.total = len(events) if isinstance(events, Sized) else None
        self.late = 0
        self.first_time = None
        self._events = events
        self._wanted = wanted
        also = (wanted.time,) if wanted.sequence is None else (wanted.time, wanted.sequence)
        self._check = EventCheck(wanted.event_type, wanted.types, also=also, second=wanted.second)

    def chunks(self) -> Iterator[Chunk]:
        number, last = 0, None
        latest: int | None = None
        times: list[int] = []
        sequences: list[int] | None = None if self._wanted.sequence is None else []
        rows: list[dict[str, Any]] = []
        failure: EventError | None = None
        events = iter(self._events)
        while failure is None:
            try:
                event = next(events)
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001  the user's generator; raised below, after the good rows
                told = str(error) if isinstance(error, CepbookError) else repr(error)
                failure = EventError(f"the source of `{self.type_name}` failed before row {number}: {told}")
                failure.__cause__ = error
                break
            if event is Nothing.YET:
                if times:
                    yield Chunk(times, partial(_pick, rows), sequences)
                    times, rows = [], []
                    sequences = None if sequences is None else []
                continue
            try:
                time = self._time(event)
                row = self._check(event)
                if last is not None and time < last:
                    if self._wanted.late == "error":
                        raise _backwards(f"row {number}", self.type_name, time, last, self._wanted.second)
                    self.late += 1
                else:
                    if sequences is not None:
                        latest = self._sequence(event, time, latest if time == last else None)
                        sequences.append(latest)
                    times.append(time)
                    rows.append(row)
                    last = time
            except EventError as error:
                prefix = "" if str(error).startswith("row ") else f"row {number} of `{self.type_name}`: "
                failure = EventError(f"{prefix}{error}")
            number += 1
            if len(times) >= EVENT_CHUNK:
                yield Chunk(times, partial(_pick, rows), sequences)
                times, rows = [], []
                sequences = None if sequences is None else []
        if times:
            yield Chunk(times, partial(_pick, rows), sequences)
        if failure is not None:
            raise failure

    def _time(self, event: object) -> int:
        given = as_mapping(event)
        value = None if given is None else given.get(self._wanted.time)
        if given is not None and is_missing(value):
            raise EventError(f"the event time `{self._wanted.time}` is missing")
        try:
            second = self._wanted.second
            return in_range(to_time(value, second), second) if given is not None else 0
        except UsageError as error:
            raise EventError(f"the event time `{self._wanted.time}`: {error}") from None

    def _sequence(self, event: object, time: int, before: int | None) -> int:
        """The event's sequence number, which is above that `before` it at the same time."""
        name = self._wanted.sequence or ""
        given = (as_mapping(event) or {}).get(name)
        if isinstance(given, bool) or not isinstance(given, int | np.integer):
            raise EventError(f"the sequence number `{name}` is a whole number, not {given!r}")
        if before is not None and given == before:
            raise _undefined(self._wanted, time, before)
        if before is not None and given < before:
            at = show(time, self._wanted.second)
            raise EventError(f"the sequence number goes back from {before} to {given} at {at}")
        return int(given)


def _pick(rows: list[dict[str, Any]], name: str) -> Values:
    return [row[name] for row in rows]


def by_type(events: object, type_name: str | None) -> dict[str, object]:
    """The sources of a replay by event type. Raises UsageError when the type of a single source is not known."""
    if isinstance(events, Mapping):
        if type_name is not None:
            raise UsageError("`type` goes with a single source; these events already come by type")
        if not events:
            raise UsageError("there is nothing to replay")
        return {str(name): source for name, source in events.items()}
    if type_name is None:
        raise UsageError('which event type? replay(events, type="Tick") or replay({"Tick": events})')
    return {type_name: events}


def time_column(event_type: EventType, time: str | Mapping[str, str] | None) -> str:
    """The column of the event time. Raises EventError when there is none."""
    column = time.get(event_type.name) if isinstance(time, Mapping) else time
    column = column if column is not None else event_type.time_property
    if column is None:
        raise EventError(
            f"the event time of `{event_type.name}` is not known\n"
            '  hint: replay(…, time="column"), or define the event type with time="column"'
        )
    return column
