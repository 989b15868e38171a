"""Charts of a `Marble`: arrivals, window contents, insert and remove stream, lane below lane on one time axis.

Marks that would overlap go to levels below each other, so several events of one millisecond stay readable. The layout
is calculated here, in pixels, from estimated widths of labels; the same marble gives the same chart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unicodedata import east_asian_width

from cepbook.charts.builders import labels
from cepbook.charts.offline_renderer import offline_altair, show_as_chart
from cepbook.charts.theme import FAINT, INK
from cepbook.display import format_time, format_value
from cepbook.lazy_imports import LayerChart
from cepbook.session.explain.marble import Marble
from cepbook.session.history.rerun_windows import WindowStay

WIDTH = 560  # of the plot; labels to its left take up to 110 pixels more
LEVEL = 14  # pixels from one level of a lane to the next
GAP = 12  # pixels between lanes
MOST_BARS, THIN = 60, 8  # more bars than these are so many pixels high, and have no labels
MOST_LEVELS = 24  # of a lane with labels; where they do not suffice, labels are left out
MOST_ROWS = 8  # rows of one delivery that are drawn apart
LABEL_LIMIT = 16  # characters
MAX_SUBTITLE = 110  # characters of the statement
CHARACTER = 5.6  # pixels, about; of wide letters and of those of East Asia:
WIDE, FULL = 7.8, 10.5
POINT = 13
LEGEND_SYMBOL, LEGEND_LIMIT = 26, 40  # pixels of a symbol with the space around it; entries of a legend
MOST_RUNS = 24  # matches that are drawn, the latest ones
WINDOW, INSERT, REMOVE, MATCH = "#0969da", "#2da44e", "#cf222e", "#8250df"
MATCHES = "matches"


@dataclass(frozen=True, slots=True)
class MarbleMark:
    """A point of a lane at pixel `x`, `time`: its `level`, the text beside it, and its tooltip."""

    x: float
    time: int
    level: int
    label: str
    group: str
    tips: Mapping[str, str]
    levels: int = 1  # of its delivery, if it is the first row of one


@dataclass(slots=True)
class MarbleLane:
    """Marks below each other; `top` is the first pixel of the lane, `color` that of its marks (None: by group)."""

    name: str
    color: str | None = None
    top: int = 0
    marks: list[MarbleMark] = field(default_factory=list)

    @property
    def height(self) -> int:
        return LEVEL * max((mark.level + 1 for mark in self.marks), default=1)

    def y(self, level: float) -> float:
        return self.top + LEVEL * (level + 0.5)


class TimeAxis:
    """Maps engine time to pixels. `spare` pixels remain at the right, for labels."""

    def __init__(self, marble: Marble, spare: float = 0.0) -> None:
        self.start = marble.start
        self.span = max(1, marble.end - marble.start)
        self.left = 8.0
        self.right = WIDTH - 8.0 - spare
        self.temporal = marble.unit == "ms" and marble.start >= 0
        self.unit = marble.unit

    def x(self, time: int) -> float:
        """Return the pixel of `time`; a time before the start is to the left of it."""
        return self.left + (self.right - self.left) * (time - self.start) / self.span

    def text(self, time: int) -> str:
        """Return a time as tables have it; a number if the clock counts in finer units."""
        return format_time(time) if self.temporal else f"{time} {self.unit}"

    @property
    def domain(self) -> list[float]:
        """The times at the edges of the plot."""
        scale = self.span / (self.right - self.left)
        edges = self.start - self.left * scale, self.start + (WIDTH - self.left) * scale
        return [round(edge, 3) for edge in edges]


def marble_chart(marble: Marble) -> LayerChart:
    """Return the marble diagram as a chart: as wide as a notebook's column, as high as needed."""
    altair = offline_altair()
    axis, lanes, first_bar = _layout(marble)
    height = lanes[-1].top + lanes[-1].height + GAP // 2
    draw = _LayerBuilder(altair, axis, height, marble)
    layers = [draw.separators(lanes), draw.now()]
    if marble.windowed:
        layers += draw.bars(first_bar)
    for lane in lanes:
        layers += draw.lane(lane)
    subtitle = [_one_line(marble.epl)]
    if any(bar.collected for bar in marble.bars):
        subtitle.append("faint: collected, not in the window yet")
    if len(marble.runs) > MOST_RUNS:
        subtitle.append(f"the latest {MOST_RUNS} of {len(marble.runs)} matches are drawn")
    chart: LayerChart = altair.layer(*layers).properties(
        width=WIDTH,
        height=height,
        title=altair.TitleParams(marble.name, subtitle=[*subtitle, *marble.notes], anchor="start", subtitleFontSize=11),
        description=repr(marble).replace("\n ", ";"),
    )
    framed: LayerChart = chart.configure_view(stroke=None)
    return framed


