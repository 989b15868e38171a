"""Access to a table by key: ``T[key].column``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.errors import Span, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.expressions.aggregate_methods import bind_column_method
from cepbook.lang.bind.scope import ERROR, Binder, ModuleScope, Scope, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.references import expressions_in
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


def refuse_table_access(value: object, reader: str, module: ModuleScope) -> None:
    """Report the tables that `reader`, a declaration with the plan or expression `value`, reads."""
    for read in expressions_in(value):
        if isinstance(read, x.TableRead):
            hint = "a variable has the value of a table: on … set VARIABLE = TABLE.COLUMN"
            module.wrong(f"{reader} cannot read table `{read.table}`", read.span, hint)


def bind_table_access(
    steps: Sequence[ast.NameStep], store: StoreType, scope: Scope, bind: Binder
) -> tuple[x.BoundExpr, Sequence[ast.NameStep]]:
    """Bind ``T[key].column``, ``T.column``, ``T[key]`` or ``T.keys()``; return the value and the steps that are left.

    Raises AlreadyReported.
    """
    first, *rest = steps
    module = scope.module
    if scope.into_table == store.name:
        hint = "read it in a separate statement"
        scope.reject(f"a statement into table `{store.name}` cannot read the table", first.span, hint)
    module.require("event type", store.name)
    properties = module.catalog.event_types[store.name].properties
    context = None if scope.context is None else scope.context.name
    if store.context is not None and store.context != context:
        fact, hint = f"table `{store.name}` is in context `{store.context}`", f"begin with `context {store.context}`"
        scope.fail("wrong-context", fact, first.span, hint)
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
        scope.fail("unknown-property", f"no column `{column.name}` in `{store.name}`", column.span, near)
    type_: Type = properties[column.name]
    read: x.BoundExpr = x.TableRead(type_, store.name, keys, column.name, False, inside, span=span)
    if column.index is not None:
        rest = [replace(column, name="", args=None), *rest[1:]]
        return read, rest
    call = store.calls.get(column.name)
    if len(rest) > 1 and isinstance(call, plan.AggregateCall) and isinstance(read, x.TableRead):
        method = bind_column_method(read, call, rest[1], scope, bind)
        if method is not None:
            return method, rest[2:]
        if call.ever and call.criteria and rest[1].args is None:
            # recorded: tb_maxby_minby_ever_columns
            return x.Const(_property(read, rest[1], scope), None, span=span.to(rest[1].span)), rest[2:]
    return read, rest[1:]


def as_selected_row(value: x.BoundExpr, scope: Scope) -> x.BoundExpr:
    """Return ``T[key]`` as a selected column, which shows a row of nulls for an absent key (recorded: tx_whole_row)."""
    if not isinstance(value, x.TableRead) or value.column is not None or value.all_keys:
        return value
    properties = scope.module.catalog.event_types[value.table].properties
    columns = ((name, replace(value, type=type_, column=name)) for name, type_ in properties.items())
    return x.StructOf(t.MAP, tuple(columns), span=value.span)


def bind_method_of_row(prop: x.Prop, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr | None:
    """Bind a method of an aggregation column of a joined table, or return None for other properties and methods.

    The row is read by its key, because an event of the join has only the value of the column.
    """
    event_type = scope.streams[prop.stream].event_type if prop.stream < len(scope.streams) else None
    store = None if event_type is None else scope.module.catalog.stores.get(event_type.name)
    call = None if store is None else store.calls.get(prop.name)
    if event_type is None or store is None or not isinstance(call, plan.AggregateCall):
        return None
    keys = tuple(x.Prop(event_type.properties[key], prop.stream, key, span=prop.span) for key in store.keys)
    inside = store.context is not None
    read = x.TableRead(prop.type, store.name, keys, prop.name, False, inside, span=prop.span)
    return bind_column_method(read, call, step, scope, bind)


def _property(read: x.TableRead, step: ast.NameStep, scope: Scope) -> Type:
    known = scope.module.catalog.event_types.get(read.type.event or "")
    if known is None or step.name not in known.properties:
        near = None if known is None else nearest_or_known_names(step.name, known.properties)
        scope.fail("unknown-property", f"no property `{step.name}` in {type_text(read.type)}", step.span, near)
    return known.properties[step.name]


def _keys(
    first: ast.NameStep, store: StoreType, properties: object, scope: Scope, bind: Binder
) -> tuple[x.BoundExpr, ...]:
    assert isinstance(properties, dict)
    nodes: Sequence[ast.Expr] = ()
    if first.index is not None:
        nodes = first.index.elements if isinstance(first.index, ast.Tuple_) else (first.index,)
    if len(nodes) != len(store.keys):
        at: Span = first.span
        key_text = f"takes {_number(len(store.keys))}: {', '.join(store.keys)}" if store.keys else "has no key"
        fact = f"table `{store.name}` {key_text}; here are {len(nodes) or 'none'}"
        hint = f"such as {store.name}[{', '.join(store.keys)}]" if store.keys else f"such as {store.name}.column"
        scope.fail("wrong-key", fact, at, hint)
    keys = tuple(bind(node, scope) for node in nodes)
    for key, name in zip(keys, store.keys, strict=True):
        if key.type not in (properties[name], ERROR, t.NULL):
            fact = f"key `{name}` of table `{store.name}` is {type_text(properties[name])}, found {type_text(key.type)}"
            scope.fail("wrong-key", fact, key.span)
    return keys


def _number(count: int) -> str:
    return "one key" if count == 1 else f"{count} keys"
