"""Follows the partial matches of a pattern (`ChainForm`) that begin in a batch, all at once.

The next event of an atom with the same key is found by bisection of the atom's events, sorted by key and position. So
the partial matches go through the steps together:

::

    events of the first atom ──► next event of the step  ──► … ──► matches, in the order of their deliveries
                                 or time of its timer
                                   ├── an absent event or a deadline comes before: the partial match has ended
                                   └── neither does in this batch: it stays open, and state nodes take it over

State nodes (`cepbook.engine.patterns`) keep the partial matches that are open when a batch ends. They receive only the
events that start, advance or end one of these.

A row is the position of an event among all events of the batch; times do not descend. At equal times a timer comes
before an event, and an absence before the event that waits. After a step partial matches are in the order in which
state nodes would have started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import pairwise, repeat
from operator import and_
from typing import Any

import numpy as np

from cepbook.engine.time.clock import NEVER
from cepbook.engine.vectorized.array_columns import ArrayColumns, BooleanMask, StoredColumn, arrivals, distinct
from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.engine.vectorized.chain_form import (
    ChainAtom,
    ChainForm,
    ChainKey,
    ChainMatch,
    ChainStep,
    ChainStimulus,
)
from cepbook.engine.vectorized.column_batch import ColumnBatch, iterate_events
from cepbook.engine.vectorized.kernel_form import OutputForm
from cepbook.engine.vectorized.output_arrays import ColumnArrays
from cepbook.engine.vectorized.row_store import Array, is_exact

_TOGETHER = 16  # events that all partial matches try at once; those that still wait then try the others by themselves
_MOST_TRIES = 64  # for each event of a batch, by partial matches by themselves


@dataclass(frozen=True, slots=True)
class _Followed:
    """The matches of the partial matches that begin in a batch, and the partial matches that stay open.

    Of each match, in order, `rows` has by step the row of the event (-1: a timer), `ends` and `times` have the row and
    time of its completion, and `sort_key` has what orders it. `opened` are the rows of the first atom whose partial
    matches stay open, `moved` the other rows that these have matched.
    """

    rows: Sequence[Array]
    ends: Array
    times: Array
    sort_key: Sequence[Array]
    opened: Array
    moved: Array


class _NeedsStateNodes(Exception):
    """Columns are no arrays, or their elements do not compare as the engine compares values."""


def chain_stimuli(
    form: ChainForm,
    batches: Mapping[str, ColumnBatch],
    span: tuple[int, int],
    awaited: Mapping[int, Sequence[Sequence[Any]] | None],
    room: int,
) -> list[ChainStimulus] | None:
    """Return what a pattern has to do in batches that begin and end at the times `span`, in order.

    `batches` have, by type of their atoms, the events that may pass one. `awaited` has the atoms for which state nodes
    wait: the events of their matches, in the order of tags; None if any event of the atom may concern them. Return None
    if arrays do not decide, or if more than `room` state nodes could wait.
    """
    try:
        batch = _ChainBatch(form, batches, span)
        return batch.stimuli(awaited) if batch.most_nodes <= room else None
    except _NeedsStateNodes:
        return None


class _Stream:
    """The events of one type, and their rows among all events, ascending."""

    def __init__(self, columns: ArrayColumns, rows: Array) -> None:
        self.columns = columns
        self.rows = rows
        self._stored: dict[str, StoredColumn] = {}

    def column(self, name: str, rows: Array) -> StoredColumn:
        """Return a property in some rows, which are rows of this stream."""
        if name not in self._stored:
            self._stored[name] = self.columns.stored(name) or _of_values(self.columns[name])
        column = self._stored[name]
        return column._replace(values=column.values[np.searchsorted(self.rows, rows)])


class _Partials:
    """Partial matches by number, whose events have properties that ``fetch(step, name)`` returns."""

    def __init__(self, fetch: Callable[[int, str], StoredColumn]) -> None:
        self._fetch = cache(fetch)

    def column(self, step: int, name: str, which: Array | slice = slice(None)) -> StoredColumn:
        """Return a property of the events that some partial matches have matched at a step."""
        column = self._fetch(step, name)
        return column._replace(values=column.values[which])


class _Pairs(ColumnArrays):
    """Events that arrive, in the rows `arrived` of a stream, each beside one of the partial matches `which`."""

    def __init__(self, stream: _Stream, arrived: Array, partials: _Partials, which: Array) -> None:
        super().__init__({})
        self._stream = stream
        self._arrived = arrived
        self._partials = partials
        self._which = which

    def values(self, output: OutputForm) -> ArrayValues:
        if output.kind == "property":
            return self._numbers(self._stream.column(output.name, self._arrived))
        return super().values(output)

    def other(self, output: OutputForm) -> ArrayValues:
        return self._numbers(self._partials.column(output.number, output.name, self._which))

    def _numbers(self, column: StoredColumn) -> ArrayValues:
        if column.texts is not None or column.values.dtype.kind not in "fiu" or not is_exact(column):
            raise _NeedsStateNodes
        return ArrayValues.of_column(column)


def _of_values(values: list[Any]) -> StoredColumn:
    """Return Python values as a column."""
    types = set(map(type, values))
    if types <= {str, type(None)}:
        return StoredColumn(np.arange(len(values)), texts=np.array([*values, None], object)[:-1])
    if types in ({int}, {bool}):
        try:
            return StoredColumn(np.array(values, bool if types == {bool} else np.int64))
        except OverflowError as failure:
            raise _NeedsStateNodes from failure
    if types <= {int, float, type(None)}:
        return StoredColumn(np.array([np.nan if value is None else value for value in values], np.float64), gaps=True)
    raise _NeedsStateNodes


class _ChainBatch:
    """The events that may pass an atom of `form`, in order; the batch begins and ends at the times `span`."""

    def __init__(self, form: ChainForm, batches: Mapping[str, ColumnBatch], span: tuple[int, int]) -> None:
        self._form = form
        now, self._last = span
        streams = batches.values()
        order, self._times = arrivals([batch.places for batch in streams], [batch.times for batch in streams], now)
        rows = np.empty(len(order), np.int64)
        rows[order] = np.arange(len(order))
        self._streams: dict[str, _Stream] = {}
        for name, batch in batches.items():
            if not isinstance(batch.columns, ArrayColumns):
                raise _NeedsStateNodes
            self._streams[name], rows = _Stream(batch.columns, rows[: len(batch.times)]), rows[len(batch.times) :]
        self._passing = {atom.number: self._rows(atom) for atom in form.atoms}

    @property
    def most_nodes(self) -> int:
        """A bound of the state nodes that would wait, if all partial matches of the batch were open at once."""
        return self._form.nodes * len(self._passing[self._form.first.number])

    def stimuli(self, awaited: Mapping[int, Sequence[Sequence[Any]] | None]) -> list[ChainStimulus]:
        """Return the stimuli in order (see `chain_stimuli`)."""
        followed = self._follow()
        atoms = [atom for atom in self._form.atoms[1:] if atom.number in awaited]
        rows = [self._concerned(atom, awaited[atom.number]) for atom in atoms]
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
            raise _NeedsStateNodes
        passing: Array = stream.rows[np.frombuffer(mask.flags, bool)]
        return passing

    def _concerned(self, atom: ChainAtom, matches: Sequence[Sequence[Any]] | None) -> Array:
        """Return the first row of an atom that satisfies each state node that waits after one of `matches`; without
        these (None) all rows of the atom.
        """
        if matches is None:
            return self._passing[atom.number]
        places = {step: place for place, step in enumerate(self._form.tags.values())}
        partials = _Partials(lambda step, name: _of_values([match[places[step]].get(name) for match in matches]))
        begin, count = np.zeros(len(matches), np.int64), len(self._times)
        rows = self._next(atom, partials, begin, np.full(len(matches), count))
        return rows[rows < count]

    def _follow(self) -> _Followed:
        first = self._passing[self._form.first.number]
        rows, ends, times = [first], first, self._times[first]
        sort_key: list[Array] = []
        begin = first + 1
        began = [times]  # the time at which each step has begun
        opened, moved = [], []
        for step in self._form.steps:
            sort_key = [ends, *sort_key]
            partials = self._partials(rows)
            ends, times, completed, stays = self._ended(step, partials, begin, began)
            opened.append(rows[0][stays])
            moved += [matched[stays] for matched in rows[1:]]
            order = np.flatnonzero(completed)
            by = times[order]
            if step.atom is not None and step.atom.bound is not None:
                sort_key = [np.zeros(len(stays)), *sort_key]
                if len(order):
                    pairs = _Pairs(self._streams[step.atom.event_type], ends[order], partials, order)
                    sort_key[0][order], _ = pairs.number(step.atom.bound)
                by = sort_key[0][order]
            order = order[np.lexsort((by, ends[order]))]
            ends, times = ends[order], times[order]
            sort_key = [values[order] for values in sort_key]
            rows = [*(matched[order] for matched in rows), ends if step.atom is not None else np.full(len(order), -1)]
            began = [*(time[order] for time in began), times]
            begin = ends + (step.atom is not None)
        moves = np.concatenate([first[:0], *moved])
        return _Followed(rows, ends, times, sort_key, np.concatenate(opened), moves[moves >= 0])

    def _partials(self, rows: Sequence[Array]) -> _Partials:
        """Return partial matches whose events are in `rows`, by step."""
        return _Partials(lambda step, name: self._streams[self._form.atom_of(step).event_type].column(name, rows[step]))

    def _ended(
        self, step: ChainStep, partials: _Partials, begin: Array, began: Sequence[Array]
    ) -> tuple[Array, Array, BooleanMask, BooleanMask]:
        """Return of partial matches that wait from row `begin` on when the step ends: the row of its event, or the
        first row behind its timer, and the time; then masks of those that proceed and of those that stay open.
        """
        none, count = np.full(len(begin), NEVER), len(self._times)
        deadline = reduce(np.minimum, (began[after] + period for after, period in step.deadlines), none)
        due = none if step.atom is not None else began[-1] + step.interval
        until = np.searchsorted(self._times, np.minimum(deadline, due))
        absent = reduce(np.minimum, (self._next(atom, partials, begin, until) for atom in step.absent), none)
        times_and_never = np.append(self._times, NEVER)
        if step.atom is None:
            times, ends = due, np.searchsorted(self._times, due)
            cancelled = times_and_never[np.minimum(absent, count)] < due
            reached = (times <= self._last) & ~cancelled
        else:
            ends = self._next(step.atom, partials, begin, until)
            times = times_and_never[ends]
            cancelled = absent < count
            reached = (ends < count) & (ends < absent)
        completed = reached & (times < deadline)
        return ends, times, completed, ~(completed | cancelled | (deadline <= self._last))

    def _next(self, atom: ChainAtom, partials: _Partials, begin: Array, until: Array) -> Array:
        """Return of partial matches the next row of an atom, from `begin` on; the number of rows if there is none.
        Comparisons are made with rows before `until` only.
        """
        count, candidates = len(self._times), self._passing[atom.number]
        if not (len(candidates) and len(begin)):
            return np.full(len(begin), count)
        own, sought = np.zeros(len(candidates), np.int64), np.zeros(len(begin), np.int64)
        for key in atom.keys:
            codes = self._codes(atom, candidates, key, partials)
            _, together = distinct(np.concatenate((own, sought)) * (codes.max() + 1) + codes)
            own, sought = together[: len(own)], together[len(own) :]
        places = np.sort(own * (count + 1) + candidates)
        first = np.searchsorted(places, sought * (count + 1) + begin)
        if not atom.comparisons:
            nearest = np.append(places, NEVER)[first]
            return np.where(nearest // (count + 1) == sought, nearest % (count + 1), count)
        return self._next_that_meets(
            atom, partials, places % (count + 1), first, np.searchsorted(places, sought * (count + 1) + until)
        )

    def _next_that_meets(
        self, atom: ChainAtom, partials: _Partials, candidates: Array, first: Array, end: Array
    ) -> Array:
        """Return of partial matches the next row that meets the comparisons of an atom, among `candidates` from place
        `first` up to `end`.
        """
        nearest = np.full(len(first), len(self._times))
        waiting = np.flatnonzero(first < end)
        for at in range(_TOGETHER):
            tried = candidates[first[waiting] + at]
            meets = self._meets(atom, tried, partials, waiting)
            nearest[waiting[meets]] = tried[meets]
            waiting = waiting[~meets]
            waiting = waiting[first[waiting] + at + 1 < end[waiting]]
        if int((end[waiting] - first[waiting]).sum()) > _MOST_TRIES * len(self._times):
            raise _NeedsStateNodes  # state nodes with a bound are found by it
        for one in waiting.tolist():
            tried = candidates[first[one] + _TOGETHER : end[one]]
            meets = self._meets(atom, tried, partials, np.full(len(tried), one))
            if meets.any():
                nearest[one] = tried[meets.argmax()]
        return nearest

    def _meets(self, atom: ChainAtom, arrived: Array, partials: _Partials, which: Array) -> BooleanMask:
        """Return whether the events in rows `arrived` meet the comparisons of an atom with partial matches."""
        if not len(arrived):  # without events of a type it has no columns
            return np.ones(0, bool)
        pairs = _Pairs(self._streams[atom.event_type], arrived, partials, which)
        return reduce(and_, map(pairs.meets, atom.comparisons))

    def _codes(self, atom: ChainAtom, rows: Array, key: ChainKey, partials: _Partials) -> Array:
        """Return numbers from 0 for the values of a key in rows of an atom, and then of partial matches, in the events
        that it must equal. Equal values have equal numbers; null equals nothing.
        """
        sides = self._streams[atom.event_type].column(key.name, rows), partials.column(key.step, key.other)
        values, texts = [side.values for side in sides], [side.texts for side in sides]
        kinds = {array.dtype.kind for array in values}
        if any(side.gaps for side in sides) or not (kinds <= {"i", "u"} or kinds == {"b"}):
            raise _NeedsStateNodes
        if any(array.dtype == np.uint64 for array in values):
            raise _NeedsStateNodes
        numbers: dict[Any, int] = {}
        for side, known in enumerate(texts):
            if known is None:
                continue
            places, codes = distinct(values[side])
            own = [side if text is None else text for text in known[values[side][places]].tolist()]
            values[side] = np.array([numbers.setdefault(text, len(numbers)) for text in own], np.int64)[codes]
        number_sides = sum(known is None for known in texts)
        if number_sides == 1:
            raise _NeedsStateNodes
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
        first = np.flatnonzero(np.diff(followed.times, prepend=NEVER))
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
        sort_keys = zip(*(values.tolist() for values in followed.sort_key), strict=True)
        return list(zip(sort_keys, iterate_events(columns, count), strict=True))

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
