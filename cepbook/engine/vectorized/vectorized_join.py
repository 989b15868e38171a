"""Computes the rows of a join for a batch of events, all at once.

The pairs of one event are one delivery: first those in which it is the event of stream 0, partners in their order, then
those in which it is that of stream 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cepbook.engine.delivery.delta import InsertColumns
from cepbook.engine.vectorized.array_columns import python_values
from cepbook.engine.vectorized.row_store import Array
from cepbook.engine.vectorized.stream_forms import JoinForm
from cepbook.engine.vectorized.vectorized_streams import Output, VectorizedStreams, by_stream, meet


class _Pairs(NamedTuple):
    """Pairs of events by the position and time of the event that makes them: rows of stream 0 and of stream 1. The row
    is -1 where an event is alone.
    """

    places: Array
    times: Array
    rows: tuple[Array, Array]


class VectorizedJoin(VectorizedStreams):
    """The join of one statement, whose form is `form`, over batches of arrays."""

    def __init__(self, form: JoinForm) -> None:
        super().__init__(form.streams, zip(*form.pairs.keys, strict=True))
        self.form = form

    def _states(self, state: Any) -> Sequence[tuple[Any, Any]] | None:
        view = state.view
        return None if view.spec.listeners else list(zip(view.states, view.relations, strict=True))

    def _rearm(self, state: Any, timers: Any) -> None:
        if self.form.timed:
            view = state.view
            view.update_due()
            view.armed = view.due
            timers.rearm(view.due, state, view)

    def _output(self, times: Sequence[Array]) -> Output | None:
        left, right = self._streams
        numbers = self._key_numbers(self.form.pairs, (left, right))
        sides = [side for side, active in enumerate(self.form.active) if active]
        pairs_of_sides = [self._pairs(side, times[side], numbers) for side in sides]
        known = [pairs for pairs in pairs_of_sides if pairs is not None]
        if len(known) < len(sides):
            return None
        places = np.concatenate([pairs.places for pairs in known])
        order = np.argsort(places, kind="stable")  # rows that events of stream 0 make come before
        rows = [np.concatenate([pairs.rows[number] for pairs in known])[order] for number in (0, 1)]
        values, passing = meet(self._streams, rows, self.form.tests)
        order = order[passing]
        row_times, places = np.concatenate([pairs.times for pairs in known])[order], places[order]
        columns = tuple(map(values.values, self.form.outputs))
        begins = np.append(True, places[1:] != places[:-1])[: len(places)]
        return InsertColumns(python_values(row_times), columns), begins

    def _pairs(self, side: int, times: Array, numbers: Sequence[Array]) -> _Pairs | None:
        """Return the pairs that events of a stream make, in order, then those of events alone; None if there are too
        many. `times` are those of the events, `numbers` has a number for the key of each row, by stream.
        """
        left, right = self._streams
        partners_of_events = self._partners(self.form.pairs, (left, right), side, times, numbers)
        if partners_of_events is None:
            return None
        which, partners = partners_of_events
        own, other = self._streams[side], self._streams[1 - side]
        alone = self.form.alone[side]
        lonely = np.flatnonzero(np.bincount(which, minlength=len(times)) == 0) if alone else which[:0]
        if side == 1 and self.form.active[0]:  # stream 0 has made the pair of an event with itself
            places = np.append(np.full(other.retained_before, -1), other.places)
            distinct_events = places[partners] != own.places[which]
            which, partners = which[distinct_events], partners[distinct_events]
        which, partners = np.append(which, lonely), np.append(partners, np.full(len(lonely), -1))
        return _Pairs(own.places[which], times[which], by_stream(side, own.retained_before + which, partners))
