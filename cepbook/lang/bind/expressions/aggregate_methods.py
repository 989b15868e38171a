"""Methods of aggregates that hold events: ``window(*).first()``, ``sorted(price).floorEvent(10)``.

Source: Esper reference, section "Access Aggregation Functions".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.lang import types as t
from cepbook.lang.bind.coercion import comparable
from cepbook.lang.bind.expressions.method_call import bind_method
from cepbook.lang.bind.scope import ERROR, Binder, Scope, count_text, error_expression, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import AggregateCall
from cepbook.lang.registry.aggregates import AGGREGATES, AggregateRow, aggregate_row
from cepbook.lang.registry.functions import FUNCTIONS, FunctionRow
from cepbook.lang.syntax import ast

# Methods whose values other aggregates over the same events give
EQUIVALENT_AGGREGATES = {
    "window.first": "first",
    "window.last": "last",
    "window.countEvents": "count",
    "window.listReference": "window",
}


def bind_aggregate_method(
    aggregate: x.AggregateRef, steps: Sequence[ast.NameStep], scope: Scope, bind: Binder, known: int
) -> tuple[x.BoundExpr, Sequence[ast.NameStep]]:
    """Apply the first of `steps` to the aggregate `reference`; return the value and the steps that are left.

    `known` is the number of calls before the aggregate was bound.
    """
    call = list(scope.calls)[aggregate.index]
    step, rest = steps[0], steps[1:]
    if step.args is None:
        _check_property(call, step, scope)
        return aggregate, steps
    row, other = _method_row(call, step), EQUIVALENT_AGGREGATES.get(f"{call.name}.{step.name}")
    if (row is not None or other is not None) and aggregate.index >= known:
        scope.calls.pop(call)  # nobody else reads it
    if other is not None:
        _check_count(step, 0, scope)
        return _registered(aggregate, _over_the_same(call, AGGREGATES[other]), scope), rest
    if row is None:
        return aggregate, steps
    args = [bind(arg, scope) for arg in step.args]
    if any(arg.type == ERROR for arg in args):
        return error_expression(step.span), ()
    _check_arguments(row, call, args, step, scope)
    reference = _registered(aggregate, replace(call, reference=True), scope)
    type_ = row.result((call.type, _key_type(call)))
    return x.FunctionCall(type_, row.name, (reference, *args), span=aggregate.span.to(step.span)), rest


def bind_column_method(
    read: x.TableRead, call: AggregateCall, step: ast.NameStep, scope: Scope, bind: Binder
) -> x.BoundExpr | None:
    """Bind a method of a column that holds events, such as ``T.s.firstEvent()``. Return None for other steps."""
    aggregate = aggregate_row(call.name)
    by_arrival = aggregate.methods and aggregate.in_order
    if by_arrival and step.name in _ENDS and (step.args or step.wildcard) and read.type.of is not None:
        return _of_events(read, read.type.of, step, scope, bind)
    row = _method_row(call, step)
    if row is None or step.args is None:
        return None
    args = [bind(arg, scope) for arg in step.args]
    if any(arg.type == ERROR for arg in args):
        return error_expression(step.span)
    _check_arguments(row, call, args, step, scope)
    type_ = row.result((call.type, _key_type(call)))
    return x.FunctionCall(type_, row.name, (replace(read, accumulator=True), *args), span=read.span.to(step.span))


def _method_row(call: AggregateCall, step: ast.NameStep) -> FunctionRow | None:
    """Return the method of the aggregate; with a lambda it is the enumeration method of that name."""
    takes_lambda = any(isinstance(arg, ast.Lambda) for arg in step.args or ())
    return None if takes_lambda else FUNCTIONS.get(f"{call.name}.{step.name}")


_ENDS = {"first": "take", "last": "takeLast", "window": ""}  # the method that takes the event


def _of_events(read: x.TableRead, of: t.Type, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind ``T.w.last(*)``, ``T.w.first(price)``, ``T.w.window(price)``: expressions of the events in a column."""
    known = scope.module.catalog.event_types.get(of.event or "")

    def apply(target: x.BoundExpr, name: str, *args: ast.Expr, bind: Binder = bind) -> x.BoundExpr:
        if target.type == ERROR:
            return target
        value = bind_method(target, ast.NameStep(name, args=args, span=step.span), scope, bind)
        assert value is not None
        return value

    def bind_in_event(node: ast.Expr, inner: Scope) -> x.BoundExpr:
        types = {} if known is None else known.properties
        properties = {name: x.MemberAccess(type_, inner.locals[""], name) for name, type_ in types.items()}
        return bind(node, replace(inner, streams=(), aliases={}, correlated=properties, no_aggregates="a method"))

    value: x.BoundExpr = read
    args = () if step.wildcard else (step.args or ())[:1]
    indexes = (step.args or ())[len(args) :]
    taking = _ENDS[step.name]
    if len(indexes) > bool(taking):
        scope.reject(f"too many parameters for `{step.name}`", step.span)
    if indexes:
        if taking == "takeLast":
            value = apply(value, "reverse")
    elif taking:
        value = apply(value, taking, ast.Literal(1, "int", span=step.span))
    if args:
        value = apply(value, "selectFrom", ast.Lambda(("",), args[0], span=step.span), bind=bind_in_event)
    if indexes:
        return x.IndexAccess(value.type.of or t.OBJECT, value, _index(step, indexes[0], scope, bind), span=step.span)
    return apply(value, "firstOf") if taking else value


