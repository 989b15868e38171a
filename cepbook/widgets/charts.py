"""Charts that draw without a network, by altair: a renderer that JupyterLab understands, and three small builders.

JupyterLab bundles Vega-Lite 5 and knows no newer mime type, while altair 6 writes Vega-Lite 6 or HTML that loads
scripts from elsewhere. The renderer here writes the same specification as Vega-Lite 5, and, where the package
`vl-convert-python` is installed, a PNG for viewers that run no scripts. altair is imported when a chart is first made.
"""

from __future__ import annotations

import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from cepbook.display import DATE_THRESHOLD_MS
from cepbook.errors import UsageError
from cepbook.session.io.result_frames import changes_frame
from cepbook.widgets.theme import printed, themed

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

    from cepbook.session import Workbench

MIME = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # an identifier; nothing is loaded from there
RENDERER = "cepbook"
POINTS = 5_000  # altair's own limit; a line of more points than pixels shows nothing more
SERIES = 20
WIDTH, HEIGHT = 640, 260
DAY_MS = 86_400_000
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


def enable_offline_renderer() -> None:
    """Make altair charts in this session draw offline. Calling it again changes nothing."""
    offline_altair()


def offline_altair() -> ModuleType:
    """The module, with the renderer enabled. Raises UsageError when it is not installed."""
    try:
        import altair
    except ImportError as error:
        raise UsageError("charts need the package altair: pip install 'cepbook[lab]'") from error
    if RENDERER not in altair.renderers.names():
        altair.renderers.register(RENDERER, render)
    if altair.renderers.active != RENDERER:
        altair.renderers.enable(RENDERER)
    return altair


def show_as_chart(shell: Any, kind: type, chart: Callable[[Any], Any]) -> Callable[[], None]:
    """Make an IPython shell display objects of `kind` as their chart. Returns the function that takes it back."""
    formatter = shell.display_formatter.mimebundle_formatter

    def show(shown: Any, include: Any = None, exclude: Any = None) -> Any:
        try:
            return chart(shown)._repr_mimebundle_(include, exclude)
        except UsageError as missing:  # altair is not installed: the words are something, too
            return {"text/plain": f"{shown!r}\n  {missing}"}

    formatter.for_type(kind, show)

    def undo() -> None:
        formatter.pop(kind, None)

    return undo


def render(spec: dict[str, Any], *, picture: bool = True, **_: object) -> dict[str, Any]:
    """The mime bundle of a Vega-Lite specification: Vega-Lite 5, plain text, and a PNG where one can be made.

    Without `picture` there is no PNG, which takes most of the time.
    """
    as_v5 = themed(_drawable({**spec, "$schema": SCHEMA}))
    bundle: dict[str, Any] = {MIME: as_v5, "text/plain": describe(as_v5)}
    png = _png(as_v5) if picture else None
    if png is not None:
        bundle["image/png"] = png
    return bundle


def _png(spec: dict[str, Any]) -> str | None:
    try:
        import vl_convert
    except ImportError:
        return None
    try:
        png = vl_convert.vegalite_to_png(printed(spec), vl_version="5.21", scale=1)
    except ValueError:  # what vl_convert raises for a specification that it cannot draw; the live chart remains
        return None
    return b64encode(_deflated(png)).decode("ascii")


# What XML 1.0 has no place for. The picture is drawn by way of SVG, and on such text the renderer ends the process.
# Marks of direction would turn the labels.
_NO_TEXT = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
LABEL = 200  # characters of a text in a line chart
LONGEST = 2_000  # characters of a text; longer ones only come from events


def _drawable(spec: Any) -> Any:
    """`spec` with texts as a chart can show them: U+FFFD stands for what it cannot."""
    if isinstance(spec, str):
        return _NO_TEXT.sub("\ufffd", spec if len(spec) <= LONGEST else spec[: LONGEST - 1] + "…")
    if isinstance(spec, dict):
        return {_drawable(name): _drawable(value) for name, value in spec.items()}
    return [_drawable(value) for value in spec] if isinstance(spec, list | tuple) else spec


