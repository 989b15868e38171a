"""From a compiled module to statements, contexts and stores that are ready to start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.keyed_context import FlatKeyedContext
from cepbook.engine.contexts.partition_listeners import PartitionListeners
from cepbook.engine.contexts.tree_context import TreeContext
from cepbook.engine.deploy.compiler import CompiledModule
from cepbook.engine.deploy.deployments import Deployment
from cepbook.engine.relations.store import Store
from cepbook.engine.relations.table import Table
from cepbook.engine.services import EngineServices
from cepbook.engine.statements.create_table import table_functions
from cepbook.engine.statements.cycle_member import CycleMember
from cepbook.engine.statements.statement import DeliveringPlan, RunningStatement
from cepbook.errors import BindError, Diagnostic
from cepbook.lang.plan import nodes as p

_KINDS: Mapping[type[p.StatementPlan], str] = {
    p.SelectStatement: "select",
    p.OnSelectStatement: "on select",
    p.CreateWindowStatement: "create window",
    p.OnSetStatement: "on set",
    p.UpdateStatement: "update istream",
    p.SplitStatement: "split",
    p.CreateVariableStatement: "create variable",
    p.CreateTableStatement: "create table",
    p.CycleStatement: "running query",
}


@dataclass(frozen=True, slots=True)
class BuiltModule:
    """A compiled module with the running objects that were created for it, before they start."""

    deployment: Deployment
    compiled: CompiledModule
    contexts: Mapping[str, Context]
    stores: Mapping[str, Store]


def build_module(
    host: EngineServices,
    compiled: CompiledModule,
    id_: str,
    next_order: Callable[[int], tuple[int, int]],
    notices: PartitionListeners,
) -> BuiltModule:
    """Create the running objects of a module. The runtime does not change. `next_order` takes a priority."""
    statements: list[RunningStatement] = []
    contexts: dict[str, Context] = {}
    stores: dict[str, Store] = {}
    for plan in compiled.plan.statements:
        match plan:
            case p.CreateContextStatement(context=context):
                locators, order = compiled.locators[context.name], next_order(plan.priority)
                contexts[context.name] = FlatKeyedContext(plan, locators, order, host, notices)
            case p.CreateContextTreeStatement(context=context):
                form, order = compiled.levels[context.name], next_order(plan.priority)
                contexts[context.name] = TreeContext(plan, form, order, host, notices)
            case p.CreateIndexStatement(index=index):
                check_unique_index(host.stores.get(index.store), plan, compiled)
        if isinstance(plan, DeliveringPlan):
            order, program = next_order(plan.priority), compiled.programs[plan.name]
            statement = RunningStatement(host, plan, program, order, id_, compiled.plan.source, _kind(plan))
            statements.append(statement)
            store = _owned(statement, plan, host)
            if store is not None:
                stores[store.name] = store
            _connect(statement, plan, {**host.stores, **stores}, compiled)
    return BuiltModule(Deployment(id_, tuple(statements), compiled.plan), compiled, contexts, stores)


def _kind(plan: DeliveringPlan) -> str:
    return f"on {plan.kind}" if isinstance(plan, p.MergeStatement) else _KINDS[type(plan)]


def _owned(statement: RunningStatement, plan: DeliveringPlan, host: EngineServices) -> Store | None:
    if isinstance(plan, p.CreateWindowStatement):
        return statement.create_store(plan.output_type.properties, host.changes)
    if not isinstance(plan, p.CreateTableStatement):
        return None
    table = Table(plan.store, plan.output_type.properties, host.changes, table_functions(statement.program))
    table.owner, statement.owned = statement, table
    return table


def _connect(
    statement: RunningStatement, plan: DeliveringPlan, stores: Mapping[str, Store], compiled: CompiledModule
) -> None:
    match plan:
        case p.OnSelectStatement():
            statement.connect_target(stores, plan, plan.sources[1].store, 1)
        case p.MergeStatement():
            statement.connect_target(stores, plan, plan.source.store)
        case p.SelectStatement():
            read = {number: source.store for number, source in enumerate(plan.sources) if source.store is not None}
            statement.stores = {number: stores[store.name] for number, store in read.items()}
        case p.OnSetStatement(source=source) | p.SplitStatement(source=source) if source.store is not None:
            statement.stores = {0: stores[source.store.name]}
        case p.CreateVariableStatement(variable=variable):
            compiled.variables[variable.name].deliver_through(statement.outlet)
        case p.CycleStatement():
            assert isinstance(statement.activation_member, CycleMember)
            stores = statement.activation_member.find(stores)
    if plan.subqueries:
        statement.subquery_inputs.find(stores, statement)


def check_unique_index(store: Store | None, plan: p.CreateIndexStatement, compiled: CompiledModule) -> None:
    """Errors: BindError if existing rows share a key of a unique index."""
    clash = store.clash(plan.index) if plan.index.unique and store is not None else None
    if clash is not None:
        fact = f"`{plan.index.store}` has several rows with {clash}"
        raise BindError((Diagnostic("not-unique", fact, plan.span),), compiled.plan.source)


class _NoRows:
    """A table of the module that is being deployed: it has no rows."""

    def read(self, *_: object) -> None:
        """Return null for every key."""

    row = held = read

    def keys(self, partition: object) -> list[Any]:
        """Return no keys."""
        return []


_NO_ROWS = _NoRows()


def try_to_start(host: EngineServices, plan: p.SelectStatement, compiled: CompiledModule, live: Iterable[Any]) -> None:
    """Create trial states. Errors: BindError if parameters of windows do not allow the statement to start."""
    steps = compiled.programs[plan.name].steps
    if not any(window.args for own in (steps, *steps.subqueries) for window in own.windows):
        return
    statement = RunningStatement(host, plan, compiled.programs[plan.name], (0, 0), "", compiled.plan.source)
    for program in (statement.program, *statement.program.subqueries):
        program.bind_tables(lambda name: host.stores.get(name, _NO_ROWS))
    try:
        for partition in live:
            statement.program.functions.new_state(partition, host.clock.now)
    except ValueError as failure:
        at = plan.windows[0].span if plan.windows else plan.span
        diagnostic = Diagnostic("wrong-parameter", f"`{plan.name}` cannot start: {failure}", at)
        raise BindError((diagnostic,), compiled.plan.source) from failure
