"""Lambdas: ``(x, i) => …`` as arguments of methods (Esper reference, chapter "EPL Reference: Enumeration Methods").

The parameters hide names of outer lambdas; the other names of the statement stay visible. They are bound as
`LambdaParameter`s by the depth of the lambda, so equal lambdas are equal whatever their parameters are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.lang import types as t
from cepbook.lang.bind.scope import Binder, Scope, count_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.registry.methods.method_row import LAMBDA_ROLES, REQUIRED_ROLES, MethodParameter
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


def bind_lambda(
    node: ast.Lambda,
    parameter: MethodParameter,
    method: str,
    element: Type,
    before: Sequence[x.BoundExpr],
    scope: Scope,
    bind: Binder,
) -> x.BoundExpr:
    """Bind the lambda of `method` over elements of a type; `before` are the arguments in front of it."""
    roles = LAMBDA_ROLES[parameter.shape]
    if not REQUIRED_ROLES[parameter.shape] <= len(node.params) <= len(roles):
        takes = count_text(REQUIRED_ROLES[parameter.shape], len(roles))
        hint = f"they are ({', '.join(roles)})"
        fact = f"the lambda of `{method}` has {takes}, found {len(node.params)}"
        scope.reject(fact, node.span, hint)
    roles = roles[: len(node.params)]
    types = {"element": element, "index": t.INT, "size": t.INT, "result": before[-1].type if before else t.NULL}
    parameters: dict[str, x.BoundExpr] = {}
    for name, role in zip(node.params, roles, strict=True):
        at = scope.module.locate(name, node.span)
        if name in parameters:
            scope.fail("duplicate-name", f"parameter `{name}` of the lambda occurs twice", at)
        if element.event is None and element.fields is None:
            _check_ambiguous(name, node, scope)
        parameters[name] = x.LambdaParameter(types[role], scope.depth, role, span=at)
    inner = replace(scope, locals={**scope.locals, **parameters}, depth=scope.depth + 1)
    body = bind(node.body, inner)
    return x.LambdaExpr(body.type, scope.depth, roles, body, parameter.backwards, span=node.span)


def _check_ambiguous(name: str, node: ast.Lambda, scope: Scope) -> None:
    streams = scope.streams if scope.params is None else ()
    for stream in streams:
        if stream.event_type is not None and name in stream.event_type.properties:
            fact = f"`{name}` is a parameter of the lambda and a property of `{stream.event_type.name}`"
            hint = "take another name for the parameter"
            scope.fail("ambiguous-property", fact, scope.module.locate(name, node.span), hint)


def refuse_lambda_parameters(values: Sequence[x.BoundExpr], what: str, scope: Scope) -> None:
    """Report a lambda parameter inside of `what`, which is computed over whole events or several rows."""
    for subexpr in (subexpr for value in values for subexpr in x.walk(value)):
        if isinstance(subexpr, x.LambdaParameter) and subexpr.level < scope.depth:
            fact = f"{what} cannot read a parameter of the lambda that it stands in"
            scope.reject(fact, subexpr.span, "methods such as sumOf take a lambda, too")
