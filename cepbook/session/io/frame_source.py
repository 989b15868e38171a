"""DataFrames as sources of events: checked when opened, columns converted when the engine asks for them.

If there is a file of rejected events, rows whose values do not fit go there. The reason begins with the place: the line
of a text file, or the position of the row, counted from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from cepbook.engine.vectorized.array_columns import ArrayColumn, ArrayColumns, NumberColumn, StoredColumn
from cepbook.errors import EventError, hint_line
from cepbook.lang.plan.catalog import LATE_EVENT, EventType
from cepbook.lang.types import BOOLEAN, LONG, Type, is_numeric
from cepbook.session.io import files
from cepbook.session.io.column_readers import (
    ColumnReader,
    ColumnValues,
    WrongRows,
    column_reader,
    dates_of_texts,
    event_times,
    refuse,
    row_name,
    warn_of_cut_column,
)
from cepbook.session.io.event_validation import EventTypes, is_missing
from cepbook.session.io.rejected_events import common_reason
from cepbook.session.io.reorder import late_event, late_reason, reordered
from cepbook.session.io.replay_options import ReplayOptions
from cepbook.session.io.schema_inference import check_column_names, with_time_index
from cepbook.session.io.time_conversion import clock_text

Rejecting = Callable[[str, str, object, int], object]  # gets source, reason, item and clock
FRAME_CHUNK = 32_768  # maximum rows per batch of a replay; each batch has fixed costs


@dataclass(slots=True, eq=False)
class EventChunk:
    """Consecutive events of one source: ascending `times` in clock units, and any property as a list of engine values.

    `sequences`, if there are any, order events of the same time. `type_name` is the event type if it is not that of the
    source.
    """

    times: list[int]
    _read: Callable[[str], ColumnValues]
    sequences: list[int] | None = None
    type_name: str | None = None
    _columns: dict[str, ColumnValues] = field(default_factory=dict, init=False)

    def columns(self, names: Collection[str], begin: int, end: int) -> Mapping[str, ColumnValues]:
        """Return the properties `names` of the events in ``[begin, end)``."""
        whole = end - begin == len(self.times)
        return {name: self.column(name) if whole else self.column(name)[begin:end] for name in names}

    def column(self, name: str) -> ColumnValues:
        """Return the values of a property, one per event."""
        values = self._columns.get(name)
        if values is None:
            values = self._columns[name] = self._all(name)
        return values

    @property
    def place(self) -> tuple[object, int] | None:
        """The array that the times are a part of, and the row of the first event; None if there is no such array."""
        return None

    def stored(self, name: str | None, begin: int, end: int) -> StoredColumn | None:
        """Return a property of the events in ``[begin, end)``, or their times (None), as an array if it is one.

        If the events have a `place`, the end may be behind the last of them.
        """
        return None

    def _all(self, name: str) -> ColumnValues:
        return self._read(name)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How a replay reads a source: the event type, the time column, the options of the replay, and how times are read.

    `second`: clock units per second; `zone`: of dates without one; `now`: the clock when the replay begins.
    """

    event_type: EventType
    time: str
    types: EventTypes
    replay: ReplayOptions
    second: int = 1000
    sequence: str | None = None
    zone: str = "UTC"
    now: int = 0
    path: str | None = None  # of the file that the DataFrame was read from
    reject: Rejecting | None = None

    def in_order(self, until: int | None) -> SourceOptions:
        """Return the options for rows up to `until` that are an error unless they are in the order of time."""
        return replace(self, replay=replace(self.replay, sort=False, late="error", until=until))

    def origin(self, what: str) -> str:
        """Return the name of the source in messages: the file, or the DataFrame for `what`."""
        return f"the DataFrame for {what}" if self.path is None else f"the file {self.path!r} for {what}"


class FrameEventChunk(EventChunk):
    """Events of a frame from row `start` on. ``column_of(name)`` returns a column, `clock` has the times."""

    __slots__ = ("_clock", "_column_of", "_start")

    def __init__(
        self,
        times: list[int],
        sequences: list[int] | None,
        start: int,
        column_of: Callable[[str], ArrayColumn],
        clock: ArrayColumn,
    ) -> None:
        super().__init__(times, _nothing, sequences)
        self._start = start
        self._column_of = column_of
        self._clock = clock

    def _all(self, name: str) -> ColumnValues:
        return self.columns((name,), 0, len(self.times))[name]  # a bound method in the chunk would be a reference cycle

    def columns(self, names: Collection[str], begin: int, end: int) -> Mapping[str, ColumnValues]:
        times = self.times if end - begin == len(self.times) else self.times[begin:end]
        return ArrayColumns(names, self._column_of, self._clock, slice(self._start + begin, self._start + end), times)

    @property
    def place(self) -> tuple[object, int]:
        return self._clock, self._start

    def stored(self, name: str | None, begin: int, end: int) -> StoredColumn | None:
        column = self._clock if name is None else self._column_of(name)
        return column.stored(slice(self._start + begin, self._start + end))


