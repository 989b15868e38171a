"""`Runtime`: compile, deploy, send, advance, iterate. One engine inside the kernel, with an external clock.

::

    send ─► filter index ─► context partition ─► generated on_event ─► listeners, sinks
                                                        │
                                   insert into ◄────────┘   queued until all statements have seen the event

Rows of `insert into` follow one event at a time. Time is an input: `advance(t)` fires everything due, statement by
statement, and no code here reads a wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from io import BytesIO
from typing import Any

from cepbook.engine.config import Config
from cepbook.engine.contexts.context import Context, select_partitions
from cepbook.engine.contexts.partition_listeners import PartitionListener, PartitionListeners
from cepbook.engine.contexts.selectors import Selector
from cepbook.engine.delivery.delta import Row
from cepbook.engine.deploy.deployer import Deployer
from cepbook.engine.deploy.deployments import Deployment, deployments_using, statement_names_text
from cepbook.engine.deploy.fire_and_forget import run_query
from cepbook.engine.deploy.naming import check_function_name, find_variable, lookup_name
from cepbook.engine.dispatch.event_engine import EventEngine
from cepbook.engine.expressions.primitives import deep_copied
from cepbook.engine.expressions.user_values import as_annotated
from cepbook.engine.replay.batch_replayer import BatchReplayer
from cepbook.engine.snapshot.file_format import SnapshotReader
from cepbook.engine.snapshot.partition_snapshot import restore_partition, save_partition
from cepbook.engine.snapshot.runtime_snapshot import restore_runtime, save_runtime
from cepbook.engine.statements.statement import RunningStatement, StateSummary
from cepbook.engine.statements.variables import SIMPLE, RuntimeVariable, convert_value
from cepbook.engine.time.clock_stops import LateTimers
from cepbook.errors import UsageError
from cepbook.lang.plan.catalog import EventType, FunctionType, ReturnSpec, VariableType
from cepbook.lang.plan.nodes import ModulePlan, StatementPlan
from cepbook.lang.types import OBJECT, Type

__all__ = ["Config", "Deployment", "Runtime", "RunningStatement"]


class Runtime(EventEngine):
    """A running engine.

    `now` is engine time in ms, `catalog` has the names that modules may refer to. `errors` has the latest run-time
    failures of statements. An error listener is called for each of them; without one, `send` and `advance` raise the
    first failure at the end of the turn.
    """

    SAVED = ("_serial",)

    def __init__(
        self, config: Config = Config(), *, start: int = 0, functions: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        super().__init__(config, start)
        self.functions: dict[str, Callable[..., Any]] = {}
        self._serial = 0
        self._merging: set[RunningStatement] = set()
        self._notices = PartitionListeners(self.report)
        self._deployer = Deployer(
            self.registry, self.turn, self.functions, self._notices, self._next_order, self._statements_changed
        )
        for name, function in (functions or {}).items():
            self.register_function(name, function)

    def register_function(self, name: str, function: Callable[..., Any], *, returns: ReturnSpec = OBJECT) -> None:
        """Make `function` callable in EPL. It gets plain values (None for null), and copies of arrays and events.
        Parameters annotated with dates and spans of time get these.

        Errors: UsageError if `name` is not a name, is a reserved word, or is a function or aggregate of EPL.
        """
        check_function_name(name)
        self.functions[name] = as_annotated(function, self.config.second, self.config.time_zone)
        self.catalog.functions[name] = returns if isinstance(returns, FunctionType) else FunctionType(returns)

    def define(self, *event_types: EventType, replace: bool = False) -> None:
        """Add event types, all or none. Errors: UsageError if one exists, unless `replace` is set and no statement uses
        it.
        """
        for event_type in event_types:
            name = event_type.name
            if name in self.catalog.event_types:
                users = deployments_using(self._deployer.deployments, [("event type", name)])
                if users and self.catalog.event_types[name] != event_type:
                    raise UsageError(f"event type `{name}` is used by {statement_names_text(users)}; drop these first")
                if not replace and not users:
                    raise UsageError(f"event type `{name}` already exists")
        with self.turn:
            self.catalog.event_types.update((event_type.name, event_type) for event_type in event_types)
            self.rewired()

    def define_variable(self, name: str, type_: Type, value: object = None, *, constant: bool = False) -> None:
        """Add a variable from Python. Errors: UsageError if it exists, or `value` does not fit."""
        if name in self.catalog.variables:
            raise UsageError(f"variable `{name}` already exists")
        fitting = convert_value(name, value, type_)
        simple = constant and type_.of is None and type_.name in SIMPLE
        self.catalog.variables[name] = VariableType(name, type_, constant, fitting if constant else None, simple)
        self.registry.variables = {**self.registry.variables, name: RuntimeVariable(name, type_, fitting)}

    def external_variables(self) -> tuple[tuple[str, Type, Any, bool], ...]:
        """Return the arguments of `define_variable` for each variable, with its last value from outside."""
        shared = [v for v in self.catalog.variables.values() if v.context is None]
        return tuple((v.name, v.type, self.registry.variables[v.name].given, v.constant) for v in shared)

    def get_variable(self, name: str) -> Any:
        """Return the value of a variable; arrays are copied. Errors: UsageError with the nearest known name."""
        variable = find_variable(name, self.registry.variables)
        return variable.value if variable.type.of is None else deep_copied(variable.value)

    def set_variable(self, name: str, value: object) -> None:
        """Assign a variable; None is null. Errors: UsageError (unknown name, constant, value that does not fit)."""
        self.entered()
        fitting = self.assignable_value(name, value)
        with self.turn:
            self.registry.variables[name].set(fitting)
            if self._queue:
                self.turn.drain()

    def assignable_value(self, name: str, value: object) -> Any:
        """Return `value` in the type of a variable. Errors: those of `set_variable`."""
        variable = find_variable(name, self.registry.variables)
        if self.catalog.variables[name].constant:
            raise UsageError(f"`{name}` is a constant, it cannot be set")
        return convert_value(name, value, variable.type)

    @property
    def deployments(self) -> Mapping[str, Deployment]:
        """The deployments by id, in order."""
        return self._deployer.deployments

    @property
    def touched(self) -> dict[str, None]:
        """The deployments, statements and contexts that came or went since `touched` was cleared, the latest last."""
        return self._deployer.touched

    def statement(self, name: str) -> RunningStatement:
        """Return the running statement `name`. Errors: UsageError with the nearest known name."""
        self.entered()
        return lookup_name("statement", name, self.registry.statements, self.catalog)

    def compile(self, epl: str) -> ModulePlan:
        """Parse, bind and rewrite a module against the present catalog. Errors: ParseError, BindError."""
        return self._deployer.compile(epl)

    def deploy(self, epl: str | ModulePlan, *, deployment_id: str | None = None) -> Deployment:
        """Compile a module and start all of it, or nothing. Errors: ParseError, BindError, UsageError (id is taken)."""
        self.entered()
        return self._deployer.deploy(epl, deployment_id)

    def undeploy(self, deployment_id: str, *, cascade: bool = False) -> None:
        """Stop a deployment and remove everything that it created.

        Errors: UsageError if it does not exist, or if others depend on it (named); `cascade` stops these, too.
        """
        self.entered()
        self._deployer.undeploy(deployment_id, cascade=cascade)

    def undeploy_statement(self, deployment_id: str, name: str) -> bool:
        """Stop one statement of a deployment. Return False, and change nothing, if the rest depends on it."""
        self.entered()
        return self._deployer.undeploy_statement(deployment_id, name)

    def redeploy(self, deployment_id: str, epl: str) -> Deployment:
        """Replace a deployment by a new module, and restart deployments that depend on it from their source.

        Everything is compiled before anything stops: on an error (ParseError, BindError, in the module or in a
        dependant that no longer fits) everything keeps running as before.
        """
        self.entered()
        return self._deployer.redeploy(deployment_id, epl)

    def _statements_changed(self, statements: Sequence[RunningStatement]) -> None:
        for statement in statements:
            self._merging.discard(statement)
            if self.registry.statements.get(statement.name) is statement and statement.merges:
                self._merging.add(statement)
        holds = bool(self._merging)
        if holds != self.services.deliveries.holds:
            self.services.deliveries.holds = holds
            for statement in self.registry.statements.values():
                statement.outlet.set_holding(holds)
        for statement in statements:
            self.registry.note_changed(statement)
        self.rewired(whole=False)

    def _next_order(self, priority: int) -> tuple[int, int]:
        self._serial += 1
        return (-priority if self.config.prioritized else 0, self._serial)

    def batch(self, types: Sequence[str], late: LateTimers | None = None) -> BatchReplayer:
        """Return the entry for many events of `types` as columns, which replays use. `late` counts late timers."""
        for name in types:
            self._route(name)
        return BatchReplayer(self, types, lambda: self.plans, late)

    @property
    def plans(self) -> list[StatementPlan]:
        """The plans of all deployed statements, definitions included, in order of deployment."""
        return [plan for deployment in self.deployments.values() for plan in deployment.plan.statements]

    def context(self, name: str) -> Context:
        """Return the running context `name`. Errors: UsageError with the nearest known name."""
        self.entered()
        return self._deployer.context(name)

    def iterate(self, statement: str) -> list[Row]:
        """Return the rows of a statement's iterator; in a context, of its partitions by ascending id."""
        return [row for _, rows in self.iterate_partitions(statement) for row in rows]

    def iterate_partitions(
        self, statement: str, selector: Selector | None = None
    ) -> list[tuple[int | None, list[Row]]]:
        """Return (partition id, rows) of every live partition, or of those that `selector` chooses, by id.

        Without a context there is one entry with id None. Errors: StatementError if an expression fails on a row;
        UsageError if the selector does not fit the statement's context.
        """
        if statement not in self.registry.statements and any(
            statement == s.name for d in self._deployer.deployments.values() for s in d.plan.statements
        ):
            return []  # definitions deliver nothing and iterate empty
        running = self.statement(statement)
        if selector is not None and running.context is None:
            raise UsageError(f"statement `{statement}` has no context, its partitions cannot be selected")
        ids = None if selector is None or running.context is None else select_partitions(selector, running.context)
        fresh = running.outlet.layout.fresh
        try:
            return [(id_, [fresh(row) for row in rows]) for id_, rows in running.iterated(self.now, ids)]
        except Exception as failure:
            raise running.error(failure) from failure

    def query(self, epl: str, selector: Selector | None = None) -> list[Row]:
        """Run a fire-and-forget query. Errors: ParseError, BindError; StatementError if an expression fails on a
        row.
        """
        self.entered()
        self.turn.check()
        return run_query(self, epl, selector).rows

    def partitions(self, context: str) -> list[dict[str, Any]]:
        """Return the live partitions by id: built-in properties, and in `statements` the statements' names."""
        running = self.context(context)
        names = [s.name for s in running.statements if s is not None]
        return [{**deep_copied(properties), "statements": list(names)} for properties in running.describe()]

    def end_partition(self, context: str, id_: int) -> None:
        """End a partition by hand, as a condition of its context would: output when terminated, then it is discarded.

        Errors: UsageError if no partition has this id; StatementError as for `send`.
        """
        with self.turn:
            if not self.context(context).end_partition(id_):
                raise UsageError(f"context `{context}` has no live partition {id_}")
            if self._queue:
                self.turn.drain()

    def add_partition_listener(self, context: str | None, listener: PartitionListener) -> None:
        """Call `listener(notice)` when a partition is allocated or deallocated, or the context is activated or
        deactivated.

        `context` None: for all contexts, also later ones.
        """
        self._notices.add(context, listener)
        self.rewired()

    def remove_partition_listener(self, context: str | None, listener: PartitionListener) -> None:
        """Errors: ValueError if `listener` was not added for `context`."""
        self._notices.remove(context, listener)
        self.rewired()

    def state(
        self, statement: str, partitions: Container[int | None] | None = None, partials: int = 200
    ) -> list[StateSummary]:
        """Return plain data about a statement's state, one entry per partition: retained events, groups, timers, and
        for a pattern the number of partial matches and the first `partials` of them. `partitions` restricts the result.

        Inspection expires events in windows that do so lazily, which is not observable, and changes nothing else.
        """
        running = self.statement(statement)
        return running.inspect(self.now, partitions, partials)

    def snapshot(self, partition: tuple[str, int] | None = None) -> bytes:
        """Return everything except listeners and functions as bytes; or one context partition, (context, id).

        Errors: SnapshotError naming the owner of a value that cannot be saved; UsageError if there is no such
        partition.
        """
        self.entered()
        return save_runtime(self) if partition is None else save_partition(self, *partition)

    def restore_partition(self, data: bytes) -> int:
        """Restore a partition that a runtime with the same modules saved, and return its id. Errors: SnapshotError."""
        self.entered()
        return restore_partition(self, data)

    @classmethod
    def restored(cls, data: bytes, functions: Mapping[str, Callable[..., Any]]) -> Runtime:
        """Return a runtime that continues from a snapshot, with the Python functions that it had registered.

        Errors: SnapshotError if it is not a snapshot, is damaged, or was made by a version with other state.
        """
        return restore_runtime(cls, SnapshotReader(BytesIO(data)), functions)[0]
