"""FlowMap: a live map of the data flow: event types, statements, streams, named windows and tables.

The picture is made here, as SVG, once for each change of the deployment, and is the saved one, too; frames carry only
the figures. A click on a statement or store opens its live view below the picture.
"""

from __future__ import annotations

import time as wall
from collections.abc import Mapping
from html import escape
from typing import Any

import traitlets

from cepbook.display import DisplayTable, captioned_html, format_count, format_value, table_text
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
BOX_WIDTH, ROW_HEIGHT, GAP, MARGIN = (
    200,
    78,
    60,
    8,
)  # px: width of a node, height of a line of them, between columns, around all
LABEL = 24  # characters of a name that fit into a node
_FILL_COLORS = {"type": "rgba(128,128,128,.12)", "statement": "rgba(25,118,210,.14)", "store": "rgba(217,154,27,.18)"}


class FlowMap(LiveWidget):
    """The map of one workbench. Processor time is measured while a page displays it."""

    _esm = widget_script(__file__, "flow_map.js")
    _css = widget_asset(__file__, "flow_map.css")
    opened = traitlets.Unicode("").tag(sync=True)

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._last_graph: DataflowGraph | None = None
        self._requested: str | None = None
        self._below: StatementView | None = None
        self._measuring = False
        super().__init__(rate=4.0)

    def freeze(self) -> StaticPicture:
        """Return the picture with its figures, and a table of them as text; processor time and rates are left out."""
        graph = self._workbench.graph()
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
        return StaticPicture(
            flow_svg(graph, {n.id: _node_lines(n, figures[n.id]) for n in graph.nodes}), table_text(table, None)
        )

    def _mark(self) -> object:
        runtime = self._workbench.runtime
        return runtime.now, runtime.version, sum(self._workbench.feed(name).deliveries for name in runtime.statements)

    def close(self) -> None:
        """Close the map and the view that it opened."""
        self._set_measuring(False)
        if self._below is not None:
            self._below.close()
        super().close()

    def _figures(self, graph: DataflowGraph) -> dict[str, tuple[int, int, int]]:
        """Return by node the events or rows, the number of items held, and the errors."""
        workbench = self._workbench
        runtime, failures = workbench.runtime, workbench.failures
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
        graph = self._workbench.graph()
        figures = self._figures(graph)
        sampler, runtime = self._workbench.sampler, self._workbench.runtime
        frame: dict[str, object] = {
            "kind": "frame",
            "n": number,
            "figures": {
                node.id: {
                    "words": _node_lines(node, figures[node.id]),
                    "count": figures[node.id][0],
                    "cpu": sampler.seconds(node.opens) if node.opens else None,
                    "latency": sampler.latency(runtime, node.opens) if node.opens else None,
                    "failed": figures[node.id][2] > 0,
                }
                for node in graph.nodes
            },
        }
        if graph != self._last_graph:
            self._last_graph = graph
            frame["svg"] = flow_svg(graph, {node.id: _node_lines(node, figures[node.id]) for node in graph.nodes})
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
                self._last_graph = None
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


def flow_svg(graph: DataflowGraph, words: Mapping[str, tuple[str, str]]) -> str:
    """Return the picture; names are escaped and have no control characters."""
    places = {
        node.id: (MARGIN + node.layer * (BOX_WIDTH + GAP), MARGIN + node.place * ROW_HEIGHT) for node in graph.nodes
    }
    width = max((x for x, _ in places.values()), default=0) + BOX_WIDTH + MARGIN
    height = max((y for _, y in places.values()), default=0) + ROW_HEIGHT
    lines = []
    for source, target in graph.edges:
        (x, y), (u, v) = places[source], places[target]
        middle, other = y + ROW_HEIGHT // 2 - MARGIN, v + ROW_HEIGHT // 2 - MARGIN
        bend = max(GAP // 2, abs(u - x - BOX_WIDTH) // 2)
        path = f"M{x + BOX_WIDTH},{middle} C{x + BOX_WIDTH + bend},{middle} {u - bend},{other} {u},{other}"
        lines.append(f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".4"/>')
    boxes = [_node_svg(node, *places[node.id], words[node.id]) for node in graph.nodes]
    style = "max-width:none;font:12px var(--jp-ui-font-family,sans-serif);color:var(--jp-ui-font-color1,inherit)"
    return (
        f'<div style="overflow-x:auto"><svg role="group" aria-label="flow of data" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" style="{style}">{"".join(lines)}{"".join(boxes)}</svg></div>'
    )


def _node_svg(node: GraphNode, x: int, y: int, words: tuple[str, str]) -> str:
    title = escape(f"{node.kind} {format_value(node.name)}: {printable(node.detail)}"[:300], quote=True)
    opens = "" if node.opens is None else f' data-opens="{escape(printable(node.opens), quote=True)}"'
    radius = 14 if node.kind == "type" else 4
    shape = f'<rect width="{BOX_WIDTH}" height="{ROW_HEIGHT - 2 * MARGIN}" rx="{radius}"'
    figures = zip((36, 52), words, strict=True)
    lines = "".join(
        f'<text x="10" y="{at}" fill="currentColor" fill-opacity=".75" data-figures="">{escape(line)}</text>'
        for at, line in figures
    )
    return (
        f'<g data-node="{escape(printable(node.id), quote=True)}"{opens} transform="translate({x},{y})">'
        f"<title>{title}</title>"
        f'{shape} style="fill:var(--jp-layout-color0,Canvas)"/>'  # no line is seen through a box
        f'{shape} fill="{_FILL_COLORS[node.kind]}" stroke="currentColor" stroke-opacity=".35"/>'
        f'<text x="10" y="19" fill="currentColor" font-weight="600">{escape(_node_label(node.name))}</text>{lines}</g>'
    )


def _node_label(name: str) -> str:
    """Return a name that fits into a node: both ends of a long one, which distinguish names that begin alike."""
    name = printable(name)
    return name if len(name) <= LABEL else f"{name[: LABEL // 2]}…{name[-(LABEL // 2 - 1) :]}"
