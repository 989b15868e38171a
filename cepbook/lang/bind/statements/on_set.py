"""``on … set``: assign variables when an event arrives."""

from __future__ import annotations

from cepbook.lang.bind.clauses.annotations import Heading
from cepbook.lang.bind.clauses.assignments import bind_assignments
from cepbook.lang.bind.clauses.trigger import bind_trigger
from cepbook.lang.bind.scope import ModuleScope, Scope
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.syntax import ast


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
