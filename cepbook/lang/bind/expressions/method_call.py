"""Calls of registered methods: choose the form, bind lambdas, check arguments.

Source: Esper reference, chapter "EPL Reference: Enumeration Methods".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from cepbook.errors import did_you_mean
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import UNTYPED, assignable, coerce, comparable, sortable
from cepbook.lang.bind.expressions.lambdas import bind_lambda
from cepbook.lang.bind.scope import ERROR, Binder, Scope, count_text, error_expression, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.registry.foreign_words import foreign_word
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.methods import MethodRow, method_names_of, methods_named
from cepbook.lang.registry.methods.method_row import (
    CallTypes,
    MethodParameter,
    MethodSignature,
    ReceiverKind,
    ValueKind,
)
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

_NAMES: dict[ValueKind, str] = {
    "number": "a number",
    "integer": "an int",
    "ordered": "a value with an order",
    "boolean": "boolean",
    "collection": "an array",
}
_OWNERS: dict[ReceiverKind, str] = {
    "events": "arrays",
    "values": "arrays",
    "map": "maps",
    "date": "long and date-times",
}


def bind_method(target: x.BoundExpr, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr | None:
    """Bind ``target.step(…)``, or return None if values of its type have no such method. Raises AlreadyReported."""
    kinds = _kinds(target.type)
    for row in methods_named(step.name):
        forms = [form for form in row.forms if any(kind in form.receivers for kind in kinds)]
        if forms:
            return _bound(row, forms, target, step, scope, bind)
    return None


def refuse_method(target: x.BoundExpr, step: ast.NameStep, scope: Scope) -> NoReturn:
    """Report an unknown method of `target`; a word of another system with the EPL that says the same."""
    fact = f"no method `{step.name}` for {type_text(target.type)}"
    elsewhere = foreign_word(step.name, "call", "window")
    if elsewhere is not None and not scope.module.only_functions:
        written = [scope.module.text(span) for span in (target.span, *(arg.span for arg in step.args or ()))]
        scope.fail("unknown-function", fact, target.span.to(step.span), elsewhere.hint(written))
    texts = [name.removeprefix("string.") for name in FUNCTIONS if name.startswith("string.")]
    near = did_you_mean(step.name, texts) if target.type == t.STRING else _method_hint(target, step)
    scope.fail("unknown-function", fact, step.span, near)


def _method_hint(target: x.BoundExpr, step: ast.NameStep) -> str | None:
    """Return the probable meaning of an unknown method."""
    owners = [_OWNERS[form.receivers[0]] for row in methods_named(step.name) for form in row.forms]
    if owners:
        castable = t.is_numeric(target.type) or target.type in (t.OBJECT, t.STRING)
        cast = ": cast it" if castable and owners[0] == _OWNERS["date"] else ""
        return f"it is a method of {owners[0]}{cast}"
    return did_you_mean(step.name, method_names_of(_kinds(target.type)))


def _kinds(type_: Type) -> tuple[ReceiverKind, ...]:
    if type_.of is not None:
        return ("events",) if type_.of.event is not None or type_.of.fields is not None else ("values",)
    if type_ in (t.LONG, *t.DATETIMES):
        return ("date",)
    return ("map",) if type_ == t.MAP else ()


def _bound(
    row: MethodRow,
    forms: Sequence[MethodSignature],
    target: x.BoundExpr,
    step: ast.NameStep,
    scope: Scope,
    bind: Binder,
) -> x.BoundExpr:
    if step.wildcard or step.distinct or step.named:
        scope.reject(f"`{row.short}` takes plain values only", step.span)
    element = target.type.of or t.OBJECT
    form = resolve_method_form(row, forms, step, scope)
    args: list[x.BoundExpr] = []
    for parameter, node in zip(form.parameters, step.args or (), strict=True):
        if isinstance(node, ast.Lambda):
            bound = bind_lambda(node, parameter, row.short, element, args, scope, bind)
        else:
            bound = bind(_collected(node, scope) if parameter.kind == "collection" else node, scope)
        if bound.type == ERROR:
            return error_expression(step.span)
        args.append(_checked(bound, parameter, row, element, args, scope))
    if not _fits(form.elements, element):
        expected = "numbers" if form.elements == "number" else "values with an order"
        hint = f"give it a lambda, such as {_shape(row)}"
        fact = f"`{row.short}` without a lambda needs {expected}, found {type_text(element)}"
        scope.mismatch(fact, step.span, hint)
    type_ = row.result(CallTypes(target.type, element, tuple(arg.type for arg in args)))
    return x.MethodCall(type_, row.name, target, tuple(args), span=target.span.to(step.span))


def _collected(node: ast.Expr, scope: Scope) -> ast.Expr:
    """Return the argument of ``union`` so that a subquery or a named window has all its rows, as before a method."""
    rows = ast.NameStep("arrayOf", (), span=node.span)
    if isinstance(node, ast.Subquery):
        return ast.Member(node, (rows,), span=node.span)
    if isinstance(node, ast.Chain) and len(node.steps) == 1:
        name, module = node.steps[0].name, scope.module
        if any(name in names for names in (module.declared, module.catalog.expressions, module.catalog.stores)):
            return ast.Chain((*node.steps, rows), span=node.span)
    return node


def resolve_method_form(
    row: MethodRow, forms: Sequence[MethodSignature], step: ast.NameStep, scope: Scope
) -> MethodSignature:
    """Return the form whose lambdas and values match the arguments. Raises AlreadyReported if there is none."""
    args = step.args or ()
    for form in forms:
        if len(form.parameters) == len(args) and all(map(_in_shape, form.parameters, args)):
            return form
    counts = [len(form.parameters) for form in forms]
    if len(args) not in counts:
        gaps = len(set(counts)) <= max(counts) - min(counts)
        takes = count_text(min(counts), max(counts))
        if gaps:
            takes = f"{', '.join(map(str, counts[:-1]))} or {counts[-1]} parameters"
        scope.reject(f"`{row.short}` takes {takes}, found {len(args)}", step.span, f"such as {_shape(row)}")
    form = next(form for form in forms if len(form.parameters) == len(args))
    at, node = next(
        (i, arg) for i, (p, arg) in enumerate(zip(form.parameters, args, strict=True), 1) if not _in_shape(p, arg)
    )
    expected = "a value" if isinstance(node, ast.Lambda) else "a lambda"
    scope.reject(f"parameter {at} of `{row.short}` must be {expected}", node.span, f"such as {_shape(row)}")


def _in_shape(parameter: MethodParameter, node: ast.Expr) -> bool:
    return (parameter.shape != "value") == isinstance(node, ast.Lambda)


def _shape(row: MethodRow) -> str:
    return row.example[row.example.rindex(f".{row.short}(") + 1 :]


def _checked(
    bound: x.BoundExpr,
    parameter: MethodParameter,
    row: MethodRow,
    element: Type,
    before: Sequence[x.BoundExpr],
    scope: Scope,
) -> x.BoundExpr:
    what = f"the {parameter.name} of `{row.short}`"
    span = bound.body.span if isinstance(bound, x.LambdaExpr) else bound.span
    if parameter.shape == "fold":
        return _next_result(bound, before[-1], what, scope)
    if parameter.kind == "collection":
        of_ = bound.type.of
        if bound.type not in UNTYPED and (of_ is None or not _joins(of_, element, scope)):
            expected = f"an array of {type_text(element)}"
            scope.mismatch(f"{what} must be {expected}, found {type_text(bound.type)}", span)
        return bound
    untyped = isinstance(bound, x.LambdaExpr) and isinstance(bound.body, x.UserCall) and bound.type == t.OBJECT
    empty = parameter.kind == "ordered" and isinstance(bound, x.LambdaExpr) and bound.type == t.NULL
    if empty or (not _fits(parameter.kind, bound.type) and not untyped):
        expected = _NAMES[parameter.kind]
        hint = f"such as {_shape(row)}" if empty else None
        scope.mismatch(f"{what} must be {expected}, found {type_text(bound.type)}", span, hint)
    return bound


def _joins(other: Type, element: Type, scope: Scope) -> bool:
    """Return whether elements of the type `other` may be among those of an array: events also of a subtype, and rows of
    a named window with the same properties.
    """
    if other.event is None or element.event is None:
        return comparable(other, element)
    return scope.module.catalog.stands_for(other.event, element.event)


def _next_result(bound: x.BoundExpr, start_value: x.BoundExpr, what: str, scope: Scope) -> x.BoundExpr:
    """Bind the lambda of ``aggregate``, whose result has the type of the start value."""
    assert isinstance(bound, x.LambdaExpr)
    start = start_value.type
    if start == t.NULL:
        scope.mismatch("the start value of `aggregate` has no type", start_value.span, "such as cast(null, int)")
    if not assignable(bound.type, start):
        hint = "begin with 0.0" if t.is_numeric(start) and t.is_numeric(bound.type) else None
        fact = f"{what} must be {type_text(start)}, as the start value is, found {type_text(bound.type)}"
        scope.mismatch(fact, bound.body.span, hint)
    return replace(bound, type=start, body=coerce(bound.body, start))


def _fits(kind: ValueKind, type_: Type) -> bool:
    match kind:
        case "number":
            return t.is_numeric(type_)
        case "integer":
            return type_ in (t.BYTE, t.SHORT, t.INT)
        case "boolean":
            return type_ == t.BOOLEAN
        case "ordered":
            return sortable(type_)
    return True
