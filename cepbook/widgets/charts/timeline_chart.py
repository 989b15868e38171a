"""Charts of a `Timeline`: a bar per context partition from its creation to its end, and the number of active
partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from cepbook.charts.builders import labels
from cepbook.charts.offline_renderer import offline_altair, show_as_chart
from cepbook.charts.theme import FAINT
from cepbook.display import format_time, format_value
from cepbook.lazy_imports import VConcatChart
from cepbook.session.history.partition_lifetimes import PartitionLifetime
from cepbook.session.inspect.partition_table import TIMES, flat_properties
from cepbook.session.inspect.timeline import Timeline

WIDTH = 560
ROW, THIN = 16, 4  # pixels per partition, and with more than `LABELLED` of them
LABELLED = 40
COUNTS = 70  # pixels, of how many lived
FEW = 4  # at most so many at once: each number is written beside the axis
LABEL_LIMIT = 28  # characters
LIFE_COLOR, BORN_COLOR, DIED_COLOR = "#0969da", "#2da44e", "#cf222e"


def timeline_chart(timeline: Timeline) -> VConcatChart:
    """Return the timeline as a chart: as wide as a notebook's column, as high as needed."""
    altair = offline_altair()
    axis = _Axis(altair, timeline)
    bars = _bars(altair, axis, timeline, _rows(timeline, axis))
    chart: VConcatChart = altair.vconcat(bars, _counts(altair, axis, timeline), spacing=8).properties(
        title=altair.TitleParams(
            timeline.context,
            subtitle=[" ".join(timeline.epl.split()), *timeline.notes],
            anchor="start",
            subtitleFontSize=11,
        ),
        description=repr(timeline).replace("\n ", ";"),
    )
    framed: VConcatChart = chart.configure_view(stroke=None)
    return framed


def show_timelines(shell: Any) -> Callable[[], None]:
    """Make an IPython shell display a `Timeline` as its chart. Returns the function that undoes this."""
    return show_as_chart(shell, Timeline, timeline_chart)


