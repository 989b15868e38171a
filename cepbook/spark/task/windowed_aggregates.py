"""Aggregates over the last rows, or the last period, of each key: within a task, for whole columns at once.

The results are those of the row engine to the last digit. Sums of whole numbers are differences of running sums, and
wrap as Java's do. Doubles enter and leave in the engine's order, rounding each time: ``numpy.add.accumulate`` adds one
after the other, and a sum starts anew when no number is left.

Rows are laid out by key, the rows of a key in order. Rows that later batches need stay in front: of each key the rows
in its window, and its sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cepbook.lang.plan import nodes
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
        self._values = tuple(dict.fromkeys(place[c.property_name] for c in form.calls if c.property_name))
        totals = [c for c in form.calls if BASE_AGGREGATE[c.name] == "total"]
        self._doubles = tuple(dict.fromkeys(place[c.property_name] for c in totals if c.args[0].type.name == "double"))
        keys = [place[key] for key in form.keys]
        self._read = tuple(dict.fromkeys([TIME, *keys, *self._values]))
        self._held: pa.Table | None = None
        self._sums: dict[str, Float64Array] = {column: np.empty(0) for column in self._doubles}

    @property
    def held(self) -> int:
        """The number of rows that are kept for later batches."""
        return 0 if self._held is None else len(self._held)

    def take(self, rows: pa.Table) -> list[pa.Array]:
        """Take the next rows, in order, and return the statement's columns for each."""
        fresh = rows.select(list(self._read))
        table = fresh if self._held is None else pa.concat_tables([self._held, fresh])
        table = table.combine_chunks()
        layout = _KeyLayout(self._form, table, [self._place[key] for key in self._form.keys], self.held)
        columns = {c: _NumberColumn(table.column(c), layout) for c in self._values}
        sums = {c: layout.carried(columns[c].filled, columns[c], self._sums[c]) for c in self._doubles}
        output = []
        for column in self._form.columns:
            if isinstance(column, str):
                output.append(rows.column(self._place[column]).combine_chunks())
            else:
                output.append(self._made(column, layout, columns, sums))
        stay = layout.staying()
        self._held = table.take(pa.array(layout.order[stay]))
        self._sums = {column: values[stay] for column, values in sums.items()}
        return output

    def _made(
        self,
        call: nodes.AggregateCall,
        layout: _KeyLayout,
        columns: dict[str, _NumberColumn],
        sums: dict[str, Float64Array],
    ) -> pa.Array:
        p, base = call.property_name, BASE_AGGREGATE[call.name]
        if not p:
            return pa.array(layout.back(layout.size))
        name, kind = self._place[p], call.args[0].type.name
        column = columns[name]
        if base == "number":
            return pa.array(layout.back(column.number))
        values: Any
        if base != "total":
            values = column.extreme(base == "lowest")
        else:
            values = sums[name] if kind == "double" else wrap_to_bits(column.total(), max(32, BITS[kind]))
            if call.name == "avg":
                with np.errstate(all="ignore"):
                    values = values / column.number
        return pa.array(layout.back(values), mask=layout.back(column.number == 0), from_pandas=False)


