"""Declared expressions: ``expression f {(a, b) => …}`` and ``expression x alias for {…}``.

A use is replaced by the body. The body of an expression sees its parameters and the variables of EPL, but none of the
statement's streams, column aliases and lambda variables; the body of an alias sees every name that is visible where the
alias stands.

`reject` reports a problem and raises AlreadyReported; `report` and `unsupported` only report it.

Source: Esper reference, chapter Basic Concepts and Clauses, section "Declaring a Global Expression, Alias or Script",
and chapter Expressions, "User-Defined Expressions".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.scope import ERROR, Binder, DiagnosticCollector, ModuleScope, Scope, error_expression
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import DeclaredExpression
from cepbook.lang.registry.methods import is_enumeration_method
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import map_nodes


def declare_expressions(nodes: Sequence[ast.ExpressionDecl], module: ModuleScope) -> None:
    """Make `nodes` the statement's declared expressions. Of several with one name the last valid one is used.

    The names of rejected ones are recorded, so that their uses are not reported as unknown.
    """
    module.declared.clear()
    for node in nodes:
        decl = check_declaration(node, module)
        if decl is not None:
            module.declared[decl.name] = decl
        else:
            module.rejected_names.add(node.name)


def check_declaration(node: ast.ExpressionDecl, module: ModuleScope) -> DeclaredExpression | None:
    """Check a declaration. Its body is bound at each use. Report a script and return None."""
    if node.language is not None or isinstance(node.body, str):
        module.unsupported("scripts", node.span, "register a Python function: @cep.function")
        return None
    for number, name in enumerate(node.params):
        if name in node.params[:number]:
            module.report("duplicate-name", f"parameter `{name}` occurs twice", module.locate(name, node.span))
    return DeclaredExpression(node.name, node.params, node.body, node.alias, module.source)


def expand_declared(step: ast.NameStep, rest: Sequence[ast.NameStep], scope: Scope, bind: Binder) -> x.BoundExpr | None:
    """Bind the first `step` of a chain as a lambda variable, a parameter or a declared expression.

    Return None for other names. If the body is a subquery and `rest` begins with an enumeration method, the subquery is
    an array of all its rows instead of a single value.
    """
    if step.args is None and step.name in scope.locals:
        return replace(scope.locals[step.name], span=step.span)
    if scope.params is not None and step.args is None and step.name in scope.params:
        return scope.params[step.name]
    module = scope.module
    decl = module.declared.get(step.name)
    if decl is None:
        decl = module.catalog.expressions.get(step.name)
        if decl is None:
            return None
        # `x.y` may be a property of the stream `x`: without parentheses a global expression has to stand alone
        if step.args is None and not step.wildcard and (decl.params or rest):
            return None
        module.require("expression", step.name)
    if step.args is None and not step.wildcard:
        return _expand(decl, (), step, rest, scope, bind) if decl.alias or not decl.params else None
    if decl.alias and (step.args or step.wildcard):
        hint = f"write `{step.name}`, without brackets"
        module.reject(f"the alias `{step.name}` takes no parameters", step.span, hint)
    return _expand(decl, _arguments(step, scope, bind), step, rest, scope, bind)


def _arguments(step: ast.NameStep, scope: Scope, bind: Binder) -> tuple[x.BoundExpr, ...]:
    if step.distinct or step.named:
        scope.reject(f"`{step.name}` takes plain values only", step.span)
    args = [bind(arg, scope) for arg in step.args or ()]
    if step.wildcard:
        if len(scope.streams) != 1:
            scope.reject("`*` stands for the one stream of a statement", step.span)
        event_type = scope.streams[0].event_type
        args.insert(0, x.EventOf(ERROR if event_type is None else t.event_of(event_type.name), 0, span=step.span))
    return tuple(args)


def _expand(
    decl: DeclaredExpression,
    args: tuple[x.BoundExpr, ...],
    step: ast.NameStep,
    rest: Sequence[ast.NameStep],
    scope: Scope,
    bind: Binder,
) -> x.BoundExpr:
    module = scope.module
    if len(args) != len(decl.params):
        plural = "s" if len(decl.params) != 1 else ""
        fact = f"expression `{decl.name}` takes {len(decl.params)} parameter{plural}, found {len(args)}"
        module.reject(fact, step.span)
    if any(arg.type == ERROR for arg in args):  # already reported, which is enough
        return error_expression(step.span)
    if decl in module.expanding:
        module.reject(f"expression `{decl.name}` uses itself", step.span)
    module.expanding.append(decl)
    try:
        params = dict(zip(decl.params, args, strict=True))
        body_scope = scope if decl.alias else replace(scope, params=params, aliases={}, locals={})
        before_method = bool(rest) and rest[0].args is not None and is_enumeration_method(rest[0].name)
        is_array = before_method and isinstance(decl.body, ast.Subquery) and not decl.body.exists
        bind_body = _bind_as_array if is_array else bind
        if decl.source is module.source:  # its spans are places of this module
            return bind_body(decl.body, body_scope)
        return _bind_imported_body(decl, body_scope, step.span, bind_body)
    finally:
        module.expanding.pop()


def _bind_as_array(node: ast.Expr, scope: Scope) -> x.BoundExpr:
    """Bind a subquery as the array of its rows."""
    assert isinstance(node, ast.Subquery)
    bind_subquery = scope.module.subquery
    assert bind_subquery is not None
    return bind_subquery(node.select, "list", None, "", node.span, scope)


def _bind_imported_body(decl: DeclaredExpression, scope: Scope, span: Span, bind: Binder) -> x.BoundExpr:
    """Bind the body of another module's expression; report its diagnostics at the use."""
    module = scope.module
    problems = module.problems
    module.problems = DiagnosticCollector()
    try:
        return bind(map_nodes(decl.body, lambda node: replace(node, span=span)), scope)
    finally:
        inner_diagnostics, module.problems = module.problems.reported, problems
        for diagnostic in inner_diagnostics:
            fact = f"{diagnostic.message} (in expression `{decl.name}`)"
            problems.add(diagnostic.code, fact, diagnostic.span, diagnostic.hint)
