"""The named window or table that a statement changes, and the changes to its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cepbook.errors import Span, nearest_or_known_names
from cepbook.lang.bind.clauses.assignments import bind_change
from cepbook.lang.bind.scope import AlreadyReported, ModuleScope, Scope, ScopeStream
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import EventType, StoreType
from cepbook.lang.syntax import ast

ABSENT_ROW = ScopeStream("", EventType("", {}))  # in place of a row or an event that is not there


@dataclass(frozen=True, slots=True)
class TargetStore:
    """The named window or table that a statement changes, and its alias in the statement."""

    store: StoreType
    event_type: EventType
    alias: str | None

    @property
    def stream(self) -> ScopeStream:
        """The rows of the store, as input 0."""
        return ScopeStream(self.alias, self.event_type, self.store.name)

    @property
    def initial(self) -> ScopeStream:
        """The rows before the change, as input 2."""
        return ScopeStream("initial", self.event_type, fallback=True)


def bind_target(
    name: str, alias: str | None, at: Span, node: ast.Statement, module: ModuleScope, *, anywhere: bool = False
) -> TargetStore | None:
    """Return the store that a statement changes, or None if it was reported.

    The store must be in the statement's context, unless `anywhere`.
    """
    at = module.locate(name, at)
    store = module.catalog.stores.get(name)
    if store is None:
        if name in module.catalog.event_types:
            fact = f"`{name}` is an event type, and events are not stored"
            module.report("unknown-store", fact, at, "name a named window or a table")
        elif name not in module.rejected_names:
            hint = nearest_or_known_names(name, module.catalog.stores)
            hint = hint or f"declare it: create window {name}#keepall as …, or create table {name} (…)"
            module.report("unknown-store", f"no named window or table `{name}`", at, hint)
        return None
    module.require("event type", name)
    if not anywhere or node.context is not None:
        check_same_context(store, node, at, module)
    return TargetStore(store, module.catalog.event_types[name], alias)


def check_same_context(store: StoreType, node: ast.Statement, at: Span, module: ModuleScope) -> None:
    """Report a statement that changes a store, or reads a table, outside of the store's context."""
    if store.context == node.context:
        return
    if store.context is not None:
        fact, hint = f"`{store.name}` is in context `{store.context}`", f"begin with `context {store.context}`"
    else:
        fact, hint = f"`{store.name}` is in no context, this statement is in `{node.context}`", "leave out the context"
    module.report("wrong-context", fact, at, hint)


def bind_changes(
    nodes: Sequence[ast.Assignment], target: TargetStore, scope: Scope
) -> tuple[plan.PropertyAssignment, ...]:
    """Bind the assignments to columns of the target; leave out those that are wrong and report them.

    A name without a prefix is a column of the target before it is a property of the event.
    """
    rows, event = scope.streams
    own = replace(scope, streams=(rows, replace(event, fallback=True), target.initial))
    changes: list[plan.PropertyAssignment] = []
    for node in nodes:
        try:
            changes += _reset(node, target, own) or (bind_change(node, target.stream, own),)
            _check_plain(changes[-1], target, own)
        except AlreadyReported:
            pass  # reported
    return tuple(changes)


def _reset(node: ast.Assignment, target: TargetStore, scope: Scope) -> tuple[plan.PropertyAssignment, ...]:
    """Return the changes of ``T.column.reset()`` and ``T.reset()`` to aggregation columns; none for other nodes."""
    steps = node.value.steps if node.target is None and isinstance(node.value, ast.Chain) else ()
    if not steps or steps[-1].name != "reset" or steps[-1].args is None:
        return ()
    names = [step.name for step in steps[:-1]]
    if names and target.stream.is_prefix(names[0]) and (len(names) == 1 or names[0] not in target.store.calls):
        names = names[1:]
    calls, at = target.store.calls, node.span
    if steps[-1].args or len(names) > 1 or any(step.args is not None or step.index for step in steps[:-1]):
        scope.reject("write `column.reset()`, or the name of the table and `.reset()`", at)
    if not names and len(steps) == 1:
        name = target.alias or target.store.name
        scope.reject("`reset()` of what", at, f"write {name}.reset()")
    if not calls:
        scope.reject(f"`{target.store.name}` has no aggregation columns to be reset", at)
    if names and names[0] not in calls:
        fact = f"no aggregation column `{names[0]}` in `{target.store.name}`"
        scope.fail("unknown-property", fact, at, nearest_or_known_names(names[0], calls))
    types = target.event_type.properties
    columns = names or calls
    return tuple(plan.PropertyAssignment(n, x.Const(types[n], None, span=at), reset=True, span=at) for n in columns)


def _check_plain(change: plan.PropertyAssignment, target: TargetStore, scope: Scope) -> None:
    if change.name in target.store.calls and not change.reset:
        fact = f"column `{change.name}` of `{target.store.name}` is an aggregate, it cannot be assigned"
        hint = f"into table fills it; {target.alias or target.store.name}.{change.name}.reset() restarts it"
        scope.reject(fact, change.span, hint)