def show_marbles(shell: Any) -> Callable[[], None]:
    """Make an IPython shell display a `Marble` as its chart. Returns the function that undoes this."""
    return show_as_chart(shell, Marble, marble_chart)


def _layout(marble: Marble) -> tuple[TimeAxis, list[MarbleLane], int]:
    """Return the axis, the lanes from top to bottom, and the pixel where the bars begin."""
    axis = TimeAxis(marble)
    lanes = _lanes(marble, axis)
    overflow = max((m.x + POINT + _width(m.label) - WIDTH for lane in lanes for m in lane.marks), default=0.0)
    if overflow > 0:
        axis = TimeAxis(marble, min(overflow, WIDTH / 4))
        lanes = _lanes(marble, axis)
    arrivals, *streams = lanes
    arrivals.top = GAP // 2
    first_bar = top = arrivals.top + arrivals.height + GAP
    if marble.windowed:
        first_bar = top + LEVEL
        top = first_bar + _bar_height(marble) * max(1, len(marble.bars)) + GAP
    for lane in streams:
        lane.top = top
        top += lane.height + GAP
    return axis, lanes, first_bar


def _bar_height(marble: Marble) -> int:
    return LEVEL if len(marble.bars) <= MOST_BARS else THIN


def _lanes(marble: Marble, axis: TimeAxis) -> list[MarbleLane]:
    arrivals = MarbleLane("arrivals")
    groups = []
    for arrival in marble.arrivals:
        tips = {"time": axis.text(arrival.time), **_tooltip_texts(arrival.event, marble.properties)}
        groups.append(_Group(arrival.time, [_label(arrival.event, marble.label)], [tips], group_label(arrival.group)))
    _assign_levels(arrivals, axis, groups)
    matches = [_match_lane(marble, axis)] if marble.runs else []
    return [
        arrivals,
        *matches,
        _stream_lane(marble, axis, "insert", INSERT),
        _stream_lane(marble, axis, "remove", REMOVE),
    ]


@dataclass(frozen=True, slots=True)
class _Group:
    """The rows to draw at one time: a label and tooltip per row."""

    time: int
    labels: Sequence[str]
    tips: Sequence[Mapping[str, str]]
    group: str = ""


def _match_lane(marble: Marble, axis: TimeAxis) -> MarbleLane:
    """Return the rows of each match, by variable: a match is on the first level where it touches no other."""
    lane = MarbleLane(MATCHES, MATCH)
    by_number = {arrival.number: arrival for arrival in marble.arrivals}
    runs = [[(by_number[number], name) for number, name in run.rows] for run in marble.runs[-MOST_RUNS:]]
    ends: list[float] = []
    for number, rows in enumerate(runs):
        xs = [axis.x(arrival.time) for arrival, _ in rows]
        level = next((i for i, end in enumerate(ends) if end < xs[0]), len(ends))
        ends[level : level + 1] = [xs[-1] + POINT + _width(rows[-1][1])]
        before = 0.0
        for x, (arrival, name) in zip(xs, rows, strict=True):
            tips = {
                "time": axis.text(arrival.time),
                "variable": name,
                **_tooltip_texts(arrival.event, marble.properties),
            }
            label = name if x >= before else ""  # where it would lie on the one before
            before = x + POINT + _width(name) if label else before
            lane.marks.append(MarbleMark(x, arrival.time, level, label, str(number), tips))
    return lane


