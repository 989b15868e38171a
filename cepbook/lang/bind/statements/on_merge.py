"""``on … merge``, ``on … delete``, ``on … update`` (Esper reference, chapter Named Windows and Tables)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cepbook.errors import Span
from cepbook.lang.bind.clauses.annotations import StatementHeading
from cepbook.lang.bind.clauses.insert_into import bind_insert, check_target_context
from cepbook.lang.bind.clauses.select_list import bind_select_list
from cepbook.lang.bind.clauses.trigger import TriggerStream, bind_trigger
from cepbook.lang.bind.expressions.expression import bind_condition
from cepbook.lang.bind.scope import AlreadyReported, ModuleScope, Scope, ScopeStream, nearest_or_known_names
from cepbook.lang.bind.statements.update_istream import bind_change
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import EventType, StoreType
from cepbook.lang.syntax import ast

ABSENT_ROW = ScopeStream("", EventType("", {}))  # in place of a row or an event that is not there


@dataclass(frozen=True, slots=True)
class TargetStore:
    """The named window or table that is changed, and what it is called in the statement."""

    store: StoreType
    event_type: EventType
    alias: str | None

    @property
    def stream(self) -> ScopeStream:
        """Its rows, as input 0."""
        return ScopeStream(self.alias, self.event_type, self.store.name)

    @property
    def initial(self) -> ScopeStream:
        """Its rows as they were, as input 2."""
        return ScopeStream("initial", self.event_type, behind=True)


def bind_merge(
    node: ast.OnTrigger, name: str, heading: StatementHeading, module: ModuleScope
) -> plan.MergeStatement | None:
    """The statement; None when the report says why not."""
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
    )
    predicate = None if action.where is None else bind_condition(action.where, scope, "the where-clause")
    before = len(module.problems.found)
    branches: tuple[plan.MergeBranchPlan, ...]
    if isinstance(action, ast.OnMerge):
        branches = tuple(_branch(branch, target, trigger, scope) for branch in action.branches)
    else:
        changes = () if isinstance(action, ast.OnDelete) else action.assignments
        only = _update(changes, None, target, scope, node.span) if changes else plan.MergeActionPlan("delete", None)
        branches = (plan.MergeBranchPlan(True, None, (only,), span=action.span),)
    if len(module.problems.found) > before:
        return None
    return plan.MergeStatement(
        name=name,
        named=heading.name is not None,
        epl=module.text(node.span),
        annotations=heading.annotations,
        kind=kind,  # type: ignore[arg-type]
        source=trigger.source,
        target=target.store,
        predicate=predicate,
        branches=branches,
        context=node.context,
        output_type=EventType(f"<{name}>", target.event_type.properties),
        priority=heading.priority,
        drop=heading.drop,
        span=node.span,
    )


def bind_target(
    name: str, alias: str | None, at: Span, node: ast.Statement, module: ModuleScope, *, anywhere: bool = False
) -> TargetStore | None:
    """The store that a statement changes; None: reported. It must be of the statement's context, unless `anywhere`."""
    at = module.word(name, at)
    store = module.catalog.stores.get(name)
    if store is None:
        if name in module.catalog.event_types:
            fact = f"`{name}` is an event type, and events are not kept"
            module.problems.add("unknown-store", fact, at, "name a named window or a table")
        elif name not in module.dropped:
            hint = nearest_or_known_names(name, module.catalog.stores)
            hint = hint or f"declare it: create window {name}#keepall as …, or create table {name} (…)"
            module.problems.add("unknown-store", f"no named window or table `{name}`", at, hint)
        return None
    module.need("event type", name)
    if not anywhere or node.context is not None:
        check_same_context(store, node, at, module)
    return TargetStore(store, module.catalog.event_types[name], alias)


def check_same_context(store: StoreType, node: ast.Statement, at: Span, module: ModuleScope) -> None:
    """A statement that changes a store, or reads a table, is in the context of the store."""
    if store.context == node.context:
        return
    if store.context is not None:
        fact, hint = f"`{store.name}` is in context `{store.context}`", f"begin with `context {store.context}`"
    else:
        fact, hint = f"`{store.name}` is in no context, this statement is in `{node.context}`", "leave out the context"
    module.problems.add("wrong-context", fact, at, hint)


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
        scope.problems.add("wrong-parameter", fact, node.span, "where none matches, rows can be inserted")
        return None
    where = None if node.where is None else bind_condition(node.where, scope, "the where-clause")
    if node.kind == "delete":
        return plan.MergeActionPlan("delete", where, span=node.span)
    if node.kind == "update":
        return _update(node.assignments, where, target, scope, node.span)
    return _insert(node, where, target, trigger, scope)


