"""Sources of replayed events: DataFrames, files (`io.files`) and iterables. All become chunks of columns.

A chunk converts columns when the engine asks for them, so a replay never holds a second copy of its input.

- A DataFrame (or file) must have a column for every property; further columns are ignored. It is a set of rows: with
  ``sort=True`` (the default) rows are taken in the order of (time, position), so an unsorted frame is no error.
- An iterable is a sequence: its times must not go backwards. Its events are those of `Workbench.send`: a missing
  property is null, an unknown one an error.
- ``late="drop"`` leaves out, and counts, rows that go backwards in time instead of raising EventError.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from cepbook.argument_checks import short_repr
from cepbook.engine.expressions.plain_values import plain_value
from cepbook.engine.time.clock import check_unit
from cepbook.errors import CepbookError, EventError, UsageError, exception_text
from cepbook.lang.plan.catalog import EventType
from cepbook.session.io.chunked_files import ChunkedFileSource, open_chunked
from cepbook.session.io.event_validation import EventTypes, EventValidator, as_mapping, find_type, is_missing
from cepbook.session.io.files import read_file, required_columns
from cepbook.session.io.foreign_frames import as_pandas
from cepbook.session.io.frame_source import (
    EventChunk,
    Rejecting,
    ReplaySource,
    SourceOptions,
    backwards_time_error,
    is_sequence_number,
    late_chunk,
    open_frame,
    pick,
    undefined_order_error,
)
from cepbook.session.io.reorder import ReorderBuffer, late_event, late_reason
from cepbook.session.io.replay_options import ReplayOptions
from cepbook.session.io.schema_inference import datetime_columns, index_time
from cepbook.session.io.time_conversion import check_clock_range, clock_text, to_clock_units

EVENT_CHUNK = 256  # events that are read ahead of a generator


class SourcePause(Enum):
    """Yielded by a generator that has no event now: events so far are not held back for more."""

    YET = "nothing yet"


def open_source(source: object, options: SourceOptions) -> ReplaySource:
    """Return the source for a DataFrame, a path or an iterable of events, checked as far as possible before reading."""
    form = options.replay.form
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        columns = required_columns(options.event_type, options.time, options.sequence)
        large = open_chunked(path, columns, replace(options, path=path))
        if large is not None:
            return large
        rejected = list[tuple[str, str]]()
        source = read_file(path, columns, form, None if options.reject is None else lambda *line: rejected.append(line))
        opened, _ = open_frame(source, replace(options, path=path))
        for reason, line in rejected:
            opened.leave_out(options, reason, line, options.now)
        return opened
    source = as_pandas(source)
    if isinstance(source, pd.DataFrame):
        return open_frame(source, options)[0]
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise UsageError(
            f"events of `{options.event_type.name}` cannot come from {type(source).__name__}: "
            "expected a DataFrame, an Arrow table, a path of a Parquet, CSV or JSON-lines file, or an iterable of "
            "dicts or of dataclass instances"
        )
    return IterableSource(source, options)


@dataclass(frozen=True, slots=True)
class ReplayInputs:
    """The arguments of a replay: sources by event type, and how to read them (`SourceOptions`, `event_time_column`)."""

    sources: Mapping[str, object]
    time: str | Mapping[str, str] | None
    sequence: str | Mapping[str, str] | None
    types: EventTypes
    options: ReplayOptions
    second: int
    zone: str = "UTC"
    now: int = 0
    rejecting: bool = False  # items that are no events are left out
    checked: dict[str, ChunkedFileSource] = field(default_factory=dict)  # large files that need not be checked again

    def open(self, options: ReplayOptions, reject: Rejecting | None = None) -> list[ReplaySource]:
        """Return the sources in order; `reject` gets what is left out. Raises EventError as `open_source` does."""
        sources: list[ReplaySource] = []
        for name, source in self.sources.items():
            event_type = find_type(name, self.types)
            column = event_time_column(event_type, self.time, source)
            number = self.sequence if isinstance(self.sequence, str | None) else self.sequence.get(name)
            if number is None and self.sequence is not None:
                raise UsageError(f"sequence= names no column for `{name}`")
            reading = SourceOptions(
                event_type,
                column,
                self.types,
                options,
                self.second,
                number,
                self.zone,
                self.now,
                reject=reject,
            )
            known = self.checked.get(name)
            opened = open_source(source, reading) if known is None or not known.fits(reading) else known.again(reading)
            if isinstance(opened, ChunkedFileSource):
                self.checked[name] = opened
            sources.append(opened)
        return sources

    @property
    def files(self) -> list[str]:
        """The paths of the files that are read."""
        return [os.fspath(source) for source in self.sources.values() if isinstance(source, str | os.PathLike)]

    @property
    def only_once(self) -> str:
        """A message naming the events that can be read only once; empty if all can be read again."""
        name = next((name for name, source in self.sources.items() if isinstance(source, Iterator)), None)
        if name is None:
            return ""
        return f"the events of `{name}` can be read only once\n  hint: give the replay a list of them"

    def reopen(self, until: int) -> list[ReplaySource]:
        """Return the sources again, up to `until`. Raises UsageError if one can be read only once."""
        if self.only_once:
            raise UsageError(self.only_once)
        return self.open(replace(self.options, until=until), _ignore if self.rejecting else None)


class _Entry(NamedTuple):
    """An event of an iterable: its position, its values, or those of a late event, and its sequence number."""

    number: int
    row: dict[str, Any]
    sequence: int = 0
    late: bool = False


class IterableSource(ReplaySource):
    """Dicts, dataclass instances or named tuples, read a few ahead."""

    def __init__(self, events: Iterable[object], options: SourceOptions) -> None:
        super().__init__()
        self.type_name = options.event_type.name
        self.total = len(events) if isinstance(events, Sized) else None
        self.estimate = None
        self.late = 0
        self.first_time = None
        self._events = events
        self._options = options
        also = (options.time,) if options.sequence is None else (options.time, options.sequence)
        self._check = EventValidator(
            options.event_type, options.types, also=also, second=options.second, zone=options.zone
        )

    def chunks(self) -> Iterator[EventChunk]:
        latest: int | None = None
        last: int | None = None
        numbered = self._options.sequence is not None
        times, rows, sequences = list[int](), list[dict[str, Any]](), list[int]()
        late = False  # the rows are late events

        def next_chunk() -> EventChunk:
            nonlocal times, rows, sequences
            if late:
                chunk = late_chunk(times, rows, numbered=numbered)
            else:
                chunk = EventChunk(times, partial(pick, rows), sequences if numbered else None)
            times, rows, sequences = [], [], []
            return chunk

        failure: EventError | None = None
        for time, entry in self._in_order():
            if isinstance(entry, EventError):
                failure = entry
                break
            if (entry is None or entry.late != late or len(times) >= EVENT_CHUNK) and times:
                yield next_chunk()
            if entry is None:
                continue
            late = entry.late
            if numbered and not late:
                try:
                    latest = self._next_sequence(entry.sequence, time, latest if time == last else None)
                except EventError as error:
                    failure = EventError(f"row {entry.number} of `{self.type_name}`: {error}")
                    break
                sequences.append(latest)
                last = time
            times.append(time)
            rows.append(entry.row)
        if times:
            yield next_chunk()
        if failure is not None:
            raise failure

    def _in_order(self) -> Iterator[tuple[int, _Entry | EventError | None]]:
        """Yield times and entries in order, None for a pause, and at the end the error that ended the source."""
        options, buffer, last = self._options, ReorderBuffer(self._options.replay.lateness), 0
        failure: EventError | None = None
        number = -1
        for event in self._events_and_failure():
            if event is SourcePause.YET:
                yield last, None
                continue
            number += 1
            if isinstance(event, EventError):
                failure = event
                break
            try:
                time, row = self._time(event, buffer.watermark is None), self._check(event)
                sequence = 0 if options.sequence is None else self._sequence(event)
            except CepbookError as error:
                if options.reject is None:
                    failure = EventError(f"row {number} of `{self.type_name}`: {error}")
                    break
                self.leave_out(options, f"row {number}: {error}", event, last)
                continue
            mark = buffer.watermark
            if mark is None or time >= mark:  # in time
                if not options.replay.lateness:
                    buffer.watermark = last = time
                    yield time, _Entry(number, row, sequence)
                    continue
                buffer.add(time, _Entry(number, row, sequence))
                for last, entry in buffer.release():
                    yield last, entry
                continue
            if options.replay.late == "error":
                failure = backwards_time_error(f"row {number}", self.type_name, time, mark, options.second)
                break
            self.late += 1
            if options.reject is not None:
                options.reject(self.type_name, late_reason(time, mark, options.second), event, mark)
            if options.replay.late_stream:
                yield mark, _Entry(number, late_event(self.type_name, time, mark - time, row), late=True)
        buffer.end_waiting()
        yield from buffer.release()
        if failure is not None:
            yield last, failure

    def _events_and_failure(self) -> Iterator[object]:
        """Yield the events, and at the end the error of the source, if it failed."""
        events, number = iter(self._events), 0
        while True:
            try:
                event = next(events)
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001  the user's generator; raised after the good rows
                message = str(error) if isinstance(error, CepbookError) else repr(error)
                failure = EventError(f"the source of `{self.type_name}` failed before row {number}: {message}")
                failure.__cause__ = error
                yield failure
                return
            number += event is not SourcePause.YET
            yield event

    def _time(self, event: object, first: bool) -> int:
        try:
            properties = as_mapping(event)
            value = None if properties is None else plain_value(properties.get(self._options.time))
            missing = is_missing(value)
        except Exception as error:
            reason = exception_text(error)
            raise EventError(f"the event time `{self._options.time}` cannot be read: {reason}") from error
        if properties is not None and missing:
            raise EventError(f"the event time `{self._options.time}` is missing")
        try:
            if properties is None:
                return 0
            second = self._options.second
            time = to_clock_units(value, second, self._options.zone)
            if first and type(value) is int:
                check_unit(
                    f"the event time `{self._options.time}`", self._options.time, time, time, self._options.now, second
                )
            return check_clock_range(time, second)
        except UsageError as error:
            raise EventError(f"the event time `{self._options.time}`: {error}") from None

    def _sequence(self, event: object) -> int:
        name = self._options.sequence or ""
        value = plain_value((as_mapping(event) or {}).get(name))
        if isinstance(value, float) or not is_sequence_number(value):
            raise EventError(f"the sequence number `{name}` is a whole number, not {short_repr(value)}")
        return int(value)

    def _next_sequence(self, value: int, time: int, before: int | None) -> int:
        if before is not None and value == before:
            raise undefined_order_error(self._options, time, before)
        if before is not None and value < before:
            at = clock_text(time, self._options.second)
            raise EventError(f"the sequence number goes back from {before} to {value} at {at}")
        return value


def _ignore(source: str, reason: str, item: object, time: int) -> None:
    """Leave an item out that was reported before."""


def expected_events(sources: Iterable[ReplaySource], limit: int | None, about: bool = False) -> int | None:
    """Return the number of events of the sources, at most `limit`; with `about` estimates count. None if unknown."""
    counts = [source.estimate if about and source.total is None else source.total for source in sources]
    known = None if None in counts else sum(count for count in counts if count is not None)
    return known if limit is None or known is None else min(known, limit)


def sources_by_type(events: object, type_name: str | None) -> dict[str, object]:
    """Return the sources by event type. Raises UsageError if the type of a single source is unknown."""
    if isinstance(events, Mapping):
        if type_name is not None:
            raise UsageError("`type` goes with a single source; these events already come by type")
        if not events:
            raise UsageError("there is nothing to replay")
        return {str(name): source for name, source in events.items()}
    if type_name is None:
        raise UsageError('which event type? replay(events, type="Tick") or replay({"Tick": events})')
    return {type_name: events}


def event_time_column(event_type: EventType, time: str | Mapping[str, str] | None, source: object) -> str:
    """Return the column of the event time in a source. Raises EventError if there is none."""
    column = time.get(event_type.name) if isinstance(time, Mapping) else time
    column = column if column is not None else event_type.time_property
    column = column if column is not None else index_time(source)
    if column is None:
        likely = next(iter(datetime_columns(source)), "column")
        raise EventError(
            f"the event time of `{event_type.name}` is not known\n"
            f'  hint: replay(…, time="{likely}") (--time {likely} in a shell), '
            f'or define the event type with time="{likely}"'
        )
    return column