def _nothing(name: str) -> ColumnValues:
    return []


class ReplaySource:
    """Events of one type, in order.

    `total` is the number of events, None if it cannot be known; `estimate` is then an approximate number, if there is
    one. `first_time` and `last_time` are those of its events where they are known beforehand. `late` counts the events
    that were left out so far because they go back in time, `rejections` items that are no events, by reason.
    `unread_columns` of a frame are no properties of the type.
    """

    type_name: str
    total: int | None
    estimate: int | None = None
    first_time: int | None = None
    last_time: int | None = None
    late = 0
    unread_columns: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.rejections = Counter[str]()

    def chunks(self) -> Iterator[EventChunk]:
        """Return the events in order. An EventError is raised after the last good event."""
        raise NotImplementedError

    def leave_out(self, options: SourceOptions, reason: str, item: object, time: int) -> None:
        """Reject and count an item that is no event, at a time of the clock."""
        if options.reject is not None:
            options.reject(self.type_name, reason, item, time)
            self.rejections[common_reason(reason, self.rejections)] += 1


class FrameSource(ReplaySource):
    """A DataFrame, completely checked when it is opened. Raises WrongRows for values that do not fit."""

    def __init__(self, frame: pd.DataFrame, options: SourceOptions) -> None:
        super().__init__()
        self.type_name = name = options.event_type.name
        check_column_names(frame)
        frame = with_time_index(frame, options.time)
        time = _time_column(frame, options)
        _check_present(frame, options)
        names = {*options.event_type.properties, options.time, options.sequence}
        self.unread_columns = tuple(str(column) for column in frame.columns if column not in names)
        self._readers: dict[str, tuple[pd.Series[Any], ColumnReader]] = {}
        for column, of in options.event_type.properties.items():
            where, values = f"column `{column}` of `{name}`", frame[column]
            if of == LONG and column == options.time:
                continue  # `times` below
            if of == LONG and column in options.event_type.timed:
                values = dates_of_texts(where, values, options.zone)
                warn_of_cut_column(where, values, options.second)
            timed = column in options.event_type.timed
            read = column_reader(where, values, of, options.types, options.second, options.zone, timed=timed)
            self._readers[column] = (values, read)
        self._columns: dict[str, ArrayColumn] = {}  # columns in use
        self.late = 0
        self._options = options
        self._late_readers: dict[str, tuple[pd.Series[Any], ColumnReader]] = {}
        self._late_rows: npt.NDArray[np.intp] = np.empty(0, np.intp)  # positions of late rows
        self._late_cuts: list[tuple[int, int, int]] = []  # of late rows: events before, time, watermark
        where = f"time column `{options.time}` of `{name}`"
        times = event_times(where, time, options.second, options.zone, options.now)
        numbers = _sequences(frame, options)
        self._times, self._order = self._in_order(times, numbers, options, frame.index)
        self._sequences = numbers if numbers is None or self._order is None else numbers[self._order]
        if len(self._late_rows):
            self._late_readers = dict(self._readers)
        if options.replay.until is not None:
            self._times = self._times[: int(np.searchsorted(self._times, options.replay.until, "right"))]
        self._clock = NumberColumn(self._times)
        # A time that is a property holds just these clock units.
        if options.event_type.properties.get(options.time) == LONG:
            self._columns[options.time] = self._clock
        self.total = len(self._times)
        self.estimate = None
        self.first_time, self.last_time = self._times[[0, -1]].tolist() if self.total else (None, None)

    def _in_order(
        self,
        times: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.int64] | None,
        options: SourceOptions,
        index: pd.Index[Any],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp] | None]:
        backwards = times[1:] < times[:-1]
        if numbers is not None:
            return self._in_sequence(times, numbers, options, index)
        if not backwards.any():
            return times, None
        if options.replay.sort:
            order = np.argsort(times, kind="stable")
            return times[order], order
        order, late, watermarks = reordered(times, options.replay.lateness)
        if options.replay.late == "drop" or not len(late):
            in_order = times[order]
            self._late_rows = late
            for row, mark in zip(late.tolist(), watermarks.tolist(), strict=True):
                low, high = np.searchsorted(in_order, mark, "left"), np.searchsorted(in_order, mark, "right")
                before = int(low + np.searchsorted(order[low:high], row))
                self._late_cuts.append((before, int(times[row]), mark))
            return in_order, order
        at = int(late[0])
        raise backwards_time_error(
            row_name(index, at), self.type_name, int(times[at]), int(times[:at].max()), options.second
        )

    def _in_sequence(
        self, times: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], options: SourceOptions, index: pd.Index[Any]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]:
        order = np.lexsort((numbers, times))
        if not options.replay.sort and (order[1:] < order[:-1]).any():
            at = int((order[1:] < order[:-1]).argmax()) + 1
            place = row_name(index, int(order[at]))
            raise EventError(f"{place} of `{self.type_name}` is not in the order of time and sequence")
        sorted_times, sorted_numbers = times[order], numbers[order]
        same = (sorted_times[1:] == sorted_times[:-1]) & (sorted_numbers[1:] == sorted_numbers[:-1])
        if same.any():
            at = int(same.argmax())
            raise undefined_order_error(options, int(sorted_times[at]), int(sorted_numbers[at]))
        return sorted_times, order

    @property
    def ends(self) -> tuple[int, int]:
        """The times of the first and last event. There must be one."""
        return int(self._times[0]), int(self._times[-1])

    def before(self, until: int | None) -> int:
        """Return the number of events up to a time."""
        return len(self._times) if until is None else int(np.searchsorted(self._times, until, "right"))

    def chunks(self) -> Iterator[EventChunk]:
        start = 0
        late = self._late_chunks()
        cut, chunk = next(late, (len(self._times), None))
        while start < len(self._times) or chunk is not None:
            if chunk is not None and cut <= start:
                yield chunk
                cut, chunk = next(late, (len(self._times), None))
                continue
            times = self._times[start : min(start + FRAME_CHUNK, cut)].tolist()
            numbers = self._sequences
            own = None if numbers is None else numbers[start : start + len(times)].tolist()
            yield FrameEventChunk(times, own, start, self._column, self._clock)
            start += len(times)

    def _late_chunks(self) -> Iterator[tuple[int, EventChunk | None]]:
        """Yield late events with the number of events before them, and reject them."""
        options, second = self._options, self._options.second
        columns = {
            name: read(values.iloc[self._late_rows]).take(slice(0, len(self._late_rows)))
            for name, (values, read) in self._late_readers.items()
        }
        for before, group in groupby(enumerate(self._late_cuts), key=lambda entry: entry[1][0]):
            times, rows = [], []
            for number, (_, time, mark) in group:
                if options.replay.until is not None and mark > options.replay.until:
                    continue
                event = {name: values[number] for name, values in columns.items()}
                if options.time in options.event_type.properties:
                    event.setdefault(options.time, time)
                self.late += 1
                if options.reject is not None:
                    options.reject(self.type_name, late_reason(time, mark, second), event, mark)
                times.append(mark)
                rows.append(late_event(self.type_name, time, mark - time, event))
            if times and options.replay.late_stream:
                yield before, late_chunk(times, rows)

    def _column(self, name: str) -> ArrayColumn:
        column = self._columns.get(name)
        if column is None:
            values, read = self._readers.pop(name)
            ordered = values if self._order is None else values.take(self._order)
            column = self._columns[name] = read(ordered)
        return column