def _index(step: ast.NameStep, node: ast.Expr, scope: Scope, bind: Binder) -> x.BoundExpr:
    index = bind(node, scope)
    if index.type not in (t.BYTE, t.SHORT, t.INT, ERROR):
        scope.mismatch(f"the index of `{step.name}` must be an int, found {type_text(index.type)}", index.span)
    return index


def _check_property(call: AggregateCall, step: ast.NameStep, scope: Scope) -> None:
    needs = aggregate_row(call.name).needs_window == "index"
    if step.name and scope.unwindowed and needs and isinstance(call.args[0], x.EventOf):
        hint = f"write {call.name}({step.name}), or add a window, such as #keepall"
        scope.reject(f"a property of `{call.name}(*)` needs a data window", step.span, hint)


def _over_the_same(call: AggregateCall, row: AggregateRow) -> AggregateCall:
    args = () if row.counts else call.args
    return replace(call, name=row.name, args=args, type=row.result(args[0].type if args else None))


def _registered(aggregate: x.AggregateRef, call: AggregateCall, scope: Scope) -> x.AggregateRef:
    index = scope.calls.setdefault(call, len(scope.calls))
    return x.AggregateRef(call.type, index, span=aggregate.span)


def _key_type(call: AggregateCall) -> t.Type:
    if not aggregate_row(call.name).sorts:
        return call.args[0].type
    return call.criteria[0][0].type if len(call.criteria) == 1 else t.array_of(t.OBJECT)


def _check_count(step: ast.NameStep, count: int, scope: Scope) -> None:
    arg_count = len(step.args or ())
    if arg_count != count or step.wildcard or step.named or step.distinct:
        written = "`*`" if step.wildcard else arg_count
        scope.reject(f"`{step.name}` takes {count_text(count, count)}, found {written}", step.span)


def _check_arguments(
    row: FunctionRow, call: AggregateCall, args: Sequence[x.BoundExpr], step: ast.NameStep, scope: Scope
) -> None:
    kinds = row.parameters[1:]
    _check_count(step, len(kinds), scope)
    for number, (kind, arg) in enumerate(zip(kinds, args, strict=True), 1):
        expected_type = t.BOOLEAN if kind == "boolean" else _key_type(call)
        fits = arg.type.of is not None if expected_type.of is not None else comparable(expected_type, arg.type)
        if not fits or (kind == "boolean" and arg.type != expected_type):
            scope.mismatch(
                f"parameter {number} of `{step.name}` must be {type_text(expected_type)}, found {type_text(arg.type)}",
                arg.span,
            )
