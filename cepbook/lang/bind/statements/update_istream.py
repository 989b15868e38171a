"""``update istream T set … where …``: events of a stream are changed before any statement sees them.

Esper reference, chapter EPL Reference: Clauses, section "Updating an Insert Stream: The Update IStream Clause".
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.lang.bind.clauses.annotations import StatementHeading
from cepbook.lang.bind.expressions.expression import bind_condition, bind_expr
from cepbook.lang.bind.parts import bind_assignment_path
from cepbook.lang.bind.scope import AlreadyReported, ModuleScope, Scope, ScopeStream, nearest_or_known_names
from cepbook.lang.bind.statements.create_variable import fit_value, refuse_expression_as_assignment
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.syntax import ast


def bind_update_istream(
    node: ast.UpdateIStream, name: str, heading: StatementHeading, module: ModuleScope
) -> nodes.UpdateStatement | None:
    """The statement; None when the report says why not."""
    if node.context is not None:
        fact = "`update istream` does not take a context: it comes before contexts see the event"
        module.problems.add("wrong-context", fact, node.span)
    event_type = module.event_type(node.type_name, node.span)
    store = module.catalog.stores.get(node.type_name)
    if store is not None and store.kind == "table":
        at = module.word(node.type_name, node.span)
        module.problems.add("wrong-parameter", f"`{store.name}` is a table: its rows are no stream", at)
    stream = ScopeStream(node.alias, event_type, node.type_name)
    scope = Scope(module, (stream,), None, True, open_=event_type is None).without_aggregates("an update")
    predicate = None if node.where is None else bind_condition(node.where, scope, "the where-clause")
    changes: list[nodes.PropertyAssignment] = []
    for assignment in node.assignments:
        try:
            changes.append(bind_change(assignment, stream, scope))
        except AlreadyReported:
            pass  # reported
    if event_type is None or len(changes) < len(node.assignments):
        return None
    return nodes.UpdateStatement(
        name=name,
        named=heading.name is not None,
        epl=module.text(node.span),
        annotations=heading.annotations,
        source=nodes.SourceNode(event_type.name, None, node.alias, span=node.span),
        changes=tuple(changes),
        predicate=predicate,
        output_type=EventType(f"<{name}>", event_type.properties),
        priority=heading.priority,
        drop=heading.drop,
        span=node.span,
    )


def bind_change(node: ast.Assignment, stream: ScopeStream, scope: Scope) -> nodes.PropertyAssignment:
    """One assignment to a property of `stream`, its value bound in `scope`. Raises Refused (reported)."""
    value = bind_expr(node.value, scope)
    step, rest = _target(node, stream, scope)
    if stream.event_type is None:
        raise AlreadyReported(step.name)
    type_ = stream.event_type.properties.get(step.name)
    if type_ is None:
        hint = nearest_or_known_names(step.name, stream.event_type.properties)
        fact = f"no property `{step.name}` in `{stream.event_type.name}`"
        scope.problems.fail("unknown-property", fact, step.span, hint)
    path, type_, shown = bind_assignment_path(step, rest, type_, scope)
    return nodes.PropertyAssignment(step.name, fit_value(value, shown, type_, scope, "property"), path, span=node.span)


def _target(node: ast.Assignment, stream: ScopeStream, scope: Scope) -> tuple[ast.NameStep, Sequence[ast.NameStep]]:
    """The property that is assigned, maybe behind the name of the stream, and what part of it."""
    if node.target is None:
        refuse_expression_as_assignment(node, scope)
    if not isinstance(node.target, ast.Chain):
        scope.problems.fail("wrong-parameter", "only a property can be assigned", node.target.span)
    first, *rest = node.target.steps
    if rest and first.index is None and first.args is None and stream.is_called(first.name):
        first, *rest = rest
    return first, rest