def open_frame(frame: pd.DataFrame, options: SourceOptions, before: int = 0) -> tuple[FrameSource, pd.DataFrame]:
    """Return the source of a frame, and its rows: without those that do not fit if there is a file of rejected events.

    `before` is the number of rows of the file before the frame. Raises EventError as FrameSource does.
    """
    others = {options.time, options.sequence, *options.event_type.timed}
    is_csv = options.path is not None and options.path.lower().endswith(files.CSV)
    if options.path is not None and is_csv and options.reject is None:
        files.check_numeric_columns(options.path, frame, options.event_type, others, before, options.replay.form)
    if options.reject is None:
        return FrameSource(frame, options), frame
    rest = files.fields_as_values(frame, _typed(options)) if is_csv else frame
    positions, reasons = np.arange(len(frame)), dict[int, str]()
    while True:
        try:
            source = FrameSource(rest, options)
            break
        except WrongRows as error:
            wrong = {at: f"{error.where}: {reason}" for at, reason in error.reasons}
        reasons |= {int(positions[at]): reason for at, reason in wrong.items()}
        fitting = ~np.isin(np.arange(len(rest)), list(wrong))
        rest, positions = files.with_dtypes(rest[fitting]), positions[fitting]
    rows = sorted(reasons)
    for row, place, item in zip(rows, _places(frame, rows, options, before), _items(frame, rows, options), strict=True):
        source.leave_out(options, f"{place}: {reasons[row]}", item, options.now)
    return source, rest


