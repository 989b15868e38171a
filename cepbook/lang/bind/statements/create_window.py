"""``create window`` (Esper reference, chapter Named Windows and Tables)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.errors import nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.annotations import SHARES_INDEXES, Heading, has_hint, window_reclaim
from cepbook.lang.bind.clauses.target_store import TargetStore, bind_target
from cepbook.lang.bind.clauses.window import bind_windows, has_derived_window, has_groupwin
from cepbook.lang.bind.expressions.expression import bind_clause, bind_expr
from cepbook.lang.bind.scope import (
    ERROR,
    AlreadyReported,
    ModuleScope,
    Scope,
    ScopeStream,
    check_lists_types,
    resolve_context,
)
from cepbook.lang.bind.statements.create_schema import bind_schema_columns
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import SPATIAL_INDEX, EventType, IndexType, StoreType
from cepbook.lang.plan.nodes import OutputColumn
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.unparser import unparse
from cepbook.lang.types import Type


def bind_create_window(node: ast.CreateWindow, heading: Heading, module: ModuleScope) -> nodes.StatementPlan | None:
    """Return the statement with its named window entered into the module's catalog, or None if it was reported."""
    for declaration in node.expressions:
        module.unsupported("expression declarations", declaration.span)
    context, unknown_context = resolve_context(node.context, node.span, module)
    known = check_name_is_free(node.name, node, module)
    filled = _fill_source(node, module)
    columns = _columns(node, module)
    if columns is None:
        module.rejected_names.add(node.name)
        return None
    base = module.catalog.event_types.get(node.as_type or "")
    times = (None, None) if base is None else (base.time_property, base.end_time_property)
    properties = {column.name: column.value.type for column in columns} if node.as_type else _declared(node, module)
    start, end = (window if window in properties else None for window in times)
    further = frozenset() if base is None else base.times & properties.keys()
    event_type = EventType(node.name, properties, (), start, end, times=further)
    scope = Scope(module, (ScopeStream(None, event_type, node.name),), context, True, unknown_context=unknown_context)
    windows = _windows(node, scope)
    base_store = module.catalog.stores.get(node.as_type or "")
    divided = node.as_type if base_store is None else base_store.partitioned_as
    if context is not None and divided is not None:  # else an insert would be for the windows of all partitions
        check_lists_types(context, [divided], module.locate(node.as_type or "", node.span), module)
    collects = any(WINDOWS[window.name].batch for window in windows or ())
    shares = has_hint(node.annotations, SHARES_INDEXES)
    store = StoreType(node.name, "window", node.context, divided, collects=collects, shares_indexes=shares)
    if known:
        module.catalog.event_types[node.name] = event_type
        module.catalog.stores[node.name] = store
        module.provides["event type", node.name] = None
    fill = None
    if filled is not None and node.insert:
        fill = nodes.InitialFill(filled.name, _copy_condition(node, module), columns)
    if not windows or (node.insert and filled is None):  # already reported
        return None
    source_node = nodes.SourceNode(node.name, None, None, span=node.span)
    rows = nodes.Windowed(
        source_node, windows, node.retain == "union" and len(windows) > 1, span=windows[0].span.to(windows[-1].span)
    )
    return nodes.CreateWindowStatement(
        **heading.fields(node.span, module),
        root=nodes.Projection(rows, (), True, span=node.span),
        selector="irstream",
        kind="unaggregated",
        context=node.context,
        insert=None,
        output_type=event_type,
        priority=heading.priority,
        store=store,
        fill=fill,
    )


def check_name_is_free(name: str, node: ast.SyntaxNode, module: ModuleScope) -> bool:
    """Return whether no event type, named window or table is called `name`; report it otherwise.

    A table does not have the name of a variable either: both stand alone in expressions.
    """
    taken = isinstance(node, ast.CreateTable) and name in module.catalog.variables
    if name not in module.catalog.event_types and not taken:
        return True
    kind = "variable" if taken else kind_of_name(name, module)
    module.report("duplicate-name", f"{kind} `{name}` already exists", module.locate(name, node.span))
    return False


def kind_of_name(name: str, module: ModuleScope) -> str:
    """Return ``event type``, ``named window`` or ``table`` for the object called `name`."""
    store = module.catalog.stores.get(name)
    if store is None:
        return "event type"
    return "named window" if store.kind == "window" else "table"


def _windows(node: ast.CreateWindow, scope: Scope) -> tuple[nodes.WindowSpec, ...] | None:
    grouped = has_groupwin(node.windows)
    reclaim = window_reclaim(node.annotations, scope.module) if grouped else None
    stream = ast.FilterStream(node.name, span=node.span)
    source = ast.StreamSource(stream, node.windows, None, False, node.retain, span=node.span)
    before = len(scope.problems.reported)
    bound = bind_windows(source, reclaim, scope)
    if len(scope.problems.reported) > before:
        return None
    if has_derived_window(node.windows) or not bound.holding:
        at = node.windows[0].span if node.windows else scope.module.locate(node.name, node.span)
        fact = f"named window `{node.name}` has no data window that keeps its rows"
        scope.wrong(fact, at, f"such as {node.name}#keepall")
        return None
    return bound.below


