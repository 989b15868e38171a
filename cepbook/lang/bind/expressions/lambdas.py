"""Lambdas: ``(x, i) => …`` as arguments of methods (Esper reference, chapter "EPL Reference: Enumeration Methods").

Their parameters are names of their own, which hide those of lambdas around them; the rest of the statement stays in
sight. They are bound as `expr.Local`s by the number of lambdas around, so equal lambdas are equal whatever their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.lang import types as t
from cepbook.lang.bind.scope import ExpressionBinder, Scope, parameter_count_text
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
    bind: ExpressionBinder,
) -> x.BoundExpr:
    """The lambda of a `method` over elements of a type; `before` are the arguments in front of it."""
    roles = LAMBDA_ROLES[parameter.shape]
    if not REQUIRED_ROLES[parameter.shape] <= len(node.params) <= len(roles):
        takes = parameter_count_text(REQUIRED_ROLES[parameter.shape], len(roles))
        hint = f"they are ({', '.join(roles)})"
        fact = f"the lambda of `{method}` has {takes}, found {len(node.params)}"
        scope.fail("wrong-parameter", fact, node.span, hint)
    roles = roles[: len(node.params)]
    types = {"element": element, "index": t.INT, "size": t.INT, "result": before[-1].type if before else t.NULL}
    found: dict[str, x.BoundExpr] = {}
    for name, role in zip(node.params, roles, strict=True):
        at = scope.module.word(name, node.span)
        if name in found:
            scope.fail("duplicate-name", f"parameter `{name}` of the lambda occurs twice", at)
        if element.event is None and element.fields is None:
            _check_ambiguous(name, node, scope)
        found[name] = x.LambdaParameter(types[role], scope.depth, role, span=at)
    inner = replace(scope, locals={**scope.locals, **found}, depth=scope.depth + 1)
    body = bind(node.body, inner)
    return x.LambdaExpr(body.type, scope.depth, roles, body, parameter.backwards, span=node.span)


def _check_ambiguous(name: str, node: ast.Lambda, scope: Scope) -> None:
    """A parameter that is a value would hide a property of the same name."""
    streams = scope.streams if scope.params is None else ()
    for stream in streams:
        if stream.event_type is not None and name in stream.event_type.properties:
            scope.fail(
                "ambiguous-property",
                f"`{name}` is a parameter of the lambda and a property of `{stream.event_type.name}`",
                scope.module.word(name, node.span),
                "take another name for the parameter",
            )


def refuse_lambda_parameters(values: Sequence[x.BoundExpr], what: str, scope: Scope) -> None:
    """Refuses a parameter of a lambda where a value of whole events or of several rows is formed."""
    for part in (part for value in values for part in x.walk(value)):
        if isinstance(part, x.LambdaParameter) and part.level < scope.depth:
            fact = f"{what} cannot read a parameter of the lambda that it stands in"
            scope.fail("wrong-parameter", fact, part.span, "methods such as sumOf take a lambda, too")
