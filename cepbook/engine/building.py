"""From a compiled module to the running parts that are ready to start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cepbook.engine.compiler import Compiled
from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.keyed import KeyedContext
from cepbook.engine.contexts.notices import Notices
from cepbook.engine.contexts.tree import Tree
from cepbook.engine.cycles.running import Cycling
from cepbook.engine.deployments import Deployment
from cepbook.engine.ports import Host
from cepbook.engine.relations.store import Store
from cepbook.engine.statement import Delivering, Statement
from cepbook.engine.table import Table
from cepbook.errors import BindError, Diagnostic
from cepbook.lang.plan import (
    CreateContextStatement,
    CreateContextTreeStatement,
    CreateIndexStatement,
    CreateTableStatement,
    CreateVariableStatement,
    CreateWindowStatement,
    CycleStatement,
    MergeStatement,
    OnSelectStatement,
    OnSetStatement,
    SelectStatement,
    SplitStatement,
    StatementPlan,
    UpdateStatement,
)

_KINDS: Mapping[type[StatementPlan], str] = {
    OnSetStatement: "on set",
    UpdateStatement: "update istream",
    SplitStatement: "split",
    MergeStatement: "merge",
    CreateVariableStatement: "create variable",
    CreateTableStatement: "create table",
    CycleStatement: "running query",
}


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled module with the running parts that were made for it, before they start."""

    deployment: Deployment
    compiled: Compiled
    contexts: Mapping[str, Context]
    stores: Mapping[str, Store]


def build(
    host: Host, compiled: Compiled, id_: str, next_order: Callable[[int], tuple[int, int]], notices: Notices
) -> Built:
    """A module that is ready to start. Nothing of the runtime `host` changes. `next_order` takes a priority."""
    statements: list[Statement] = []
    contexts: dict[str, Context] = {}
    stores: dict[str, Store] = {}
    for plan in compiled.plan.statements:
        if isinstance(plan, CreateContextStatement):
            name = plan.context.name
            order = next_order(plan.priority)
            contexts[name] = KeyedContext(plan, compiled.locators[name], order, host, notices)
        elif isinstance(plan, CreateContextTreeStatement):
            name = plan.context.name
            contexts[name] = Tree(plan, compiled.trees[name], next_order(plan.priority), host, notices)
        elif isinstance(plan, CreateIndexStatement):
            check_unique(host.stores.get(plan.index.store), plan, compiled)
        elif isinstance(plan, SelectStatement):
            order = next_order(plan.priority)
            kind = "create window" if isinstance(plan, CreateWindowStatement) else "select"
            kind = "on select" if isinstance(plan, OnSelectStatement) else kind
            made = Statement(host, plan, compiled.programs[plan.name], order, id_, compiled.plan.source, kind)
            statements.append(made)
            if isinstance(plan, CreateWindowStatement):
                stores[plan.store.name] = made.owns(host.changes)
            known = {**host.stores, **stores}
            read = {number: source.store for number, source in enumerate(plan.sources) if source.store is not None}
            if isinstance(plan, OnSelectStatement):
                made.changes_store(known, plan.target, plan.sources[1].store, 1)
            else:
                made.stores = {number: known[store.name] for number, store in read.items()}
        elif type(plan) in _KINDS and isinstance(plan, Delivering):
            order, program = next_order(plan.priority), compiled.programs[plan.name]
            kind = f"on {plan.kind}" if isinstance(plan, MergeStatement) else _KINDS[type(plan)]
            statements.append(Statement(host, plan, program, order, id_, compiled.plan.source, kind))
            if isinstance(plan, CreateTableStatement):
                stores[plan.store.name] = table = Table(plan.store, plan.output_type.properties, host.changes, program)
                table.owner, statements[-1].owned = statements[-1], table
            if isinstance(plan, MergeStatement):
                statements[-1].changes_store({**host.stores, **stores}, plan.target, plan.source.store)
            if isinstance(plan, CreateVariableStatement):
                compiled.variables[plan.variable.name].delivers_to(statements[-1].outlet)
        known = {**host.stores, **stores}
        if isinstance(plan, CycleStatement):
            cycling = statements[-1].lots
            assert isinstance(cycling, Cycling)
            known = cycling.find(known)
        if plan.subqueries:
            statements[-1].inner.find(known, statements[-1])
    provided = compiled.plan.provides
    deployment = Deployment(
        id_,
        tuple(statements),
        tuple(n for kind, n in provided if kind == "event type"),
        tuple(n for kind, n in provided if kind == "context"),
        compiled.plan.source,
        compiled.plan,
        tuple(n for kind, n in provided if kind == "variable"),
        tuple(n for kind, n in provided if kind == "expression"),
    )
    return Built(deployment, compiled, contexts, stores)


def check_unique(store: Store | None, plan: CreateIndexStatement, compiled: Compiled) -> None:
    """Errors: BindError when rows that are there have a key of a unique index several times."""
    clash = store.clash(plan.index) if plan.index.unique and store is not None else None
    if clash is not None:
        fact = f"`{plan.index.store}` has several rows with {clash}"
        raise BindError((Diagnostic("not-unique", fact, plan.span),), compiled.plan.source)


def try_to_start(host: Host, plan: SelectStatement, compiled: Compiled, live: Iterable[Any]) -> None:
    """What statements begin with may depend on variables. Errors: BindError when these have no such values."""
    statement = Statement(host, plan, compiled.programs[plan.name], (0, 0), "", compiled.plan.source)
    try:
        for partition in live:
            statement.program["new_state"](partition, host.clock.now)
    except ValueError as failure:
        at = plan.windows[0].span if plan.windows else plan.span
        diagnostic = Diagnostic("wrong-parameter", f"`{plan.name}` cannot start: {failure}", at)
        raise BindError((diagnostic,), compiled.plan.source) from failure
