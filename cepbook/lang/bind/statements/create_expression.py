"""``create expression``: a declared expression that all modules may use."""

from __future__ import annotations

from cepbook.lang.bind.clauses.annotations import Heading
from cepbook.lang.bind.expressions.declared_expressions import bind_declaration
from cepbook.lang.bind.scope import ModuleScope
from cepbook.lang.plan import nodes as plan
from cepbook.lang.syntax import ast


def bind_create_expression(
    node: ast.CreateExpression, heading: Heading, module: ModuleScope
) -> plan.CreateExpressionStatement | None:
    """Enter a declared expression into the module's catalog; return None if it was reported."""
    if node.context is not None:
        hint = f"leave `context {node.context}` out"
        module.report("wrong-context", "`create expression` does not take a context", node.span, hint)
    declaration = bind_declaration(node.declaration, module)
    if declaration is None:
        module.rejected_names.add(node.declaration.name)
        return None
    if declaration.name in module.catalog.expressions:
        at = module.locate(declaration.name, node.span)
        module.report("duplicate-name", f"expression `{declaration.name}` already exists", at)
    module.catalog.expressions[declaration.name] = declaration
    module.provides["expression", declaration.name] = None
    return plan.CreateExpressionStatement(expression=declaration, **heading.fields(node.span, module))
