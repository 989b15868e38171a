"""The picture of a chart for the saved notebook: a PNG where one can be made, and the figures of each series."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

from cepbook.charts.builders import HEIGHT, WIDTH, labels
from cepbook.charts.offline_renderer import SCHEMA, drawable, vega_png
from cepbook.charts.theme import themed
from cepbook.display import DisplayTable, decimal_places, format_number, heading_html, table_html, table_text
from cepbook.errors import printable
from cepbook.widgets.base.column_encoding import BinaryBuffers
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.charts.chart_frames import ChartOptions, ChartWindow, encoded_series
from cepbook.widgets.charts.series_rows import Series

PICTURE_COLUMNS, FEWEST_COLUMNS = 640, 40  # intervals of a series, fewer if there are many series
_MARKS: dict[str, dict[str, Any]] = {
    "line": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
    "area": {"type": "area", "interpolate": "step-after", "opacity": 0.4, "line": {"strokeWidth": 1.5}},
    "bar": {"type": "bar", "opacity": 0.8, "size": 2},
    "point": {"type": "point", "filled": True, "size": 10, "opacity": 0.7},
}


def chart_picture(
    title: str, note: str, series: Sequence[Series], options: ChartOptions, span: tuple[int, int] | None, second: int
) -> StaticPicture:
    """Return the chart of the rows from one time to another (clock units, `second` per second)."""
    columns = max(FEWEST_COLUMNS, PICTURE_COLUMNS // max(1, len(series)))
    window = None if span is None else ChartWindow(*span, columns, HEIGHT)
    table = figures_table(series, window)
    png = None if window is None else vega_png(themed(drawable(vega_spec(series, options, window, second))))
    image = "" if png is None else f'<img alt="{escape(title, quote=True)}" src="data:image/png;base64,{png}">'
    html = f"<div>{heading_html(title, note)}{image}{table_html(table) if table.cells else ''}</div>"
    text = "\n".join([f"{title}  ({note})" if note else title, *([table_text(table)] if table.cells else ())])
    return StaticPicture(html, text)


def figures_table(series: Sequence[Series], window: ChartWindow | None) -> DisplayTable:
    """Return the number of rows in the window, the nulls among them, and the least, greatest and last value."""
    cells = []
    for one in series:
        values = one.values
        if window is not None:
            first, last = np.searchsorted(one.group.times, [window.start, window.end + 1])
            values = values[first:last]
        known = values[~np.isnan(values)]
        figures = [float(known.min()), float(known.max()), float(known[-1])] if len(known) else []
        places = decimal_places(figures)
        texts = [format_number(figure, places) for figure in figures] or [""] * 3
        nulls = len(values) - len(known)
        cells.append((one.label, f"{len(values):,}", f"{nulls:,}" if nulls else "", *texts))
    headings = ("series", "rows", "nulls", "least", "greatest", "last")
    return DisplayTable(headings, (False, True, True, True, True, True), tuple(cells))


def vega_spec(series: Sequence[Series], options: ChartOptions, window: ChartWindow, second: int) -> dict[str, Any]:
    """Return the chart in Vega-Lite, with the points that a page of this size has."""
    buffers = BinaryBuffers()
    frame = encoded_series(series, options, window, buffers)
    start, end = (time * 1000 / second for time in (window.start, window.end))

    def column(index: int, dtype: Any = np.float64) -> np.ndarray:
        return np.frombuffer(buffers.parts[index], dtype=dtype)

    def times(index: int) -> np.ndarray:
        return start + (end - start) * column(index, np.float32).astype(np.float64)

    layers = _layers(options, frame, column, times, (start, end))
    rules = [{"v": threshold} for threshold in options.thresholds]
    if rules:
        rule = {"type": "rule", "strokeDash": [5, 3], "color": "#cf222e", "clip": True}
        layers.append(
            {"data": {"values": rules}, "mark": rule, "encoding": {"y": {"field": "v", "type": "quantitative"}}}
        )
    domain = {} if options.values is None else {"scale": {"domain": [*options.values], "nice": False, "zero": False}}
    first, *others = layers
    y = first["encoding"]["y"]
    first["encoding"]["y"] = {"scale": {"zero": options.kind in ("bar", "area")}, **y, **domain, "title": None}
    return {"$schema": SCHEMA, "width": WIDTH, "height": HEIGHT, "layer": [first, *others]}


def _layers(
    options: ChartOptions,
    frame: dict[str, Any],
    column: Callable[..., np.ndarray],
    times: Callable[[int], np.ndarray],
    span: tuple[float, float],
) -> list[dict[str, Any]]:
    form = labels(int(span[0]), int(span[1])) if span[0] >= 0 else {"format": "~f"}
    scale = {"type": "utc", "domain": [*span], "nice": False}
    x = {"field": "t", "type": "temporal", "scale": scale, "axis": {"title": None, "tickCount": 7, **form}}
    y = {"field": "v", "type": "quantitative"}
    names = [printable(entry["label"]) for entry in frame["series"]]
    color: dict[str, Any] = {"field": "s", "type": "nominal", "title": None, "scale": {"domain": names}}
    coloured = {"color": {**color, "legend": {"orient": "bottom", "columns": 5}}} if len(names) > 1 else {}
    rows: list[dict[str, Any]] = []
    if "heat" in frame:
        heat = frame["heat"]
        counts = column(heat["b"], np.float32).reshape(heat["columns"], heat["rows"])
        wide, (low, high) = (span[1] - span[0]) / heat["columns"], heat["values"]
        tall = (high - low) / heat["rows"]
        for at, row in np.argwhere(counts > 0).tolist():
            left, bottom = span[0] + wide * at, low + tall * row
            cell = {"t": left, "t2": left + wide, "v": bottom, "v2": bottom + tall}
            rows.append({**cell, "rows": float(counts[at, row])})
        shade = {"field": "rows", "type": "quantitative", "scale": {"type": "sqrt", "scheme": "blues"}}
        encoding = {"x": x, "x2": {"field": "t2"}, "y": y, "y2": {"field": "v2"}, "color": shade}
        return [{"data": {"values": rows}, "mark": {"type": "rect", "clip": True}, "encoding": encoding}]
    for entry, name in zip(frame["series"], names, strict=True):
        if "x" not in entry:
            continue
        figures = entry["band"] if options.kind == "band" else [entry["y"]]
        columns = [[None if v != v else v for v in column(figure).tolist()] for figure in figures]
        for time, *values in zip(times(entry["x"]).tolist(), *columns, strict=True):
            fields = ("low", "v", "high") if options.kind == "band" else ("v",)
            rows.append({"t": time, "s": name, **dict(zip(fields, values, strict=True))})
    data, encoding = {"values": rows}, {"x": x, "y": y, **coloured}
    if options.kind == "band":
        band = {**encoding, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
        area = {"mark": {"type": "area", "opacity": 0.3, "clip": True}, "encoding": band}
        return [{"data": data, **area}, {"data": data, "mark": {"type": "line", "clip": True}, "encoding": encoding}]
    return [{"data": data, "mark": {**_MARKS[options.kind], "clip": True}, "encoding": encoding}]
