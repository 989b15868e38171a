"""Named windows and tables as streams of a statement."""

from __future__ import annotations

from cepbook.lang.bind.scope import ModuleScope
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.syntax import ast


def check_table_contexts(node: ast.Select, module: ModuleScope) -> None:
    """A statement that reads a table of a context declares the same one (section "Context and Tables")."""
    for source in node.sources:
        name = source.stream.type_name if isinstance(source.stream, ast.FilterStream) else ""
        store = module.catalog.stores.get(name)
        if store is not None and store.kind == "table" and store.context not in (None, node.context):
            fact, hint = f"table `{name}` is in context `{store.context}`", f"begin with `context {store.context}`"
            module.problems.add("wrong-context", fact, module.word(name, source.stream.span), hint)


def resolve_store(source: ast.StreamSource, module: ModuleScope) -> StoreType | None:
    """The named window or table that a stream of the from-clause is, which takes no data windows; None: it is none."""
    if not isinstance(source.stream, ast.FilterStream):
        return None
    found = module.catalog.stores.get(source.stream.type_name)
    if found is not None and source.windows:
        kind = "named window" if found.kind == "window" else "table"
        fact = f"{kind} `{found.name}` keeps its rows itself and takes no data window"
        hint = "insert what it gets into a stream of its own, and put the data window on that"
        at = source.windows[0].span.to(source.windows[-1].span)
        module.problems.add("wrong-parameter", fact, at, hint if found.kind == "window" else None)
    if found is not None and found.kind == "table" and source.stream.contained:
        hint = "select them from the stream that fills it, or keep them in a named window"
        module.problems.add("wrong-parameter", "contained events of a table", source.stream.span, hint)
    return found
