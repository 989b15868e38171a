"""``update istream T set … where …``: events of a stream are changed before any statement sees them.

Esper reference, chapter EPL Reference: Clauses, section "Updating an Insert Stream: The Update IStream Clause".
"""

from __future__ import annotations

from cepbook.lang import ast, plan
from cepbook.lang import types as t
from cepbook.lang.bind.annotations import Heading
from cepbook.lang.bind.expr import bind_condition, bind_expr
from cepbook.lang.bind.names import ERROR, Module, Refused, Scope, Stream, describe, did_you_mean
from cepbook.lang.bind.variables import fitted, refuse_bare
from cepbook.lang.catalog import EventType


def bind_update(node: ast.UpdateIStream, name: str, heading: Heading, module: Module) -> plan.UpdateStatement | None:
    """The statement; None when the report says why not."""
    if node.context is not None:
        fact = "`update istream` does not take a context: it comes before contexts see the event"
        module.problems.add("wrong-context", fact, node.span)
    event_type = module.event_type(node.type_name, node.span)
    store = module.catalog.stores.get(node.type_name)
    if store is not None and store.kind == "table":
        at = module.word(node.type_name, node.span)
        module.problems.add("wrong-parameter", f"`{store.name}` is a table: its rows are no stream", at)
    stream = Stream(node.alias, event_type, node.type_name)
    scope = Scope(module, (stream,), None, True, open_=event_type is None).without_aggregates("an update")
    predicate = None if node.where is None else bind_condition(node.where, scope, "the where-clause")
    changes: list[plan.Change] = []
    for assignment in node.assignments:
        try:
            changes.append(bind_change(assignment, stream, scope))
        except Refused:
            pass  # reported
    if event_type is None or len(changes) < len(node.assignments):
        return None
    return plan.UpdateStatement(
        name,
        heading.name is not None,
        module.text(node.span),
        heading.annotations,
        plan.Source(event_type.name, None, node.alias, span=node.span),
        tuple(changes),
        predicate,
        EventType(f"<{name}>", event_type.properties),
        heading.priority,
        heading.drop,
        span=node.span,
    )


def bind_change(node: ast.Assignment, stream: Stream, scope: Scope) -> plan.Change:
    """One assignment to a property of `stream`, its value bound in `scope`. Raises Refused (reported)."""
    value = bind_expr(node.value, scope)
    step = _target(node, stream, scope)
    if stream.event_type is None:
        raise Refused(step.name)
    type_ = stream.event_type.properties.get(step.name)
    if type_ is None:
        hint = did_you_mean(step.name, stream.event_type.properties)
        fact = f"no property `{step.name}` in `{stream.event_type.name}`"
        scope.problems.fail("unknown-property", fact, step.span, hint)
    if step.index is None:
        return plan.Change(step.name, fitted(value, step.name, type_, scope, "property"), span=node.span)
    if type_.of is None:
        scope.problems.fail("type-mismatch", f"`{step.name}` is {describe(type_)}, not an array", step.span)
    index = bind_expr(step.index, scope)
    if index.type not in (t.INT, t.SHORT, t.BYTE, ERROR):
        fact = f"an array index must be an int, found {describe(index.type)}"
        scope.problems.fail("type-mismatch", fact, step.index.span)
    element = fitted(value, f"{step.name}[…]", type_.of, scope, "property")
    return plan.Change(step.name, element, index, span=node.span)


def _target(node: ast.Assignment, stream: Stream, scope: Scope) -> ast.NameStep:
    """The one property that is assigned, maybe with an index, maybe behind the name of the stream."""
    if node.target is None:
        refuse_bare(node, scope)
    if isinstance(node.target, ast.Chain) and all(step.args is None for step in node.target.steps):
        first, *rest = node.target.steps
        steps = rest if rest and first.index is None and stream.answers_to(first.name) else [first, *rest]
        known = stream.event_type is None or steps[0].name in stream.event_type.properties
        if len(steps) == 1 or not known:
            return steps[0]
        what = "not supported yet: assigning a part of a property"
        scope.problems.fail("not-supported-yet", what, node.target.span)
    scope.problems.fail("wrong-parameter", "only a property can be assigned", node.target.span)
