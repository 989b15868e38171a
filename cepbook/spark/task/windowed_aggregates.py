"""Aggregates over the last rows, or the last while, of each key: within a task, for whole columns at once.

What `forms` recognises is computed here as the row engine computes it, to the last digit. Sums of whole numbers are
differences of running sums, and wrap as Java's do. Doubles come and go in the engine's order, each rounding as it goes:
``numpy.add.accumulate`` adds one after the other; a sum in which no number is left begins anew.

Rows are laid out by key, those of one key in order. What later rows need stays in front of them: of each key the rows
in its window, and its sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cepbook.lang.plan import expressions, nodes
from cepbook.lang.types import BITS
from cepbook.spark.task.program import BASE_AGGREGATE, VectorizedWindow
from cepbook.spark.task.stream_columns import TIME

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Float64Array = npt.NDArray[np.float64]


class KeyedWindows:
    """The windows of one statement; `place` has the columns of the properties."""

    def __init__(self, form: VectorizedWindow, place: dict[str, str]) -> None:
        self._form, self._place = form, place
        calls = [c for c in form.columns if isinstance(c, nodes.AggregateCall)]
        self._values = tuple(dict.fromkeys(place[p] for p in map(aggregated_property, calls) if p))
        totals = [c for c in calls if BASE_AGGREGATE[c.name] == "total"]
        self._doubles = tuple(
            dict.fromkeys(place[aggregated_property(c)] for c in totals if c.args[0].type.name == "double")
        )
        keys = [place[key] for key in form.keys]
        self._read = tuple(dict.fromkeys([TIME, *keys, *self._values]))
        self._held: pa.Table | None = None
        self._sums: dict[str, Float64Array] = {column: np.empty(0) for column in self._doubles}

    @property
    def held(self) -> int:
        """How many rows stay for those to come."""
        return 0 if self._held is None else len(self._held)

    def take(self, rows: pa.Table) -> list[pa.Array]:
        """The next rows, in order: the statement's columns for each."""
        own = rows.select(list(self._read))
        found = own if self._held is None else pa.concat_tables([self._held, own])
        found = found.combine_chunks()
        laid = _Laid(self._form, found, [self._place[key] for key in self._form.keys], self.held)
        columns = {c: _Column(found.column(c), laid) for c in self._values}
        sums = {c: laid.carried(columns[c].filled, columns[c], self._sums[c]) for c in self._doubles}
        shown = []
        for each in self._form.columns:
            if isinstance(each, nodes.AggregateCall):
                shown.append(self._made(each, laid, columns, sums))
            else:
                shown.append(rows.column(self._place[each]).combine_chunks())
        stay = laid.staying()
        self._held = found.take(pa.array(laid.order[stay]))
        self._sums = {column: values[stay] for column, values in sums.items()}
        return shown

    def _made(
        self, call: nodes.AggregateCall, laid: _Laid, columns: dict[str, _Column], sums: dict[str, Float64Array]
    ) -> pa.Array:
        p, made = aggregated_property(call), BASE_AGGREGATE[call.name]
        if not p:
            return pa.array(laid.back(laid.size))
        name, kind = self._place[p], call.args[0].type.name
        column = columns[name]
        if made == "number":
            return pa.array(laid.back(column.number))
        values: Any
        if made != "total":
            values = column.extreme(made == "lowest")
        else:
            values = sums[name] if kind == "double" else wrap_to_bits(column.total(), max(32, BITS[kind]))
            if call.name == "avg":
                with np.errstate(all="ignore"):
                    values = values / column.number
        return pa.array(laid.back(values), mask=laid.back(column.number == 0), from_pandas=False)


