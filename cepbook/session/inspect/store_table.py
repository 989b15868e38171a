"""Named windows and tables: their contents, keys and indexes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cepbook.engine.relations.relation import CompositeIndex, HashIndex, SortedIndex
from cepbook.engine.relations.store import Store
from cepbook.engine.runtime import Runtime
from cepbook.lang.plan.catalog import SPATIAL_INDEX
from cepbook.lang.plan.expressions import TableRead
from cepbook.lang.plan.references import expressions_in
from cepbook.lang.types import LONG, STRING
from cepbook.session.core.run_results import columns_text
from cepbook.session.io.output.result_frames import rows_frame

STORE_KINDS = {"window": "named window", "table": "table"}
_KINDS = {HashIndex: "hash", SortedIndex: "sorted", CompositeIndex: "composite"}


@dataclass(frozen=True, slots=True)
class IndexSize:
    """An index of a store: of `kind` hash, sorted or composite, over `columns`, with `keys` keys.

    `declared` are the names of ``create index`` that it serves; other indexes are made for the statements that read by
    it.
    """

    kind: str
    columns: tuple[str, ...]
    keys: int
    declared: tuple[str, ...] = ()
    unique: bool = False

    def __str__(self) -> str:
        names = f"{', '.join(self.declared)} " if self.declared else ""
        counted = f"{self.keys} key{'' if self.keys == 1 else 's'}"
        return f"{names}{'unique ' if self.unique else ''}{self.kind}({', '.join(self.columns)}): {counted}"


def stores_frame(runtime: Runtime) -> pd.DataFrame:
    """Return all named windows and tables in order of deployment.

    Columns: name, kind, context, keys (of a table), indexes (one line each), rows (of all context partitions),
    partitions (live ones, with a context), columns.
    """
    lines = []
    for store in runtime.stores.values():
        states = [state for _, state in store.owner.states()]
        lines.append(
            {
                "name": store.name,
                "kind": STORE_KINDS[store.type.kind],
                "context": store.type.context,
                "keys": ", ".join(store.type.keys) or None,
                "indexes": "\n".join(map(str, index_sizes(runtime, store))) or None,
                "rows": sum(len(store.contents(state)) for state in states),
                "partitions": len(states) if store.type.context is not None else None,
                "columns": columns_text(runtime.catalog.event_types[store.name].properties),
            }
        )
    texts = ("name", "kind", "context", "keys", "indexes")
    properties = {**dict.fromkeys(texts, STRING), "rows": LONG, "partitions": LONG, "columns": STRING}
    return rows_frame(lines, properties)


def index_sizes(runtime: Runtime, store: Store) -> list[IndexSize]:
    """Return the current indexes of a store: of its primary key, declared ones, and those made for statements."""
    sizes: dict[tuple[str, tuple[str, ...]], int] = {}
    for _, state in store.owner.states():
        for kind, columns, keys in _index_keys(state):
            sizes[kind, columns] = sizes.get((kind, columns), 0) + keys
    indexes = []
    declared = [index for index in runtime.catalog.indexes.values() if index.store == store.name]
    if store.type.kind == "table" and store.type.keys:
        rows = sum(len(store.contents(state)) for _, state in store.owner.states())
        indexes.append(IndexSize("hash", store.type.keys, rows, ("primary key",), True))
    for index in declared:
        columns = tuple(name for name, _ in index.columns)
        kind = "hash" if index.unique or all(how == "hash" for _, how in index.columns) else "sorted"
        kind = SPATIAL_INDEX if index.spatial else kind
        indexes.append(IndexSize(kind, columns, sizes.pop((kind, columns), 0), (index.name,), index.unique))
    return indexes + [IndexSize(kind, columns, keys) for (kind, columns), keys in sizes.items()]


def _index_keys(state: Any) -> Iterator[tuple[str, tuple[str, ...], int]]:
    for index in state.indexes.values():
        columns = tuple(getattr(index.key, "columns", ())) or ("an expression",)
        if type(index) in _KINDS:
            yield _KINDS[type(index)], columns, len(index.table)


def describe_store(runtime: Runtime, store: Store) -> str:
    """Describe a named window or table, for ``%epl show NAME``."""
    states = store.owner.states()
    rows = sum(len(store.contents(state)) for _, state in states)
    columns = columns_text(runtime.catalog.event_types[store.name].properties)
    head = f"{STORE_KINDS[store.type.kind]} {store.name}({columns})"
    lines = [head]
    if store.type.context is not None:
        lines.append(f"  in context {store.type.context}: {len(states)} partition{'' if len(states) == 1 else 's'}")
    lines.append(f"  holds {rows} row{'' if rows == 1 else 's'}")
    lines += [f"  index {index}" for index in index_sizes(runtime, store)]
    lines += [f"  {what} by {', '.join(names)}" for what, names in store_users(runtime, store).items() if names]
    return "\n".join(lines)


def store_users(runtime: Runtime, store: Store) -> dict[str, list[str]]:
    """Return the statements that fill, change and read a store."""
    users: dict[str, list[str]] = {"filled": [], "changed": [], "read": []}
    for deployment in runtime.deployments.values():
        for statement in deployment.statements:
            plan, applied = statement.plan, statement.steps.emit
            merged = applied.merges
            into = statement.steps.into
            if store.name in applied.targets or (into is not None and into.store.name == store.name):
                users["filled"].append(statement.name)
            if merged is not None and merged.target.name == store.name:
                users["changed"].append(statement.name)
            sources = getattr(plan, "sources", ())
            inner = [source.source for source in plan.subqueries]
            read = any(source.store is not None and source.store.name == store.name for source in (*sources, *inner))
            read = read or any(access.table == store.name for access in expressions_in(plan, TableRead))
            if read and statement is not store.owner:
                users["read"].append(statement.name)
    return users
