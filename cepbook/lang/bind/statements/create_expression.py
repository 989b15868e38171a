"""``create expression``: a declared expression that all modules may use."""

from __future__ import annotations

from cepbook.lang.bind.clauses.annotations import StatementHeading
from cepbook.lang.bind.expressions.declared_expressions import bind_declaration
from cepbook.lang.bind.scope import ModuleScope
from cepbook.lang.plan import nodes as plan
from cepbook.lang.syntax import ast


def bind_create_expression(
    node: ast.CreateExpression, name: str, heading: StatementHeading, module: ModuleScope
) -> plan.CreateExpressionStatement | None:
    """``create expression``, entered into the module's catalog; None when the report says why not."""
    if node.context is not None:
        hint = f"leave `context {node.context}` out"
        module.report("wrong-context", "`create expression` does not take a context", node.span, hint)
    found = bind_declaration(node.declaration, module)
    if found is None:
        module.dropped.add(node.declaration.name)
        return None
    if found.name in module.catalog.expressions:
        at = module.word(found.name, node.span)
        module.report("duplicate-name", f"expression `{found.name}` exists already", at)
    module.catalog.expressions[found.name] = found
    module.provides["expression", found.name] = None
    text, given = module.text(node.span), heading.name is not None
    return plan.CreateExpressionStatement(name, given, text, heading.annotations, found, span=node.span)
