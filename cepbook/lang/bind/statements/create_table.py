"""``create table``, ``into table`` and access by key (Esper reference, chapter Named Windows and Tables)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.annotations import StatementHeading
from cepbook.lang.bind.expressions.aggregate_methods import bind_column_method
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.scope import (
    ERROR,
    AlreadyReported,
    ModuleScope,
    Scope,
    ScopeStream,
    describe_type,
    nearest_or_known_names,
    resolve_context,
)
from cepbook.lang.bind.sketch import bind_sketch, is_sketch
from cepbook.lang.bind.statements.create_schema import bind_schema_columns
from cepbook.lang.bind.statements.create_window import check_name_is_free
from cepbook.lang.bind.statements.on_merge import check_same_context
from cepbook.lang.bind.statements.select import bind_select
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import EventType, StoreType
from cepbook.lang.registry.aggregates import AGGREGATES, aggregate_row
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


# ---------------------------------------------------------------- create table
def bind_create_table(
    node: ast.CreateTable, name: str, heading: StatementHeading, module: ModuleScope
) -> plan.CreateTableStatement | None:
    """The statement, its table entered into the module's catalog; None when the report says why not."""
    resolve_context(node.context, node.span, module)
    known = check_name_is_free(node.name, node, module)
    before = len(module.problems.found)
    calls: dict[str, plan.AggregateCall] = {}
    properties: dict[str, Type] = {}
    for column in node.columns:
        if column.name in properties:
            module.problems.add("duplicate-name", f"column `{column.name}` occurs twice", column.span)
            continue
        if column.aggregate is None:
            bind_schema_columns((replace(column, primary_key=False),), properties, module)
            continue
        try:
            call = _declared(column, module)
        except AlreadyReported:
            continue
        calls[column.name] = call
        properties[column.name] = call.type
    keys = tuple(column.name for column in node.columns if column.primary_key)
    if len(module.problems.found) > before or not known:
        module.dropped.add(node.name)
        return None
    event_type = EventType(node.name, properties)
    texts = {c.name: c.aggregate for c in node.columns if c.aggregate is not None}
    store = StoreType(node.name, "table", node.context, None, keys, calls, texts)
    module.catalog.event_types[node.name] = event_type
    module.catalog.stores[node.name] = store
    module.provides["event type", node.name] = None
    text = module.text(node.span)
    given = heading.name is not None
    return plan.CreateTableStatement(
        name, given, text, heading.annotations, store, event_type, node.context, heading.priority, span=node.span
    )


def _declared(column: ast.ColumnDef, module: ModuleScope) -> plan.AggregateCall:
    """The aggregate of a column; its arguments are the names of types, or columns of the type in ``@type``."""
    assert column.aggregate is not None
    if is_sketch(column):
        return bind_sketch(column, module)
    of = next((str(a.value) for a in column.annotations if a.name.lower() == "type"), None)
    event_type = None if of is None else module.event_type(of, column.span)
    if of is None:
        event_type = EventType("", {type_.name: type_ for type_ in t.BY_NAME.values()} | dict(t.BY_NAME))
    scope = Scope(module, (ScopeStream(None, event_type, of or ""),), None, False, no_row_functions="a column")
    bound = bind_expr(column.aggregate, scope)
    found = list(scope.calls)
    if bound.type == ERROR:
        raise AlreadyReported(column.name)
    if not isinstance(bound, x.AggregateRef) or len(found) != 1:
        module.problems.fail("wrong-parameter", "a column of a table is of a type or an aggregate", column.span)
    return found[0]


# ---------------------------------------------------------------- into table
def with_declared_criteria(node: ast.Select, table: str | None, module: ModuleScope) -> ast.Select:
    """``into table T select sorted() as s``: the column says by what."""
    store = module.catalog.stores.get(table or "")
    if store is None:
        return node
    items = []
    for item in node.items:
        declared = store.texts.get(item.alias or "")
        step = item.expr.steps[0] if isinstance(item.expr, ast.Chain) and len(item.expr.steps) == 1 else None
        if step is not None and step.args == () and not step.wildcard and _sorts(step.name.lower()):
            item = replace(item, expr=declared) if isinstance(declared, ast.Chain) else item
        items.append(item)
    return replace(node, items=tuple(items))


