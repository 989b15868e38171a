"""What statements deliver within a task, as columns: the rows, and for each what caused it.

A sink keeps flat records, whose marks tell what caused them; all else is worked out for whole columns at once.
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
from cepbook.spark.task.stream_columns import CLOCK, EVENT

ARROW_TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}  # of the types of `DELIVERY_COLUMNS`
_TRIGGERS, _KINDS = (CLOCK, EVENT), ("insert", "remove")  # no arrays yet: pyarrow would import pandas for them
Int64Array = npt.NDArray[np.int64]


class DeliveredRows(NamedTuple):
    """Rows that were delivered: by row their times, the sequence numbers and phases (1: an event) of their causes, the
    numbers of their deliveries, whether they are remove rows, their places, and their `columns`.
    """

    times: Int64Array
    sequences: Int64Array
    phases: Int64Array
    numbers: Int64Array
    removed: npt.NDArray[np.bool_]
    rows: Int64Array
    columns: list[list[Any]]

    def meta(self, name: str) -> list[pa.Array]:
        """The arrays of `DELIVERY_COLUMNS`, for the statement `name`."""
        return [
            pa.repeat(pa.scalar(name), len(self.times)),
            pa.array(self.times),
            pa.array(self.sequences),
            _named(_TRIGGERS, self.phases),
            pa.array(self.numbers),
            _named(_KINDS, self.removed),
            pa.array(self.rows),
            pa.nulls(len(self.times), pa.string()),
        ]

    def compact(self, number: int) -> list[pa.Array]:
        """The arrays of `COMPACT_COLUMNS`, for the statement of this number."""
        return [
            pa.array((4 * number + self.phases + 2 * self.removed).astype(np.int32)),
            pa.array(self.times),
            pa.array(self.sequences),
            pa.array(self.numbers.astype(np.int32)),
            pa.array(self.rows.astype(np.int32)),
            pa.nulls(len(self.times), pa.string()),
        ]


class CauseSequences:
    """What places and stops of the clock within one batch mean: the `times` and `sequences` of its events, in order,

    and those of the `stops`, ascending; a stop has the sequence number of the event that the clock goes there for, one
    for which there is no event has -1. `tick_sequences` finds these by the places of stops.
    """

    def __init__(
        self,
        times: Int64Array,
        sequences: Int64Array,
        stops: Int64Array,
        tick_sequences: Callable[[Int64Array], Int64Array],
    ) -> None:
        self.times, self.sequences = times, sequences
        self._stops, self._tick_sequences = stops, tick_sequences

    def cause_sequences(self, places: Int64Array, phases: Int64Array, times: Int64Array) -> Int64Array:
        """The sequence numbers of causes: of events by their place, of stops by their time."""
        found = np.full(len(places), -1)
        events = phases == 1
        if len(self.sequences):
            found[events] = self.sequences[np.minimum(places[events], len(self.sequences) - 1)]
        if len(self._stops) and not events.all():
            at = np.minimum(np.searchsorted(self._stops, times[~events]), len(self._stops) - 1)
            found[~events] = np.where(self._stops[at] == times[~events], self._tick_sequences(at), -1)
        return found


class DeliveryCollector:
    """The sink of one statement: keeps its rows, and of each delivery what caused it. `cause` tells what is in hand."""

    __slots__ = ("_cause", "_columns", "_flat", "_keys", "_parts")

    def __init__(self, cause: Callable[[], CauseKey]) -> None:
        self._columns: tuple[str, ...] | None = None
        self._parts: list[_Part] = []
        self._flat: list[Any] = []  # what came since the last part, delivery by delivery
        self._keys: list[CauseKey] = []
        self._cause = cause

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row]) -> None:
        self._columns = columns

    def one(self, record: Record) -> None:
        self._flat += record
        self._keys.append(self._cause())

    def extend(self, flat: list[Any]) -> None:
        self._flat += flat
        cause = self._cause()
        self._keys += [cause for mark in flat[:: self._width] if not mark % 2]

    def traced(self, flat: list[Any], causes: DeliveryCauses) -> None:
        self._close()
        marks = np.array(flat[:: self._width], np.int64)
        numbers = marks[marks % 2 == 0] // CAUSE_FACTOR - 1
        places, phases = _of_keys(causes.others)
        if causes.keys:
            own, phases_of = _of_keys(causes.keys)
        else:
            own = _whole(causes.places)
            phases_of = np.ones(len(own), np.int64)
        if causes.others:
            own, phases_of = np.concatenate([own, places]), np.concatenate([phases_of, phases])
        of_events = not (causes.others or causes.keys)
        self._parts.append(_Part(flat, marks % CAUSE_FACTOR, own[numbers], phases_of[numbers], of_events))

    def traced_columns(self, plain: InsertColumns, numbers: Sequence[int], causes: DeliveryCauses) -> None:
        self._close()
        at = _whole(numbers) - 1
        if causes.keys:
            own, phases = _of_keys(causes.keys)
            own, phases = own[at], phases[at]
        else:
            own, phases = _whole(causes.places)[at], np.ones(len(at), np.int64)
        marks = np.full(len(at), INSERT, np.int64)
        self._parts.append(_Part([], marks, own, phases, not causes.keys, plain))

    def _close(self) -> None:
        """What came delivery by delivery is a part."""
        if self._flat:
            flat, self._flat, keys, self._keys = self._flat, [], self._keys, []
            self._parts.append(_Part(flat, np.array(flat[:: self._width], np.int64), *_of_keys(keys), False))

    @property
    def _width(self) -> int:
        return 2 + (1 if self._columns is None else len(self._columns))

    def drain(self, names: Iterable[str], order: CauseSequences) -> DeliveredRows | None:
        """What was taken since the last call, if anything, with the columns `names`."""
        self._close()
        if not self._parts:
            return None
        found, width = _joined(self._parts), self._width
        self._parts = []
        marks, flat = found.marks, found.flat
        columns = [flat[i::width] for i in range(2, width)] if found.plain is None else list(found.plain.columns)
        alone = not marks.any()  # each row is a delivery of its own
        begins = marks % 2 == 0
        of = np.cumsum(begins) - 1  # the delivery of each row
        if found.of_events and alone:
            times = order.times[found.places]
        else:
            times = np.array(flat[1::width] if found.plain is None else found.plain.times, np.int64)
        sequences = order.cause_sequences(found.places, found.phases, times if alone else times[begins])
        fresh = np.ones(len(sequences), bool)
        fresh[1:] = (sequences[1:] != sequences[:-1]) | (found.phases[1:] != found.phases[:-1])
        numbers, triggers = _since(fresh), found.phases
        removed = (marks >= REMOVE) & (marks != EMPTY)
        if alone:
            rows = np.zeros(len(times), np.int64)
        else:
            sides = begins.copy()
            sides[1:] |= removed[1:] & ~removed[:-1]
            rows = _since(sides)
            kept = marks != EMPTY
            if not kept.all():
                of, times, removed, rows = of[kept], times[kept], removed[kept], rows[kept]
                columns = [[v for v, keep in zip(column, kept.tolist(), strict=True) if keep] for column in columns]
            sequences, numbers, triggers = sequences[of], numbers[of], triggers[of]
        if not len(times):
            return None
        if self._columns is None:
            values = [[row.get(each) for row in columns[0]] for each in names]
        else:
            by_name = dict(zip(self._columns, columns, strict=True))
            values = [by_name[each] if each in by_name else [None] * len(times) for each in names]
        return DeliveredRows(times, sequences, triggers, numbers, removed, rows, values)


class _Part(NamedTuple):
    """Flat records with their marks, and by delivery the place and phase of its cause; `of_events`: their time is that
    of the event at the place. As `plain` the records are columns.
    """

    flat: list[Any]
    marks: Int64Array
    places: Int64Array
    phases: Int64Array
    of_events: bool
    plain: InsertColumns | None = None


def _joined(parts: Sequence[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    _, marks, places, phases, of_events, _ = zip(*parts, strict=True)
    flat = [value for each in parts for value in (each.flat if each.plain is None else each.plain.flat)]
    return _Part(flat, np.concatenate(marks), np.concatenate(places), np.concatenate(phases), all(of_events))


def _of_keys(keys: Sequence[CauseKey]) -> tuple[Int64Array, Int64Array]:
    """The places and the phases: those of stops are all 0."""
    return np.array([key[0] for key in keys], np.int64), np.array([key[1] == 1 for key in keys], np.int64)


def _whole(places: Sequence[int]) -> Int64Array:
    return np.arange(places.start, places.stop) if isinstance(places, range) else np.array(places, np.int64)


def _named(names: tuple[str, str], chosen: npt.NDArray[Any]) -> pa.Array:
    """For each element, 0 or 1, its name."""
    if not chosen.any() or chosen.all():
        return pa.repeat(pa.scalar(names[int(chosen[0])]), len(chosen))
    return pa.array(names).take(pa.array(chosen.astype(np.int8)))


def _since(begins: npt.NDArray[np.bool_]) -> Int64Array:
    """For each element how far the last one is at which `begins` is true; the first one begins."""
    at = np.arange(len(begins))
    return at - np.maximum.accumulate(np.where(begins, at, 0))
