"""``create variable``, ``on … set`` and assignments (Esper reference, section "Variables and Constants")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from cepbook.lang import types as t
from cepbook.lang.bind.clauses.annotations import StatementHeading
from cepbook.lang.bind.clauses.insert_into import is_event_assignable
from cepbook.lang.bind.clauses.trigger import bind_trigger
from cepbook.lang.bind.coercion import assignable, cast_hint, coerce
from cepbook.lang.bind.expressions.chain import check_variable_context
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.parts import bind_assignment_path
from cepbook.lang.bind.scope import (
    ERROR,
    AlreadyReported,
    ModuleScope,
    Scope,
    describe_type,
    nearest_or_known_names,
    resolve_context,
    resolve_type,
)
from cepbook.lang.java.numbers import to_float32
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import EventType, VariableType
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.types import BITS, Type


# ---------------------------------------------------------------- create variable
def bind_create_variable(
    node: ast.CreateVariable, name: str, heading: StatementHeading, module: ModuleScope
) -> plan.CreateVariableStatement | None:
    """The statement, its variable entered into the module's catalog; None when the report says why not."""
    context, unknown_context = resolve_context(node.context, node.span, module)
    if node.name in module.catalog.variables:
        at = module.word(node.name, node.span)
        module.problems.add("duplicate-name", f"variable `{node.name}` exists already", at)
    type_ = resolve_type(node.type_name, module, node.span, of=node.name)
    for _ in range(node.dimensions):
        type_ = type_ if type_ == ERROR else t.array_of(type_)
    own = Scope(module, (), context, no_aggregates="the initial value of a variable", unknown_context=unknown_context)
    initial = None if node.initial is None else _initial(node.initial, node.name, type_, own)
    if type_ == ERROR or unknown_context or (initial is not None and initial.type == ERROR):
        module.dropped.add(node.name)
        return None
    variable = _variable(node, type_, initial)
    module.catalog.variables[node.name] = variable
    module.provides["variable", node.name] = None
    text = module.text(node.span)
    given = heading.name is not None
    parts = (heading.annotations, variable, initial, node.context)
    return plan.CreateVariableStatement(name, given, text, *parts, span=node.span)


def _variable(node: ast.CreateVariable, type_: Type, initial: x.BoundExpr | None) -> VariableType:
    """A constant whose value is only known at run time is read like a variable."""
    known = initial is None or isinstance(initial, x.Const)
    value = initial.value if isinstance(initial, x.Const) else None
    constant = value if node.constant else None
    return VariableType(node.name, type_, node.constant, constant, node.constant and known, node.context)


def _initial(node: ast.Expr, name: str, type_: Type, scope: Scope) -> x.BoundExpr:
    bound = fold_expr(bind_expr(node, scope))
    try:
        return fit_value(bound, name, type_, scope)
    except AlreadyReported:
        return x.Const(ERROR, None, span=node.span)


# ---------------------------------------------------------------- on set
def bind_on_set(
    node: ast.OnTrigger, name: str, heading: StatementHeading, module: ModuleScope
) -> plan.OnSetStatement | None:
    """``on <stream> set …``; None when the report says why not."""
    assert isinstance(node.action, ast.OnSet)
    trigger = bind_trigger(node, "on … set", module)
    assignments = bind_assignments(node.action.assignments, trigger if isinstance(trigger, Scope) else trigger.scope)
    if heading.drop:
        module.problems.unsupported("@Drop with `on … set`", node.span)
    if isinstance(trigger, Scope) or len(assignments) < len(node.action.assignments):
        return None
    columns = {a.variable: module.catalog.variables[a.variable].type for a in assignments}
    return plan.OnSetStatement(
        name=name,
        named=heading.name is not None,
        epl=module.text(node.span),
        annotations=heading.annotations,
        source=trigger.source,
        where=None,
        assignments=assignments,
        selector=module.options.default_selector,
        context=node.context,
        output_type=EventType(f"<{name}>", columns),
        priority=heading.priority,
        span=node.span,
    )


# ---------------------------------------------------------------- assignments
def bind_assignments(nodes: Sequence[ast.Assignment], scope: Scope) -> tuple[plan.VariableAssignment, ...]:
    """The assignments of ``on … set`` and ``then set``, in order; those that are wrong are reported and left out.

    Targets are variables of the catalog, also where a property has the same name; values are bound in `scope`.
    """
    inner = replace(scope.without_aggregates("an assignment"), aliases=scope.aliases)
    found: list[plan.VariableAssignment] = []
    for node in nodes:
        try:
            found.append(_assignment(node, inner))
        except AlreadyReported:
            pass  # reported
    return tuple(found)


def _assignment(node: ast.Assignment, scope: Scope) -> plan.VariableAssignment:
    value = bind_expr(node.value, scope)
    step, rest = _target(node, scope)
    variable = scope.module.catalog.variables.get(step.name)
    if variable is None:
        if step.name in scope.module.dropped:
            raise AlreadyReported(step.name)
        known = [v.name for v in scope.module.catalog.variables.values() if not v.constant]
        hint = nearest_or_known_names(step.name, known) or f"declare it: create variable int {step.name} = 0"
        scope.problems.fail("unknown-variable", f"no variable `{step.name}`", step.span, hint)
    if variable.constant:
        scope.problems.fail("constant-variable", f"`{step.name}` is a constant, it cannot be assigned", step.span)
    check_variable_context(variable, step, scope)
    scope.module.need("variable", step.name)
    path, type_, shown = bind_assignment_path(step, rest, variable.type, scope)
    return plan.VariableAssignment(step.name, fit_value(value, shown, type_, scope), path, span=node.span)


def _target(node: ast.Assignment, scope: Scope) -> tuple[ast.NameStep, Sequence[ast.NameStep]]:
    """The name that is assigned, maybe with an index, and the properties behind it."""
    if node.target is None:
        refuse_expression_as_assignment(node, scope)
    if isinstance(node.target, ast.Chain):
        return node.target.steps[0], node.target.steps[1:]
    scope.problems.fail("wrong-parameter", "only a variable can be assigned", node.target.span)


def refuse_expression_as_assignment(node: ast.Assignment, scope: Scope) -> NoReturn:
    """Report an expression that stands in place of an assignment."""
    called = isinstance(node.value, ast.Chain) and node.value.steps[-1].args is not None
    if called:
        scope.problems.fail("not-supported-yet", "not supported yet: a call in place of an assignment", node.span)
    shown = scope.module.text(node.span) if node.span is not None else ""
    scope.problems.fail("wrong-parameter", "here must be an assignment", node.span, f"write {shown} = and a value")


def fit_value(value: x.BoundExpr, name: str, type_: Type, scope: Scope, what: str = "variable") -> x.BoundExpr:
    """`value` as a value of the variable (or `what`) `name` of `type_`; raises Refused (reported) when it does not fit.

    Constants also fit a narrower type that holds them: ``create variable byte b = 4``, ``char c = 'x'``. A long or a
    double is none for a narrower variable: that takes ``4`` and ``0.5f``.
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
    return fold_expr(coerce(value, type_))


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
        hint = f"write an f behind it: {value.value}f"
    message = f"{what} `{name}` is {describe_type(type_)}, the value is {describe_type(value.type)}"
    scope.problems.fail("type-mismatch", message, value.span, hint)
