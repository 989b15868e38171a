"""``update istream T set … where …``: change events of a stream before any statement sees them.

Source: Esper reference, chapter EPL Reference: Clauses, section "Updating an Insert Stream: The Update IStream Clause".
"""

from __future__ import annotations

from cepbook.lang.bind.clauses.annotations import Heading
from cepbook.lang.bind.clauses.assignments import bind_change
from cepbook.lang.bind.expressions.expression import bind_clause
from cepbook.lang.bind.scope import AlreadyReported, ModuleScope, Scope, ScopeStream
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.syntax import ast


def bind_update_istream(node: ast.UpdateIStream, heading: Heading, module: ModuleScope) -> nodes.StatementPlan | None:
    """Return the statement, or None if it was reported."""
    if node.context is not None:
        fact = "`update istream` does not take a context: it comes before contexts see the event"
        module.report("wrong-context", fact, node.span)
    event_type = module.event_type(node.type_name, node.span)
    store = module.catalog.stores.get(node.type_name)
    if store is not None and store.kind == "table":
        at = module.locate(node.type_name, node.span)
        module.wrong(f"`{store.name}` is a table: its rows are not a stream", at)
    stream = ScopeStream(node.alias, event_type, node.type_name)
    scope = Scope(module, (stream,), None, True, unchecked=event_type is None).without_aggregates("an update")
    predicate = None if node.where is None else bind_clause(node.where, scope, "the where-clause")
    changes: list[nodes.PropertyAssignment] = []
    for assignment in node.assignments:
        try:
            changes.append(bind_change(assignment, stream, scope))
        except AlreadyReported:
            pass  # reported
    if event_type is None or len(changes) < len(node.assignments):
        return None
    return nodes.UpdateStatement(
        **heading.fields(node.span, module),
        source=nodes.SourceNode(event_type.name, None, node.alias, span=node.span),
        changes=tuple(changes),
        predicate=predicate,
        output_type=EventType(f"<{heading.name}>", event_type.properties),
        priority=heading.written_priority,
        drop=heading.drop,
    )
