"""``on … merge``, ``on … delete``, ``on … update`` (Esper reference, chapter Named Windows and Tables)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.errors import Span
from cepbook.lang.bind.clauses.annotations import Heading, deletes_silently
from cepbook.lang.bind.clauses.index_hints import check_index_hints
from cepbook.lang.bind.clauses.insert_into import bind_insert, check_target_context
from cepbook.lang.bind.clauses.select_list import bind_select_list
from cepbook.lang.bind.clauses.target_store import ABSENT_ROW, TargetStore, bind_changes, bind_target
from cepbook.lang.bind.clauses.trigger import TriggerStream, bind_trigger
from cepbook.lang.bind.expressions.expression import bind_clause, bind_condition
from cepbook.lang.bind.scope import ModuleScope, Scope
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.syntax import ast


def bind_merge(node: ast.OnTrigger, heading: Heading, module: ModuleScope) -> plan.MergeStatement | None:
    """Return the statement, or None if it was reported."""
    action = node.action
    assert isinstance(action, (ast.OnMerge, ast.OnDelete, ast.OnUpdate))
    kind = "merge" if isinstance(action, ast.OnMerge) else "delete" if isinstance(action, ast.OnDelete) else "update"
    trigger = bind_trigger(node, f"on … {kind}", module)
    target = bind_target(action.target, action.alias, action.span, node, module)
    if target is None or isinstance(trigger, Scope):
        return None
    scope = replace(
        trigger.scope.without_aggregates(f"`on … {kind}`"),
        streams=(target.stream, trigger.scope.streams[0]),
        unwindowed=False,
        no_row_functions=f"`on … {kind}`",
        arrivals_only=kind == "merge",
    )
    predicate = None if action.where is None else bind_clause(action.where, scope, "the where-clause")
    before = len(module.problems.reported)
    check_index_hints(node.annotations, target.store, predicate, module)
    branches: tuple[plan.MergeBranchPlan, ...]
    if isinstance(action, ast.OnMerge):
        branches = tuple(_branch(branch, target, trigger, scope) for branch in action.branches)
    else:
        changes = () if isinstance(action, ast.OnDelete) else action.assignments
        only = _update(changes, None, target, scope, node.span) if changes else plan.MergeActionPlan("delete", None)
        branches = (plan.MergeBranchPlan(True, None, (only,), span=action.span),)
    if len(module.problems.reported) > before:
        return None
    return plan.MergeStatement(
        **heading.fields(node.span, module),
        kind=kind,  # type: ignore[arg-type]
        source=trigger.source,
        target=target.store,
        predicate=predicate,
        branches=branches,
        context=node.context,
        output_type=EventType(f"<{heading.name}>", target.event_type.properties),
        priority=heading.priority,
        drop=heading.drop,
        silent=kind == "delete" and deletes_silently(node.annotations),
    )


def _branch(node: ast.MergeBranch, target: TargetStore, trigger: TriggerStream, scope: Scope) -> plan.MergeBranchPlan:
    own = scope
    if node.matched is not True:  # there is no row
        own = replace(scope, streams=(ABSENT_ROW, scope.streams[1]))
    condition = None
    if node.condition is not None:
        condition = bind_condition(node.condition, own, "the condition of `when`")
    actions = tuple(_action(action, node.matched, target, trigger, own) for action in node.actions)
    return plan.MergeBranchPlan(node.matched, condition, tuple(a for a in actions if a is not None), span=node.span)


def _action(
    node: ast.MergeAction, matched: bool | None, target: TargetStore, trigger: TriggerStream, scope: Scope
) -> plan.MergeActionPlan | None:
    if node.kind != "insert" and matched is not True:
        fact = f"`{node.kind}` where no row matches: there is nothing to {node.kind}"
        scope.wrong(fact, node.span, "where none matches, rows can be inserted")
        return None
    where = None if node.where is None else bind_clause(node.where, scope, "the where-clause")
    if node.kind == "delete":
        return plan.MergeActionPlan("delete", where, span=node.span)
    if node.kind == "update":
        update = _update(node.assignments, where, target, scope, node.span)
        _check_keys(update.changes, target, scope)
        return update
    return _insert(node, where, target, trigger, scope)


def _update(
    nodes: Sequence[ast.Assignment], where: x.BoundExpr | None, target: TargetStore, scope: Scope, span: Span
) -> plan.MergeActionPlan:
    return plan.MergeActionPlan("update", where, changes=bind_changes(nodes, target, scope), span=span)


def _check_keys(changes: Sequence[plan.PropertyAssignment], target: TargetStore, scope: Scope) -> None:
    for change in changes:
        if change.name in target.store.keys:
            fact = f"a merge cannot change the key `{change.name}` of table `{target.store.name}`"
            scope.wrong(fact, change.span, "delete the row and insert another one")


def _insert(
    node: ast.MergeAction, where: x.BoundExpr | None, target: TargetStore, trigger: TriggerStream, scope: Scope
) -> plan.MergeActionPlan:
    row, event = scope.streams
    own = replace(scope, streams=(replace(row, fallback=True), event))
    name = node.into or target.store.name
    into = ast.InsertInto(name, None, node.columns, node.event_precedence, span=node.span)
    known = scope.module.catalog.event_types.get(into.target)
    properties = trigger.event_type.properties
    if known is not None and not known.properties.keys().isdisjoint(properties):  # a wildcard takes what the target has
        properties = {name: type_ for name, type_ in properties.items() if name in known.properties}
    columns: list[plan.OutputColumn] = []
    for item in node.items:
        if item.expr is None and item.alias is None and (item.stream is None or event.is_called(item.stream)):
            for name, type_ in properties.items():
                columns.append(plan.OutputColumn(name, x.Prop(type_, 1, name, span=item.span), span=item.span))
        else:
            columns += bind_select_list((item,), own, into)[0]
    if not into.columns:  # a column written by hand replaces one of the wildcard
        columns = list({column.name: column for column in columns}.values())
    context = None if scope.context is None else scope.context.name
    check_target_context(into.target, context, node.span, scope.module)
    insert, (fitted, _), output = bind_insert(into, (tuple(columns), False), None, scope.module)
    if insert.target != target.store.name:
        return plan.MergeActionPlan("insert", where, fitted, insert, output_type=output, span=node.span)
    rank = insert.precedence
    return plan.MergeActionPlan("insert", where, fitted, output_type=output, precedence=rank, span=node.span)