def _update(
    nodes: Sequence[ast.Assignment], where: x.BoundExpr | None, target: TargetStore, scope: Scope, span: Span
) -> plan.MergeActionPlan:
    return plan.MergeActionPlan("update", where, changes=bind_changes(nodes, target, scope), span=span)


def bind_changes(
    nodes: Sequence[ast.Assignment], target: TargetStore, scope: Scope
) -> tuple[plan.PropertyAssignment, ...]:
    """The assignments to columns of the target; those that are wrong are reported and left out."""
    own = replace(scope, streams=(scope.streams[0], scope.streams[1], target.initial))
    changes: list[plan.PropertyAssignment] = []
    for node in nodes:
        try:
            changes += _reset(node, target, own) or (bind_change(node, target.stream, own),)
            _check_plain(changes[-1], target, own)
        except AlreadyReported:
            pass  # reported
    return tuple(changes)


def _reset(node: ast.Assignment, target: TargetStore, scope: Scope) -> tuple[plan.PropertyAssignment, ...]:
    """What ``T.column.reset()`` and ``T.reset()`` do to the aggregation columns of a table; nothing for other nodes."""
    steps = node.value.steps if node.target is None and isinstance(node.value, ast.Chain) else ()
    if not steps or steps[-1].name != "reset" or steps[-1].args is None:
        return ()
    names = [step.name for step in steps[:-1]]
    if names and target.stream.is_called(names[0]) and (len(names) == 1 or names[0] not in target.store.calls):
        names = names[1:]
    calls, at = target.store.calls, node.span
    if steps[-1].args or len(names) > 1 or any(step.args is not None or step.index for step in steps[:-1]):
        scope.problems.fail("wrong-parameter", "write `column.reset()`, or the name of the table and `.reset()`", at)
    if not names and len(steps) == 1:
        name = target.alias or target.store.name
        scope.problems.fail("wrong-parameter", "`reset()` of what", at, f"write {name}.reset()")
    if not calls:
        fact = f"`{target.store.name}` has no aggregation columns to be reset"
        scope.problems.fail("wrong-parameter", fact, at)
    if names and names[0] not in calls:
        fact = f"no aggregation column `{names[0]}` in `{target.store.name}`"
        scope.problems.fail("unknown-property", fact, at, nearest_or_known_names(names[0], calls))
    types = target.event_type.properties
    wanted = names or calls
    return tuple(plan.PropertyAssignment(n, x.Const(types[n], None, span=at), reset=True, span=at) for n in wanted)


def _check_plain(change: plan.PropertyAssignment, target: TargetStore, scope: Scope) -> None:
    if change.name in target.store.calls and not change.reset:
        fact = f"column `{change.name}` of `{target.store.name}` is an aggregate, it cannot be assigned"
        hint = f"into table feeds it; {target.alias or target.store.name}.{change.name}.reset() begins anew"
        scope.problems.fail("wrong-parameter", fact, change.span, hint)


def _insert(
    node: ast.MergeAction, where: x.BoundExpr | None, target: TargetStore, trigger: TriggerStream, scope: Scope
) -> plan.MergeActionPlan:
    row, event = scope.streams
    own = replace(scope, streams=(replace(row, behind=True), event))
    columns: list[plan.OutputColumn] = []
    for item in node.items:
        if item.expr is None and item.alias is None and (item.stream is None or event.is_called(item.stream)):
            for name, type_ in trigger.event_type.properties.items():
                columns.append(plan.OutputColumn(name, x.Prop(type_, 1, name, span=item.span), span=item.span))
        else:
            columns += bind_select_list((item,), own)[0]
    named = {column.name: column for column in columns}  # of the same name the last is selected by hand
    into = ast.InsertInto(node.into or target.store.name, None, node.columns, span=node.span)
    context = None if scope.context is None else scope.context.name
    check_target_context(into.target, context, node.span, scope.module)
    insert, (found, _), output = bind_insert(into, (tuple(named.values()), False), None, scope.module)
    stream = None if insert.target == target.store.name else insert
    return plan.MergeActionPlan("insert", where, found, stream, output_type=output, span=node.span)
