"""Computes the rows of a join for a batch of events, all at once.

The rows of either stream are in order of arrival, so the events that a window has for another event are a range of
them. Sorted by key, and by number for each key, the partners of an event are a range again::

    rows of b        0:x  1:y  2:x  3:x  4:y        a of key x arrives when the window has 1 to 3
    by key           x: 0 2 3    y: 1 4             its partners are 2 and 3

The pairs of all events are made from these ranges. Those of one event are one delivery: first pairs in which it is the
event of stream 0, partners in their order, then those in which it is that of stream 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cepbook.engine.delivery.delta import InsertColumns
from cepbook.engine.vectorized.array_columns import BooleanMask, arrivals, distinct_keys, python_values
from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.engine.vectorized.join_form import JoinForm
from cepbook.engine.vectorized.kernel_form import NULL, OutputForm
from cepbook.engine.vectorized.output_arrays import ColumnArrays
from cepbook.engine.vectorized.row_store import MOST_CODES, Array, ValueCodes, coded
from cepbook.engine.vectorized.stream_rows import StreamRows
from cepbook.interrupts import InterruptGuard

_RETAINED = 32  # rows of windows for each event of a batch, at most: they are sorted by key for each batch
_PAIRS = 100  # pairs for each event of a batch, at most: they are all made before conditions are tested
_MOST_PAIRS = 2**21  # pairs of a batch, at most
_SHORT = 2**16 - 1  # numbers below it are sorted by their digits


class _Pairs(NamedTuple):
    """Pairs of events by the position and time of the event that makes them: rows of stream 0 and of stream 1. The row
    is -1 where an event is alone.
    """

    places: Array
    times: Array
    rows: tuple[Array, Array]


class VectorizedJoin:
    """The join of one statement, whose form is `form`, over batches of arrays."""

    def __init__(self, form: JoinForm) -> None:
        self.form = form
        self._begin()

    def _begin(self) -> None:
        self._codes = ValueCodes()
        keys = zip(*self.form.keys, strict=True)
        self._streams = [StreamRows(s, own, self._codes) for s, own in zip(self.form.streams, keys, strict=True)]

    def run(
        self,
        batches: Sequence[ColumnBatch | None],
        state: Any,
        span: tuple[int, int],
        rearm: Callable[..., object],
    ) -> tuple[InsertColumns, BooleanMask] | None:
        """Run the batch of each stream; `span` has the clock before the batch, and at its last stop. Return the rows,
        and a mask of those that begin a delivery. Return None, and change nothing, if the batch or the state has values
        that arrays do not represent, or if there are too many pairs.

        `state` is the `StatementState`, and ``rearm(due, state, view)`` arms the timer of its windows.
        """
        view = state.view
        if view.spec.listeners:
            return None
        try:
            if self._many_codes:
                for stream, own, relation in zip(self._streams, view.states, view.relations, strict=True):
                    stream.make_items(own, relation)
                self._begin()
            output = self._enter(view.states, *span) if self._read(batches, view.states) else None
        except MemoryError:
            output = None
        if output is None:
            for stream in self._streams:
                stream.forget_batch()
            return None
        with InterruptGuard():
            for stream, own, relation in zip(self._streams, view.states, view.relations, strict=True):
                stream.commit(own, relation)
            if self.form.timed:
                view.update_due()
                view.armed = view.due
                rearm(view.due, state, view)
        return output

    @property
    def _many_codes(self) -> bool:
        """True if most texts that have a code have left the windows."""
        stores = [stream.rows for stream in self._streams]
        return coded(*stores) > MOST_CODES + sum(stream.count for stream in self._streams)

    def _read(self, batches: Sequence[ColumnBatch | None], states: Sequence[Any]) -> bool:
        """Read the batches, and load what the windows have. Return False if arrays cannot hold it, or if that is not
        worth it.
        """
        streams = self._streams
        if not all(stream.read(batch) for stream, batch in zip(streams, batches, strict=True)):
            return False
        events = sum(len(stream.places) for stream in streams)
        if sum(stream.retained(own) for stream, own in zip(streams, states, strict=True)) > _RETAINED * events:
            return False
        return all(stream.adopt(own, events) for stream, own in zip(streams, states, strict=True))

    def _enter(self, states: Sequence[Any], now: int, last: int) -> tuple[InsertColumns, BooleanMask] | None:
        """Append the rows of the batch, and return the output (see `run`). Without output nothing has entered."""
        times, entered = self._times(now), list[StreamRows]()
        output = None
        try:
            for stream, own, own_times in zip(self._streams, states, times, strict=True):
                entered.append(stream)
                stream.enter(own, own_times)
            rows_and_begins = self._output(times)
            for stream, own in zip(self._streams, states, strict=True):
                stream.expire(own, last)
            output = rows_and_begins
        finally:
            if output is None:
                for stream in entered:
                    stream.cut()
        return output

    def _times(self, now: int) -> Sequence[Array]:
        """Return the times at which the events of each stream arrive, at `now` or later."""
        streams = self._streams
        order, ascending = arrivals([stream.places for stream in streams], [stream.times for stream in streams], now)
        times = np.empty(len(order), np.int64)
        times[order] = ascending
        return np.split(times, [len(streams[0].places)])

    def _output(self, times: Sequence[Array]) -> tuple[InsertColumns, BooleanMask] | None:
        """Return the rows, and a mask of those that begin a delivery; None if there are too many pairs."""
        numbers = self._key_numbers()
        sides = [side for side, stream in enumerate(self.form.streams) if stream.makes_rows]
        pairs_of_sides = [self._pairs(side, times[side], numbers) for side in sides]
        known = [pairs for pairs in pairs_of_sides if pairs is not None]
        if len(known) < len(sides):
            return None
        places = np.concatenate([pairs.places for pairs in known])
        order = np.argsort(places, kind="stable")  # rows that events of stream 0 make come before
        rows = [np.concatenate([pairs.rows[number] for pairs in known])[order] for number in (0, 1)]
        values, passing = self._meeting(rows, self.form.tests)
        order = order[passing]
        row_times, places = np.concatenate([pairs.times for pairs in known])[order], places[order]
        columns = tuple(map(values.values, self.form.outputs))
        begins = np.append(True, places[1:] != places[:-1])[: len(places)]
        return InsertColumns(python_values(row_times), columns), begins

    def _meeting(self, rows: Sequence[Array], conditions: Sequence[OutputForm]) -> tuple[_PairArrays, Array]:
        """Return the values of the pairs that meet conditions, and their numbers."""
        values, meeting = _PairArrays(self._streams, rows), np.arange(len(rows[0]))
        for condition in conditions:
            met = values.meets(condition)
            meeting, values = meeting[met], _PairArrays(self._streams, [own[met] for own in values.rows])
        return values, meeting

    def _pairs(self, side: int, times: Array, numbers: Sequence[Array]) -> _Pairs | None:
        """Return the pairs that events of a stream make, in order, then those of events alone; None if there are too
        many. `times` are those of the events, `numbers` has a number for the key of each row, by stream.
        """
        own, other = self._streams[side], self._streams[1 - side]
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
        _, meeting = self._meeting(_by_stream(side, own.retained_before + which, partners), self.form.conditions)
        which, partners = which[meeting], partners[meeting]
        lonely = np.flatnonzero(np.bincount(which, minlength=len(keys)) == 0) if own.form.alone else which[:0]
        if side == 1 and other.form.makes_rows:  # stream 0 has made the pair of an event with itself
            places = np.append(np.full(other.retained_before, -1), other.places)
            distinct_events = places[partners] != own.places[which]
            which, partners = which[distinct_events], partners[distinct_events]
        which, partners = np.append(which, lonely), np.append(partners, np.full(len(lonely), -1))
        return _Pairs(own.places[which], times[which], _by_stream(side, own.retained_before + which, partners))

    def _key_numbers(self) -> Sequence[Array]:
        """Return a number for the key of each row, by stream; negative where a part is null and equals nothing."""
        left, right = self._streams
        parts = [np.concatenate((left.column(a), right.column(b))).astype(np.int64) for a, b in self.form.keys]
        _, numbers = distinct_keys(parts)
        for (name, _), values in zip(self.form.keys, parts, strict=True) if not self.form.nulls_meet else ():
            numbers[values == (self._codes.null if name in left.rows.codes else NULL)] = -1
        return np.split(numbers, [left.count])


def _by_stream(side: int, own: Array, others: Array) -> tuple[Array, Array]:
    """Return rows of stream 0 and of stream 1, where `own` are those of stream `side`."""
    return (others, own) if side else (own, others)


def _order(numbers: Array) -> Array:
    """Return the order that sorts numbers from -1 on, equal ones as they come."""
    few = numbers.max(initial=0) < _SHORT
    return np.argsort((numbers + 1).astype(np.uint16) if few else numbers, kind="stable")


class _PairArrays(ColumnArrays):
    """Values of pairs of events: `rows` has the row of each pair, by stream; -1 where there is no event."""

    def __init__(self, streams: Sequence[StreamRows], rows: Sequence[Array]) -> None:
        super().__init__({})
        self._streams = streams
        self.rows = rows

    def other(self, output: OutputForm) -> ArrayValues:
        store, rows = self._streams[output.number].rows, self.rows[output.number]
        absent = rows < 0
        if not absent.any():
            return store.array_values(output.name, store.begin + rows)
        if absent.all():
            return ArrayValues(np.zeros(len(rows)), absent)
        values = store.array_values(output.name, store.begin + np.maximum(rows, 0))
        return ArrayValues(values.values, absent if values.missing is None else absent | values.missing, values.texts)
