"""DataFrames as sources of events: checked when they are opened, their columns made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from cepbook.engine.vectorized.array_columns import ArrayColumn, ArrayColumns, NumberColumn
from cepbook.errors import EventError, UsageError, hint_line
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import LONG
from cepbook.session.io.column_readers import (
    ColumnReader,
    ColumnValues,
    column_reader,
    engine_column,
    event_times,
    row_name,
)
from cepbook.session.io.event_validation import EventTypes
from cepbook.session.io.schema_inference import check_column_names
from cepbook.session.io.time_conversion import check_clock_range, format_clock_time

LatePolicy = Literal["error", "drop"]
FRAME_CHUNK = 8_192  # rows, the most that a replay hands over at once: each slice has its fixed costs


class EventChunk:
    """Consecutive events of one source: `times` ascending in ms, and any property as a list of engine values.

    `sequences`, when there are any, order events of one time.
    """

    __slots__ = ("_columns", "_read", "sequences", "times")

    def __init__(
        self, times: list[int], read: Callable[[str], ColumnValues], sequences: list[int] | None = None
    ) -> None:
        self.times = times
        self.sequences = sequences
        self._read = read
        self._columns: dict[str, ColumnValues] = {}

    def columns(self, names: Collection[str], begin: int, end: int) -> Mapping[str, ColumnValues]:
        """The properties `names` of the events from number `begin` to before `end`."""
        whole = end - begin == len(self.times)
        return {name: self.column(name) if whole else self.column(name)[begin:end] for name in names}

    def column(self, name: str) -> ColumnValues:
        """The values of property `name`, one per event."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._all(name)
        return found

    def _all(self, name: str) -> ColumnValues:
        return self._read(name)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a replay asks of a source: the type, the time column, the rules of order, units of the clock per second."""

    event_type: EventType
    time: str
    types: EventTypes
    sort: bool = True
    late: LatePolicy = "error"
    until: int | None = None
    second: int = 1000
    sequence: str | None = None
    path: str | None = None  # of the file that a DataFrame was read from

    def origin(self, what: str) -> str:
        """What lacks something: the file, or the DataFrame for `what`."""
        return f"the DataFrame for {what}" if self.path is None else f"the file {self.path!r} for {what}"


class FrameEventChunk(EventChunk):
    """Events of a frame, which number `start` begins; `engine_column` finds its columns, `clock` has its times."""

    __slots__ = ("_at_hand", "_clock", "_start")

    def __init__(
        self,
        times: list[int],
        sequences: list[int] | None,
        start: int,
        at_hand: Callable[[str], ArrayColumn],
        clock: ArrayColumn,
    ) -> None:
        super().__init__(times, _nothing, sequences)
        self._start = start
        self._at_hand = at_hand
        self._clock = clock

    def _all(self, name: str) -> ColumnValues:
        return self.columns((name,), 0, len(self.times))[name]  # no function that holds itself: it would be a cycle

    def columns(self, names: Collection[str], begin: int, end: int) -> Mapping[str, ColumnValues]:
        times = self.times if end - begin == len(self.times) else self.times[begin:end]
        return ArrayColumns(names, self._at_hand, self._clock, slice(self._start + begin, self._start + end), times)


def _nothing(name: str) -> ColumnValues:
    return []


class ReplaySource:
    """Events of one type, in order.

    `total` is the number of events, None if it cannot be known; `estimate` is then an approximate number, if there is
    one. `first_time` is the time of the first event where it is known beforehand. `late` counts the events that were
    left out so far because they go back in time.
    """

    type_name: str
    total: int | None
    estimate: int | None = None
    first_time: int | None = None
    late = 0

    def chunks(self) -> Iterator[EventChunk]:
        """Return the events in order. An EventError is raised after the last good event."""
        raise NotImplementedError


class FrameSource(ReplaySource):
    """A DataFrame, completely checked when it is opened."""

    def __init__(self, frame: pd.DataFrame, wanted: SourceOptions) -> None:
        self.type_name = name = wanted.event_type.name
        check_column_names(frame)
        time = _time_column(frame, wanted)
        _check_present(frame, wanted)
        self._readers: dict[str, tuple[pd.Series[Any], ColumnReader]] = {}
        for column, of in wanted.event_type.properties.items():
            read = column_reader(f"column `{column}` of `{name}`", frame[column], of, wanted.types, wanted.second)
            self._readers[column] = (frame[column], read)
        self._columns: dict[str, ArrayColumn] = {}  # that are in use
        self.late = 0
        times = event_times(f"time column `{wanted.time}` of `{name}`", time, wanted.second)
        numbers = _sequences(frame, wanted)
        self._times, self._order = self._in_order(times, numbers, wanted, frame.index)
        self._sequences = numbers if numbers is None or self._order is None else numbers[self._order]
        for extreme in self._times[[0, -1]].tolist() if len(times) else ():
            try:
                check_clock_range(extreme, wanted.second)
            except UsageError as error:
                raise EventError(f"time column `{wanted.time}` of `{name}`: {error}") from None
        if wanted.until is not None:
            self._times = self._times[: int(np.searchsorted(self._times, wanted.until, "right"))]
        self._clock = NumberColumn(self._times)
        # Where the time is a property that holds just these milliseconds, it need not be read twice.
        if wanted.event_type.properties.get(wanted.time) == LONG:
            self._columns[wanted.time] = self._clock
        self.total = len(self._times)
        self.estimate = None
        self.first_time = int(self._times[0]) if self.total else None

    def _in_order(
        self,
        times: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.int64] | None,
        wanted: SourceOptions,
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
        raise backwards_time_error(
            row_name(index, at), self.type_name, int(times[at]), int(times[at - 1]), wanted.second
        )

    def _in_sequence(
        self, times: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], wanted: SourceOptions, index: pd.Index[Any]
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
            raise undefined_order_error(wanted, int(sorted_times[at]), int(sorted_numbers[at]))
        return sorted_times, order

    @property
    def ends(self) -> tuple[int, int]:
        """The times of the first and the last event, of which there are some."""
        return int(self._times[0]), int(self._times[-1])

    def before(self, until: int | None) -> int:
        """How many events there are up to a time."""
        return len(self._times) if until is None else int(np.searchsorted(self._times, until, "right"))

    def chunks(self) -> Iterator[EventChunk]:
        for start in range(0, len(self._times), FRAME_CHUNK):
            times = self._times[start : start + FRAME_CHUNK].tolist()
            numbers = self._sequences
            own = None if numbers is None else numbers[start : start + len(times)].tolist()
            yield FrameEventChunk(times, own, start, self._column, self._clock)

    def _column(self, name: str) -> ArrayColumn:
        found = self._columns.get(name)
        if found is None:
            values, read = self._readers.pop(name)
            ordered = values if self._order is None else values.take(self._order)
            found = self._columns[name] = engine_column(ordered, read)
        return found


def undefined_order_error(wanted: SourceOptions, time: int, number: int) -> EventError:
    return EventError(
        f"two events of {wanted.event_type.name} at "
        f"{format_clock_time(time, wanted.second)} have the sequence number {number}: "
        "their order is not defined"
    )


def _sequences(frame: pd.DataFrame, wanted: SourceOptions) -> npt.NDArray[np.int64] | None:
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


def backwards_time_error(place: str, name: str, time: int, before: int, second: int) -> EventError:
    return EventError(
        f"{place} of `{name}` goes back in time: {format_clock_time(time, second)} after "
        f"{format_clock_time(before, second)}\n"
        '  hint: sort the input, or pass late="drop" to leave such events out'
    )


def _time_column(frame: pd.DataFrame, wanted: SourceOptions) -> pd.Series[Any]:
    if wanted.time in frame.columns:
        return frame[wanted.time]
    if wanted.time == frame.index.name:
        return frame.index.to_series()
    hint = hint_line(wanted.time, [str(c) for c in frame.columns])
    raise EventError(f"{wanted.origin(f'`{wanted.event_type.name}`')} has no time column `{wanted.time}`{hint}")


def _check_present(frame: pd.DataFrame, wanted: SourceOptions) -> None:
    lacking = [name for name in wanted.event_type.properties if name not in frame.columns]
    if not lacking:
        return
    spare = [str(c) for c in frame.columns if c not in wanted.event_type.properties]
    hint = hint_line(lacking[0], spare)
    names = ", ".join(f"`{name}`" for name in lacking)
    what = "column" if len(lacking) == 1 else "columns"
    raise EventError(f"{wanted.origin(f'event type `{wanted.event_type.name}`')} lacks the {what} {names}{hint}")
