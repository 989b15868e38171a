"""Declared expressions: ``expression f {(a, b) => …}``, ``create expression``, ``expression x alias for {…}``.

A use is bound as if its body stood there: with parameters in place of names, and without the names around it; the body
of an alias sees what its user sees. Esper reference, chapter Basic Concepts and Clauses, section "Declaring a Global
Expression, Alias or Script", and chapter Expressions, "User-Defined Expressions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.diagnostics import DiagnosticCollector
from cepbook.lang.bind.scope import ERROR, ModuleScope, Scope, error_expression
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import DeclaredExpression
from cepbook.lang.registry.methods import is_enumeration_method
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import map_nodes

Binder = Callable[[ast.Expr, Scope], x.BoundExpr]


def declare_expressions(nodes: Sequence[ast.ExpressionDecl], module: ModuleScope) -> None:
    """From here on the statement in hand has the expressions that it declares, of one name the last."""
    module.declared.clear()
    for node in nodes:
        found = bind_declaration(node, module)
        if found is not None:
            module.declared[found.name] = found
        else:
            module.dropped.add(node.name)


def bind_declaration(node: ast.ExpressionDecl, module: ModuleScope) -> DeclaredExpression | None:
    if node.language is not None or isinstance(node.body, str):
        module.unsupported("scripts", node.span, "register a Python function: @cep.function")
        return None
    for number, name in enumerate(node.params):
        if name in node.params[:number]:
            module.report("duplicate-name", f"parameter `{name}` occurs twice", module.word(name, node.span))
    return DeclaredExpression(node.name, node.params, node.body, node.alias, module.source)


def expand_declared(step: ast.NameStep, rest: Sequence[ast.NameStep], scope: Scope, bind: Binder) -> x.BoundExpr | None:
    """What the first `step` of a chain is as a parameter, or a use of a declared expression; None for other names.

    Of a subquery as its body a method of arrays in the `rest` of the chain gets all rows.
    """
    if step.args is None and step.name in scope.locals:
        return replace(scope.locals[step.name], span=step.span)
    if scope.params is not None and step.args is None and step.name in scope.params:
        return scope.params[step.name]
    module = scope.module
    found = module.declared.get(step.name)
    if found is None:
        found = module.catalog.expressions.get(step.name)
        if found is None:
            return None
        if step.args is None and not step.wildcard and (found.params or rest):
            return None
        module.need("expression", step.name)
    if step.args is None and not step.wildcard:
        return _expanded(found, (), step, rest, scope, bind) if found.alias or not found.params else None
    if found.alias:
        hint = f"write `{step.name}`, without brackets"
        module.fail("wrong-parameter", f"the alias `{step.name}` takes no parameters", step.span, hint)
    return _expanded(found, _arguments(step, scope, bind), step, rest, scope, bind)


def _arguments(step: ast.NameStep, scope: Scope, bind: Binder) -> tuple[x.BoundExpr, ...]:
    if step.distinct or step.named:
        scope.fail("wrong-parameter", f"`{step.name}` takes plain values only", step.span)
    found = [bind(arg, scope) for arg in step.args or ()]
    if step.wildcard:
        if len(scope.streams) != 1:
            scope.fail("wrong-parameter", "`*` stands for the one stream of a statement", step.span)
        event_type = scope.streams[0].event_type
        found.insert(0, x.EventOf(ERROR if event_type is None else t.event_of(event_type.name), 0, span=step.span))
    return tuple(found)


def _expanded(
    found: DeclaredExpression,
    args: tuple[x.BoundExpr, ...],
    step: ast.NameStep,
    rest: Sequence[ast.NameStep],
    scope: Scope,
    bind: Binder,
) -> x.BoundExpr:
    """The body with `args` for its parameters."""
    module = scope.module
    if len(args) != len(found.params):
        plural = "s" if len(found.params) != 1 else ""
        fact = f"expression `{found.name}` takes {len(found.params)} parameter{plural}, found {len(args)}"
        module.fail("wrong-parameter", fact, step.span)
    if any(arg.type == ERROR for arg in args):
        return error_expression(step.span)
    if found in module.expanding:
        module.fail("wrong-parameter", f"expression `{found.name}` uses itself", step.span)
    module.expanding.append(found)
    try:
        params = dict(zip(found.params, args, strict=True))
        own = scope if found.alias else replace(scope, params=params, aliases={}, locals={})
        listed = bool(rest) and rest[0].args is not None and is_enumeration_method(rest[0].name)
        whole = _rows() if listed and isinstance(found.body, ast.Subquery) and not found.body.exists else bind
        if found.source is module.source:
            return whole(found.body, own)
        return _from_elsewhere(found, own, step.span, whole)
    finally:
        module.expanding.pop()


def _rows() -> Binder:
    """Binds a subquery as an array of all its rows."""

    def rows(node: ast.Expr, scope: Scope) -> x.BoundExpr:
        assert isinstance(node, ast.Subquery)
        ask = scope.module.subquery
        assert ask is not None
        return ask(node.select, "list", None, "", node.span, scope)

    return rows


def _from_elsewhere(found: DeclaredExpression, scope: Scope, span: Span, bind: Binder) -> x.BoundExpr:
    """The body of another module's expression: what is wrong in it is shown at its use."""
    module = scope.module
    problems = module.problems
    module.problems = DiagnosticCollector()
    try:
        return bind(map_nodes(found.body, lambda node: replace(node, span=span)), scope)
    finally:
        told, module.problems = module.problems.found, problems
        for each in told:
            problems.add(each.code, f"{each.message} (in expression `{found.name}`)", each.span, each.hint)
