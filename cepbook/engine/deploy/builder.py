"""From a compiled module to statements, contexts and stores that are ready to start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.partition_listeners import PartitionListeners
from cepbook.engine.deploy.compiler import CompiledModule
from cepbook.engine.deploy.deployments import Deployment
from cepbook.engine.relations.store import Store
from cepbook.engine.relations.table import Table
from cepbook.engine.services import EngineServices
from cepbook.engine.statements.create_table import table_functions
from cepbook.engine.statements.cycle_member import CycleMember
from cepbook.engine.statements.statement import DeliveringPlan, RunningStatement
from cepbook.errors import BindError, Diagnostic, Span
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import IndexType


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
        if plan.name in compiled.contexts:
            priority, build_context = compiled.contexts[plan.name]
            context = build_context(next_order(priority), host, notices)
            contexts[context.name] = context
        if plan.created_index is not None:
            check_unique_index(host.stores.get(plan.created_index.store), plan.created_index, plan.span, compiled)
        if isinstance(plan, DeliveringPlan):
            order, program = next_order(plan.priority), compiled.programs[plan.name]
            statement = RunningStatement(host, plan, program, order, id_, compiled.plan.source, plan.statement_kind)
            statements.append(statement)
            store = _owned(statement, plan, host)
            if store is not None:
                stores[store.name] = store
            _connect(statement, plan, {**host.stores, **stores}, compiled)
    return BuiltModule(Deployment(id_, tuple(statements), compiled.plan), compiled, contexts, stores)


def _owned(statement: RunningStatement, plan: DeliveringPlan, host: EngineServices) -> Store | None:
    created = plan.created_store
    if created is None:
        return None
    if created.kind == "window":
        return statement.create_store(plan.output_type.properties, host.changes)
    table = Table(created, plan.output_type.properties, host.changes, table_functions(statement.program))
    table.owner, statement.owned = statement, table
    return table


def _connect(
    statement: RunningStatement, plan: DeliveringPlan, stores: Mapping[str, Store], compiled: CompiledModule
) -> None:
    if isinstance(statement.activation_member, CycleMember):
        stores = statement.activation_member.find(stores)
    elif plan.lookup is not None:
        statement.connect_target(stores, plan.lookup)
    else:
        read = {number: source.store for number, source in enumerate(plan.sources) if source.store is not None}
        statement.stores = {number: stores[store.name] for number, store in read.items()}
    if plan.created_variable is not None:
        compiled.variables[plan.created_variable.name].deliver_through(statement.outlet)
    if plan.subqueries:
        statement.subquery_inputs.find(stores, statement)


def check_unique_index(store: Store | None, index: IndexType, span: Span, compiled: CompiledModule) -> None:
    """Errors: BindError if existing rows share a key of a unique index."""
    clash = store.clash(index) if index.unique and store is not None else None
    if clash is not None:
        fact = f"`{index.store}` has several rows with {clash}"
        raise BindError((Diagnostic("not-unique", fact, span),), compiled.plan.source)


class _NoRows:
    """A table of the module that is being deployed: it has no rows."""

    def read(self, *_: object) -> None:
        """Return null for every key."""

    row = accumulator = read

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
