"""Runs batches of statements in which events of one stream meet those in the data window of another one.

The rows of a stream are in order of arrival, so the events that a window has for another event are a range of them.
Sorted by key, and by number for each key, the partners of an event are a range again::

    rows of b        0:x  1:y  2:x  3:x  4:y        a of key x arrives when the window has 1 to 3
    by key           x: 0 2 3    y: 1 4             its partners are 2 and 3

The pairs of all events of a batch are made from these ranges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cepbook.engine.delivery.delta import InsertColumns
from cepbook.engine.vectorized.array_columns import BooleanMask, arrivals, distinct_keys
from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.engine.vectorized.kernel_form import NULL, OutputForm
from cepbook.engine.vectorized.output_arrays import ColumnArrays
from cepbook.engine.vectorized.row_store import MOST_CODES, Array, ValueCodes, coded
from cepbook.engine.vectorized.stream_forms import PairForm, StreamForm
from cepbook.engine.vectorized.stream_rows import StreamRows
from cepbook.interrupts import InterruptGuard

_RETAINED = 32  # rows of windows for each event of a batch, at most: they are sorted by key for each batch
_PAIRS = 100  # pairs for each event of a batch, at most: they are all made before conditions are tested
_MOST_PAIRS = 2**21  # pairs of a batch, at most
_SHORT = 2**16 - 1  # numbers below it are sorted by their digits

Output = tuple[InsertColumns, BooleanMask]  # rows, and which of them begin a delivery
Streams = tuple[StreamRows, StreamRows]


class VectorizedStreams(ABC):
    """The streams of one statement over batches of arrays. `keys` has by stream the properties that must equal those of
    another stream.
    """

    def __init__(self, forms: Sequence[StreamForm], keys: Iterable[Sequence[str]]) -> None:
        self._forms = forms
        self._keys = tuple(keys)
        self._begin()

    def _begin(self) -> None:
        self._codes = ValueCodes()
        self._streams = [StreamRows(s, own, self._codes) for s, own in zip(self._forms, self._keys, strict=True)]

    @abstractmethod
    def _states(self, state: Any) -> Sequence[tuple[Any, Any]] | None:
        """Return the state and the relation of each stream; None if batches must not be run over arrays now."""

    @abstractmethod
    def _output(self, times: Sequence[Array]) -> Output | None:
        """Return the output of a batch whose events of each stream arrive at `times`; None if there are too many pairs,
        or values that arrays do not represent.
        """

    @abstractmethod
    def _rearm(self, state: Any, timers: Any) -> None:
        """Arm the timers of the windows after a batch."""

    def run(
        self, batches: Sequence[ColumnBatch | None], state: Any, span: tuple[int, int], timers: Any
    ) -> Output | None:
        """Run the batch of each stream; `span` has the clock before the batch, and at its last stop. Return the rows,
        and a mask of those that begin a delivery. Return None, and change nothing, if the batch or the state has values
        that arrays do not represent, or if there are too many pairs.

        `state` is the `StatementState`, `timers` are the `StatementTimers`.
        """
        states = self._states(state)
        if states is None:
            return None
        output, before = None, list[int]()
        try:
            if self._many_codes:
                for stream, (own, relation) in zip(self._streams, states, strict=True):
                    stream.make_items(own, relation)
                self._begin()
            if self._read(batches, states):
                before = [stream.count for stream in self._streams]
                output = self._enter(states, *span)
            with InterruptGuard():
                if output is not None:
                    for stream, (own, relation) in zip(self._streams, states, strict=True):
                        stream.commit(own, relation)
                    self._rearm(state, timers)
                    before = []
        except MemoryError:
            output = None
        finally:
            for stream, count in zip(self._streams, before, strict=False):
                stream.cut(count)
            if output is None:
                for stream, (own, relation) in zip(self._streams, states, strict=True):
                    stream.give_up_batch(own, relation)
        return output

    @property
    def _many_codes(self) -> bool:
        """True if most texts that have a code have left the windows."""
        stores = [stream.rows for stream in self._streams]
        return coded(*stores) > MOST_CODES + sum(stream.count for stream in self._streams)

    def _read(self, batches: Sequence[ColumnBatch | None], states: Sequence[tuple[Any, Any]]) -> bool:
        """Read the batches, and load what the windows have. Return False if arrays cannot hold it, or if that is not
        worth it.
        """
        streams = self._streams
        if not all(stream.read(batch) for stream, batch in zip(streams, batches, strict=True)):
            return False
        events = sum(len(stream.places) for stream in streams)
        if sum(stream.retained(own) for stream, (own, _) in zip(streams, states, strict=True)) > _RETAINED * events:
            return False
        return all(stream.adopt(own, events) for stream, (own, _) in zip(streams, states, strict=True))

    def _enter(self, states: Sequence[tuple[Any, Any]], now: int, last: int) -> Output | None:
        """Append the rows of the batch, and return the output (see `run`)."""
        times = self._times(now)
        for stream, (own, _), own_times in zip(self._streams, states, times, strict=True):
            stream.enter(own, own_times)
        output = self._output(times)
        for stream, (own, _) in zip(self._streams, states, strict=True):
            stream.expire(own, last)
        return output

    def _times(self, now: int) -> Sequence[Array]:
        """Return the times at which the events of each stream arrive, at `now` or later."""
        streams = self._streams
        order, ascending = arrivals([stream.places for stream in streams], [stream.times for stream in streams], now)
        times = np.empty(len(order), np.int64)
        times[order] = ascending
        return np.split(times, np.cumsum([len(stream.places) for stream in streams])[:-1])

    def _partners(
        self, form: PairForm, streams: Streams, side: int, times: Array, numbers: Sequence[Array]
    ) -> tuple[Array, Array] | None:
        """Return the pairs that events of stream `side` make when they arrive at `times`: the numbers of events,
        ascending, and rows of the other stream, in order for each event; None if there are too many. `numbers` has a
        number for the key of each row, by stream.
        """
        own, other = streams[side], streams[1 - side]
        keys, count = numbers[side][own.retained_before :], len(numbers[1 - side]) + 1
        by_key, sought = _order(numbers[1 - side]), _order(keys)
        sorted_rows = numbers[1 - side][by_key] * count + by_key
        bounds = np.empty((2, len(keys)), np.int64)
        for own_bounds, rows in zip(bounds, other.visible(own.places, times), strict=True):
            own_bounds[sought] = np.searchsorted(sorted_rows, (keys * count + rows)[sought])  # faster if they ascend
        begin, end = bounds
        if other.form.window == "latest":
            begin = np.maximum(begin, end - 1)
        counts = np.maximum(end - begin, 0)
        counts[keys < 0] = 0
        total = int(counts.sum())
        if total > min(_PAIRS * (len(times) + len(other.places)), _MOST_PAIRS):
            return None
        which = np.repeat(np.arange(len(counts)), counts)
        partners = by_key[np.repeat(begin - np.cumsum(counts) + counts, counts) + np.arange(total)]
        _, meeting = meet(streams, by_stream(side, own.retained_before + which, partners), form.conditions)
        return which[meeting], partners[meeting]

    def _key_numbers(self, form: PairForm, streams: Streams) -> Sequence[Array]:
        """Return a number for the key of each row, by stream; negative where a part is null and equals nothing."""
        left, right = streams
        parts = [np.concatenate((left.column(a), right.column(b))).astype(np.int64) for a, b in form.keys]
        _, numbers = distinct_keys(parts)
        for (name, _), values in zip(form.keys, parts, strict=True) if not form.nulls_meet else ():
            numbers[values == (self._codes.null if name in left.rows.codes else NULL)] = -1
        return np.split(numbers, [left.count])


def by_stream(side: int, own: Array, others: Array) -> tuple[Array, Array]:
    """Return rows of stream 0 and of stream 1, where `own` are those of stream `side`."""
    return (others, own) if side else (own, others)


def _order(numbers: Array) -> Array:
    """Return the order that sorts numbers from -1 on, equal ones as they come."""
    few = numbers.max(initial=0) < _SHORT
    return np.argsort((numbers + 1).astype(np.uint16) if few else numbers, kind="stable")


class PairArrays(ColumnArrays):
    """Values of events, or of pairs: `rows` has the row of each, by stream; -1 where there is no event. `looked_up` are
    the values of subqueries.
    """

    def __init__(
        self, streams: Sequence[StreamRows], rows: Sequence[Array], looked_up: Sequence[ArrayValues] = ()
    ) -> None:
        super().__init__({})
        self._streams = streams
        self.rows = rows
        self.looked_up = looked_up

    def of_rows(self, chosen: Array) -> PairArrays:
        """Return the values of the chosen rows, numbers or a mask."""
        looked_up = [values.compressed(chosen) for values in self.looked_up]
        return PairArrays(self._streams, [rows[chosen] for rows in self.rows], looked_up)

    def other(self, output: OutputForm) -> ArrayValues:
        if output.kind == "looked_up":
            return self.looked_up[output.number]
        return values_of_rows(self._streams[output.number], output.name, self.rows[output.number])


def values_of_rows(stream: StreamRows, name: str, rows: Array) -> ArrayValues:
    """Return a property of the events of some rows; null where the row is -1."""
    store, absent = stream.rows, rows < 0
    if not absent.any():
        return store.array_values(name, store.begin + rows)
    if absent.all():
        return ArrayValues(np.zeros(len(rows)), absent)
    values = store.array_values(name, store.begin + np.maximum(rows, 0))
    return ArrayValues(values.values, absent if values.missing is None else absent | values.missing, values.texts)


def meet(
    streams: Sequence[StreamRows],
    rows: Sequence[Array],
    conditions: Sequence[OutputForm],
    looked_up: Sequence[ArrayValues] = (),
) -> tuple[PairArrays, Array]:
    """Return the values of the pairs, or events, that meet conditions, and their numbers."""
    values, meeting = PairArrays(streams, rows, looked_up), np.arange(len(rows[0]))
    for condition in conditions:
        met = values.meets(condition)
        meeting, values = meeting[met], values.of_rows(met)
    return values, meeting