def _deflated(png: bytes) -> bytes:
    """The same picture in a tenth of the bytes: vl_convert hardly compresses, and notebooks keep what it gives."""
    pixels, chunks, at = b"", [], 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        if kind == b"IDAT":
            pixels += data
        else:
            chunks.append((kind, data))
        at += 12 + length
    (_, header), *others = chunks
    chunks = [*_indexed(header, others[:-1], zlib.decompress(pixels)), others[-1]]  # the last chunk is IEND
    return png[:8] + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _indexed(header: bytes, others: list[tuple[bytes, bytes]], filtered: bytes) -> list[tuple[bytes, bytes]]:
    """The chunks up to the pixels, which become numbers of colours where a picture in RGBA has 256 at most."""
    width, height, *form = struct.unpack(">IIBBBBB", header)
    same = [(b"IHDR", header), *others, (b"IDAT", zlib.compress(filtered, 9))]
    if form != [8, 6, 0, 0, 0]:
        return same
    lines = np.frombuffer(filtered, dtype=np.uint8).reshape(height, 1 + 4 * width)
    if (lines[:, 0] != 1).any():  # each pixel less the one at its left: the only filter that vl_convert uses
        return same
    pixels = np.cumsum(lines[:, 1:].reshape(height, width, 4), axis=1, dtype=np.uint8)
    colours, numbers = np.unique(pixels.reshape(-1, 4).view(np.uint32), return_inverse=True)
    if len(colours) > 256:
        return same
    palette = colours.view(np.uint8).reshape(-1, 4)
    indexed = np.zeros((height, 1 + width), dtype=np.uint8)
    indexed[:, 1:] = numbers.reshape(height, width)
    return [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        *others,
        (b"PLTE", palette[:, :3].tobytes()),
        (b"tRNS", palette[:, 3].tobytes()),
        (b"IDAT", zlib.compress(indexed.tobytes(), 9)),
    ]


def describe(spec: dict[str, Any]) -> str:
    """A chart in words, for viewers of text: its own description, or its mark, axes and how many rows it shows."""
    if "description" in spec:
        return str(spec["description"])
    layers: list[dict[str, Any]] = [spec, *spec.get("layer", ())]
    mark = next((one["mark"] for one in layers if "mark" in one), "layered")
    kind = mark.get("type", "") if isinstance(mark, dict) else str(mark)
    encoding: dict[str, Any] = next((one["encoding"] for one in layers if one.get("encoding")), {})
    fields = {name: encoding.get(name, {}).get("field") for name in ("x", "y", "color")}
    axes = [f"{name}: {field}" for name, field in fields.items() if field]
    rows = sum(len(values) for values in spec.get("datasets", {}).values())
    title = spec.get("title")
    heading = title.get("text") if isinstance(title, dict) else title
    parts = [f"{kind} chart" + (f" '{heading}'" if heading else ""), *axes, f"{rows:,} rows"]
    return ", ".join(parts)


def line(
    frame: pd.DataFrame,
    x: str,
    y: str | Sequence[str],
    color: str | None = None,
    *,
    title: str | None = None,
    clock: bool = False,
) -> alt.Chart:
    """A line over `x`, one per value of `color` or per name in `y`. Engine time (ms) in `x` becomes a time axis (UTC).

    With `clock` so do numbers within one day of a clock that began at 0. More than 5,000 rows are thinned evenly, as
    the subtitle then says. Raises UsageError for a missing column.
    """
    altair = offline_altair()
    names = [y] if isinstance(y, str) else list(y)
    _need(frame, [x, *names, *([color] if color else [])])
    if len(names) > 1:
        if color is not None:
            raise UsageError("a line chart takes several columns in y or a color column, not both")
        frame = frame[[x, *names]].melt(id_vars=x, value_vars=names, var_name="series", value_name="value")
        names, color = ["value"], "series"
    shown, note = _thin(frame[[x, *names, *([color] if color else [])]], color)
    shown, kind = _timed(_cut(shown), x, 0 if clock else DATE_THRESHOLD_MS)
    form = _clock(shown[x]) if clock and kind == "temporal" else None
    axis = {"axis": altair.Axis(format=form or DATED)} if kind == "temporal" else {}
    encoding = {
        "x": altair.X(field=_field(x), type=kind, title=None if kind == "temporal" else x, **axis),
        "y": altair.Y(field=_field(names[0]), type="quantitative", title=names[0]),
        "tooltip": [altair.Tooltip(field=_field(c), title=c, **_tip(c, x, kind, shown, form)) for c in shown.columns],
    }
    if color is not None:
        encoding["color"] = altair.Color(field=_field(color), type="nominal", title=color)
    series = [len(shown)] if color is None else shown.groupby(color, dropna=False).size()
    lone = {"point": True} if min(series, default=0) == 1 else {}  # of a single point a line draws nothing
    chart = altair.Chart(shown).mark_line(interpolate="step-after", strokeWidth=1.5, **lone).encode(**encoding)
    return _sized(altair, chart, title, note)