def _fill_source(node: ast.CreateWindow, module: ModuleScope) -> StoreType | None:
    """Return the named window whose rows ``insert`` copies."""
    store = module.catalog.stores.get(node.as_type or "")
    if node.insert and (store is None or store.kind != "window"):
        if node.as_type not in module.rejected_names:
            fact = f"`insert` copies the rows of a named window, and `{node.as_type}` is none"
            module.wrong(fact, module.locate("insert", node.span))
        return None
    return store


def _copy_condition(node: ast.CreateWindow, module: ModuleScope) -> x.BoundExpr | None:
    """Return the condition of ``insert where`` over the copied rows."""
    if node.insert_where is None or node.as_type is None:
        return None
    scope = Scope(module, (ScopeStream(None, module.catalog.event_types[node.as_type], node.as_type),))
    return bind_clause(node.insert_where, scope.without_aggregates("the where-clause"), "the where-clause")


def _declared(node: ast.CreateWindow, module: ModuleScope) -> dict[str, Type]:
    properties: dict[str, Type] = {}
    bind_schema_columns(node.columns, properties, module)
    return properties


def _columns(node: ast.CreateWindow, module: ModuleScope) -> tuple[OutputColumn, ...] | None:
    """Return the columns of ``as [select …] Type`` as expressions over Type, or None if they were reported."""
    if node.as_type is None:
        return ()
    base = module.event_type(node.as_type, node.span)
    if base is None:
        return None
    scope = Scope(module, (ScopeStream(None, base, base.name),)).without_aggregates("the columns of a named window")
    items = node.select if node.select is not None else (ast.SelectItem(None, wildcard=True, span=node.span),)
    columns: dict[str, OutputColumn] = {}
    for item in items:
        if item.expr is None:
            for name, type_ in base.shown.items():
                columns[name] = OutputColumn(name, x.Prop(type_, 0, name, span=item.span), span=item.span)
            continue
        try:
            value = bind_expr(item.expr, scope)
        except AlreadyReported:
            return None
        if value.type == ERROR:
            return None
        column = item.alias or unparse(item.expr, frozenset())
        if column in columns:
            module.report("duplicate-name", f"column `{column}` occurs twice", item.span)
        value = replace(value, type=t.OBJECT) if value.type == t.NULL else value
        columns[column] = OutputColumn(column, value, span=item.span)
    return tuple(columns.values())


def bind_create_index(node: ast.CreateIndex, heading: Heading, module: ModuleScope) -> nodes.StatementPlan | None:
    """``create [unique] index I on W (a hash, b btree)``; None when the report says why not."""
    target = bind_target(node.target, None, node.span, node, module)
    if target is None:
        return None
    if target.store.kind == "table" and not target.store.keys:
        fact = f"table `{node.target}` has one row: it has no primary key"
        module.wrong(fact, module.locate(node.target, node.span), "declare a column as primary key")
    columns: list[tuple[str, str] | None] = []
    for written in node.columns:
        own = _index_columns(written, target, module)
        for column in own:
            if column is not None and column[0] in [other[0] for other in columns if other is not None]:
                module.report("duplicate-name", f"column `{column[0]}` occurs twice", written.key.span)
        if node.unique and written.kind == "btree":
            module.wrong("a unique index is not sorted", written.key.span, "leave out `btree`, or `unique`")
        columns += own
    index = IndexType(node.name, node.target, tuple(c for c in columns if c is not None), node.unique)
    if index.full_name in module.catalog.indexes:
        fact = f"an index `{node.name}` of `{node.target}` already exists"
        module.report("duplicate-name", fact, module.locate(node.name, node.span))
    if None in columns:
        return None
    module.catalog.indexes[index.full_name] = index
    module.provides["index", index.full_name] = None
    return nodes.CreateIndexStatement(index=index, **heading.fields(node.span, module))


def _index_columns(node: ast.IndexColumn, target: TargetStore, module: ModuleScope) -> Sequence[tuple[str, str] | None]:
    if node.kind == SPATIAL_INDEX:
        names = node.key.elements if isinstance(node.key, ast.Tuple_) else (node.key,)
        if len(names) == 2 and len(node.parameters) >= 4:
            return [_index_column(name, node.kind, target, module) for name in names]
        hint = f"write (x, y) {SPATIAL_INDEX}(left, top, width, height)"
        module.wrong(f"a {SPATIAL_INDEX} has two columns and a rectangle", node.span, hint)
        return (None,)
    if node.parameters:
        module.wrong(f"an index of kind `{node.kind}` takes no parameters", node.span)
    return (_index_column(node.key, node.kind, target, module),)


def _index_column(key: ast.Expr, kind: str, target: TargetStore, module: ModuleScope) -> tuple[str, str] | None:
    plain = isinstance(key, ast.Chain) and len(key.steps) == 1 and key.steps[0].args is None
    if kind != SPATIAL_INDEX and kind not in ("hash", "btree"):
        module.unsupported(f"an index of kind `{kind}`", key.span, "there are hash, for equality, and btree")
        return None
    if not plain:
        module.wrong("an index is on columns", key.span)
        return None
    assert isinstance(key, ast.Chain)
    name = key.steps[0].name
    if name not in target.event_type.properties:
        hint = nearest_or_known_names(name, target.event_type.properties)
        fact = f"no column `{name}` in `{target.store.name}`"
        module.report("unknown-property", fact, key.span, hint)
        return None
    if target.event_type.properties[name] == t.NULL:
        module.wrong(f"column `{name}` is always null: it has no type", key.span, "index another column")
        return None
    return name, kind
