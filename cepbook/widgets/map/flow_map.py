"""FlowMap: a live map of the data flow: event types, statements, streams, named windows and tables.

The picture is made here, as SVG, once for each change of the deployment or of the page's width; frames carry only the
figures. The saved picture is an image of the same SVG, because notebooks that are not trusted remove SVG and leave its
texts. A click on a statement or store opens its live view below the picture.
"""

from __future__ import annotations

import time as wall
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import traitlets

from cepbook.display import DisplayTable, captioned_html, format_count, format_time, format_value, table_text
from cepbook.errors import CepbookError, printable
from cepbook.session import Workbench
from cepbook.session.core.cpu_sampler import events_read
from cepbook.session.inspect.dataflow_graph import DataflowGraph, GraphNode
from cepbook.session.inspect.metrics import state_size
from cepbook.widgets.base.live_widget import LiveWidget, widget_asset, widget_script
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.live_view.statement_view import StatementView, view

LOOK_INTERVAL = 0.5  # seconds between two looks at the figures, at least
REST_FACTOR = 50  # and one that took t seconds is followed by a rest of SHARE * t: at most 2 % of the time
BOX_WIDTH, ROW_HEIGHT, GAP, MARGIN = 200, 78, 60, 8  # px: a node, a line of them, between columns, around all
LEAST_BOX, LEAST_GAP = 92, 16  # px, in a narrow page; a map that needs more is drawn smaller
CHARACTER = 8  # px of a name in a node
WIDEST, SAVED_WIDTH = 10_000, 1_000  # px of a page, and of a saved picture
_FILL_COLORS = {"type": "rgba(128,128,128,.12)", "statement": "rgba(25,118,210,.14)", "store": "rgba(217,154,27,.18)"}


