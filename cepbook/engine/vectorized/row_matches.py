"""Matches of `match_recognize` in the rows of a batch, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cepbook.engine.vectorized.array_columns import put_nulls
from cepbook.engine.vectorized.kernel_library import kernels
from cepbook.engine.vectorized.partitioned_rows import PartitionedRows
from cepbook.engine.vectorized.recognition_form import MeasureForm
from cepbook.engine.vectorized.row_automaton import INCOMPLETE, UNKNOWN, RowAutomaton
from cepbook.engine.vectorized.row_store import Array

_MOST_TRACED = 64  # rows of a match; longer ones are made from events
_NO_ROW = -1  # in place of a row of a variable without one


class RowMatches:
    """The states of all partitions behind each row, and the matches that are completed, in the order of the rows.

    `begun` has the state of each partition before its first row. `states` has the number of the state by place,
    `completing` the places of the rows that complete a match, and `owners` the number of the partition of each.
    """

    def __init__(self, rows: PartitionedRows, automaton: RowAutomaton, begun: Sequence[int]) -> None:
        self._rows = rows
        self._automaton = automaton
        self._bounds = np.array(rows.bounds)
        self.states = self._followed(begun)
        self._completed: Array = np.array([state.completed for state in automaton.states], np.int64)
        places = np.flatnonzero(self._completed[self.states] != INCOMPLETE)
        self._places = places[np.argsort(rows.order[places], kind="stable")]
        self._owners = np.searchsorted(self._bounds[:-1], self._places, "right") - 1
        self.completing: list[int] = self._places.tolist()
        self.owners: list[int] = self._owners.tolist()

    def _followed(self, begun: Sequence[int]) -> Array:
        """Return the states behind each row."""
        rows, table, extend = self._rows, self._automaton.table, self._automaton.extend
        loaded = kernels(len(rows.order))
        if loaded is None:
            followed = []
            for number, state in enumerate(begun):
                begin, end = rows.bounds[number : number + 2]
                for accepted in rows.accepted[begin:end].tolist():
                    following = table[state][accepted]
                    state = extend(state, accepted) if following == UNKNOWN else following
                    followed.append(state)
            return np.array(followed, np.int64)
        states, number, place = np.empty(len(rows.order), np.int64), 0, 0
        while number < len(begun):
            number, place = loaded.follow_states(
                np.array(table), rows.accepted, self._bounds, np.array(begun), number, place, states
            )
            if number < len(begun):
                before = begun[number] if place == rows.bounds[number] else states[place - 1]
                extend(before, rows.accepted[place])
        return states

    def measures(self, forms: Mapping[str, MeasureForm]) -> tuple[dict[str, list[Any]], list[int]]:
        """Return the values of measures of all matches by name, and the numbers of the matches whose values are not
        known: they have rows of former batches, very many rows, or an aggregate of rows with others in between.
        """
        if not self.completing:
            return {name: [] for name in forms}, []
        first, last, counts, unknown = self._traced()
        columns, scattered = {}, np.zeros(len(self._places), bool)
        in_order = self._rows.columns.of_rows(self._rows.order)
        for name, form in forms.items():
            begin, end = first[form.variable], last[form.variable]
            if form.fold is not None:
                values = in_order[form.name]
                sections = zip(np.maximum(begin, 0).tolist(), (end + 1).tolist(), strict=True)
                columns[name] = [form.fold(values[start:stop]) for start, stop in sections]
                scattered |= (end >= 0) & (counts[form.variable] < end - begin + 1)
            else:
                places = begin if form.first else end
                columns[name] = put_nulls(in_order.of_rows(np.maximum(places, 0))[form.name], places < 0)
        return columns, np.union1d(unknown, np.flatnonzero(scattered)).tolist()

    def _traced(self) -> tuple[Array, Array, Array, Array]:
        """Trace the matches back from their last rows, all at once. Return the places of the first and the last row of
        each variable and the number of its rows, by variable and match; then the numbers of the matches that are not
        traced to their beginning.
        """
        states, count, begin = self._automaton.states, len(self._places), self._bounds[self._owners]
        width = 1 + max((len(state.positions) for state in states), default=0)
        parents = np.array([_padded(state.parents, width) for state in states])
        variables = np.array(
            [_padded([self._automaton.variables[position] for position in state.positions], width) for state in states]
        )
        active, place, unknown = np.arange(count), self._places, []
        state = self.states[place]
        match, variable = self._completed[state], np.array([state.variable for state in states])[state]
        first, last = np.full((2, 1 + max(self._automaton.variables), count), _NO_ROW)
        counts = np.zeros_like(first)
        for _ in range(_MOST_TRACED):
            first[variable, active] = place
            counts[variable, active] += 1
            last[variable, active] = np.maximum(last[variable, active], place)
            before = (match >= 0) & (place <= begin)
            unknown.append(active[before])
            going = (match >= 0) & ~before
            if not going.any():
                break
            active, match, place, begin = active[going], match[going], place[going] - 1, begin[going]
            state = self.states[place]
            match, variable = parents[state, match], variables[state, match]
        else:
            unknown.append(active)
        return first, last, counts, np.concatenate(unknown)


def _padded(numbers: Sequence[int], width: int) -> list[int]:
    return [*numbers, *[0] * (width - len(numbers))]