def bind_into_table(
    node: ast.Select, name: str, heading: StatementHeading, module: ModuleScope
) -> plan.SelectStatement | None:
    """``into table T select …``: a select whose aggregates are kept in the table. None when the report says why not."""
    found = bind_select(
        with_declared_criteria(replace(node, into_table=None), node.into_table, module), name, heading, module
    )
    if found is None:
        return None
    aggregation = next((each for each in plan.chain(found.root) if isinstance(each, plan.Aggregation)), None)
    into = _into(node, found.root.columns, aggregation, module)
    if into is None or aggregation is None:
        return None
    if node.insert_into is not None:
        module.problems.add("wrong-parameter", "into table and insert into in one statement", node.span)
    fed = replace(aggregation, calls=as_stored_counts(aggregation.calls, into))
    below: plan.HavingNode = fed
    if isinstance(found.root.input, plan.Having):
        below = replace(found.root.input, input=fed)
    return replace(found, root=replace(found.root, input=below), into=into)


def _into(
    node: ast.Select, columns: Sequence[plan.OutputColumn], aggregation: plan.Aggregation | None, module: ModuleScope
) -> plan.IntoTable | None:
    """Which aggregate goes into which column; None: reported."""
    name = node.into_table or ""
    keys = () if aggregation is None else aggregation.keys
    calls = () if aggregation is None else aggregation.calls
    at = module.word(name, node.span)
    store = module.catalog.stores.get(name)
    if store is None or store.kind != "table":
        if name not in module.dropped:
            known = [each.name for each in module.catalog.stores.values() if each.kind == "table"]
            how = nearest_or_known_names(name, known) or f"declare it: create table {name} (…)"
            module.problems.add("unknown-store", f"no table `{name}`", at, how)
        return None
    module.need("event type", name)
    if store.context is not None:
        check_same_context(store, node, at, module)
    properties = module.catalog.event_types[name].properties
    wanted = [properties[key] for key in store.keys]
    given = [key.type for key in keys]
    if ERROR not in given and given != wanted:
        shown = ", ".join(f"`{key}` {properties[key]}" for key in store.keys) or "none"
        found = ", ".join(map(describe_type, given)) or "none"
        fact = f"the keys of table `{name}` are {shown}; group by has {found}"
        module.problems.add("wrong-key", fact, at if node.group_by is None else node.group_by.span)
        return None
    fed: list[tuple[int, str]] = []
    for column in columns:
        declared = store.calls.get(column.name)
        if declared is None:
            continue
        if column.value.type == ERROR:
            return None  # reported
        if not isinstance(column.value, x.AggregateRef):
            fact = f"column `{column.name}` of `{name}` takes an aggregate"
            module.problems.add("type-mismatch", fact, column.span)
            return None
        call = calls[column.value.index]
        if _signature(call) != _signature(declared):
            fact = f"column `{column.name}` of `{name}` is declared as {_text(store, column.name, module)}"
            hint = None
            if call.ever and _signature(replace(call, ever=False)) == _signature(declared):
                fact += ", which is of a data window, and the stream has none"
                hint = f"declare {_written(call)}ever, or give the stream a window such as #keepall"
            module.problems.add("type-mismatch", fact, column.span, hint)
            return None
        fed.append((column.value.index, column.name))
    if not fed:
        fact = f"nothing of this goes into table `{name}`: name aggregates like its columns"
        module.problems.add("wrong-parameter", fact, at)
        return None
    return plan.IntoTable(store, tuple(fed), span=at)


def _signature(call: object) -> object:
    """What two calls must share to be kept in the same cells."""
    assert isinstance(call, plan.AggregateCall)
    types = tuple(arg.type for arg in call.args)
    if aggregate_row(call.name).counts and not call.distinct:
        types = ()
    filtered = call.filter is not None
    order = tuple(descending for _, descending in call.criteria)
    return call.name, types, call.distinct, filtered, call.ever, call.index is None, order, call.type


def _text(store: StoreType, column: str, module: ModuleScope) -> str:
    declared = store.texts.get(column)
    span = declared.span if isinstance(declared, ast.Expr) else None
    shown = module.source[span.start : span.end] if span is not None and column in store.texts else ""
    call = store.calls[column]
    assert isinstance(call, plan.AggregateCall)
    types = ", ".join(str(arg.type) for arg in call.args)
    name = _written(call)
    return shown if shown.startswith(name) else f"{name}({types or '*'})"


def _written(call: plan.AggregateCall) -> str:
    """The name of the aggregate as EPL has it."""
    if aggregate_row(call.name).column:
        return aggregate_row(call.name).column
    filtered = (row.name for row in AGGREGATES.values() if row.plain == call.name and row.second == "filter")
    return next(filtered, call.name) if call.filter is not None else call.name


def _sorts(name: str) -> bool:
    """Whether it is an aggregate whose parameters are sort criteria."""
    return name in AGGREGATES and AGGREGATES[name].sorts


