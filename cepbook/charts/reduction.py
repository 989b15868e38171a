"""Reduction of series to what a chart can display: exact extremes for any number of rows.

Rows are in order of time. A chart divides its time range into intervals, one per column of pixels. `extremes` keeps the
first, least, greatest and last value of each interval (M4), so a line through them covers the same pixels as a line
through all rows. Nulls are NaN: they are kept where an interval begins or ends with one, so a gap stays a gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ALL_ROWS = 4  # values of an interval that are kept at most


def intervals(times: np.ndarray, start: float, end: float, count: int) -> np.ndarray:
    """Return the places at which the `count` intervals from `start` to `end` begin, and the place behind the last.

    `end` is included.
    """
    edges = start + (end - start) * np.arange(count + 1) / count
    places = np.searchsorted(times, edges, side="left")
    places[-1] = np.searchsorted(times, end, side="right")
    return places


def extremes(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the places of the first, least, greatest and last value of each interval, in order.

    Interval `i` is ``values[bounds[i]:bounds[i + 1]]``.
    """
    first, last = int(bounds[0]), int(bounds[-1])
    if last - first <= ALL_ROWS * (len(bounds) - 1):
        return np.arange(first, last)
    starts, ends = _filled(bounds)
    places = [starts, ends - 1]
    rows, offsets, counts = values[first:last], starts - first, ends - starts
    for best in (np.fmin, np.fmax):
        hits = np.flatnonzero(rows == np.repeat(best.reduceat(rows, offsets), counts))
        at = np.searchsorted(hits, offsets)  # the first hit of each interval; one of nulls has none
        at = at[at < len(hits)]
        inside = hits[at] < (offsets + counts)[: len(at)]
        places.append(hits[at[inside]] + first)
    return np.unique(np.concatenate(places))


def envelopes(values: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the place at which each interval with rows begins, and its least value, mean and greatest value."""
    starts, ends = _filled(bounds)
    if not len(starts):
        none = np.empty(0)
        return starts, none, none, none
    rows, offsets = values[starts[0] : ends[-1]], starts - starts[0]
    known = ~np.isnan(rows)
    counts = np.add.reduceat(known.astype(np.int64), offsets)
    with np.errstate(invalid="ignore"):
        means = np.add.reduceat(np.where(known, rows, 0.0), offsets) / counts
    return starts, np.fmin.reduceat(rows, offsets), means, np.fmax.reduceat(rows, offsets)


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells over the times from `start` to `end` and the values from `low` to `high`."""

    start: float
    end: float
    low: float
    high: float
    columns: int
    rows: int

    def cells(self, times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of the values that lie in the grid, and the cell of each: ``column * rows + row``."""
        inside = np.flatnonzero(
            (values >= self.low) & (values <= self.high) & (times >= self.start) & (times <= self.end)
        )
        column = (times[inside] - self.start) * (self.columns / ((self.end - self.start) or 1.0))
        row = (values[inside] - self.low) * (self.rows / ((self.high - self.low) or 1.0))
        at = [np.minimum(n.astype(np.int64), most - 1) for n, most in ((column, self.columns), (row, self.rows))]
        return inside, at[0] * self.rows + at[1]

    def occupied(self, times: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the place of the first value in each cell that has one."""
        places, cells = self.cells(times, values)
        _, first = np.unique(cells, return_index=True)
        return np.sort(places[first])

    def counts(self, times: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the number of values in each cell."""
        return np.bincount(self.cells(times, values)[1], minlength=self.columns * self.rows)


def _filled(bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first places of the intervals that have rows, and the places behind their last ones."""
    filled = bounds[:-1] < bounds[1:]
    return bounds[:-1][filled], bounds[1:][filled]
