"""Deliveries of statements as columns: the rows, and for each row what caused it.

A sink keeps flat records whose marks tell what caused them; everything else is computed for whole columns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cepbook.engine.delivery.delta import (
    CAUSE_FACTOR,
    EMPTY,
    INSERT,
    REMOVE,
    CauseKey,
    DeliveryCauses,
    InsertColumns,
    Record,
    Row,
)
from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.spark.task.stream_columns import CLOCK, EVENT
from cepbook.spark.task.type_mapping import TypeMapping, to_array

ARROW_TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}  # of the types of `DELIVERY_COLUMNS`
_TRIGGERS, _KINDS = (CLOCK, EVENT), ("insert", "remove")  # no arrays yet: pyarrow would import pandas for them
Int64Array = npt.NDArray[np.int64]
Ticks = tuple[Int64Array, Callable[[Int64Array], Int64Array]]  # times, and a function: positions -> sequence numbers
_IS_OF_KIND: dict[str, Callable[[pa.DataType], bool]] = {  # by kind of a numpy array
    "i": pa.types.is_integer,
    "u": pa.types.is_integer,
    "f": pa.types.is_floating,
    "b": pa.types.is_boolean,
}


class DeliveredRows(NamedTuple):
    """Delivered rows as columns.

    By row: `times`, the `sequences` and `phases` (1: an event, 0: the clock) of their causes, the `numbers` of their
    deliveries, whether they are `removed` rows, and the position in the delivery (`rows`).
    """

    times: Int64Array
    sequences: Int64Array
    phases: Int64Array
    numbers: Int64Array
    removed: npt.NDArray[np.bool_]
    rows: Int64Array
    columns: Sequence[Sequence[Any]]

    def meta(self, name: str) -> list[pa.Array]:
        """Return the arrays of `DELIVERY_COLUMNS` for the statement `name`."""
        return [
            pa.repeat(pa.scalar(name), len(self.times)),
            pa.array(self.times),
            pa.array(self.sequences),
            _name_array(_TRIGGERS, self.phases),
            pa.array(self.numbers),
            _name_array(_KINDS, self.removed),
            pa.array(self.rows),
            pa.nulls(len(self.times), pa.string()),
        ]

    def compact(self, number: int) -> list[pa.Array]:
        """Return the arrays of `COMPACT_COLUMNS` for the statement of this number."""
        return [
            pa.array((4 * number + self.phases + 2 * self.removed).astype(np.int32)),
            pa.array(self.times),
            pa.array(self.sequences),
            pa.array(self.numbers.astype(np.int32)),
            pa.array(self.rows.astype(np.int32)),
            pa.nulls(len(self.times), pa.string()),
        ]


class CauseSequences:
    """Sequence numbers of causes within one batch: of its events, in order, and of the ticks of the clock, ascending.

    A tick has the sequence number of the event for which the clock stops; a tick without an event has -1.
    `ticks` returns the times of ticks, and a function that returns their numbers by position; few batches need it.
    """

    def __init__(self, times: Int64Array, sequences: Int64Array, ticks: Callable[[], Ticks] | None = None) -> None:
        self.times, self.sequences = times, sequences
        self._ticks = ticks

    def cause_sequences(self, places: Int64Array, phases: Int64Array, times: Int64Array) -> Int64Array:
        """Return the sequence numbers of causes: of events by place, of ticks by time."""
        numbers = np.full(len(places), -1)
        events = phases == 1
        if len(self.sequences):
            numbers[events] = self.sequences[np.minimum(places[events], len(self.sequences) - 1)]
        if self._ticks is not None and not events.all():
            stops, tick_sequences = self._ticks()
            if len(stops):
                at = np.minimum(np.searchsorted(stops, times[~events]), len(stops) - 1)
                numbers[~events] = np.where(stops[at] == times[~events], tick_sequences(at), -1)
        return numbers


class DeliveryCollector:
    """The sink of one statement: collects its rows, and the cause of each delivery. `cause` returns the current one."""

    __slots__ = ("_cause", "_causes", "_columns", "_flat", "_segments")

    def __init__(self, cause: Callable[[], CauseKey]) -> None:
        self._columns: tuple[str, ...] | None = None
        self._segments: list[_Segment] = []
        self._flat: list[Any] = []  # what came since the last part, delivery by delivery
        self._causes: list[CauseKey] = []
        self._cause = cause

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row]) -> None:
        self._columns = columns

    def one(self, record: Record) -> None:
        self._flat += record
        self._causes.append(self._cause())

    def extend(self, flat: list[Any]) -> None:
        self._flat += flat
        cause = self._cause()
        self._causes += [cause for mark in flat[:: self._width] if not mark % 2]

    def traced(self, flat: list[Any], causes: DeliveryCauses) -> None:
        self._close()
        marks = np.array(flat[:: self._width], np.int64)
        numbers = marks[marks % 2 == 0] // CAUSE_FACTOR - 1
        places, phases = _places_and_phases(causes.others)
        if causes.keys:
            own, phases_of = _places_and_phases(causes.keys)
        else:
            own = _place_array(causes.places)
            phases_of = np.ones(len(own), np.int64)
        if causes.others:
            own, phases_of = np.concatenate([own, places]), np.concatenate([phases_of, phases])
        timed_by_event = not (causes.others or causes.keys)
        self._segments.append(_Segment(flat, marks % CAUSE_FACTOR, own[numbers], phases_of[numbers], timed_by_event))

    def traced_columns(self, plain: InsertColumns, numbers: Sequence[int], causes: DeliveryCauses) -> None:
        self._close()
        at = _place_array(numbers) - 1
        if causes.keys:
            own, phases = _places_and_phases(causes.keys)
            own, phases = own[at], phases[at]
        else:
            own, phases = _place_array(causes.places)[at], np.ones(len(at), np.int64)
        marks = np.full(len(at), INSERT, np.int64)
        self._segments.append(_Segment([], marks, own, phases, not causes.keys, plain))

    def _close(self) -> None:
        """End the segment of rows that came delivery by delivery."""
        if self._flat:
            flat, self._flat, keys, self._causes = self._flat, [], self._causes, []
            self._segments.append(
                _Segment(flat, np.array(flat[:: self._width], np.int64), *_places_and_phases(keys), False)
            )

    @property
    def _width(self) -> int:
        return 2 + (1 if self._columns is None else len(self._columns))

    def drain(self, names: Iterable[str], order: CauseSequences) -> DeliveredRows | None:
        """Remove and return the collected rows, with the columns `names`; None if there are none."""
        self._close()
        if not self._segments:
            return None
        segment, width = _join_segments(self._segments), self._width
        self._segments = []
        if segment.plain is not None and segment.timed_by_event:
            return self._of_events(segment.plain, segment.places, names, order)
        marks, flat = segment.marks, segment.flat
        plain = segment.plain
        columns: list[Sequence[Any]]
        columns = [flat[i::width] for i in range(2, width)] if plain is None else [*plain.columns]
        alone = not marks.any()  # each row is a delivery of its own
        begins = marks % 2 == 0
        delivery_of = np.cumsum(begins) - 1  # the delivery of each row
        if segment.timed_by_event and alone:
            times = order.times[segment.places]
        else:
            times = np.array(flat[1::width] if segment.plain is None else segment.plain.times, np.int64)
        sequences = order.cause_sequences(segment.places, segment.phases, times if alone else times[begins])
        fresh = np.ones(len(sequences), bool)
        fresh[1:] = (sequences[1:] != sequences[:-1]) | (segment.phases[1:] != segment.phases[:-1])
        numbers, triggers = _distance_to_start(fresh), segment.phases
        removed = (marks >= REMOVE) & (marks != EMPTY)
        if alone:
            rows = np.zeros(len(times), np.int64)
        else:
            sides = begins.copy()
            sides[1:] |= removed[1:] & ~removed[:-1]
            rows = _distance_to_start(sides)
            is_row = marks != EMPTY
            if not is_row.all():
                delivery_of, times, removed, rows = delivery_of[is_row], times[is_row], removed[is_row], rows[is_row]
                columns = [[v for v, keep in zip(column, is_row.tolist(), strict=True) if keep] for column in columns]
            sequences, numbers, triggers = sequences[delivery_of], numbers[delivery_of], triggers[delivery_of]
        if not len(times):
            return None
        values = self._named(columns, len(times), names)
        return DeliveredRows(times, sequences, triggers, numbers, removed, rows, values)

    def _of_events(
        self, plain: InsertColumns, places: Int64Array, names: Iterable[str], order: CauseSequences
    ) -> DeliveredRows:
        """Return rows that are each the whole delivery of the event at a place."""
        count = len(places)
        times, sequences = order.times, order.sequences
        if count != len(times):
            times, sequences = times[places], sequences[places]
        fresh = np.ones(count, bool)
        fresh[1:] = sequences[1:] != sequences[:-1]
        none, one = (np.broadcast_to(np.int64(number), count) for number in (0, 1))
        numbers = none if fresh.all() else _distance_to_start(fresh)
        removed = np.broadcast_to(np.False_, count)
        return DeliveredRows(times, sequences, one, numbers, removed, none, self._named(plain.columns, count, names))

    def _named(self, columns: Sequence[Sequence[Any]], count: int, names: Iterable[str]) -> list[Sequence[Any]]:
        """Return the columns `names` of `count` rows; null where the rows have none of the name."""
        if self._columns is None:
            return [[row.get(name) for row in columns[0]] for name in names]
        by_name = dict(zip(self._columns, columns, strict=True))
        return [by_name[name] if name in by_name else [None] * count for name in names]


class _Segment(NamedTuple):
    """Flat records with their marks, and by delivery the place and phase of its cause.

    With `timed_by_event` their time is that of the event at the place. In a `plain` segment the records are columns.
    """

    flat: list[Any]
    marks: Int64Array
    places: Int64Array
    phases: Int64Array
    timed_by_event: bool
    plain: InsertColumns | None = None


def _join_segments(parts: Sequence[_Segment]) -> _Segment:
    if len(parts) == 1:
        return parts[0]
    _, marks, places, phases, timed_by_event, _ = zip(*parts, strict=True)
    flat = [value for segment in parts for value in (segment.flat if segment.plain is None else segment.plain.flat)]
    return _Segment(flat, np.concatenate(marks), np.concatenate(places), np.concatenate(phases), all(timed_by_event))


def _places_and_phases(keys: Sequence[CauseKey]) -> tuple[Int64Array, Int64Array]:
    """Return places and phases; the phase of the clock is always 0."""
    return np.array([key[0] for key in keys], np.int64), np.array([key[1] == 1 for key in keys], np.int64)


def delivered_array(values: Sequence[Any], shape: TypeMapping, location: str) -> pa.Array:
    """Return delivered values as an Arrow array of type ``mapping.arrow``; raise `EventError`, naming `location`, if
    one does not fit.
    """
    array = _without_objects(values, shape) if isinstance(values, ArrayValues) and shape.convert is None else None
    return to_array([*values], shape, location) if array is None else array


def _without_objects(values: ArrayValues, shape: TypeMapping) -> pa.Array | None:
    """Return values as an Arrow array without a Python object for each; None if a value may not fit."""
    array, texts = values.values, values.texts
    try:
        if texts is not None:
            known = pa.array(texts.tolist(), type=shape.arrow, from_pandas=False)
            codes = np.where(array < 0, array + len(known), array)  # some count from the end
            return known.take(pa.array(codes, mask=values.missing))
        if _IS_OF_KIND[array.dtype.kind](shape.arrow):
            return pa.array(array, mask=values.missing, from_pandas=False).cast(shape.arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError):
        pass  # the error message is that of the value
    return None


def _place_array(places: Sequence[int]) -> Int64Array:
    return np.arange(places.start, places.stop) if isinstance(places, range) else np.array(places, np.int64)


def _name_array(names: tuple[str, str], chosen: npt.NDArray[Any]) -> pa.Array:
    """Return for each element, 0 or 1, its name."""
    if not chosen.any() or chosen.all():
        return pa.repeat(pa.scalar(names[int(chosen[0])]), len(chosen))
    return pa.array(names).take(pa.array(chosen.astype(np.int8)))


def _distance_to_start(begins: npt.NDArray[np.bool_]) -> Int64Array:
    """Return for each element its distance to the last one at which `begins` is true; the first element begins."""
    at = np.arange(len(begins))
    return at - np.maximum.accumulate(np.where(begins, at, 0))
