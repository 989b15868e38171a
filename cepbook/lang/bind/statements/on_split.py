"""Split streams: ``on E insert into A select … where … insert into B … output first|all``.

Esper reference, chapter EPL Reference: Clauses, section "Splitting and Duplicating Streams".
"""

from __future__ import annotations

from dataclasses import replace

from cepbook.lang.bind.clauses.annotations import Heading
from cepbook.lang.bind.clauses.contained_events import bind_contained_stream
from cepbook.lang.bind.clauses.insert_into import bind_insert, check_target_context
from cepbook.lang.bind.clauses.select_list import bind_select_list
from cepbook.lang.bind.clauses.trigger import bind_trigger
from cepbook.lang.bind.expressions.expression import bind_clause
from cepbook.lang.bind.scope import ModuleScope, Scope
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.syntax import ast


def bind_split(node: ast.OnTrigger, heading: Heading, module: ModuleScope) -> nodes.SplitStatement | None:
    """Return the statement, or None if it was reported."""
    assert isinstance(node.action, ast.OnSplit)
    trigger = bind_trigger(node, "on … insert into", module)
    scope = trigger if isinstance(trigger, Scope) else trigger.scope
    event_type = None if isinstance(trigger, Scope) else trigger.event_type
    branches = tuple(_branch(*parts, scope, event_type) for parts in node.action.branches)
    if isinstance(trigger, Scope):
        return None
    return nodes.SplitStatement(
        **heading.fields(node.span, module),
        source=trigger.source,
        branches=branches,
        output_all=node.action.output_all,
        context=node.context,
        output_type=EventType(f"<{heading.name}>", trigger.event_type.properties),
        priority=heading.priority,
        drop=heading.drop,
    )


def _branch(
    into: ast.InsertInto,
    items: tuple[ast.SelectItem, ...],
    contained: tuple[ast.ContainedStep, ...],
    alias: str | None,
    where: ast.Expr | None,
    scope: Scope,
    event_type: EventType | None,
) -> nodes.SplitBranch:
    module = scope.module
    if into.selector not in (None, "istream"):
        module.wrong(f"`insert {into.selector} into` in a split stream, which has an insert stream only", into.span)
        into = replace(into, selector=None)
    within_: tuple[nodes.ContainedSelection, ...] = ()
    if contained and not scope.unchecked:
        scope, within_ = bind_contained_stream(contained, scope, alias)
        event_type = scope.streams[0].event_type
    own = scope.without_aggregates("a split stream")
    columns, wildcard = bind_select_list(items, own, into)
    clause = "the where-clause"
    predicate = None if where is None else bind_clause(where, own, clause)
    check_target_context(into.target, None if scope.context is None else scope.context.name, into.span, module)
    insert, (columns, wildcard), output = bind_insert(into, (columns, wildcard), event_type, module)
    return nodes.SplitBranch(insert, columns, wildcard, predicate, output, within_, span=into.span)