class FlowMap(LiveWidget):
    """The map of one workbench. Processor time is measured while a page displays it."""

    _esm = widget_script(__file__, "flow_map.js")
    _css = widget_asset(__file__, "flow_map.css")
    opened = traitlets.Unicode("").tag(sync=True)

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._last_picture: tuple[DataflowGraph, int | None] | None = None
        self._width: int | None = None  # px of the page that displays the map
        self._requested: str | None = None
        self._below: StatementView | None = None
        self._measuring = False
        super().__init__(rate=4.0)
        workbench.glance.subscribe(self._on_glance)

    def _on_glance(self) -> None:
        """Display another instant at once."""
        self.flush(urgent=True)

    @property
    def _displayed(self) -> Workbench:
        """The workbench of the past instant that views display, or the present one."""
        return self._workbench.glance.workbench or self._workbench

    def _past(self) -> str:
        """Return the past instant that is displayed; empty for the present."""
        glance, second = self._workbench.glance, self._workbench.runtime.config.second
        return "" if glance.time is None else f"past · {format_time(glance.time, second=second)}"

    def freeze(self) -> StaticPicture:
        """Return the picture with its figures, and a table of them as text; processor time and rates are left out."""
        graph = self._displayed.graph()
        if not graph.nodes:
            nothing = "nothing is deployed"
            return StaticPicture(captioned_html(nothing, DisplayTable((), (), ())), nothing)
        figures = self._figures(graph)
        fed: dict[str, list[str]] = {}
        names = {node.id: node.name for node in graph.nodes}
        for source, target in graph.edges:
            fed.setdefault(target, []).append(names[source])
        said = {n.id: ", ".join(filter(None, _node_lines(n, figures[n.id]))) for n in graph.nodes}
        rows = tuple((n.name, n.kind, ", ".join(fed.get(n.id, ())), said[n.id]) for n in graph.nodes)
        table = DisplayTable(("name", "kind", "fed by", "figures"), (False,) * 4, rows)
        svg = flow_svg(graph, {n.id: _node_lines(n, figures[n.id]) for n in graph.nodes}, SAVED_WIDTH)
        past = self._past()
        described = "; ".join(f"{name}: {line}" if line else name for name, _, _, line in rows)
        heading = f'<div style="font-weight:600">{escape(past)}</div>' if past else ""
        return StaticPicture(
            f"<div>{heading}{svg_image(svg, f'flow of data: {described}')}</div>",
            (f"{past}\n" if past else "") + table_text(table, None),
        )

    def _mark(self) -> object:
        runtime = self._displayed.runtime
        return (
            self._past(),
            runtime.now,
            runtime.version,
            sum(self._displayed.feed(name).deliveries for name in runtime.statements),
        )

    def close(self) -> None:
        """Close the map and the view that it opened."""
        self._set_measuring(False)
        if self._below is not None:
            self._below.close()
        super().close()

    def _figures(self, graph: DataflowGraph) -> dict[str, tuple[int, int, int]]:
        """Return by node the events or rows, the number of items held, and the errors."""
        workbench = self._displayed
        runtime = workbench.runtime
        failures = self._workbench.failures if workbench is self._workbench else {}  # of the past nobody knows
        counts = workbench.event_counts()
        figures = {}
        for node in graph.nodes:
            if node.kind == "type":
                figures[node.id] = counts.get(node.name, 0), 0, 0
            elif node.opens is not None:
                statement = runtime.statement(node.opens)
                came = events_read(runtime, statement, counts) if node.kind == "statement" else 0
                figures[node.id] = came, state_size(runtime, node.opens), failures.get(node.opens, 0)
        return figures

    def _build(self, number: int) -> bool:
        began = wall.perf_counter()
        self._set_measuring(True)
        graph = self._displayed.graph()
        figures = self._figures(graph)
        sampler, runtime, past = self._workbench.sampler, self._workbench.runtime, self._past()
        frame: dict[str, object] = {
            "kind": "frame",
            "n": number,
            "past": past,
            "figures": {
                node.id: {
                    "words": _node_lines(node, figures[node.id]),
                    "count": figures[node.id][0],
                    "cpu": sampler.seconds(node.opens) if node.opens and not past else None,
                    "latency": sampler.latency(runtime, node.opens) if node.opens and not past else None,
                    "failed": figures[node.id][2] > 0,
                }
                for node in graph.nodes
            },
        }
        if (graph, self._width) != self._last_picture:
            self._last_picture = graph, self._width
            words = {node.id: _node_lines(node, figures[node.id]) for node in graph.nodes}
            frame["svg"] = flow_svg(graph, words, self._width)
        self.send(frame)
        self._pump.remind(max(LOOK_INTERVAL, REST_FACTOR * (wall.perf_counter() - began)))
        return True

    def _set_measuring(self, looking: bool) -> None:
        if looking != self._measuring:
            self._measuring = looking
            (self._workbench.sampler.start if looking else self._workbench.sampler.stop)()

    def _receive(self, content: dict[str, Any]) -> bool | None:
        match content:
            case {"kind": "hello"}:
                self._last_picture = None
            case {"kind": "size", "width": int(width)} if 0 < width <= WIDEST:
                self._width = width
                self._pump.touch()
            case {"kind": "open", "name": str(name)}:
                self._requested = name
                self._pump.soon(self._open)
            case {"kind": "bye"}:
                self._pump.soon(lambda: None if self._pump.is_open else self._set_measuring(False))
            case _:
                return False
        return True

    def _open(self) -> None:
        name, self._requested = self._requested, None
        if name is None:
            return
        try:
            opened_view = view(self._workbench, name)
        except CepbookError:
            return  # it was dropped in the meantime: the next frame has it no more
        before, self._below = self._below, opened_view
        self.opened = str(opened_view.model_id)
        if before is not None:
            before.close()


def _node_lines(node: GraphNode, figures: tuple[int, int, int]) -> tuple[str, str]:
    """Return the two lines of a node: events and errors, and the number of items held."""
    came, size, failed = figures
    first = [] if node.kind == "store" else [format_count(came, "event")]
    if failed:
        first.append(format_count(failed, "error"))
    return ", ".join(first), f"holds {size:,}" if size or node.kind == "store" else ""


