"""What an assignment may name behind a property or a variable: an element, a value of a map, a property within."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepbook.lang import types as t
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.scope import ERROR, AlreadyReported, Scope, describe_type, nearest_or_known_names
from cepbook.lang.plan import expressions as x
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


def bind_assignment_path(
    step: ast.NameStep, rest: Sequence[ast.NameStep], type_: Type, scope: Scope
) -> tuple[tuple[x.BoundExpr, ...], Type, str]:
    """The keys from a value of `type_`, called as `step` is, to the part that is assigned, its type, its name.

    A key is an int for an element of an array, else a string. Raises Refused (reported).
    """
    path: list[x.BoundExpr] = []
    shown, before = step.name, step
    for number, each in enumerate((step, *rest)):
        if type_ == ERROR:
            raise AlreadyReported(shown)
        if number and each.name:
            type_ = _property(each, type_, shown, before, scope)
            path.append(x.Const(t.STRING, each.name, span=each.span))
            shown = f"{shown}.{each.name}"
        if each.args is not None:
            path.append(_map_key(each, type_, shown, scope))
            type_, shown = t.OBJECT, f"{shown}(…)"
        if each.index is not None:
            path.append(_index(each.index, type_, shown, each, scope))
            assert type_.of is not None
            type_, shown = type_.of, f"{shown}[…]"
        before = each
    return tuple(path), type_, shown


def _property(step: ast.NameStep, type_: Type, shown: str, before: ast.NameStep, scope: Scope) -> Type:
    event = scope.module.catalog.event_types.get(type_.event or "")
    if event is None and type_.fields is None:
        fact = f"`{shown}` is {describe_type(type_)}: it has no properties to be assigned"
        hint = "assign all of it" if type_ != t.MAP else f"write {shown}('{step.name}')"
        scope.problems.fail("type-mismatch", fact, before.span, hint)
    known: Mapping[str, Type] = event.properties if event is not None else dict(type_.fields or ())
    if step.name not in known:
        fact = f"no property `{step.name}` in {f'`{event.name}`' if event is not None else describe_type(type_)}"
        scope.problems.fail("unknown-property", fact, step.span, nearest_or_known_names(step.name, known))
    return known[step.name]


def _map_key(step: ast.NameStep, type_: Type, shown: str, scope: Scope) -> x.BoundExpr:
    if type_ != t.MAP or step.args is None or len(step.args) != 1:
        fact = f"`{shown}` is {describe_type(type_)}, not a map"
        scope.problems.fail("type-mismatch", fact, step.span)
    key = bind_expr(step.args[0], scope)
    if key.type not in (t.STRING, ERROR):
        fact = f"the key of a map must be a string, found {describe_type(key.type)}"
        scope.problems.fail("type-mismatch", fact, step.args[0].span)
    return key


def _index(node: ast.Expr, type_: Type, shown: str, step: ast.NameStep, scope: Scope) -> x.BoundExpr:
    if type_.of is None:
        scope.problems.fail("type-mismatch", f"`{shown}` is {describe_type(type_)}, not an array", step.span)
    index = bind_expr(node, scope)
    if index.type not in (t.INT, t.SHORT, t.BYTE, ERROR):
        fact = f"an array index must be an int, found {describe_type(index.type)}"
        scope.problems.fail("type-mismatch", fact, node.span)
    return index
