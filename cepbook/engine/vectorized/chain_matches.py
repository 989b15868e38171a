"""Follows the partial matches of a pattern (`ChainForm`) that begin in a batch, all at once.

The next event of an atom with the same key is found by bisection of the atom's events, sorted by key and position. So
the partial matches go through the steps together:

::

    events of the first atom ──► next event of the step  ──► … ──► matches, in the order of their deliveries
                                 or time of its timer
                                   ├── an absent event or a deadline comes before: the partial match has ended
                                   └── neither does in this batch: it stays open, and state nodes take it over

State nodes (`cepbook.engine.patterns`) have the partial matches that are open at the border of two batches. They get
the events that begin or concern these, and no others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cepbook.engine.time.clock import NEVER
from cepbook.engine.vectorized.array_columns import ArrayColumns, StoredColumn, distinct, python_values
from cepbook.engine.vectorized.chain_form import ChainAtom, ChainForm, ChainKey, ChainMatch, ChainStep, ChainStimulus
from cepbook.engine.vectorized.column_batch import ColumnBatch, iterate_events

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Followed:
    """What becomes of the partial matches that begin in a batch.

    Of each match, in order, `rows` has by step the row of the event (-1: a timer), and `ends` and `times` the row and
    time of its completion. `opened` are the rows of the first atom whose partial matches stay open, `moved` the other
    rows that these have matched.
    """

    rows: Sequence[Array]
    ends: Array
    times: Array
    opened: Array
    moved: Array


class _NotComparable(Exception):
    """Columns are no arrays whose elements compare as the engine compares values."""


def chain_stimuli(
    form: ChainForm,
    batches: Mapping[str, ColumnBatch],
    last: int,
    awaited: Mapping[int, Collection[Any] | None],
    room: int,
) -> list[ChainStimulus] | None:
    """Return what a pattern has to do in batches that end at time `last`, in order.

    `batches` have, by type of their atoms, the events that may pass one. `awaited` has the atoms for which state nodes
    wait, each with the keys of the events, the first of which ends the waiting; None for any events. Return None if
    arrays do not decide, or if more than `room` state nodes could wait.
    """
    try:
        batch = _ChainBatch(form, batches, last)
        return batch.stimuli(awaited) if batch.waiting <= room else None
    except _NotComparable:
        return None


class _Stream(NamedTuple):
    """The events of one type, and their rows among all events, ascending."""

    columns: ArrayColumns
    rows: Array

    def column(self, name: str) -> StoredColumn:
        column = self.columns.stored(name)
        if column is None or column.gaps or column.values.dtype.kind not in "iub":
            raise _NotComparable
        return column

    def values(self, name: str, rows: Array) -> Array:
        """Return the elements of a column in some rows, which are rows of this stream."""
        values: Array = self.column(name).values[np.searchsorted(self.rows, rows)]
        return values


class _ChainBatch:
    """The events that may pass an atom of `form`, in order; `last` is the time at which the batch ends."""

    def __init__(self, form: ChainForm, batches: Mapping[str, ColumnBatch], last: int) -> None:
        self._form = form
        self._last = last
        places = np.concatenate([np.asarray(batch.places, np.int64) for batch in batches.values()])
        times = np.concatenate([np.asarray(batch.times, np.int64) for batch in batches.values()])
        order = np.argsort(places, kind="stable")
        rows = np.empty(len(order), np.int64)
        rows[order] = np.arange(len(order))
        self._times: Array = times[order]
        self._streams: dict[str, _Stream] = {}
        for name, batch in batches.items():
            if not isinstance(batch.columns, ArrayColumns):
                raise _NotComparable
            self._streams[name], rows = _Stream(batch.columns, rows[: len(batch.times)]), rows[len(batch.times) :]
        self._passing = {atom.number: self._rows(atom) for atom in form.atoms}

    @property
    def waiting(self) -> int:
        """A bound of the state nodes that would wait, if all partial matches of the batch were open at once."""
        return self._form.leaves * len(self._passing[self._form.first.number])

    def stimuli(self, awaited: Mapping[int, Collection[Any] | None]) -> list[ChainStimulus]:
        """Return the stimuli in order (see `chain_stimuli`)."""
        followed = self._follow()
        atoms = [atom for atom in self._form.atoms[1:] if atom.number in awaited]
        rows = [self._first_with_keys(atom, awaited[atom.number]) for atom in atoms]
        return self._in_order(followed, np.unique(np.concatenate([followed.opened, followed.moved, *rows])))

    def _rows(self, atom: ChainAtom) -> Array:
        """Return the rows that meet the conditions of an atom."""
        stream = self._streams.get(atom.event_type)
        if stream is None:
            return np.empty(0, np.int64)
        if not atom.conditions:
            return stream.rows
        mask = stream.columns.passing((atom.conditions,))
        if mask is None or not mask.exact:
            raise _NotComparable
        passing: Array = stream.rows[np.frombuffer(mask.flags, bool)]
        return passing

    def _first_with_keys(self, atom: ChainAtom, keys: Collection[Any] | None) -> Array:
        """Return the first row of an atom with each of some keys; all rows of the atom if `keys` is None."""
        rows = self._passing[atom.number]
        if keys is None or len(atom.keys) != 1 or not len(rows):
            return rows
        stream, (key,) = self._streams[atom.event_type], atom.keys
        values, places = np.unique(stream.values(key.name, rows), return_index=True)
        texts = stream.column(key.name).texts
        own = python_values(values if texts is None else texts[values])
        first: Array = rows[places[np.array([value in keys for value in own], bool)]]
        return first

    def _follow(self) -> _Followed:
        first = self._passing[self._form.first.number]
        rows, ends, times = [first], first, self._times[first]
        begin = first + 1
        began = [times]  # the time at which each step has begun
        opened, moved = [], []
        for step in self._form.steps:
            ends, times, completed, stays = self._ended(step, rows, begin, began)
            opened.append(rows[0][stays])
            moved += [matched[stays] for matched in rows[1:]]
            order = np.flatnonzero(completed)
            order = order[np.lexsort((times[order], ends[order]))]
            ends, times = ends[order], times[order]
            by_event = step.atom is not None
            rows = [*(matched[order] for matched in rows), ends if by_event else np.full(len(order), -1)]
            began = [*(time[order] for time in began), times]
            begin = ends + by_event
        moves = np.concatenate([first[:0], *moved])
        return _Followed(rows, ends, times, np.concatenate(opened), moves[moves >= 0])

    def _ended(
        self, step: ChainStep, rows: Sequence[Array], begin: Array, began: Sequence[Array]
    ) -> tuple[Array, Array, Mask, Mask]:
        """Return of partial matches that wait from row `begin` on when the step ends: the row of its event, or the
        first row behind its timer, and the time; then masks of those that proceed and of those that stay open.
        """
        none, count = np.full(len(begin), NEVER), len(self._times)
        deadline = reduce(np.minimum, (began[at - 1] + period for at, period in step.deadlines), none)
        absent = reduce(np.minimum, (self._next(atom, rows, begin) for atom in step.absent), none)
        times_and_never = np.append(self._times, NEVER)
        if step.atom is None:
            times = began[-1] + step.interval
            ends = np.searchsorted(self._times, times)
            cancelled = times_and_never[np.minimum(absent, count)] < times
            reached = (times <= self._last) & ~cancelled
        else:
            ends = self._next(step.atom, rows, begin)
            times = times_and_never[ends]
            cancelled = absent < count
            reached = (ends < count) & (ends < absent)
        completed = reached & (times < deadline)
        return ends, times, completed, ~(completed | cancelled | (deadline <= self._last))

    def _next(self, atom: ChainAtom, rows: Sequence[Array], begin: Array) -> Array:
        """Return of partial matches with `rows` the next row of an atom, from `begin` on; the number of rows if there
        is none.
        """
        count, candidates = len(self._times), self._passing[atom.number]
        if not (len(candidates) and len(begin)):
            return np.full(len(begin), count)
        own, wanted = np.zeros(len(candidates), np.int64), np.zeros(len(begin), np.int64)
        for key in atom.keys:
            codes = self._codes(atom, candidates, key, rows[key.step])
            _, together = distinct(np.concatenate((own, wanted)) * (codes.max() + 1) + codes)
            own, wanted = together[: len(own)], together[len(own) :]
        places = np.sort(own * (count + 1) + candidates)
        nearest = np.append(places, NEVER)[np.searchsorted(places, wanted * (count + 1) + begin)]
        return np.where(nearest // (count + 1) == wanted, nearest % (count + 1), count)

    def _codes(self, atom: ChainAtom, rows: Array, key: ChainKey, others: Array) -> Array:
        """Return numbers from 0 for the values of a key in rows of an atom, and in others, those of the events that it
        must equal. Equal values have equal numbers; null equals nothing.
        """
        sides = (
            (self._streams[atom.event_type], key.name, rows),
            (self._streams[self._form.atom_of(key.step).event_type], key.other, others),
        )
        values = [stream.values(name, rows_of_side) for stream, name, rows_of_side in sides]
        texts = [stream.column(name).texts for stream, name, _ in sides]
        kinds = {"b" if array.dtype.kind == "b" else "i" for array in values}
        if len(kinds) > 1 or any(array.dtype == np.uint64 for array in values):
            raise _NotComparable
        numbers: dict[Any, int] = {}
        for side, known in enumerate(texts):
            if known is None:
                continue
            places, codes = distinct(values[side])
            own = [side if text is None else text for text in known[values[side][places]].tolist()]
            values[side] = np.array([numbers.setdefault(text, len(numbers)) for text in own], np.int64)[codes]
        number_sides = sum(known is None for known in texts)
        if number_sides == 1:
            raise _NotComparable
        together = np.concatenate(values)
        return distinct(together.astype(np.int64))[1] if number_sides else together

    def _in_order(self, followed: _Followed, concerned: Array) -> list[ChainStimulus]:
        """Return the stimuli of all matches, and of the rows that concern state nodes."""
        needed = np.zeros(len(self._times), bool)
        for rows in (concerned, *followed.rows):
            needed[rows[rows >= 0]] = True
        events, types = np.empty(len(needed), object), np.empty(len(needed), object)
        for name, stream in self._streams.items():
            places = np.flatnonzero(needed[stream.rows])
            events[stream.rows[places]] = list(iterate_events(stream.columns.of_rows(places), len(places)))
            types[stream.rows] = name
        matches = self._matches(followed, events)
        bits = self._bits(followed.opened, concerned)
        events[bits == 0] = None
        if self._form.steps[-1].atom is not None:
            rows = np.union1d(concerned, followed.ends)
            bounds = [np.searchsorted(followed.ends, rows, side).tolist() for side in ("left", "right")]
            parts = [matches[begin:end] for begin, end in zip(*bounds, strict=True)]
            return _stimuli(False, (rows, self._times[rows], types[rows], events[rows], bits[rows]), parts)
        fields = concerned, self._times[concerned], types[concerned], events[concerned], bits[concerned]
        stimuli = _stimuli(False, fields, repeat(()))
        first = np.flatnonzero(np.diff(followed.times, prepend=-1))
        rows, times = followed.ends[first], followed.times[first]
        parts = [matches[begin:end] for begin, end in pairwise([*first.tolist(), len(matches)])]
        none = np.full(len(rows), None)
        stimuli += _stimuli(True, (rows, times, np.full(len(rows), ""), none, np.zeros(len(rows), int)), parts)
        return sorted(stimuli, key=lambda stimulus: (stimulus.row, not stimulus.timer, stimulus.time))

    def _matches(self, followed: _Followed, events: Array) -> list[ChainMatch]:
        count = len(followed.ends)
        columns = {
            tag: [None] * count if step is None else events[followed.rows[step]].tolist()
            for tag, step in self._form.tags.items()
        }
        paths = zip(*(rows.tolist() for rows in followed.rows[-2::-1]), strict=True)
        return list(zip(paths, iterate_events(columns, count), strict=True))

    def _bits(self, opened: Array, concerned: Array) -> Array:
        """Return for each row the atoms that state nodes are asked for, by bits."""
        bits, asked = np.zeros(len(self._times), np.int64), np.zeros(len(self._times), bool)
        asked[concerned] = True
        for atom in self._form.atoms[1:]:
            rows = self._passing[atom.number]
            bits[rows[asked[rows]]] |= 1 << atom.place
        bits[opened] |= 1 << self._form.first.place
        return bits


def _stimuli(timer: bool, fields: Sequence[Array], matches: Iterable[Sequence[ChainMatch]]) -> list[ChainStimulus]:
    """Return stimuli with the values of `fields`, in the order of the class."""
    rows = zip(*(values.tolist() for values in fields), matches)  # noqa: B905 - `matches` may repeat
    return [ChainStimulus(timer, *values) for values in rows]