@dataclass(frozen=True, slots=True)
class _Measures:
    """Sizes in px: `box` is the width of a node, `gap` the distance between columns."""

    box: int = BOX_WIDTH
    gap: int = GAP

    @classmethod
    def fitting(cls, columns: int, width: int | None) -> _Measures:
        """Return those with which `columns` fit into `width`, as far as texts stay readable."""
        room = WIDEST if width is None else width - 2 * MARGIN
        if columns * (BOX_WIDTH + GAP) - GAP <= room:
            return cls()
        gap = min(GAP, max(LEAST_GAP, room // (5 * columns)))
        return cls(min(BOX_WIDTH, max(LEAST_BOX, (room + gap) // columns - gap)), gap)


def flow_svg(graph: DataflowGraph, words: Mapping[str, tuple[str, str]], width: int | None = None) -> str:
    """Return the picture for a page of that `width`; names are escaped and have no control characters."""
    of = _Measures.fitting(1 + max((node.layer for node in graph.nodes), default=0), width)
    places = {
        node.id: (MARGIN + node.layer * (of.box + of.gap), MARGIN + node.place * ROW_HEIGHT) for node in graph.nodes
    }
    right = max((x for x, _ in places.values()), default=0) + of.box + MARGIN
    height = max((y for _, y in places.values()), default=0) + ROW_HEIGHT
    lines = []
    for source, target in graph.edges:
        (x, y), (u, v) = places[source], places[target]
        middle, other = y + ROW_HEIGHT // 2 - MARGIN, v + ROW_HEIGHT // 2 - MARGIN
        bend = max(of.gap // 2, abs(u - x - of.box) // 2)
        path = f"M{x + of.box},{middle} C{x + of.box + bend},{middle} {u - bend},{other} {u},{other}"
        lines.append(f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".4"/>')
    boxes = [_node_svg(node, *places[node.id], words[node.id], of.box) for node in graph.nodes]
    style = "max-width:100%;height:auto;font:12px var(--jp-ui-font-family,sans-serif);"
    style += "color:var(--jp-ui-font-color1,inherit)"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="group" aria-label="flow of data" width="{right}" '
        f'height="{height}" viewBox="0 0 {right} {height}" style="{style}">{"".join(lines)}{"".join(boxes)}</svg>'
    )


_IMAGE_STYLE = (
    "<style>svg{color:#1f2328;background:#fff;color-scheme:light}"
    "@media (prefers-color-scheme:dark){svg{color:#e6e6e6;background:#1e1e1e;color-scheme:dark}}</style>"
)


def svg_image(svg: str, description: str) -> str:
    """Return an SVG as an image, which is allowed where SVG is not, and runs no script."""
    start = svg.index(">") + 1
    data = b64encode(
        f"{svg[:start]}{_IMAGE_STYLE}{svg[start:]}".replace("color:var(--jp-ui-font-color1,inherit)", "").encode()
    ).decode()
    text = escape(printable(description), quote=True)
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{text}" style="max-width:100%;height:auto"/>'


def _node_svg(node: GraphNode, x: int, y: int, words: tuple[str, str], width: int) -> str:
    title = escape(f"{node.kind} {format_value(node.name)}: {printable(node.detail)}"[:300], quote=True)
    opens = "" if node.opens is None else f' data-opens="{escape(printable(node.opens), quote=True)}"'
    radius = 14 if node.kind == "type" else 4
    shape = f'<rect width="{width}" height="{ROW_HEIGHT - 2 * MARGIN}" rx="{radius}"'
    figures = zip((36, 52), words, strict=True)
    lines = "".join(
        f'<text x="10" y="{at}" fill="currentColor" fill-opacity=".75" data-figures="">{escape(line)}</text>'
        for at, line in figures
    )
    label = escape(_node_label(node.name, (width - 20) // CHARACTER))
    return (
        f'<g data-node="{escape(printable(node.id), quote=True)}"{opens} transform="translate({x},{y})">'
        f"<title>{title}</title>"
        f'{shape} style="fill:var(--jp-layout-color0,Canvas)"/>'  # no line is seen through a box
        f'{shape} fill="{_FILL_COLORS[node.kind]}" stroke="currentColor" stroke-opacity=".35"/>'
        f'<svg width="{width - 4}" height="{ROW_HEIGHT - 2 * MARGIN}">'  # which cuts what is wider
        f'<text x="10" y="19" fill="currentColor" font-weight="600">{label}</text>{lines}</svg></g>'
    )


def _node_label(name: str, most: int) -> str:
    """Return a name that fits into a node: both ends of a long one, which distinguish names that begin alike."""
    name = printable(name)
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most // 2 - 1) :]}"