def _typed(options: SourceOptions) -> dict[str, Type]:
    """Return the columns of numbers and booleans. Times may be numbers."""
    properties = {name: of for name, of in options.event_type.properties.items() if is_numeric(of) or of == BOOLEAN}
    times = {name: LONG for name in (options.time, options.sequence) if name is not None}
    return times | properties


def _places(frame: pd.DataFrame, rows: list[int], options: SourceOptions, before: int) -> list[str]:
    if rows and options.path is not None and options.path.lower().endswith((*files.CSV, *files.JSON_LINES)):
        return [
            f"line {line}" for line in files.lines_of(options.path, [before + row for row in rows], options.replay.form)
        ]
    return [row_name(frame.index, row) for row in rows]


def _items(frame: pd.DataFrame, rows: list[int], options: SourceOptions) -> list[dict[str, Any]]:
    names = {*options.event_type.properties, options.time, options.sequence}
    records: list[dict[Any, Any]] = (
        frame.loc[:, [name in names for name in frame.columns]].iloc[rows].to_dict("records")
    )
    return [{name: None if is_missing(value) else value for name, value in record.items()} for record in records]


def late_chunk(times: list[int], rows: list[dict[str, Any]], *, numbered: bool = False) -> EventChunk:
    """Return late events, at these times, as a chunk. In a `numbered` source they follow all events of their time."""
    return EventChunk(times, partial(pick, rows), [2**63 - 1] * len(times) if numbered else None, LATE_EVENT.name)


def pick(rows: list[dict[str, Any]], name: str) -> list[Any]:
    """Return the values of one property."""
    return [row[name] for row in rows]


def undefined_order_error(options: SourceOptions, time: int, number: int) -> EventError:
    return EventError(
        f"two events of {options.event_type.name} at "
        f"{clock_text(time, options.second)} have the sequence number {number}: "
        "their order is not defined"
    )


def _sequences(frame: pd.DataFrame, options: SourceOptions) -> npt.NDArray[np.int64] | None:
    if options.sequence is None:
        return None
    name = options.event_type.name
    where = f"sequence column `{options.sequence}` of `{name}`"
    if options.sequence not in frame.columns:
        hint = hint_line(options.sequence, [str(c) for c in frame.columns])
        raise EventError(f"{options.origin(f'`{name}`')} has no sequence column `{options.sequence}`{hint}")
    values = frame[options.sequence]
    if values.isna().any() or not pd.api.types.is_integer_dtype(values.dtype):
        reason = f"a sequence is whole numbers without gaps (dtype of the column: {values.dtype})"
        rows = enumerate(values.tolist())
        refuse(where, values.index, ((at, reason) for at, value in rows if not is_sequence_number(value)))
    return np.array(values.tolist(), dtype="int64")


def is_sequence_number(value: object) -> bool:
    """Return True if a value is a whole number of 64 bits; in a column with gaps it has a fraction of zeros."""
    if isinstance(value, float):
        return value.is_integer() and abs(value) < 2**63
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and -(2**63) <= int(value) < 2**63


def backwards_time_error(place: str, name: str, time: int, before: int, second: int) -> EventError:
    return EventError(
        f"{place} of `{name}` goes back in time: {clock_text(time, second)} after "
        f"{clock_text(before, second)}\n"
        '  hint: sort the input, or pass late="drop" to leave such events out'
    )


def _time_column(frame: pd.DataFrame, options: SourceOptions) -> pd.Series[Any]:
    if options.time in frame.columns:
        return frame[options.time]
    hint = hint_line(options.time, [str(c) for c in frame.columns])
    raise EventError(f"{options.origin(f'`{options.event_type.name}`')} has no time column `{options.time}`{hint}")


def _check_present(frame: pd.DataFrame, options: SourceOptions) -> None:
    lacking = [name for name in options.event_type.properties if name not in frame.columns]
    if not lacking:
        return
    spare = [str(c) for c in frame.columns if c not in options.event_type.properties]
    hint = hint_line(lacking[0], spare)
    names = ", ".join(f"`{name}`" for name in lacking)
    what = "column" if len(lacking) == 1 else "columns"
    raise EventError(f"{options.origin(f'event type `{options.event_type.name}`')} lacks the {what} {names}{hint}")
