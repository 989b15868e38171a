"""What statements deliver within a task, as columns: the rows, and for each what caused it.

A sink keeps flat records and one cause per delivery; all else is worked out for whole columns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cepbook.engine.delta import EMPTY, REMOVE, Key, Record, Row

META: tuple[tuple[str, str, pa.DataType], ...] = (
    ("statement", "string", pa.string()),
    ("time", "bigint", pa.int64()),
    ("sequence", "bigint", pa.int64()),
    ("trigger", "string", pa.string()),
    ("delivery", "bigint", pa.int64()),
    ("kind", "string", pa.string()),
    ("row", "bigint", pa.int64()),
    ("error", "string", pa.string()),
)
CLOCK, EVENT = "clock", "event"
_TRIGGERS, _KINDS = (CLOCK, EVENT), ("insert", "remove")  # no arrays yet: pyarrow would import pandas for them
Whole = npt.NDArray[np.int64]


class Order:
    """What places and stops of the clock within one batch mean: the `times` and `sequences` of its events, in order,

    and those of the `stops`, ascending; a stop has the sequence number of the event that the clock goes there for, one
    for which there is no event has -1.
    """

    def __init__(self, times: Whole, sequences: Whole, stops: Whole, stop_sequences: Whole) -> None:
        self.times, self.sequences = times, sequences
        self._stops, self._stop_sequences = stops, stop_sequences

    def sequence_of(self, places: Whole, phases: Whole, times: Whole) -> Whole:
        """The sequence numbers of causes: of events by their place, of stops by their time."""
        found = np.full(len(places), -1)
        events = phases == 1
        if len(self.sequences):
            found[events] = self.sequences[np.minimum(places[events], len(self.sequences) - 1)]
        if len(self._stops):
            at = np.minimum(np.searchsorted(self._stops, times[~events]), len(self._stops) - 1)
            found[~events] = np.where(self._stops[at] == times[~events], self._stop_sequences[at], -1)
        return found


class Collector:
    """The sink of one statement: keeps its rows, and of each delivery what caused it. `cause` tells what is in hand."""

    __slots__ = ("_cause", "_causes", "_columns", "_flat")

    def __init__(self, cause: Callable[[], Key]) -> None:
        self._columns: tuple[str, ...] | None = None
        self._flat: list[Any] = []
        self._causes: list[Key] = []
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

    def traced(self, flat: list[Any], causes: Sequence[Key]) -> None:
        self._flat += flat
        self._causes += causes

    @property
    def _width(self) -> int:
        return 2 + (1 if self._columns is None else len(self._columns))

    def drain(self, name: str, names: Iterable[str], order: Order) -> tuple[list[pa.Array], list[list[Any]]] | None:
        """What was taken since the last call, if anything: the arrays of `META` and the columns `names`."""
        flat, causes, width = self._flat, self._causes, self._width
        if not flat:
            return None
        self._flat, self._causes = [], []
        marks = np.array(flat[::width], np.int8)
        times = np.array(flat[1::width], np.int64)
        begins = marks % 2 == 0
        of = np.cumsum(begins) - 1  # the delivery of each row
        places, phases = (np.array([cause[i] for cause in causes], np.int64) for i in (0, 1))
        sequences = order.sequence_of(places, phases, times[begins])
        fresh = np.ones(len(causes), bool)
        fresh[1:] = (sequences[1:] != sequences[:-1]) | (phases[1:] != phases[:-1])
        numbers = _since(fresh)
        removed = (marks >= REMOVE) & (marks != EMPTY)
        sides = begins.copy()
        sides[1:] |= removed[1:] & ~removed[:-1]
        rows = _since(sides)
        kept = marks != EMPTY
        columns = [flat[i::width] for i in range(2, width)]
        if not kept.all():
            of, times, removed, rows = of[kept], times[kept], removed[kept], rows[kept]
            columns = [[v for v, keep in zip(column, kept.tolist(), strict=True) if keep] for column in columns]
        if not len(times):
            return None
        meta = [
            pa.repeat(pa.scalar(name), len(times)),
            pa.array(times),
            pa.array(sequences[of]),
            pa.array(_TRIGGERS).take(pa.array(phases[of])),
            pa.array(numbers[of]),
            pa.array(_KINDS).take(pa.array(removed.astype(np.int8))),
            pa.array(rows),
            pa.nulls(len(times), pa.string()),
        ]
        if self._columns is None:
            return meta, [[row.get(each) for row in columns[0]] for each in names]
        by_name = dict(zip(self._columns, columns, strict=True))
        return meta, [by_name[each] if each in by_name else [None] * len(times) for each in names]


def _since(begins: npt.NDArray[np.bool_]) -> Whole:
    """For each element how far the last one is at which `begins` is true; the first one begins."""
    at = np.arange(len(begins))
    return at - np.maximum.accumulate(np.where(begins, at, 0))
