"""Assignments to variables and to properties, and the paths in front of the equals sign.

A path names a part of the target: an element of an array, a value of a map, or a nested property.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from cepbook.errors import nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.insert_into import fit_struct, is_event_assignable
from cepbook.lang.bind.coercion import assignable, cast_hint
from cepbook.lang.bind.expressions.chain import check_variable_context
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.scope import ERROR, AlreadyReported, Scope, ScopeStream, type_text
from cepbook.lang.java.numbers import to_float32
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan import nodes as plan
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.types import BITS, Type


def bind_assignments(nodes: Sequence[ast.Assignment], scope: Scope) -> tuple[plan.VariableAssignment, ...]:
    """Bind the assignments of ``on … set`` and ``then set`` in order; leave out those that are wrong and report them.

    Targets are variables of the catalog, even if a property has the same name; values are bound in `scope`.
    """
    inner = replace(scope.without_aggregates("an assignment"), aliases=scope.aliases)
    assignments: list[plan.VariableAssignment] = []
    for node in nodes:
        try:
            assignments.append(_assignment(node, inner))
        except AlreadyReported:
            pass  # reported
    return tuple(assignments)


def _assignment(node: ast.Assignment, scope: Scope) -> plan.VariableAssignment:
    value = bind_expr(node.value, scope)
    step, rest = _assigned_variable(node, scope)
    variable = scope.module.catalog.variables.get(step.name)
    if variable is None:
        if step.name in scope.module.rejected_names:
            raise AlreadyReported(step.name)
        known = [v.name for v in scope.module.catalog.variables.values() if not v.constant]
        hint = nearest_or_known_names(step.name, known) or f"declare it: create variable int {step.name} = 0"
        scope.fail("unknown-variable", f"no variable `{step.name}`", step.span, hint)
    if variable.constant:
        scope.fail("constant-variable", f"`{step.name}` is a constant, it cannot be assigned", step.span)
    check_variable_context(variable, step, scope)
    scope.module.require("variable", step.name)
    path, type_, label, primitive = bind_assignment_path(step, rest, variable.type, scope)
    fitting = fit_value(value, label, type_, scope)
    return plan.VariableAssignment(step.name, fitting, path, primitive, span=node.span)


def _assigned_variable(node: ast.Assignment, scope: Scope) -> tuple[ast.NameStep, Sequence[ast.NameStep]]:
    if node.target is None:
        refuse_expression_as_assignment(node, scope)
    if isinstance(node.target, ast.Chain):
        return node.target.steps[0], node.target.steps[1:]
    scope.reject("only a variable can be assigned", node.target.span)


def refuse_expression_as_assignment(node: ast.Assignment, scope: Scope) -> NoReturn:
    """Report an expression that stands in place of an assignment, and leave the clause."""
    called = isinstance(node.value, ast.Chain) and node.value.steps[-1].args is not None
    if called:
        scope.fail("not-supported-yet", "not supported yet: a call in place of an assignment", node.span)
    text = scope.module.text(node.span) if node.span is not None else ""
    scope.reject("expected an assignment", node.span, f"write {text} = and a value")


def fit_value(value: x.BoundExpr, name: str, type_: Type, scope: Scope, what: str = "variable") -> x.BoundExpr:
    """Return `value` converted to `type_`, the type of the variable (or `what`) called `name`.

    Raises AlreadyReported if the value does not fit. Constants also fit a narrower type that can hold them: ``create
    variable byte b = 4``, ``char c = 'x'``. A long or double constant does not fit a narrower variable: write ``4`` or
    ``0.5f``.
    """
    if ERROR in (value.type, type_):
        raise AlreadyReported(name)
    if isinstance(value, x.ArrayOf) and type_.of is not None:
        of = type_.of
        return replace(value, type=type_, elements=tuple(fit_value(e, name, of, scope, what) for e in value.elements))
    if isinstance(value, x.Const) and not (what == "variable" and value.type in (t.LONG, t.DOUBLE)):
        constant = _narrowed(value, type_)
        if constant is not None:
            return constant
    if not assignable(value.type, type_) and not is_event_assignable(value.type, type_, scope.module):
        _refuse(value, name, type_, scope, what)
    return fold_expr(fit_struct(value, type_, scope.module))


def _narrowed(e: x.Const, type_: Type) -> x.Const | None:
    value = e.value
    if value is None:
        return replace(e, type=type_)
    if type_.name in BITS and t.is_integral(e.type) and isinstance(value, int):
        half = 1 << (BITS[type_.name] - 1)
        return replace(e, type=type_) if -half <= value < half else None
    if type_ == t.FLOAT and e.type == t.DOUBLE and isinstance(value, float):
        return replace(e, type=type_, value=to_float32(value))
    if type_ == t.CHAR and isinstance(value, str) and len(value) == 1:
        return replace(e, type=type_)
    return None


def _refuse(value: x.BoundExpr, name: str, type_: Type, scope: Scope, what: str) -> NoReturn:
    hint = cast_hint(value.type, type_)
    if type_ == t.FLOAT and isinstance(value, x.Const) and value.type == t.DOUBLE:
        hint = f"append an f: {value.value}f"
    scope.mismatch(f"{what} `{name}` is {type_text(type_)}, the value is {type_text(value.type)}", value.span, hint)


def bind_change(node: ast.Assignment, stream: ScopeStream, scope: Scope) -> nodes.PropertyAssignment:
    """Bind one assignment to a property of `stream`, its value in `scope`. Raises AlreadyReported."""
    value = bind_expr(node.value, scope)
    step, rest = _assigned_property(node, stream, scope)
    if stream.event_type is None:
        raise AlreadyReported(step.name)
    type_ = stream.event_type.properties.get(step.name)
    if type_ is None:
        hint = nearest_or_known_names(step.name, stream.event_type.properties)
        fact = f"no property `{step.name}` in `{stream.event_type.name}`"
        scope.fail("unknown-property", fact, step.span, hint)
    path, type_, label, primitive = bind_assignment_path(step, rest, type_, scope)
    fitting = fit_value(value, label, type_, scope, "property")
    return nodes.PropertyAssignment(step.name, fitting, path, primitive, span=node.span)


def _assigned_property(
    node: ast.Assignment, stream: ScopeStream, scope: Scope
) -> tuple[ast.NameStep, Sequence[ast.NameStep]]:
    if node.target is None:
        refuse_expression_as_assignment(node, scope)
    if not isinstance(node.target, ast.Chain):
        scope.reject("only a property can be assigned", node.target.span)
    first, *rest = node.target.steps
    if rest and first.index is None and first.args is None and stream.is_prefix(first.name):
        first, *rest = rest
    return first, rest


def bind_assignment_path(
    step: ast.NameStep, rest: Sequence[ast.NameStep], type_: Type, scope: Scope
) -> tuple[tuple[x.BoundExpr, ...], Type, str, bool]:
    """Return the keys from a value of `type_` to the assigned part, the type of the part, its text, and True if
    the part is an element of an array of primitive values.

    `step` names the value. A key is an int for an element of an array, else a string. Raises AlreadyReported.
    """
    path: list[x.BoundExpr] = []
    label, before, primitive = step.name, step, False
    for number, current in enumerate((step, *rest)):
        if type_ == ERROR:
            raise AlreadyReported(label)
        if number and current.name:
            type_ = _property(current, type_, label, before, scope)
            path.append(x.Const(t.STRING, current.name, span=current.span))
            label, primitive = f"{label}.{current.name}", False
        if current.args is not None:
            path.append(_map_key(current, type_, label, scope))
            type_, label, primitive = t.OBJECT, f"{label}(…)", False
        if current.index is not None:
            path.append(_index(current.index, type_, label, current, scope))
            assert type_.of is not None
            type_, label, primitive = type_.of, f"{label}[…]", bool(type_.primitive)
        before = current
    return tuple(path), type_, label, primitive


def _property(step: ast.NameStep, type_: Type, path_text: str, before: ast.NameStep, scope: Scope) -> Type:
    event = scope.module.catalog.event_types.get(type_.event or "")
    if event is None and type_.fields is None:
        fact = f"`{path_text}` is {type_text(type_)}: it has no properties to be assigned"
        hint = "assign all of it" if type_ != t.MAP else f"write {path_text}('{step.name}')"
        scope.mismatch(fact, before.span, hint)
    known: Mapping[str, Type] = event.properties if event is not None else dict(type_.fields or ())
    if step.name not in known:
        fact = f"no property `{step.name}` in {f'`{event.name}`' if event is not None else type_text(type_)}"
        scope.fail("unknown-property", fact, step.span, nearest_or_known_names(step.name, known))
    return known[step.name]


def _map_key(step: ast.NameStep, type_: Type, path_text: str, scope: Scope) -> x.BoundExpr:
    if type_ != t.MAP or step.args is None or len(step.args) != 1:
        scope.mismatch(f"`{path_text}` is {type_text(type_)}, not a map", step.span)
    key = bind_expr(step.args[0], scope)
    if key.type not in (t.STRING, ERROR):
        scope.mismatch(f"the key of a map must be a string, found {type_text(key.type)}", step.args[0].span)
    return key


def _index(node: ast.Expr, type_: Type, path_text: str, step: ast.NameStep, scope: Scope) -> x.BoundExpr:
    if type_.of is None:
        scope.mismatch(f"`{path_text}` is {type_text(type_)}, not an array", step.span)
    index = bind_expr(node, scope)
    if index.type not in (t.INT, t.SHORT, t.BYTE, ERROR):
        scope.mismatch(f"an array index must be an int, found {type_text(index.type)}", node.span)
    return index
