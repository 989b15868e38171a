"""Line charts, and bar charts of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from cepbook.charts.offline_renderer import offline_altair
from cepbook.charts.reduction import ALL_ROWS, extremes
from cepbook.display import DATE_THRESHOLD_MS, unused_name
from cepbook.errors import UsageError
from cepbook.lazy_imports import Chart, PandasFrame, PandasSeries

LABEL = 200  # characters of a text in a line chart
POINTS = 5_000  # altair's own limit; a line of more points than pixels shows nothing more
WIDTH, HEIGHT = 640, 260
DAY_MS = 86_400_000
EPOCH = pd.Timestamp(0)
FORMATS = ((1_000, "%H:%M:%S.%L"), (3_600_000, "%H:%M:%S"), (DAY_MS, "%H:%M"))
# How an axis with dates is written, by what a tick stands for; Vega's own forms count to twelve.
DATED = {
    **dict.fromkeys(("quarter", "month"), "%Y-%m"),
    **dict.fromkeys(("week", "date", "day"), "%m-%d"),
    **dict.fromkeys(("hours", "minutes"), "%H:%M"),
    "seconds": "%H:%M:%S",
    "milliseconds": "%H:%M:%S.%L",
}
VERDICTS = {
    "equal": "#2da44e",
    "different values": "#d99a1b",
    "only here": "#cf222e",
    "only there": "#8250df",
    "not compared": "#8c959f",
}


def line(
    frame: PandasFrame,
    x: str,
    y: str | Sequence[str],
    color: str | None = None,
    *,
    title: str | None = None,
    clock: bool = False,
    note: str | None = None,
) -> Chart:
    """Return a line over `x`, one per value of `color` or per name in `y`. Engine time (ms) in `x` becomes a time axis
    (UTC).

    With `clock` so do numbers within one day of a clock that began at 0. Of more than 5,000 rows the least and greatest
    are drawn, and the subtitle says so; a `note` stands there, too. Raises UsageError for a missing column.
    """
    altair = offline_altair()
    names = [y] if isinstance(y, str) else list(dict.fromkeys(y))
    if not names:
        raise UsageError("a line chart needs a column in y")
    _require_columns(frame, [x, *names, *([] if color is None else [color])])
    if len(names) > 1:
        if color is not None:
            raise UsageError("a line chart takes several columns in y or a color column, not both")
        value, color = unused_name("value", [x]), unused_name("series", [x])
        lines = [pd.DataFrame({x: frame[x], color: name, value: frame[name]}) for name in names]
        frame, names = pd.concat(lines, ignore_index=True), [value]
    columns = dict.fromkeys([x, *names] if color is None else [x, *names, color])
    rows, thinned = _thinned(frame[[*columns]], names[0], color)
    rows, kind = _with_time_axis(_truncated(rows), x, 0 if clock else DATE_THRESHOLD_MS)
    form = _clock_format(rows[x]) if clock and kind == "temporal" else None
    axis = {"axis": altair.Axis(format=form or DATED)} if kind == "temporal" else {}
    encoding = {
        "x": altair.X(field=_escaped_field(x), type=kind, title=None if kind == "temporal" else x, **axis),
        "y": altair.Y(field=_escaped_field(names[0]), type="quantitative", title=names[0]),
        "tooltip": [
            altair.Tooltip(field=_escaped_field(c), title=c, **_tooltip(c, x, kind, rows, form)) for c in rows.columns
        ],
    }
    if color is not None:
        encoding["color"] = altair.Color(field=_escaped_field(color), type="nominal", title=color)
    series = [len(rows)] if color is None else rows.groupby(color, dropna=False).size()
    lone = {"point": True} if min(series, default=0) == 1 else {}  # of a single point a line draws nothing
    chart = altair.Chart(rows).mark_line(interpolate="step-after", strokeWidth=1.5, **lone).encode(**encoding)
    return _with_title(altair, chart, title, "; ".join(filter(None, (thinned, note))))


def labels(start: int, end: int) -> dict[str, str]:
    """Return the properties of a Vega-Lite axis of UTC times (ms since 1970): below one year without a date, as in
    tables.

    Later days of a clock that began at 0 are counted: ``1d 06:00``.
    """
    form = next((form for span, form in FORMATS if end - start < span), "")
    if end < DAY_MS:
        return {"format": form}
    if start >= DATE_THRESHOLD_MS:
        return {"format": form or "%m-%d %H:%M"}
    day = "utcdayofyear(datum.value) - 1"
    clock = f"utcFormat(datum.value, '{form or '%H:%M'}')"
    return {"labelExpr": f"({day} > 0 ? ({day}) + 'd ' : '') + {clock}"}


def comparison_chart(report: PandasFrame) -> Chart:
    """Return verdicts per statement as stacked bars.

    `report` has either the columns ``statement``, ``verdict``, ``rows``, or ``statement`` and one count per verdict.
    """
    altair = offline_altair()
    _require_columns(report, ["statement"])
    if "verdict" not in report.columns:
        report = report.melt(id_vars="statement", var_name="verdict", value_name="rows")
    _require_columns(report, ["verdict", "rows"])
    bars = report[["statement", "verdict", "rows"]].assign(verdict=report["verdict"].astype(str).str.replace("_", " "))
    known = [v for v in VERDICTS if v in set(bars["verdict"])]
    others = sorted(set(bars["verdict"]) - set(known))
    spare = ["#0969da", "#bf3989", "#57606a", "#9a6700"]
    rank = {verdict: position for position, verdict in enumerate([*known, *others])}
    bars = bars.assign(rank=bars["verdict"].map(rank))
    colors = [VERDICTS[v] for v in known] + [spare[i % len(spare)] for i in range(len(others))]
    chart: Chart = (
        altair.Chart(bars)
        .mark_bar()
        .encode(
            x=altair.X("rows", type="quantitative", title="rows"),
            y=altair.Y("statement", type="nominal", title=None, sort=None),
            color=altair.Color("verdict", type="nominal", scale=altair.Scale(domain=[*known, *others], range=colors)),
            order=altair.Order("rank", type="quantitative"),
            tooltip=[altair.Tooltip("statement"), altair.Tooltip("verdict"), altair.Tooltip("rows", format=",")],
        )
    )
    sized: Chart = chart.properties(width=WIDTH, height=altair.Step(26))
    return sized


def _require_columns(frame: PandasFrame, names: Sequence[str]) -> None:
    missing = [n for n in names if n not in frame.columns]
    if missing:
        has = ", ".join(map(str, frame.columns))
        raise UsageError(f"the frame has no column {', '.join(missing)}; it has: {has}")


def _escaped_field(name: str) -> str:
    # In a Vega-Lite field, dots and brackets are paths.
    for special in "\\.[]":
        name = name.replace(special, "\\" + special)
    return name


def _thinned(frame: PandasFrame, y: str, color: str | None) -> tuple[PandasFrame, str | None]:
    """Return the first, least, greatest and last row of every so many rows of a series, if there are too many."""
    if len(frame) <= POINTS:
        return frame, None
    series = [np.arange(len(frame))]
    if color is not None:
        codes = frame.groupby(color, dropna=False, sort=False).ngroup().to_numpy()
        order = np.argsort(codes, kind="stable")
        series = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    if ALL_ROWS * len(series) > POINTS:
        fact = f"`{color}` has {len(series):,} values: of so many rows a line chart draws {POINTS // ALL_ROWS:,} lines"
        raise UsageError(f"{fact}\n  hint: draw fewer rows, or a column with fewer values")
    values = pd.to_numeric(frame[y], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    count = max(1, POINTS // (ALL_ROWS * len(series)))
    bounds = [np.linspace(0, len(rows), count + 1).astype(np.int64) for rows in series]
    places = [rows[extremes(values[rows], edges)] for rows, edges in zip(series, bounds, strict=True)]
    rows = np.sort(np.concatenate(places))
    return frame.iloc[rows], f"{len(rows):,} of {len(frame):,} rows, with all extremes"


def _truncated(frame: PandasFrame) -> PandasFrame:
    """Truncate texts to the length of a label: each is copied once for every row on the way to the page."""

    def cut(value: Any) -> Any:
        return value[: LABEL - 1] + "…" if isinstance(value, str) and len(value) > LABEL else value

    texts = {name: frame[name].map(cut) for name in frame.columns if frame[name].dtype.kind == "O"}
    return frame.assign(**texts) if texts else frame


def _with_time_axis(frame: PandasFrame, x: str, least: int) -> tuple[PandasFrame, str]:
    """Convert numbers to times if they are ms since 1970, not below `least`, within the first day or after the first
    year.

    The times have no zone, or lose it as local times: Vega then displays them as they are, and not in the zone of the
    reader.
    """
    column = frame[x]
    if column.dtype.kind == "M":
        return frame.assign(**{x: column.dt.tz_localize(None)}), "temporal"
    if (
        column.dtype.kind in "iu"
        and column.notna().any()
        and (column.min() >= DATE_THRESHOLD_MS or least <= column.min() <= column.max() < DAY_MS)
    ):
        return frame.assign(**{x: column.astype("datetime64[ms]")}), "temporal"
    return frame, "quantitative" if column.dtype.kind in "iuf" else "nominal"


def _clock_format(times: PandasSeries[Any]) -> str | None:
    """Return the format of times within the first day of 1970, which have no date (`labels`); None for all others."""
    first, last = times.min(), times.max()
    if not EPOCH <= first <= last < EPOCH + pd.Timedelta(days=1):
        return None
    return labels(*((time - EPOCH) // pd.Timedelta(milliseconds=1) for time in (first, last)))["format"]


def _tooltip(name: str, x: str, kind: str, frame: PandasFrame, form: str | None) -> dict[str, Any]:
    if name == x and kind == "temporal":
        return {"type": "temporal", "format": "%H:%M:%S.%L" if form else "%Y-%m-%d %H:%M:%S"}
    return {"type": "quantitative"} if frame[name].dtype.kind in "iuf" else {"type": "nominal"}


def _with_title(altair: ModuleType, chart: Chart, title: str | None, note: str | None) -> Chart:
    chart = chart.properties(width=WIDTH, height=HEIGHT)
    if not title and not note:
        return chart
    return chart.properties(title=altair.TitleParams(title or "", subtitle=note or "", anchor="start"))
