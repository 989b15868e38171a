"""The contents of a chart: its series, reduced to the pixels of the page, as binary columns, or for a picture.

A chart of lines, areas or bars has the extremes of each column of pixels. A chart of points has them, too, and a point
in each cell of a few pixels. A band has the least, mean and greatest value of each interval, a heat map the number of
rows in each cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from cepbook.charts.reduction import Grid, envelopes, extremes, intervals
from cepbook.errors import UsageError, hint_line
from cepbook.widgets.base.column_encoding import BinaryBuffers
from cepbook.widgets.charts.series_rows import Series

ChartKind = Literal["line", "area", "bar", "point", "band", "heat"]
KINDS: tuple[str, ...] = get_args(ChartKind)
POINT_CELL, HEAT_CELL, BAND_INTERVAL = 2, 4, 3  # pixels


@dataclass(frozen=True, slots=True)
class ChartOptions:
    """How a chart draws its columns: its kind, its own range of values, and lines at `thresholds`.

    Raises UsageError for an unknown kind, and for a range whose end is not above its start.
    """

    kind: ChartKind = "line"
    values: tuple[float, float] | None = None
    thresholds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the options."""
        if self.kind not in KINDS:
            raise UsageError(
                f"a chart is of the kind {', '.join(KINDS)}, not `{self.kind}`{hint_line(self.kind, KINDS)}"
            )
        if self.values is not None and not self.values[0] < self.values[1]:
            low, high = self.values
            raise UsageError(f"the range of a chart goes from a lower to a higher value, not from {low:g} to {high:g}")


@dataclass(frozen=True, slots=True)
class ChartWindow:
    """The part of the plane that is displayed: times (clock units) and pixels."""

    start: int
    end: int
    columns: int
    rows: int


def value_range(series: Series, window: ChartWindow) -> tuple[float, float] | None:
    """Return the least and greatest value of a series in the window; None if it has none."""
    first, last = np.searchsorted(series.group.times, [window.start, window.end + 1])
    values = series.values[first:last]
    if not len(values) or np.isnan(least := np.fmin.reduce(values)):
        return None
    return float(least), float(np.fmax.reduce(values))


def visible_places(
    series: Series, options: ChartOptions, window: ChartWindow, values: tuple[float, float]
) -> np.ndarray:
    """Return the places of the rows that a chart of lines, areas, bars or points draws, with one at either side."""
    times = series.group.times
    bounds = intervals(times, window.start, window.end, window.columns)
    places = extremes(series.values, bounds)
    first, last = int(bounds[0]), int(bounds[-1])
    if options.kind == "point":
        if len(places) < last - first:
            cells = window.columns // POINT_CELL or 1, window.rows // POINT_CELL or 1
            grid = Grid(window.start, window.end, *values, *cells)
            more = grid.occupied(times[first:last], series.values[first:last]) + first
            places = np.union1d(places, more)
        return places
    before, behind = [first - 1] if first else [], [last] if last < len(times) else []
    return np.concatenate([before, places, behind]).astype(np.int64)


def encoded_series(
    series: Sequence[Series], options: ChartOptions, window: ChartWindow, buffers: BinaryBuffers
) -> dict[str, Any]:
    """Return the series of a frame. Times are shares of the range, as float32; values are float64, NaN for null."""
    span = max(1, window.end - window.start)
    ranges = [value_range(one, window) for one in series]
    known = [one for one in ranges if one is not None]
    values = (min(low for low, _ in known), max(high for _, high in known)) if known else None
    frame: dict[str, Any] = {"series": []}

    def shares(times: np.ndarray) -> int:
        return buffers.add(((times - window.start) / span).astype(np.float32))

    for one, own in zip(series, ranges, strict=True):
        entry: dict[str, Any] = {"label": one.label, "rows": len(one.group), "values": own}
        if options.kind == "band":
            bounds = intervals(one.group.times, window.start, window.end, window.columns // BAND_INTERVAL or 1)
            starts, *figures = envelopes(one.values, bounds)
            entry |= {"x": shares(one.group.times[starts]), "band": [buffers.add(figure) for figure in figures]}
        elif options.kind != "heat" and values is not None:
            places = visible_places(one, options, window, values)
            entry |= {
                "x": shares(one.group.times[places]),
                "y": buffers.add(one.values[places]),
                "i": buffers.add(places.astype(np.uint32)),
            }
        frame["series"].append(entry)
    if options.kind == "heat" and values is not None:
        frame["heat"] = _encoded_counts(series, window, options.values or values, buffers)
    return frame


def _encoded_counts(
    series: Sequence[Series], window: ChartWindow, values: tuple[float, float], buffers: BinaryBuffers
) -> dict[str, Any]:
    """Return the numbers of rows by cell, those of all series together."""
    grid = Grid(window.start, window.end, *values, window.columns // HEAT_CELL or 1, window.rows // HEAT_CELL or 1)
    counts = np.zeros(grid.columns * grid.rows, dtype=np.int64)
    for one in series:
        counts += grid.counts(one.group.times, one.values)
    described = {"columns": grid.columns, "rows": grid.rows, "values": values, "most": int(counts.max())}
    return {**described, "b": buffers.add(counts.astype(np.float32))}