class _KeyLayout:
    """Rows ordered by key: `order` has the row at each position, `first` the position where its window begins."""

    def __init__(self, form: VectorizedWindow, rows: pa.Table, keys: Sequence[str], held: int) -> None:
        count = len(rows)
        codes = _key_codes([rows.column(key) for key in keys], count)
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
        """Return values by position as values of the new rows, in their order."""
        by_row = np.empty(len(self._target), values.dtype)
        by_row[self._target] = values[self.fresh]
        return by_row

    def staying(self) -> BoolArray:
        """Return the positions of rows that later rows need; a key whose last event has left its window needs none."""
        stay: BoolArray = self.place >= np.repeat(self.first[self._ends], self._sizes)
        return stay if self.gone is None else stay & ~np.repeat(self.gone, self._sizes)

    def carried(self, values: Float64Array, column: _NumberColumn, sums: Float64Array) -> Float64Array:
        """Return by position the sum of a column of doubles, continued from `sums` of the rows that were kept.

        A run begins at a row whose sum continues no sum before it in this batch, but that of a kept row, or 0.
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
            known[at] = _sums_after_expiry(values, at, since, leaving, begin, before)
        else:
            known[at] = _sums_before_eviction(values, at, since, self.first[at] > since, begin, before)
        return known


def _sums_after_expiry(
    values: Float64Array,
    at: Int64Array,
    since: Int64Array,
    leaving: Int64Array,
    begin: Int64Array,
    before: Float64Array,
) -> Float64Array:
    """Return the sums with the values `at`; as many values from `since` on leave first. A run begins with the sum
    `before`.
    """
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
    _accumulate_runs(steps, runs)
    totals: Float64Array = steps[ends - 1]
    return totals


def _sums_before_eviction(
    values: Float64Array, at: Int64Array, since: Int64Array, full: BoolArray, begin: Int64Array, before: Float64Array
) -> Float64Array:
    """Return the sums with the values `at`; then the value at `since` leaves a `full` window."""
    steps = np.empty((len(at), 2))
    steps[:, 0] = values[at]
    steps[:, 1] = np.where(full, -values[since], -0.0)  # which changes no sum
    steps[begin, 0] += before
    _accumulate_runs(steps.reshape(-1), 2 * begin)
    return steps[:, 1]


def _accumulate_runs(steps: Float64Array, runs: Int64Array) -> None:
    """Replace each step by the sum of those up to it, one after the other, from the last of `runs` at or before it."""
    ends = np.append(runs[1:], len(steps))
    with np.errstate(all="ignore"):
        short = runs[ends - runs == 2]
        steps[short + 1] += steps[short]
        long = ends - runs > 2
        for begin, end in zip(runs[long].tolist(), ends[long].tolist(), strict=True):
            run = steps[begin:end]
            np.add.accumulate(run, out=run)


class _NumberColumn:
    """A column of numbers in the order of a layout."""

    def __init__(self, values: pa.ChunkedArray, layout: _KeyLayout) -> None:
        self._values, self._layout = values, layout
        self._valid = values.is_valid().to_numpy()[layout.order] if values.null_count else None
        self.number = self.between(layout.first, layout.place + 1)

    @cached_property
    def filled(self) -> npt.NDArray[Any]:
        """The numbers, 0 for null."""
        values = self._values.fill_null(0) if self._values.null_count else self._values
        numbers: npt.NDArray[Any] = values.to_numpy()[self._layout.order]
        return numbers

    def between(self, start: Int64Array, end: Int64Array) -> Int64Array:
        """Return the number of values from position `start` up to, not including, `end`."""
        return end - start if self._valid is None else _range_sums(self._valid, start, end)

    def total(self) -> Int64Array:
        """Return the sums of whole numbers in the windows."""
        return _range_sums(self.filled, self._layout.first, self._layout.place + 1)

    def extreme(self, least: bool) -> npt.NDArray[Any]:
        """Return the least or greatest values in the windows, each from two blocks of 2 ** k rows that cover it."""
        layout, better = self._layout, np.minimum if least else np.maximum
        best = self.filled.copy()
        if self._valid is not None:
            bounds = np.iinfo(best.dtype)
            best[~self._valid] = bounds.max if least else bounds.min
        extremes, width = best.copy(), 1
        while (larger := layout.size >= 2 * width).any():
            whole = layout.place - layout.start >= width
            at = layout.place[whole]
            best[at] = better(best[at], best[at - width])
            width *= 2
            at = layout.place[larger]
            extremes[at] = better(best[at], best[layout.first[at] + width - 1])
        return extremes


def wrap_to_bits(values: Int64Array, bits: int) -> Int64Array:
    """Return 64-bit whole numbers wrapped to `bits`."""
    wrapped: Int64Array = values if bits == 64 else (values << (64 - bits)) >> (64 - bits)
    return wrapped


def _range_sums(values: npt.NDArray[Any], start: Int64Array, end: Int64Array) -> Int64Array:
    """Return the sums of values from position `start` up to, not including, `end`; too large ones wrap."""
    running = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=running[1:])
    sums: Int64Array = running[end] - running[start]
    return sums


def _key_codes(keys: Sequence[pa.ChunkedArray], count: int) -> npt.NDArray[Any]:
    """Return a number per row, equal where the keys are; null is a key."""
    codes, number = np.zeros(count, np.int64), 1
    for key in keys:
        coded = key.combine_chunks().dictionary_encode(null_encoding="encode")
        size = len(coded.dictionary)
        codes = codes * size + coded.indices.to_numpy()
        number *= size
        if len(keys) > 1:
            distinct, codes = np.unique(codes, return_inverse=True)
            number = len(distinct)
    return codes.astype(np.uint16) if number < 2**16 else codes  # few are quickly sorted
