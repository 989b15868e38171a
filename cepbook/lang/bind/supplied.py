"""Calls of what comes from Python: functions, aggregates that are classes, aggregates that are functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.lang import ast
from cepbook.lang import expr as x
from cepbook.lang import types as t
from cepbook.lang.aggregates import AGGREGATES, SUPPLIED
from cepbook.lang.bind.aggregate import aggregate_call
from cepbook.lang.bind.arguments import Binder, how_many, whole_event
from cepbook.lang.bind.names import ERROR, Scope, describe, error_at
from cepbook.lang.bind.typing import assignable, coerce
from cepbook.lang.catalog import FunctionType
from cepbook.lang.plan import AggregateCall, WindowSpec
from cepbook.lang.windows import CLOCKED
from cepbook.lang.windows import SUPPLIED as WINDOW


def bind_supplied(step: ast.NameStep, function: FunctionType, scope: Scope, bind: Binder) -> x.Expr:
    """A call of what is registered under the name of `step`. Raises Refused (reported)."""
    scope.module.need("function", step.name)
    if function.kind == "window":
        scope.problems.fail("wrong-parameter", f"`{step.name}` is a data window", step.span, f"write #{step.name}(…)")
    if function.kind != "function":
        return _aggregate(step, function, scope, bind)
    if step.named or step.distinct:
        scope.problems.fail("wrong-parameter", f"`{step.name}` takes plain values only", step.span)
    args = [_value(arg, scope, bind) for arg in step.args or ()]
    if step.wildcard and scope.streams:
        args.insert(0, whole_event(scope, None, step.span))
    if any(arg.type == ERROR for arg in args):
        return error_at(step.span)
    required = tuple(not nullable for nullable in function.nullable)[: len(args)]
    return x.UserCall(function.returns, step.name, _checked(step, function, args, scope), required, span=step.span)


def _value(arg: ast.Expr, scope: Scope, bind: Binder) -> x.Expr:
    return whole_event(scope, arg.stream, arg.span) if isinstance(arg, ast.Star) else bind(arg, scope)


def _checked(
    step: ast.NameStep, function: FunctionType, args: Sequence[x.Expr], scope: Scope, *, arrays: bool = False
) -> tuple[x.Expr, ...]:
    """The arguments as values of the types of the parameters; with `arrays` of their elements' types."""
    parameters = function.parameters
    if parameters is None:
        return tuple(args)
    most = len(parameters)
    least = most - function.optional
    if not least <= len(args) <= most:
        fact = f"`{step.name}` takes {how_many(least, most)}, found {len(args)}"
        scope.problems.fail("wrong-parameter", fact, step.span)
    made: list[x.Expr] = []
    for number, (arg, parameter) in enumerate(zip(args, parameters, strict=False), 1):
        wanted = (parameter.of or t.OBJECT) if arrays else parameter
        if not assignable(arg.type, wanted):
            fact = f"parameter {number} of `{step.name}` must be {describe(wanted)}, found {describe(arg.type)}"
            scope.problems.fail("type-mismatch", fact, arg.span)
        made.append(coerce(arg, wanted))
    return tuple(made)


def bind_supplied_window(
    node: ast.Window, function: FunctionType, values: Sequence[x.Expr], scope: Scope
) -> WindowSpec:
    """A data window from Python over the bound `values`. Raises Refused (reported)."""
    scope.module.need("function", node.name)
    parameters = function.parameters or ()
    elements = tuple(each.of if each.of is not None else each for each in parameters)
    step = ast.NameStep(node.name, span=node.span)
    args = _checked(step, replace(function, parameters=elements), values, scope)
    letters = ("v" if each.of is None else "l" for each in parameters)
    shape = "".join(s.upper() if loose else s for s, loose in zip(letters, function.nullable, strict=True))
    code = x.UserClass(t.OBJECT, node.name, len(args), shape)
    row = CLOCKED if function.clocked else WINDOW
    return WindowSpec(row.name, (*args, code), span=node.span)


# ---------------------------------------------------------------- aggregates
def _aggregate(step: ast.NameStep, function: FunctionType, scope: Scope, bind: Binder) -> x.Expr:
    """An aggregate: with a filter that leaves out events with a null that it does not take."""
    count = len(function.parameters or ())
    collects = function.kind == "collector"
    row = replace(
        SUPPLIED,
        name=step.name,
        arity=count,
        distinct=count == 1 and not collects,
        needs_window="always" if collects else "",
    )
    call = aggregate_call(row, step, scope, bind)
    if call is None:
        return error_at(step.span)
    given = _checked(step, function, call.args, scope, arrays=collects)
    condition = _without_nulls(given, function, call.filter, step)
    if collects:
        calls = [replace(call, name="window", args=(arg,), filter=condition) for arg in given]
        lists = tuple(_reference(each, AGGREGATES["window"].result(each.args[0].type), scope) for each in calls)
        return x.UserCall(function.returns, step.name, lists, (True,) * count, span=step.span)
    value: x.Expr = x.Const(t.BOOLEAN, True, span=step.span)
    if count:
        value = given[0] if count == 1 else x.ArrayOf(t.array_of(t.OBJECT), given, span=step.span)
    args = (value, x.UserClass(t.OBJECT, step.name, count))
    return _reference(replace(call, name=SUPPLIED.name, args=args, filter=condition), function.returns, scope)


def _reference(call: AggregateCall, type_: t.Type, scope: Scope) -> x.AggregateRef:
    call = replace(call, type=type_)
    return x.AggregateRef(type_, scope.calls.setdefault(call, len(scope.calls)), span=call.span)


def _without_nulls(
    args: Sequence[x.Expr], function: FunctionType, condition: x.Expr | None, step: ast.NameStep
) -> x.Expr | None:
    null = x.Const(t.NULL, None)
    known = zip(args, function.nullable, strict=True)
    tests: list[x.Expr] = [x.Is(t.BOOLEAN, arg, null, True, span=arg.span) for arg, nullable in known if not nullable]
    tests = [*([] if condition is None else [condition]), *tests]
    return tests[0] if len(tests) == 1 else x.Logic(t.BOOLEAN, "and", tuple(tests), span=step.span) if tests else None