class _Laid:
    """Rows by key: `order` says which row is where, `first` for each place where its window begins."""

    def __init__(self, form: VectorizedWindow, rows: pa.Table, keys: Sequence[str], held: int) -> None:
        count = len(rows)
        codes = _codes([rows.column(key) for key in keys], count)
        self.order = np.argsort(codes, kind="stable")
        codes = codes[self.order]
        begins = np.ones(count, bool)
        begins[1:] = codes[1:] != codes[:-1]
        starts = np.flatnonzero(begins)
        self._sizes = np.diff(starts, append=count)
        self._ends = starts + self._sizes - 1
        self.start = np.repeat(starts, self._sizes)
        self.place = np.arange(count)
        self.fresh = self.order >= held
        self._target = self.order[self.fresh] - held
        self._form = form
        self.gone: BoolArray | None = None
        if form.length:
            self.first = np.maximum(self.place - (form.length - 1), self.start)
        else:
            times = rows.column(TIME).to_numpy()
            now, times = times[-1], times[self.order]
            in_order = np.sort(times, kind="stable")
            before = np.searchsorted(in_order, times, "left")
            expired = np.searchsorted(in_order, times - form.span, "right")
            by_key = codes.astype(np.int64) * (count + 1)
            self.first = np.searchsorted(by_key + before, by_key + expired)
            self.gone = times[self._ends] <= now - form.span
        self.size = self.place - self.first + 1

    def back(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values by place as values of the rows that came, in their order."""
        found = np.empty(len(self._target), values.dtype)
        found[self._target] = values[self.fresh]
        return found

    def staying(self) -> BoolArray:
        """The places of rows that later ones need; keys whose last event has left their window need none."""
        stay: BoolArray = self.place >= np.repeat(self.first[self._ends], self._sizes)
        return stay if self.gone is None else stay & ~np.repeat(self.gone, self._sizes)

    def carried(self, values: Float64Array, column: _Column, sums: Float64Array) -> Float64Array:
        """By place the sum of a column of doubles, as the engine carries it on from `sums` of the rows held.

        A row whose sum goes on from none of these before it, but from one that was held or from 0, begins a run.
        """
        at = np.flatnonzero(self.fresh)
        leading = at == self.start[at]
        since = np.where(leading, at, self.first[at - 1])
        aged = not self._form.length
        anew = column.between(self.first[at] if aged else since, at) == 0  # the sum of no numbers
        begin = np.flatnonzero(anew | ~self.fresh[at - 1] | leading)
        known = np.zeros(len(self.place))
        known[~self.fresh] = sums
        before = np.where(anew[begin], 0.0, known[at[begin] - 1])
        if aged:
            leaving = np.where(anew, 0, self.first[at] - since)
            known[at] = _when_old_ones_left(values, at, since, leaving, begin, before)
        else:
            known[at] = _before_one_leaves(values, at, since, self.first[at] > since, begin, before)
        return known


def _when_old_ones_left(
    values: Float64Array,
    at: Int64Array,
    since: Int64Array,
    leaving: Int64Array,
    begin: Int64Array,
    before: Float64Array,
) -> Float64Array:
    """The sums with the values `at`; so many from `since` on are `leaving` first. Runs begin with those `before`."""
    sizes = 1 + leaving
    sizes[begin] += 1
    ends = np.cumsum(sizes)
    steps = np.empty(int(ends[-1]) if len(ends) else 0)
    inner = ends - 1 - leaving
    runs = inner[begin] - 1
    steps[runs] = before
    steps[ends - 1] = values[at]
    whose = np.repeat(np.arange(len(at)), leaving)
    nth = np.arange(len(whose)) - np.repeat(np.cumsum(leaving) - leaving, leaving)
    steps[inner[whose] + nth] = -values[since[whose] + nth]
    _run_on(steps, runs)
    found: Float64Array = steps[ends - 1]
    return found


def _before_one_leaves(
    values: Float64Array, at: Int64Array, since: Int64Array, full: BoolArray, begin: Int64Array, before: Float64Array
) -> Float64Array:
    """The sums with the values `at`; then that at `since` leaves a `full` window. Runs begin with those `before`."""
    steps = np.empty((len(at), 2))
    steps[:, 0] = values[at]
    steps[:, 1] = np.where(full, -values[since], -0.0)  # which changes no sum
    steps[begin, 0] += before
    _run_on(steps.reshape(-1), 2 * begin)
    return steps[:, 1]


def _run_on(steps: Float64Array, runs: Int64Array) -> None:
    """Each step becomes the sum of those up to it, one after the other, from the last of `runs` at or before it."""
    ends = np.append(runs[1:], len(steps))
    with np.errstate(all="ignore"):
        short = runs[ends - runs == 2]
        steps[short + 1] += steps[short]
        long = ends - runs > 2
        for begin, end in zip(runs[long].tolist(), ends[long].tolist(), strict=True):
            part = steps[begin:end]
            np.add.accumulate(part, out=part)


class _Column:
    """A column of numbers, laid out."""

    def __init__(self, values: pa.ChunkedArray, laid: _Laid) -> None:
        self._values, self._laid = values, laid
        self._valid = values.is_valid().to_numpy()[laid.order] if values.null_count else None
        self.number = self.between(laid.first, laid.place + 1)

    @cached_property
    def filled(self) -> npt.NDArray[Any]:
        """The numbers, 0 for null."""
        values = self._values.fill_null(0) if self._values.null_count else self._values
        found: npt.NDArray[Any] = values.to_numpy()[self._laid.order]
        return found

    def between(self, start: Int64Array, end: Int64Array) -> Int64Array:
        """How many values there are from place `start` up to `end`."""
        return end - start if self._valid is None else _differences(self._valid, start, end)

    def total(self) -> Int64Array:
        """The sums of whole numbers in the windows."""
        return _differences(self.filled, self._laid.first, self._laid.place + 1)

    def extreme(self, least: bool) -> npt.NDArray[Any]:
        """The least or greatest values in the windows: of two blocks of 2 ** k rows that cover them."""
        laid, better = self._laid, np.minimum if least else np.maximum
        best = self.filled.copy()
        if self._valid is not None:
            bounds = np.iinfo(best.dtype)
            best[~self._valid] = bounds.max if least else bounds.min
        found, width = best.copy(), 1
        while (larger := laid.size >= 2 * width).any():
            whole = laid.place - laid.start >= width
            at = laid.place[whole]
            best[at] = better(best[at], best[at - width])
            width *= 2
            at = laid.place[larger]
            found[at] = better(best[at], best[laid.first[at] + width - 1])
        return found


def aggregated_property(call: nodes.AggregateCall) -> str:
    """What an aggregate is of, "" for count(*)."""
    return call.args[0].name if call.args and isinstance(call.args[0], expressions.Prop) else ""


def wrap_to_bits(values: Int64Array, bits: int) -> Int64Array:
    """Whole numbers of 64 bits as those of so many."""
    found: Int64Array = values if bits == 64 else (values << (64 - bits)) >> (64 - bits)
    return found


def _differences(values: npt.NDArray[Any], start: Int64Array, end: Int64Array) -> Int64Array:
    """The sums of values from place `start` up to `end`; too large ones wrap."""
    running = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=running[1:])
    found: Int64Array = running[end] - running[start]
    return found


def _codes(keys: Sequence[pa.ChunkedArray], count: int) -> npt.NDArray[Any]:
    """A number for each row, the same where the keys are; null is a key."""
    found, number = np.zeros(count, np.int64), 1
    for key in keys:
        coded = key.combine_chunks().dictionary_encode(null_encoding="encode")
        own = len(coded.dictionary)
        found = found * own + coded.indices.to_numpy()
        number *= own
        if len(keys) > 1:
            distinct, found = np.unique(found, return_inverse=True)
            number = len(distinct)
    return found.astype(np.uint16) if number < 2**16 else found  # few are quickly sorted