def as_stored_counts(calls: Sequence[plan.AggregateCall], into: plan.IntoTable) -> tuple[plan.AggregateCall, ...]:
    """Counts of columns count nulls, and what leaves is taken out (recorded: tb_count_null_and_ever)."""
    fed = {number for number, _ in into.columns}
    found = []
    for number, call in enumerate(calls):
        if number in fed and aggregate_row(call.name).counts:
            args = tuple(x.ArrayOf(t.array_of(e.type), (e,), span=e.span) for e in call.args)  # none of them is null
            call = replace(call, name="count", ever=False, args=args if call.distinct else ())
        found.append(call)
    return tuple(found)


# ---------------------------------------------------------------- access
def bind_table_access(
    steps: Sequence[ast.NameStep], store: StoreType, scope: Scope, bind: Callable[[ast.Expr, Scope], x.BoundExpr]
) -> tuple[x.BoundExpr, Sequence[ast.NameStep]]:
    """``T[key].column``, ``T.column``, ``T[key]``, ``T.keys()``, and the steps that are left. Raises Refused."""
    first, *rest = steps
    module = scope.module
    module.need("event type", store.name)
    properties = module.catalog.event_types[store.name].properties
    context = None if scope.context is None else scope.context.name
    if store.context is not None and store.context != context:
        fact, hint = f"table `{store.name}` is in context `{store.context}`", f"begin with `context {store.context}`"
        scope.problems.fail("wrong-context", fact, first.span, hint)
    span = first.span.to(rest[0].span) if rest else first.span
    inside = store.context is not None
    if first.index is None and rest and rest[0].name == "keys" and rest[0].args == () and store.keys:
        of = properties[store.keys[0]] if len(store.keys) == 1 else t.array_of(t.OBJECT)
        return x.TableRead(t.array_of(of), store.name, (), None, True, inside, span=span), rest[1:]
    keys = _keys(first, store, properties, scope, bind)
    if not rest:
        return x.TableRead(t.MAP, store.name, keys, None, False, inside, span=span), rest
    column = rest[0]
    if column.name not in properties or column.args is not None:
        near = nearest_or_known_names(column.name, properties)
        scope.problems.fail("unknown-property", f"no column `{column.name}` in `{store.name}`", column.span, near)
    type_: Type = properties[column.name]
    found: x.BoundExpr = x.TableRead(type_, store.name, keys, column.name, False, inside, span=span)
    if column.index is not None:
        rest = [replace(column, name="", args=None), *rest[1:]]
        return found, rest
    call = store.calls.get(column.name)
    if len(rest) > 1 and isinstance(call, plan.AggregateCall) and isinstance(found, x.TableRead):
        method = bind_column_method(found, call, rest[1], scope, bind)
        if method is not None:
            return method, rest[2:]
        if call.ever and call.criteria and rest[1].args is None:
            # recorded: tb_maxby_minby_ever_columns
            return x.Const(_property(found, rest[1], scope), None, span=span.to(rest[1].span)), rest[2:]
    return found, rest[1:]


def _property(read: x.TableRead, step: ast.NameStep, scope: Scope) -> Type:
    """The type of a property of the event in a column."""
    known = scope.module.catalog.event_types.get(read.type.event or "")
    if known is None or step.name not in known.properties:
        near = None if known is None else nearest_or_known_names(step.name, known.properties)
        scope.problems.fail(
            "unknown-property", f"no property `{step.name}` in {describe_type(read.type)}", step.span, near
        )
    return known.properties[step.name]


def _keys(
    first: ast.NameStep,
    store: StoreType,
    properties: object,
    scope: Scope,
    bind: Callable[[ast.Expr, Scope], x.BoundExpr],
) -> tuple[x.BoundExpr, ...]:
    assert isinstance(properties, dict)
    nodes: Sequence[ast.Expr] = ()
    if first.index is not None:
        nodes = first.index.elements if isinstance(first.index, ast.Tuple_) else (first.index,)
    if len(nodes) != len(store.keys):
        at: Span = first.span
        wanted = f"takes {_number(len(store.keys))}: {', '.join(store.keys)}" if store.keys else "has no key"
        fact = f"table `{store.name}` {wanted}; here are {len(nodes) or 'none'}"
        shown = f"such as {store.name}[{', '.join(store.keys)}]" if store.keys else f"such as {store.name}.column"
        scope.problems.fail("wrong-key", fact, at, shown)
    found = tuple(bind(node, scope) for node in nodes)
    for key, name in zip(found, store.keys, strict=True):
        if key.type not in (properties[name], ERROR, t.NULL):
            fact = (
                f"key `{name}` of table `{store.name}` is {describe_type(properties[name])}, "
                f"found {describe_type(key.type)}"
            )
            scope.problems.fail("wrong-key", fact, key.span)
    return found


def _number(count: int) -> str:
    return "one key" if count == 1 else f"{count} keys"