def labels(start: int, end: int) -> dict[str, str]:
    """How an axis of UTC times is written (ms since 1970), as tables write them: below one year without a date.

    Properties of a Vega-Lite axis. Later days of a clock that began at 0 are counted: ``1d 06:00``.
    """
    form = next((form for span, form in FORMATS if end - start < span), "")
    if end < DAY_MS:
        return {"format": form}
    if start >= DATE_THRESHOLD_MS:
        return {"format": form or "%m-%d %H:%M"}
    day = "utcdayofyear(datum.value) - 1"
    clock = f"utcFormat(datum.value, '{form or '%H:%M'}')"
    return {"labelExpr": f"({day} > 0 ? ({day}) + 'd ' : '') + {clock}"}


def stream_chart(
    workbench: Workbench, name: str, *, y: str | None = None, x: str = "time", color: str | None = None
) -> alt.Chart:
    """The insert stream of statement `name` over time, from its feed; up to the past instant that is looked at.

    `y` defaults to the first column with floats, else the first numeric one; `color` to the first text column with at
    most 20 values. Raises UsageError when there is no numeric column to draw.
    """
    frame = _seen(workbench, name)
    inserts = frame[frame["kind"] == "insert"]
    columns = [c for c in inserts.columns if c not in ("time", "seq", "kind")]
    if y is None:
        y = _first_number(inserts, columns, name)
    if color is None:
        color = next((c for c in columns if _is_text(inserts[c]) and 1 <= inserts[c].nunique() <= SERIES), None)
    return line(inserts, x, y, color, title=name, clock=x == "time" and workbench.clock.second == 1000)


def _seen(workbench: Workbench, name: str) -> pd.DataFrame:
    """The changes of a statement, of those that are kept; while somebody looks at the past, up to that instant."""
    time = workbench.glance.time
    if time is None:
        return workbench.changes(name)
    properties = workbench.runtime.statement(name).output_type.properties
    return changes_frame(workbench.feed(name).until(time).columns(), properties)


def comparison_chart(report: pd.DataFrame) -> alt.Chart:
    """Verdicts per statement as stacked bars.

    `report` has either the columns ``statement``, ``verdict``, ``rows``, or ``statement`` and one count per verdict.
    """
    altair = offline_altair()
    _need(report, ["statement"])
    if "verdict" not in report.columns:
        report = report.melt(id_vars="statement", var_name="verdict", value_name="rows")
    _need(report, ["verdict", "rows"])
    shown = report[["statement", "verdict", "rows"]].assign(verdict=report["verdict"].astype(str).str.replace("_", " "))
    known = [v for v in VERDICTS if v in set(shown["verdict"])]
    others = sorted(set(shown["verdict"]) - set(known))
    spare = ["#0969da", "#bf3989", "#57606a", "#9a6700"]
    rank = {verdict: place for place, verdict in enumerate([*known, *others])}
    shown = shown.assign(rank=shown["verdict"].map(rank))
    colors = [VERDICTS[v] for v in known] + [spare[i % len(spare)] for i in range(len(others))]
    chart: alt.Chart = (
        altair.Chart(shown)
        .mark_bar()
        .encode(
            x=altair.X("rows", type="quantitative", title="rows"),
            y=altair.Y("statement", type="nominal", title=None, sort=None),
            color=altair.Color("verdict", type="nominal", scale=altair.Scale(domain=[*known, *others], range=colors)),
            order=altair.Order("rank", type="quantitative"),
            tooltip=[altair.Tooltip("statement"), altair.Tooltip("verdict"), altair.Tooltip("rows", format=",")],
        )
    )
    sized: alt.Chart = chart.properties(width=WIDTH, height=altair.Step(26))
    return sized