def _stream_lane(marble: Marble, axis: TimeAxis, kind: str, color: str) -> MarbleLane:
    """Return the rows of one stream, delivery by delivery."""
    lane = MarbleLane(f"{kind} stream", color)
    names = _label_columns(marble, marble.columns)
    groups: list[_Group] = []
    for delivery in marble.deliveries:
        streams = {"insert": delivery.insert, "remove": delivery.remove}
        if marble.selector == "rstream":  # what leaves is delivered in the place of what enters
            streams = {"insert": None, "remove": delivery.insert}
        rows = streams[kind] or ()
        head = {"time": axis.text(delivery.time), "delivery": str(delivery.number)}
        labels = [_label(row, names) for row in rows]
        tips = [{**head, **_tooltip_texts(row, marble.columns)} for row in rows]
        if len(labels) > MOST_ROWS:
            more = f"… {len(labels) - MOST_ROWS + 1} more"
            labels, tips = [*labels[: MOST_ROWS - 1], more], [*tips[: MOST_ROWS - 1], {**head, "rows": more}]
        if not delivery.insert and not delivery.remove and kind == "insert":
            labels, tips = ["(empty)"], [{**head, "rows": "none"}]
        if labels:
            groups.append(_Group(delivery.time, labels, tips))
    _assign_levels(lane, axis, groups)
    return lane


def _assign_levels(lane: MarbleLane, axis: TimeAxis, groups: Sequence[_Group]) -> None:
    """Assign to every mark the first level where it, its label, and those of its delivery touch nothing."""
    xs = [axis.x(group.time) for group in groups]
    levels = _levels((x, max(map(_width, w.labels)), len(w.labels)) for x, w in zip(xs, groups, strict=True))
    labelled = max((level + len(w.labels) for level, w in zip(levels, groups, strict=True)), default=0) <= MOST_LEVELS
    if not labelled:
        levels = _levels((x, 0.0, len(w.labels)) for x, w in zip(xs, groups, strict=True))
    for x, level, group in zip(xs, levels, groups, strict=True):
        for i, (label, tips) in enumerate(zip(group.labels, group.tips, strict=True)):
            text, count = label if labelled else "", len(group.labels) if i == 0 else 1
            lane.marks.append(MarbleMark(x, group.time, level + i, text, group.group, tips, count))


def _levels(sizes: Iterable[tuple[float, float, int]]) -> list[int]:
    """Return for each (x, width of the label, levels needed), in order of x, its first level."""
    ends: list[float] = []  # of the last thing on each level
    first_levels = []
    for x, width, count in sizes:
        base = level = 0
        while level - base < count and level < len(ends):
            if ends[level] > x:
                base = level + 1
            level += 1
        ends += [0.0] * (base + count - len(ends))
        ends[base : base + count] = [x + POINT + width] * count
        first_levels.append(base)
    return first_levels


def _width(label: str) -> float:
    return sum(
        FULL if east_asian_width(c) in "WF" else WIDE if c.isupper() or c in "mw%@" else CHARACTER for c in label
    )


def _label(row: Mapping[str, object], names: Sequence[str]) -> str:
    text = " ".join(format_value(row.get(name)) for name in names)
    return text if len(text) <= LABEL_LIMIT else text[: LABEL_LIMIT - 1] + "…"


def _label_columns(marble: Marble, columns: Sequence[str]) -> Sequence[str]:
    """Return the columns that stand for a row: those of an arrival's label, if the row has them all."""
    return marble.label if set(marble.label) <= set(columns) else columns[:2]


def _tooltip_texts(row: Mapping[str, object], names: Sequence[str]) -> dict[str, str]:
    return {name: format_value(row.get(name)) for name in names}


def group_label(group: tuple[object, ...]) -> str:
    """Return the keys of a group or partition as text; empty if there are none."""
    return ", ".join(map(format_value, group))


def _one_line(epl: str) -> str:
    text = " ".join(epl.split())
    return text if len(text) <= MAX_SUBTITLE else text[: MAX_SUBTITLE - 1] + "…"


