"""``into table``: a select whose aggregates are kept in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.errors import nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.target_store import check_same_context
from cepbook.lang.bind.scope import ERROR, ModuleScope, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.registry.aggregates import AGGREGATES, aggregate_row
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.unparser import unparse

Columns = tuple[plan.OutputColumn, ...]
Calls = tuple[plan.AggregateCall, ...]


def bind_into_table(
    node: ast.Select, columns: Columns, keys: Sequence[x.BoundExpr], calls: Calls, module: ModuleScope
) -> tuple[plan.IntoTable, Columns, Calls] | None:
    """Bind ``into table T select …``; return it with the columns and aggregates, or None if it was reported.

    Equal aggregates are one call. Each column of the table has cells of its own, so it gets a call of its own.
    """
    _refuse_unidirectional(node, module)
    into = _stored_columns(node, columns, keys, calls, module)
    if into is None:
        return None
    refs: dict[str, x.BoundExpr] = {}
    fed: dict[int, str] = {}
    for index, column in into.columns:
        number = index
        if index in fed:
            number, calls = len(calls), (*calls, calls[index])
        fed[number] = column
        refs[column] = x.AggregateRef(calls[number].type, number)
    columns = tuple(replace(c, value=replace(refs[c.name], span=c.span)) if c.name in refs else c for c in columns)
    into = replace(into, columns=tuple(fed.items()))
    return into, columns, _as_stored_counts(calls, into)


def _refuse_unidirectional(node: ast.Select, module: ModuleScope) -> None:
    for source in node.sources:
        if source.unidirectional and len(node.sources) > 1:
            fact = "into table takes no unidirectional join: its rows never leave"
            module.wrong(fact, source.span, "leave out `unidirectional` and give the stream a data window")


def _stored_columns(
    node: ast.Select, columns: Columns, keys: Sequence[x.BoundExpr], calls: Calls, module: ModuleScope
) -> plan.IntoTable | None:
    name = node.into_table or ""
    at = module.locate(name, node.span)
    store = module.catalog.stores.get(name)
    if store is None or store.kind != "table":
        if name not in module.rejected_names:
            known = [store_.name for store_ in module.catalog.stores.values() if store_.kind == "table"]
            how = nearest_or_known_names(name, known) or f"declare it: create table {name} (…)"
            module.report("unknown-store", f"no table `{name}`", at, how)
        return None
    module.require("event type", name)
    if store.context is not None:
        check_same_context(store, node, at, module)
    properties = module.catalog.event_types[name].properties
    declared_types = [properties[key] for key in store.keys]
    key_types = [key.type for key in keys]
    if ERROR not in key_types and key_types != declared_types:
        declared_text = ", ".join(f"`{key}` {properties[key]}" for key in store.keys) or "none"
        key_text = ", ".join(map(type_text, key_types)) or "none"
        fact = f"the keys of table `{name}` are {declared_text}; group by has {key_text}"
        module.report("wrong-key", fact, at if node.group_by is None else node.group_by.span)
        return None
    fed: list[tuple[int, str]] = []
    for column in columns:
        declared = store.calls.get(column.name)
        if declared is None:
            continue
        if column.value.type == ERROR:
            return None  # reported
        if not isinstance(column.value, x.AggregateRef):
            module.report("type-mismatch", f"column `{column.name}` of `{name}` takes an aggregate", column.span)
            return None
        call = calls[column.value.index]
        if _signature(call) != _signature(declared):
            fact = f"column `{column.name}` of `{name}` is declared as {unparse(store.texts[column.name], frozenset())}"
            hint = None
            if call.ever and _signature(replace(call, ever=False)) == _signature(declared):
                fact += ", which is of a data window, and the stream has none"
                hint = f"declare {_epl_name(call)}ever, or give the stream a window such as #keepall"
            module.report("type-mismatch", fact, column.span, hint)
            return None
        fed.append((column.value.index, column.name))
    if not fed:
        module.wrong(f"nothing of this goes into table `{name}`: name aggregates like its columns", at)
        return None
    return plan.IntoTable(store, tuple(fed), span=at)


def _signature(call: object) -> object:
    assert isinstance(call, plan.AggregateCall)
    parameters = tuple(arg if isinstance(arg, x.Period) else arg.type for arg in call.args)
    if aggregate_row(call.name).counts and not call.distinct:
        parameters = parameters and (t.OBJECT,)
    filtered = call.filter is not None and not aggregate_row(call.name).methods
    order = tuple((e.type, descending) for e, descending in call.criteria)
    return call.name, parameters, call.distinct, filtered, call.ever, call.index, order, call.type


def _epl_name(call: plan.AggregateCall) -> str:
    filtered = (row.name for row in AGGREGATES.values() if row.plain == call.name and row.second == "filter")
    return next(filtered, call.name) if call.filter is not None else call.name


def with_criteria(node: ast.Select, module: ModuleScope) -> Sequence[ast.SelectItem]:
    """Return the select-list of a statement that feeds a table, with the declared criteria in ``sorted() as s``."""
    store = module.catalog.stores.get(node.into_table or "")
    if store is None:
        return node.items
    items = []
    for item in node.items:
        declared = store.texts.get(item.alias or "")
        steps = item.expr.steps if isinstance(item.expr, ast.Chain) else ()
        bare = len(steps) == 1 and (steps[0].wildcard or steps[0].args == ())
        row = AGGREGATES.get(steps[0].name.lower()) if bare else None
        if row is not None and row.sorts and isinstance(declared, ast.Chain):
            step = replace(steps[0], args=declared.steps[0].args, wildcard=False)
            item = replace(item, expr=ast.Chain((step,), span=step.span))
        items.append(item)
    return items


def _as_stored_counts(calls: Calls, into: plan.IntoTable) -> Calls:
    """Return calls whose counts include nulls and subtract events that leave (recorded: tb_count_null_and_ever)."""
    fed = {number for number, _ in into.columns}
    stored = []
    for number, call in enumerate(calls):
        if number in fed and aggregate_row(call.name).counts:
            args = tuple(x.ArrayOf(t.array_of(e.type), (e,), span=e.span) for e in call.args)  # none of them is null
            call = replace(call, name="count", ever=False, args=args if call.distinct else ())
        stored.append(call)
    return tuple(stored)