def _need(frame: pd.DataFrame, names: Sequence[str]) -> None:
    missing = [n for n in names if n not in frame.columns]
    if missing:
        has = ", ".join(map(str, frame.columns))
        raise UsageError(f"the frame has no column {', '.join(missing)}; it has: {has}")


def _field(name: str) -> str:
    # In a Vega-Lite field, dots and brackets are paths.
    for special in "\\.[]":
        name = name.replace(special, "\\" + special)
    return name


def _thin(frame: pd.DataFrame, color: str | None) -> tuple[pd.DataFrame, str | None]:
    if len(frame) <= POINTS:
        return frame, None
    if color is None:
        step = -(-len(frame) // POINTS)
        return frame.iloc[::step], f"one row in {step} of {len(frame):,}"
    # Counted per series: rows of several series often alternate, and an even step would drop whole series.
    series = frame.groupby(color, dropna=False, sort=False)
    step = -(-len(frame) // max(1, POINTS - series.ngroups))
    return frame[series.cumcount() % step == 0], f"one row in {step} of {len(frame):,}"


def _cut(frame: pd.DataFrame) -> pd.DataFrame:
    """Texts as long as a label may be: each is copied once for every row on the way to the page."""

    def cut(value: Any) -> Any:
        return value[: LABEL - 1] + "…" if isinstance(value, str) and len(value) > LABEL else value

    texts = {name: frame[name].map(cut) for name in frame.columns if frame[name].dtype.kind == "O"}
    return frame.assign(**texts) if texts else frame


def _timed(frame: pd.DataFrame, x: str, least: int) -> tuple[pd.DataFrame, str]:
    """Milliseconds since 1970, not below `least`, within its first day or later than its first year, as times.

    The times have no zone: Vega then shows them as they are, and not moved into the zone of the reader.
    """
    column = frame[x]
    if column.dtype.kind == "M":
        return frame, "temporal"
    if (
        column.dtype.kind in "iu"
        and len(column)
        and (column.min() >= DATE_THRESHOLD_MS or least <= column.min() <= column.max() < DAY_MS)
    ):
        return frame.assign(**{x: column.astype("datetime64[ms]")}), "temporal"
    return frame, "quantitative" if column.dtype.kind in "iuf" else "nominal"


def _clock(times: pd.Series[Any]) -> str | None:
    """The form of times within the first day of 1970, which have no date (`labels`); None for all others."""
    first, last = (int(time.value // 10**6) for time in (times.min(), times.max()))
    return labels(first, last)["format"] if first >= 0 and last < DAY_MS else None


def _tip(name: str, x: str, kind: str, frame: pd.DataFrame, form: str | None) -> dict[str, Any]:
    if name == x and kind == "temporal":
        return {"type": "temporal", "format": "%H:%M:%S.%L" if form else "%Y-%m-%d %H:%M:%S"}
    return {"type": "quantitative"} if frame[name].dtype.kind in "iuf" else {"type": "nominal"}


def _sized(altair: ModuleType, chart: alt.Chart, title: str | None, note: str | None) -> alt.Chart:
    chart = chart.properties(width=WIDTH, height=HEIGHT)
    if not title and not note:
        return chart
    return chart.properties(title=altair.TitleParams(title or "", subtitle=note or "", anchor="start"))


def _first_number(frame: pd.DataFrame, columns: Sequence[str], name: str) -> str:
    for kinds in ("f", "iu"):
        for column in columns:
            if frame[column].dtype.kind in kinds:
                return column
    raise UsageError(f"statement {name} has no numeric column to draw; name one with y=")


def _is_text(column: Any) -> bool:
    return column.dtype.kind == "O" and all(isinstance(value, str) for value in column.dropna())
