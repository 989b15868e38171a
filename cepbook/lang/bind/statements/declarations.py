"""``create variable`` and ``on … set``, ``create expression``.

Source: Esper reference, sections "Variables and Constants" and "Declaring a Global Expression, Alias or Script".
"""

from __future__ import annotations

from contextlib import suppress

from cepbook.lang import types as t
from cepbook.lang.bind.clauses.annotations import Heading
from cepbook.lang.bind.clauses.assignments import bind_assignments, fit_value
from cepbook.lang.bind.clauses.trigger import bind_trigger
from cepbook.lang.bind.expressions.declared_expressions import check_declaration
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.expressions.table_access import refuse_table_access
from cepbook.lang.bind.scope import ERROR, AlreadyReported, ModuleScope, Scope, declared_type, resolve_context
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import EventType, VariableType
from cepbook.lang.registry.functions.strings import PARSERS
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


def bind_create_variable(node: ast.CreateVariable, heading: Heading, module: ModuleScope) -> plan.StatementPlan | None:
    """Return the statement with its variable entered into the module's catalog, or None if it was reported."""
    context, unknown_context = resolve_context(node.context, node.span, module)
    if node.name in module.catalog.variables:
        at = module.locate(node.name, node.span)
        module.report("duplicate-name", f"variable `{node.name}` already exists", at)
    type_ = declared_type(node, module)
    at = module.locate(node.type_name, node.span)
    if node.type_args and type_ not in (ERROR, t.MAP):
        module.wrong(f"`{node.type_name}` takes no type parameters", at, f"write {node.type_name} {node.name}")
    if type_.of is not None and type_.of.event is not None:
        hint = f"keep the events in a window: create window {node.name}#keepall as {node.type_name}"
        module.wrong("a variable holds one event, not an array of events", at, hint)
    own = Scope(module, (), context, no_aggregates="the initial value of a variable", unknown_context=unknown_context)
    initial = None if node.initial is None else _initial(node.initial, node.name, type_, own)
    refuse_table_access(initial, "the initial value of a variable", module)
    if type_ == ERROR or unknown_context or (initial is not None and initial.type == ERROR):
        module.rejected_names.add(node.name)
        return None
    variable = _variable(node, type_, initial)
    module.catalog.variables[node.name] = variable
    module.provides["variable", node.name] = None
    common = heading.fields(node.span, module)
    return plan.CreateVariableStatement(variable=variable, initial=initial, context=node.context, **common)


def bind_on_set(node: ast.OnTrigger, heading: Heading, module: ModuleScope) -> plan.OnSetStatement | None:
    """Bind ``on <stream> set …``, or return None if it was reported."""
    assert isinstance(node.action, ast.OnSet)
    trigger = bind_trigger(node, "on … set", module)
    assignments = bind_assignments(node.action.assignments, trigger if isinstance(trigger, Scope) else trigger.scope)
    if heading.drop:
        module.unsupported("@Drop with `on … set`", node.span)
    if isinstance(trigger, Scope) or len(assignments) < len(node.action.assignments):
        return None
    columns = {a.variable: module.catalog.variables[a.variable].type for a in assignments}
    return plan.OnSetStatement(
        **heading.fields(node.span, module),
        source=trigger.source,
        where=None,
        assignments=assignments,
        selector=module.options.default_selector,
        context=node.context,
        output_type=EventType(f"<{heading.name}>", columns),
        priority=heading.priority,
    )


def _variable(node: ast.CreateVariable, type_: Type, initial: x.BoundExpr | None) -> VariableType:
    known = initial is None or isinstance(initial, x.Const)
    value = initial.value if isinstance(initial, x.Const) else None
    constant = value if node.constant else None
    return VariableType(node.name, type_, node.constant, constant, node.constant and known, node.context)


def _initial(node: ast.Expr, name: str, type_: Type, scope: Scope) -> x.BoundExpr:
    bound = fold_expr(bind_expr(node, scope))
    if isinstance(bound, x.Const) and isinstance(bound.value, str) and type_.name in PARSERS:
        with suppress(ValueError):  # reported as a value of another type
            return x.Const(type_, PARSERS[type_.name](bound.value), span=node.span)
    try:
        return fit_value(bound, name, type_, scope)
    except AlreadyReported:
        return x.Const(ERROR, None, span=node.span)


def bind_create_expression(
    node: ast.CreateExpression, heading: Heading, module: ModuleScope
) -> plan.CreateExpressionStatement | None:
    """Enter a declared expression into the module's catalog; return None if it was reported."""
    if node.context is not None:
        hint = f"leave `context {node.context}` out"
        module.report("wrong-context", "`create expression` does not take a context", node.span, hint)
    declaration = check_declaration(node.declaration, module)
    if declaration is None:
        module.rejected_names.add(node.declaration.name)
        return None
    if declaration.name in module.catalog.expressions:
        at = module.locate(declaration.name, node.span)
        module.report("duplicate-name", f"expression `{declaration.name}` already exists", at)
    module.catalog.expressions[declaration.name] = declaration
    module.provides["expression", declaration.name] = None
    return plan.CreateExpressionStatement(expression=declaration, **heading.fields(node.span, module))
