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
    SelectStatement: "select",
    OnSelectStatement: "on select",
    CreateWindowStatement: "create window",
    OnSetStatement: "on set",
    UpdateStatement: "update istream",
    SplitStatement: "split",
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
        match plan:
            case CreateContextStatement(context=context):
                ways, order = compiled.ways[context.name], next_order(plan.priority)
                contexts[context.name] = KeyedContext(plan, ways, order, host, notices)
            case CreateContextTreeStatement(context=context):
                form, order = compiled.trees[context.name], next_order(plan.priority)
                contexts[context.name] = Tree(plan, form, order, host, notices)
            case CreateIndexStatement(index=index):
                check_unique(host.stores.get(index.store), plan, compiled)
        if isinstance(plan, Delivering):
            order, program = next_order(plan.priority), compiled.programs[plan.name]
            made = Statement(host, plan, program, order, id_, compiled.plan.source, _kind(plan))
            statements.append(made)
            store = _owned(made, plan, host)
            if store is not None:
                stores[store.name] = store
            _connect(made, plan, {**host.stores, **stores}, compiled)
    return Built(Deployment(id_, tuple(statements), compiled.plan), compiled, contexts, stores)


def _kind(plan: Delivering) -> str:
    """What a statement is called in lists of them."""
    return f"on {plan.kind}" if isinstance(plan, MergeStatement) else _KINDS[type(plan)]


def _owned(statement: Statement, plan: Delivering, host: Host) -> Store | None:
    """The store that the statement creates, if it does."""
    if isinstance(plan, CreateWindowStatement):
        return statement.owns(host.changes)
    if not isinstance(plan, CreateTableStatement):
        return None
    table = Table(plan.store, plan.output_type.properties, host.changes, statement.program)
    table.owner, statement.owned = statement, table
    return table


def _connect(statement: Statement, plan: Delivering, stores: Mapping[str, Store], compiled: Compiled) -> None:
    """Lead the statement to the stores that it reads and changes, and the variable that it creates to it."""
    match plan:
        case OnSelectStatement(target=target):
            statement.changes_store(stores, target, plan.sources[1].store, 1)
        case MergeStatement(target=target):
            statement.changes_store(stores, target, plan.source.store)
        case SelectStatement():
            read = {number: source.store for number, source in enumerate(plan.sources) if source.store is not None}
            statement.stores = {number: stores[store.name] for number, store in read.items()}
        case OnSetStatement(source=source) | SplitStatement(source=source) if source.store is not None:
            statement.stores = {0: stores[source.store.name]}
        case CreateVariableStatement(variable=variable):
            compiled.variables[variable.name].delivers_to(statement.outlet)
        case CycleStatement():
            assert isinstance(statement.lots, Cycling)
            stores = statement.lots.find(stores)
    if plan.subqueries:
        statement.inner.find(stores, statement)


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
