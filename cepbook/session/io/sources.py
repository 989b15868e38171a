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
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from cepbook.errors import CepbookError, EventError, UsageError
from cepbook.lang.plan.catalog import EventType
from cepbook.session.io.chunked_files import ChunkedFileSource, open_chunked
from cepbook.session.io.column_readers import ColumnValues
from cepbook.session.io.event_validation import EventTypes, EventValidator, as_mapping, find_type, is_missing
from cepbook.session.io.files import CSV, check_numeric_columns, read_file, required_columns
from cepbook.session.io.foreign_frames import as_pandas
from cepbook.session.io.frame_source import (
    EventChunk,
    FrameSource,
    LatePolicy,
    ReplaySource,
    SourceOptions,
    backwards_time_error,
    undefined_order_error,
)
from cepbook.session.io.schema_inference import datetime_columns
from cepbook.session.io.time_conversion import check_clock_range, format_clock_time, to_clock_units

EVENT_CHUNK = 256  # events that are read ahead of a generator


class SourcePause(Enum):
    """What a generator yields while nothing is at hand: events that came so far are not held back for more."""

    YET = "nothing yet"


def open_source(given: object, wanted: SourceOptions) -> ReplaySource:
    """The source for a DataFrame, a path or an iterable of events. Checks all that can be checked before reading."""
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        columns = required_columns(wanted.event_type, wanted.time, wanted.sequence)
        large = open_chunked(path, columns, replace(wanted, path=path))
        if large is not None:
            return large
        given = read_file(path, columns)
        if path.lower().endswith(CSV):
            check_numeric_columns(path, given, wanted.event_type, {wanted.time, wanted.sequence})
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
    return IterableSource(given, wanted)


@dataclass(frozen=True, slots=True)
class ReplayInputs:
    """What a replay was given: sources by event type, and how to read them; see `Wanted` and `time_column`."""

    sources: Mapping[str, object]
    time: str | Mapping[str, str] | None
    sequence: str | Mapping[str, str] | None
    types: EventTypes
    sort: bool
    late: LatePolicy
    second: int
    checked: dict[str, ChunkedFileSource] = field(
        default_factory=dict
    )  # of large files, which need not be checked again

    def open(self, until: int | None) -> list[ReplaySource]:
        """The sources, in order. Errors: EventError as `open_source`."""
        found: list[ReplaySource] = []
        for name, source in self.sources.items():
            event_type = find_type(name, self.types)
            column = event_time_column(event_type, self.time, source)
            number = self.sequence if isinstance(self.sequence, str | None) else self.sequence.get(name)
            if number is None and self.sequence is not None:
                raise UsageError(f"sequence= names no column for `{name}`")
            wanted = SourceOptions(event_type, column, self.types, self.sort, self.late, until, self.second, number)
            known = self.checked.get(name)
            opened = open_source(source, wanted) if known is None or not known.fits(wanted) else known.again(wanted)
            if isinstance(opened, ChunkedFileSource):
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

    def reopen(self, until: int) -> list[ReplaySource]:
        """The same afresh. Errors: UsageError when one can be read only once."""
        if self.only_once:
            raise UsageError(self.only_once)
        return self.open(until)


class IterableSource(ReplaySource):
    """Dicts, dataclass instances or named tuples, read a few ahead."""

    def __init__(self, events: Iterable[object], wanted: SourceOptions) -> None:
        self.type_name = wanted.event_type.name
        self.total = len(events) if isinstance(events, Sized) else None
        self.estimate = None
        self.late = 0
        self.first_time = None
        self._events = events
        self._wanted = wanted
        also = (wanted.time,) if wanted.sequence is None else (wanted.time, wanted.sequence)
        self._check = EventValidator(wanted.event_type, wanted.types, also=also, second=wanted.second)

    def chunks(self) -> Iterator[EventChunk]:
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
            if event is SourcePause.YET:
                if times:
                    yield EventChunk(times, partial(_pick, rows), sequences)
                    times, rows = [], []
                    sequences = None if sequences is None else []
                continue
            try:
                time = self._time(event)
                row = self._check(event)
                if last is not None and time < last:
                    if self._wanted.late == "error":
                        raise backwards_time_error(f"row {number}", self.type_name, time, last, self._wanted.second)
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
                yield EventChunk(times, partial(_pick, rows), sequences)
                times, rows = [], []
                sequences = None if sequences is None else []
        if times:
            yield EventChunk(times, partial(_pick, rows), sequences)
        if failure is not None:
            raise failure

    def _time(self, event: object) -> int:
        given = as_mapping(event)
        value = None if given is None else given.get(self._wanted.time)
        if given is not None and is_missing(value):
            raise EventError(f"the event time `{self._wanted.time}` is missing")
        try:
            second = self._wanted.second
            return check_clock_range(to_clock_units(value, second), second) if given is not None else 0
        except UsageError as error:
            raise EventError(f"the event time `{self._wanted.time}`: {error}") from None

    def _sequence(self, event: object, time: int, before: int | None) -> int:
        name = self._wanted.sequence or ""
        given = (as_mapping(event) or {}).get(name)
        if isinstance(given, bool) or not isinstance(given, int | np.integer):
            raise EventError(f"the sequence number `{name}` is a whole number, not {given!r}")
        if before is not None and given == before:
            raise undefined_order_error(self._wanted, time, before)
        if before is not None and given < before:
            at = format_clock_time(time, self._wanted.second)
            raise EventError(f"the sequence number goes back from {before} to {given} at {at}")
        return int(given)


def _pick(rows: list[dict[str, Any]], name: str) -> ColumnValues:
    return [row[name] for row in rows]


def expected_events(sources: Iterable[ReplaySource], limit: int | None, about: bool = False) -> int | None:
    """How many events come of sources, at most `limit`; `about`: or will come about. None where nobody knows."""
    counts = [source.estimate if about and source.total is None else source.total for source in sources]
    known = None if None in counts else sum(count for count in counts if count is not None)
    return known if limit is None or known is None else min(known, limit)


def sources_by_type(events: object, type_name: str | None) -> dict[str, object]:
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


def event_time_column(event_type: EventType, time: str | Mapping[str, str] | None, source: object) -> str:
    """The column of the event time in a source. Raises EventError when there is none."""
    column = time.get(event_type.name) if isinstance(time, Mapping) else time
    column = column if column is not None else event_type.time_property
    if column is None:
        likely = next(iter(datetime_columns(source)), "column")
        raise EventError(
            f"the event time of `{event_type.name}` is not known\n"
            f'  hint: replay(…, time="{likely}"), or define the event type with time="{likely}"'
        )
    return column