class _LayerBuilder:
    """Builds the layers. Heights are pixels of the plot, from the top."""

    def __init__(self, altair: Any, axis: TimeAxis, height: int, marble: Marble) -> None:
        self._alt = altair
        self._axis = axis
        self._height = height
        self._marble = marble

    # ---- encodings
    def _x(self) -> Any:
        axis, temporal = self._axis, self._axis.temporal
        kind = {"type": "utc"} if temporal else {}
        scale = self._alt.Scale(domain=axis.domain, nice=False, **kind)
        shape = labels(axis.start, axis.start + axis.span) if temporal else {"format": "~f"}
        axis_style = self._alt.Axis(title=None if temporal else f"time ({axis.unit})", tickCount=7, **shape)
        return self._alt.X("time", type="temporal" if temporal else "quantitative", scale=scale, axis=axis_style)

    def _y(self) -> Any:
        scale = self._alt.Scale(domain=[self._height, 0], nice=False)
        return self._alt.Y("y", type="quantitative", axis=None, scale=scale)

    def _chart(self, rows: Sequence[Mapping[str, object]]) -> Any:
        return self._alt.Chart(self._alt.Data(values=list(rows)))

    def _color(self, fixed: str | None) -> Any:
        """Return the colour of a mark: `fixed`, or by group if the marble has groups."""
        if fixed is not None or not self._marble.grouped_by:
            return self._alt.value(fixed or WINDOW)
        keys = [*(bar.group for bar in self._marble.bars), *(arrival.group for arrival in self._marble.arrivals)]
        groups = list(dict.fromkeys(map(group_label, keys)))
        widest = LEGEND_SYMBOL + max(map(_width, (label[:LABEL_LIMIT] for label in groups)), default=0.0)
        legend = self._alt.Legend(
            title=", ".join(self._marble.grouped_by),
            orient="bottom",
            symbolType="circle",
            symbolLimit=LEGEND_LIMIT,
            columns=max(1, int(WIDTH // widest)),
            labelLimit=CHARACTER * LABEL_LIMIT + FULL,
        )
        scale = self._alt.Scale(domain=groups, scheme="tableau10")
        return self._alt.Color("group", type="nominal", scale=scale, legend=legend)

    def _tooltip(self, rows: Sequence[Mapping[str, str]]) -> tuple[list[Any], list[dict[str, str]]]:
        """Return the tooltip of a layer, and its fields per row: field names are generated, those of the user are
        titles.
        """
        titles = list(dict.fromkeys(title for row in rows for title in row))
        fields = {title: f"t{i}" for i, title in enumerate(titles)}
        tooltips = [self._alt.Tooltip(name, type="nominal", title=title) for title, name in fields.items()]
        return tooltips, [{fields[title]: text for title, text in row.items()} for row in rows]

    # ---- layers
    def separators(self, lanes: Sequence[MarbleLane]) -> Any:
        """Return the lines between the lanes."""
        tops = [lanes[0].top + lanes[0].height + GAP / 2, *(lane.top - GAP / 2 for lane in lanes[1:])]
        rows = [{"y": top} for top in dict.fromkeys(tops)]
        return self._chart(rows).mark_rule(color=FAINT).encode(y=self._y())

    def now(self) -> Any:
        """Return the present: a dashed line through all lanes."""
        rule = self._chart([{"time": self._marble.end}]).mark_rule(color=FAINT, strokeDash=[3, 3])
        return rule.encode(x=self._x())

    def lane(self, lane: MarbleLane) -> list[Any]:
        """Return the name of a lane, its points with their labels, and a stem through those of one delivery."""
        layers = [self._left_texts([{"y": lane.y(0), "label": lane.name}], bold=True)]
        if not lane.marks:
            return layers
        tooltips, tips = self._tooltip([mark.tips for mark in lane.marks])
        rows = [
            {"time": m.time, "y": lane.y(m.level), "group": m.group, **tip}
            for m, tip in zip(lane.marks, tips, strict=True)
        ]
        labels = [{"time": m.time, "y": lane.y(m.level), "label": m.label} for m in lane.marks if m.label]
        x, y, color = self._x(), self._y(), self._color(lane.color)
        stems = [
            {"time": m.time, "y": lane.y(m.level), "y2": lane.y(m.level + m.levels - 1)}
            for m in lane.marks
            if m.levels > 1
        ]
        if lane.name == MATCHES:
            layers.append(self._match_lines(lane))
        if stems:
            stem = self._chart(stems).mark_rule(color=lane.color or INK, strokeWidth=1.5)
            layers.append(stem.encode(x=x, y=y, y2="y2"))
        points = self._chart(rows).mark_point(filled=True, opacity=1, size=45)
        layers.append(points.encode(x=x, y=y, color=color, tooltip=tooltips))
        if labels:
            dx, dy = (2, -7) if lane.name == MATCHES else (6, 0)  # there a line goes on behind the point
            text = self._chart(labels).mark_text(align="left", baseline="middle", dx=dx, dy=dy, fontSize=10, color=INK)
            layers.append(text.encode(x=x, y=y, text=self._alt.Text("label", type="nominal")))
        return layers

    def _match_lines(self, lane: MarbleLane) -> Any:
        """Return a line through the rows of each match."""
        runs: dict[str, list[MarbleMark]] = {}
        for mark in lane.marks:
            runs.setdefault(mark.group, []).append(mark)
        rows = [{"time": m[0].time, "until": m[-1].time, "y": lane.y(m[0].level)} for m in runs.values()]
        rule = self._chart(rows).mark_rule(color=lane.color or INK, strokeWidth=3, opacity=0.4)
        return rule.encode(x=self._x(), x2="until", y=self._y())

    def _left_texts(self, rows: Sequence[Mapping[str, object]], *, bold: bool = False) -> Any:
        """Return texts at the left of the plot."""
        weight = "bold" if bold else "normal"
        text = self._chart(rows).mark_text(
            align="right", baseline="middle", fontSize=11 if bold else 10, fontWeight=weight, color=INK
        )
        return text.encode(x=self._alt.value(-6), y=self._y(), text=self._alt.Text("label", type="nominal"))

    def bars(self, top: int) -> list[Any]:
        """Return the window: a bar per event, faint while it is collected, with triangles where a bar continues off the
        plot.
        """
        marble, axis = self._marble, self._axis
        height = _bar_height(marble)
        names = [
            {"y": top + height * (i + 0.5), "label": _label(bar.event, _label_columns(marble, marble.retained))}
            for i, bar in enumerate(marble.bars)
        ]
        layers = [self._left_texts([{"y": top - LEVEL / 2, "label": "window"}], bold=True)]
        if not marble.bars:
            return layers
        first = axis.domain[0]
        tooltips, tips = self._tooltip([self._bar_tooltip(bar) for bar in marble.bars])
        rows: list[dict[str, object]] = []
        ends: list[dict[str, object]] = []
        for i, (bar, tip) in enumerate(zip(marble.bars, tips, strict=True)):
            y, group = top + height * i, group_label(bar.group)
            edge = height // 7  # between bars, twice
            geometry: dict[str, object] = {"y": y + edge, "y2": y + height - edge, "group": group, **tip}
            left = marble.end if bar.left is None else bar.left
            entered = left if bar.entered is None else bar.entered
            if bar.collected and entered > first:
                rows.append({"time": max(bar.arrived, first), "until": entered, "opacity": 0.3, **geometry})
            if bar.entered is not None:
                rows.append({"time": max(entered, first), "until": left, "opacity": 0.85, **geometry})
            end = {"y": y + height / 2, "group": group}
            if bar.left is None:
                ends.append({**end, "time": marble.end, "toward": "right"})
            if bar.arrived < first:
                ends.append({**end, "time": first, "toward": "left"})
        opacity = self._alt.Opacity("opacity", type="quantitative", scale=None, legend=None)
        rects = self._chart(rows).mark_rect(strokeWidth=1.5).encode(
            x=self._x(), x2="until", y=self._y(), y2="y2", color=self._color(None), stroke=self._stroke(),
            opacity=opacity, tooltip=tooltips,
        )  # fmt: skip
        layers += [rects, *([self._left_texts(names)] if height == LEVEL else [])]
        for toward, offset, color in (("right", 4, self._color(None)), ("left", 5, self._alt.value("white"))):
            some = [end for end in ends if end["toward"] == toward]
            if some:
                shape = f"triangle-{toward}"
                points = self._chart(some).mark_point(filled=True, opacity=0.85, size=40, shape=shape, xOffset=offset)
                layers.append(points.encode(x=self._x(), y=self._y(), color=color))
        return layers

    def _stroke(self) -> Any:
        """Return a stroke like the fill, so that a stay of no length is visible, too."""
        if not self._marble.grouped_by:
            return self._alt.value(WINDOW)
        color = self._color(None).to_dict()
        scale, legend = self._alt.Scale(**color["scale"]), self._alt.Legend(**color["legend"])
        return self._alt.Stroke("group", type="nominal", scale=scale, legend=legend)

    def _bar_tooltip(self, bar: WindowStay) -> dict[str, str]:
        text = self._axis.text
        keys = zip(self._marble.grouped_by, bar.group, strict=False)
        return {
            **{f"group: {name}": format_value(key) for name, key in keys},
            "arrived": text(bar.arrived),
            "entered": "not yet" if bar.entered is None else text(bar.entered),
            "left": "not yet" if bar.left is None else text(bar.left),
            **_tooltip_texts(bar.event, self._marble.retained),
        }