class _Axis:
    """Engine time for altair: a time, or a number where the clock counts in finer units than milliseconds."""

    def __init__(self, altair: Any, timeline: Timeline) -> None:
        self._altair = altair
        self.temporal = timeline.unit == "ms" and timeline.start >= 0
        self._unit = timeline.unit
        self._start, self._end = timeline.start, timeline.end
        spare = max(1, (timeline.end - timeline.start) // 50)
        self._domain = [timeline.start - spare, timeline.end + spare]

    @property
    def kind(self) -> str:
        """The Vega-Lite type of a field with times."""
        return "temporal" if self.temporal else "quantitative"

    def text(self, time: int) -> str:
        """Return a time as tooltips have it."""
        return format_time(time) if self.temporal else f"{time} {self._unit}"

    def x(self, *, shown: bool) -> Any:
        """Return the encoding of times along the axis, which only the lower chart labels."""
        # Without a zone the browser would show the times of its own.
        zone: dict[str, Any] = {"type": "utc"} if self.temporal else {"zero": False}
        scale = self._altair.Scale(domain=self._domain, nice=False, **zone)
        form = labels(self._start, self._end) if self.temporal else {"format": "~f"}
        title = f"time ({self._unit})" if shown and not self.temporal else None
        lines = {"gridColor": FAINT, "gridOpacity": 0.6, "domainColor": FAINT}
        axis = self._altair.Axis(title=title, labels=shown, ticks=shown, tickCount=7, **form, **lines)
        return self._altair.X("born", type=self.kind, scale=scale, axis=axis)


def _rows(timeline: Timeline, axis: _Axis) -> list[dict[str, Any]]:
    """Return the bars; their tooltips are text. A context that is activated again counts its ids from 0."""
    outer = timeline.levels[0] if timeline.levels else None
    rows: list[dict[str, Any]] = []
    labels: dict[str, int] = {}
    for life in timeline.lives:
        properties = flat_properties(life.properties, timeline.levels)
        label = _label(life, properties, timeline.times)
        labels[label] = labels.get(label, 0) + 1
        row = {
            "id": life.id,
            "born": life.born,
            "until": timeline.end if life.died is None else life.died,
            "lives": life.died is None,
            "label": label if labels[label] == 1 else f"{label} ({labels[label]})",
            "outer": "" if outer is None else _outer_label(properties, outer, timeline.times),
            "properties": _property_text(properties, timeline.times),
            "birth": axis.text(life.born),
            "death": "lives" if life.died is None else axis.text(life.died),
        }
        rows.append(row)
    return rows


def _label(life: PartitionLifetime, properties: Mapping[str, Any], times: Collection[str]) -> str:
    """``#3 A``: the id, and what names the partition: keys and labels, or else the events that began it."""
    plain = {name: v for name, v in properties.items() if name.rpartition(".")[2] not in TIMES and v is not None}
    named = [v for name, v in plain.items() if name.rpartition(".")[2].startswith(("key", "label"))] or plain.values()
    text = f"#{life.id} {' '.join(format_value(value, times) for value in named)}".rstrip()
    return text if len(text) <= LABEL_LIMIT else text[: LABEL_LIMIT - 1] + "…"


def _outer_label(properties: Mapping[str, Any], outer: str, times: Collection[str]) -> str:
    own = {name[len(outer) + 1 :]: value for name, value in properties.items() if name.startswith(f"{outer}.")}
    return f"{outer} {_property_text(own, times)}".rstrip()


def _property_text(properties: Mapping[str, Any], times: Collection[str]) -> str:
    own = {
        name: format_time(v)
        for name, v in properties.items()
        if name.rpartition(".")[2] in TIMES and isinstance(v, int)
    }
    return ", ".join(f"{name}={own.get(name) or format_value(value, times)}" for name, value in properties.items())


def _bars(altair: Any, axis: _Axis, timeline: Timeline, rows: list[dict[str, Any]]) -> Any:
    labelled = len(rows) <= LABELLED
    scale = altair.Scale(domain=[row["label"] for row in rows], paddingInner=0.25)
    beside = altair.Axis(title=None, labels=labelled, ticks=False, domain=False, labelLimit=180)
    y = altair.Y("label", type="ordinal", sort=None, scale=scale, axis=beside)
    tooltip = [altair.Tooltip(field, type="nominal") for field in ("id", "properties", "birth", "death")]
    base = altair.Chart(altair.Data(values=rows))
    color = altair.value(LIFE_COLOR)
    if len({row["outer"] for row in rows}) > 1:
        legend = altair.Legend(orient="bottom", columns=1, labelLimit=WIDTH)
        color = altair.Color("outer", type="nominal", title=timeline.levels[0], sort=None, legend=legend)
    encoding = {"y": y, "tooltip": tooltip}
    step = ROW if labelled else THIN
    tick = {"thickness": 2, "orient": "vertical", "size": 0.75 * step}
    layers = [
        base.mark_bar(opacity=0.45, height={"band": 0.8}).encode(
            x=axis.x(shown=False), x2="until", color=color, **encoding
        ),
        base.mark_tick(color=BORN_COLOR, **tick).encode(x=axis.x(shown=False), **encoding),
    ]
    if not all(row["lives"] for row in rows):  # a screen reader would meet a layer without marks as a nameless picture
        dead = base.transform_filter("!datum.lives")
        layers.append(dead.mark_tick(color=DIED_COLOR, **tick).encode(x=altair.X("until", type=axis.kind), **encoding))
    return altair.layer(*layers).properties(width=WIDTH, height=altair.Step(step) if rows else ROW)


def _counts(altair: Any, axis: _Axis, timeline: Timeline) -> Any:
    """How many lived, as steps; the last one goes on to the present."""
    values = [{"born": time, "live": live} for time, live in timeline.counts]
    values.append({"born": timeline.end, "live": timeline.live})
    most = max(value["live"] for value in values)
    few = {"values": [*range(most + 1)]} if most <= FEW else {}  # by itself the axis would have halves of partitions
    beside = altair.Axis(format="d", gridColor=FAINT, gridOpacity=0.6, domain=False, **few)
    y = altair.Y("live", type="quantitative", title="live", stack=None, axis=beside)
    steps = altair.Chart(altair.Data(values=values)).encode(x=axis.x(shown=True), y=y)
    area = steps.mark_area(interpolate="step-after", color=LIFE_COLOR, opacity=0.25)
    line = steps.mark_line(interpolate="step-after", color=LIFE_COLOR, strokeWidth=1.5)
    return altair.layer(area, line).properties(width=WIDTH, height=COUNTS)
