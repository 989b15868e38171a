"""The flow of data between event types, statements, streams, named windows and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cepbook.engine.runtime import Runtime
from cepbook.lang.plan import nodes as plan
from cepbook.session.core.run_results import statement_kind
from cepbook.session.inspect.store_table import store_users

Kind = Literal["type", "statement", "store"]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An event type or stream, a statement, or a named window or table.

    `layer` counts from the left, `place` from the top. `opens` is the statement whose view shows the node.
    """

    id: str
    kind: Kind
    name: str
    detail: str
    opens: str | None
    layer: int = 0
    place: int = 0


@dataclass(frozen=True, slots=True)
class DataflowGraph:
    """Nodes, and the edges between their ids."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[str, str], ...]


def build_graph(runtime: Runtime) -> DataflowGraph:
    """Return the data flow of all deployments, laid out from left to right."""
    stores = {store.name: store for store in runtime.stores.values()}
    nodes: dict[str, GraphNode] = {}
    edges: dict[tuple[str, str], None] = {}

    def stream(name: str) -> str:
        if name in stores:
            return f"store {name}"
        id_ = f"type {name}"
        known = runtime.catalog.event_types.get(name)
        detail = "" if known is None else ", ".join(f"{n} {of}" for n, of in known.shown.items())
        nodes.setdefault(id_, GraphNode(id_, "type", name, detail, None))
        return id_

    for name, store in stores.items():
        kind = "named window" if store.type.kind == "window" else "table"
        nodes[f"store {name}"] = GraphNode(f"store {name}", "store", name, kind, store.owner.name)
    owners = {store.owner.name for store in stores.values()}
    for statement in runtime.statements.values():
        if statement.name in owners or statement.plan.created_variable is not None:
            continue
        id_ = f"statement {statement.name}"
        nodes[id_] = GraphNode(id_, "statement", statement.name, statement_kind(statement), statement.name)
        if isinstance(statement.plan, plan.StreamStatement):
            for source in _read(statement.plan):
                edges[stream(source), id_] = None
        for target in statement.steps.emit.targets:
            edges[id_, stream(target)] = None
    for name, store in stores.items():
        for what, users in store_users(runtime, store).items():
            for user in users:
                if f"statement {user}" in nodes:
                    pair = (f"statement {user}", f"store {name}")
                    edges[pair if what != "read" else pair[::-1]] = None
    return _laid_out(nodes, tuple(edges))


def _read(reader: plan.StreamStatement) -> list[str]:
    inner = [subquery.source.event_type for subquery in reader.subqueries if subquery.source.store is None]
    return list(dict.fromkeys((*reader.names_read, *inner)))


def _laid_out(nodes: Mapping[str, GraphNode], edges: Sequence[tuple[str, str]]) -> DataflowGraph:
    before: dict[str, list[str]] = {id_: [] for id_ in nodes}
    for source, target in edges:
        before[target].append(source)
    layers: dict[str, int] = {}
    for start in nodes:
        path: list[tuple[str, int]] = [(start, 0)]
        pending = {start}
        while path:
            id_, at = path.pop()
            if at < len(before[id_]):
                path.append((id_, at + 1))
                source = before[id_][at]
                if source not in layers and source not in pending:
                    pending.add(source)
                    path.append((source, 0))
                continue
            layers[id_] = max((layers[source_id] + 1 for source_id in before[id_] if source_id in layers), default=0)
    order: dict[str, float] = {}
    columns: dict[int, list[str]] = {}
    for id_ in nodes:
        columns.setdefault(layers[id_], []).append(id_)
    placed: list[GraphNode] = []
    for layer in sorted(columns):  # beside the nodes that feed them, so that few lines cross
        ids = columns[layer]
        places = {i: [order[s] for s in before[i] if s in order] or [n] for n, i in enumerate(ids)}
        means = {i: sum(several) / len(several) for i, several in places.items()}
        for place, id_ in enumerate(sorted(ids, key=lambda i: means[i])):
            order[id_] = place
            node = nodes[id_]
            placed.append(GraphNode(node.id, node.kind, node.name, node.detail, node.opens, layer, place))
    return DataflowGraph(tuple(placed), tuple(edges))
