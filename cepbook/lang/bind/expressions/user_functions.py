"""Calls of Python functions: plain functions, aggregates that are classes, aggregates that are functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.lang import types as t
from cepbook.lang.bind.coercion import assignable, coerce
from cepbook.lang.bind.expressions.aggregate import aggregate_call
from cepbook.lang.bind.scope import ERROR, Binder, Scope, bind_whole_event, count_text, error_expression, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import FunctionType
from cepbook.lang.plan.nodes import AggregateCall, WindowSpec
from cepbook.lang.registry.aggregates import AGGREGATES, USER_AGGREGATE
from cepbook.lang.registry.windows import USER_WINDOW as WINDOW
from cepbook.lang.registry.windows import USER_WINDOW_WITH_CLOCK
from cepbook.lang.syntax import ast


def bind_user_function(step: ast.NameStep, function: FunctionType, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind a call of the Python function that is registered under the name of `step`. Raises AlreadyReported."""
    scope.module.require("function", step.name)
    if function.kind == "window":
        scope.reject(f"`{step.name}` is a data window", step.span, f"write #{step.name}(…)")
    if function.kind != "function":
        return _aggregate(step, function, scope, bind)
    if step.named or step.distinct:
        scope.reject(f"`{step.name}` takes plain values only", step.span)
    args = [_value(arg, scope, bind) for arg in step.args or ()]
    if step.wildcard and scope.streams:
        args.insert(0, bind_whole_event(scope, None, step.span))
    if any(arg.type == ERROR for arg in args):
        return error_expression(step.span)
    required = tuple(not nullable for nullable in function.nullable)[: len(args)]
    return x.UserCall(function.returns, step.name, _checked(step, function, args, scope), required, span=step.span)


def _value(arg: ast.Expr, scope: Scope, bind: Binder) -> x.BoundExpr:
    return bind_whole_event(scope, arg.stream, arg.span) if isinstance(arg, ast.Star) else bind(arg, scope)


def _checked(
    step: ast.NameStep, function: FunctionType, args: Sequence[x.BoundExpr], scope: Scope, *, arrays: bool = False
) -> tuple[x.BoundExpr, ...]:
    """Return the arguments as values of the parameter types; with `arrays` as values of the element types."""
    parameters = function.parameters
    if parameters is None:
        return tuple(args)
    most = len(parameters)
    least = most - function.optional
    if not least <= len(args) <= most:
        scope.reject(f"`{step.name}` takes {count_text(least, most)}, found {len(args)}", step.span)
    checked: list[x.BoundExpr] = []
    for number, (arg, parameter) in enumerate(zip(args, parameters, strict=False), 1):
        expected = (parameter.of or t.OBJECT) if arrays else parameter
        if not _accepts(expected, arg.type):
            kinds = f"must be {_parameter_text(expected)}, found {type_text(arg.type)}"
            scope.mismatch(f"parameter {number} of `{step.name}` {kinds}", arg.span)
        checked.append(coerce(arg, expected))
    return tuple(checked)


def _accepts(parameter: t.Type, arg: t.Type) -> bool:
    """Return whether values of the type `arg` fit a parameter. One of dates takes every type of dates."""
    if parameter.of is not None and arg.of is not None:
        return _accepts(parameter.of, arg.of)
    return (parameter.dated and arg in (*t.DATETIMES, t.LOCALDATE)) or assignable(arg, parameter)


def _parameter_text(parameter: t.Type) -> str:
    return (
        f"a date ({t.LONG} or {', '.join(map(str, t.DATETIMES))}, {t.LOCALDATE})"
        if parameter.dated
        else type_text(parameter)
    )


def bind_user_window(
    node: ast.Window, function: FunctionType, values: Sequence[x.BoundExpr], scope: Scope
) -> WindowSpec:
    """Bind a data window written in Python, over the bound `values`. Raises AlreadyReported."""
    scope.module.require("function", node.name)
    parameters = function.parameters or ()
    elements = tuple(parameter.of if parameter.of is not None else parameter for parameter in parameters)
    step = ast.NameStep(node.name, span=node.span)
    args = _checked(step, replace(function, parameters=elements), values, scope)
    letters = ("v" if parameter.of is None else "l" for parameter in parameters)
    shape = "".join(s.upper() if loose else s for s, loose in zip(letters, function.nullable, strict=True))
    code = x.UserClass(t.OBJECT, node.name, len(args), shape)
    row = USER_WINDOW_WITH_CLOCK if function.clocked else WINDOW
    return WindowSpec(row.name, (*args, code), span=node.span)


def _aggregate(step: ast.NameStep, function: FunctionType, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind an aggregate; its filter leaves out events with a null that the function does not accept."""
    count = len(function.parameters or ())
    collects = function.kind == "collector"
    row = replace(
        USER_AGGREGATE,
        name=step.name,
        arity=count,
        distinct=count == 1 and not collects,
        needs_window="always" if collects else "",
    )
    call = aggregate_call(row, step, scope, bind)
    if call is None:
        return error_expression(step.span)
    checked_args = _checked(step, function, call.args, scope, arrays=collects)
    condition = _without_nulls(checked_args, function, call.filter, step)
    if collects:
        calls = [replace(call, name="window", args=(arg,), filter=condition) for arg in checked_args]
        lists = tuple(_reference(call_, AGGREGATES["window"].result(call_.args[0].type), scope) for call_ in calls)
        return x.UserCall(function.returns, step.name, lists, (True,) * count, span=step.span)
    value: x.BoundExpr = x.Const(t.BOOLEAN, True, span=step.span)
    if count:
        value = checked_args[0] if count == 1 else x.ArrayOf(t.array_of(t.OBJECT), checked_args, span=step.span)
    args = (value, x.UserClass(t.OBJECT, step.name, count))
    return _reference(replace(call, name=USER_AGGREGATE.name, args=args, filter=condition), function.returns, scope)


def _reference(call: AggregateCall, type_: t.Type, scope: Scope) -> x.AggregateRef:
    call = replace(call, type=type_)
    return x.AggregateRef(type_, scope.calls.setdefault(call, len(scope.calls)), span=call.span)


def _without_nulls(
    args: Sequence[x.BoundExpr], function: FunctionType, condition: x.BoundExpr | None, step: ast.NameStep
) -> x.BoundExpr | None:
    null = x.Const(t.NULL, None)
    needed = [arg for arg, nullable in zip(args, function.nullable, strict=True) if not nullable]
    tests: list[x.BoundExpr] = [] if condition is None else [condition]
    tests += [x.Is(t.BOOLEAN, arg, null, True, span=arg.span) for arg in needed]
    return tests[0] if len(tests) == 1 else x.Logic(t.BOOLEAN, "and", tuple(tests), span=step.span) if tests else None
