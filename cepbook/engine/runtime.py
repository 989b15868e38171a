"""`Runtime`: compile, deploy, send, advance, iterate. One kernel-side engine with an external clock.

One event takes this way: ``send`` → filter index → context partition → generated ``on_event`` → listeners and sinks;
rows of ``insert into`` queue up and follow, one event at a time, when all statements have seen the event before.
Time is an input: ``advance(t)`` fires everything due, statement by statement, and nothing here reads a wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
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
from cepbook.engine.replay.batch_replayer import BatchReplayer
from cepbook.engine.snapshot.partition_snapshot import restore_partition, save_partition
from cepbook.engine.snapshot.runtime_snapshot import restore_runtime, save_runtime
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.statements.variables import SIMPLE, RuntimeVariable, convert_value
from cepbook.errors import UsageError
from cepbook.lang.plan.catalog import EventType, FunctionType, ReturnSpec, VariableType
from cepbook.lang.plan.nodes import ModulePlan
from cepbook.lang.types import OBJECT, Type

__all__ = ["Config", "Deployment", "Runtime", "RunningStatement"]


class Runtime(EventEngine):
    """A running engine.

    `now` is engine time in ms, `catalog` what modules may refer to. `errors` holds the last run-time failures of
    statements; with an error listener they are reported to it, without one `send` and `advance` raise the first of them
    after everything else was done.
    """

    SAVED = ("_serial",)

    def __init__(
        self, config: Config = Config(), *, start: int = 0, functions: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        super().__init__(config, start)
        self.functions: dict[str, Callable[..., Any]] = {}
        self._serial = 0
        self._notices = PartitionListeners(self.report)
        self._deployer = Deployer(
            self.registry, self.turn, self.functions, self._notices, self._next_order, self._statements_changed
        )
        for name, function in (functions or {}).items():
            self.register_function(name, function)

    # -------------------------------------------------------------- catalogue
    def register_function(self, name: str, function: Callable[..., Any], *, returns: ReturnSpec = OBJECT) -> None:
        """Make `function` callable in EPL; it gets plain values, None for null. Arrays and events are copies for it.

        Errors: UsageError when `name` is no name, a reserved word, or the name of a function or aggregate of EPL.
        """
        check_function_name(name)
        self.functions[name] = function
        self.catalog.functions[name] = returns if isinstance(returns, FunctionType) else FunctionType(returns)

    def define(self, event_type: EventType, *, replace: bool = False) -> None:
        """Add an event type that does not come from EPL.

        Errors: UsageError when a type of that name exists, unless `replace` and no statement uses it.
        """
        name = event_type.name
        if name in self.catalog.event_types:
            found = deployments_using(self._deployer.deployments, [("event type", name)])
            if found and self.catalog.event_types[name] != event_type:
                raise UsageError(f"event type `{name}` is used by {statement_names_text(found)}; drop these first")
            if not replace and not found:
                raise UsageError(f"event type `{name}` exists already")
        self.catalog.event_types[name] = event_type
        self.rewired()

    # -------------------------------------------------------------- variables
    def define_variable(self, name: str, type_: Type, value: object = None, *, constant: bool = False) -> None:
        """Add a variable that does not come from EPL. Errors: UsageError when there is one, or `value` does not fit."""
        if name in self.catalog.variables:
            raise UsageError(f"variable `{name}` exists already")
        fitting = convert_value(name, value, type_)
        simple = constant and type_.of is None and type_.name in SIMPLE
        self.catalog.variables[name] = VariableType(name, type_, constant, fitting if constant else None, simple)
        self.registry.variables = {**self.registry.variables, name: RuntimeVariable(name, type_, fitting)}

    def external_variables(self) -> tuple[tuple[str, Type, Any, bool], ...]:
        """What `define_variable` takes, of every variable: values as they were given, not as statements left them."""
        found = [v for v in self.catalog.variables.values() if v.context is None]
        return tuple((v.name, v.type, self.registry.variables[v.name].given, v.constant) for v in found)

    def get_variable(self, name: str) -> Any:
        """The present value of a variable, of an array a copy. Errors: UsageError with the nearest known name."""
        found = find_variable(name, self.registry.variables)
        return found.value if found.type.of is None else deep_copied(found.value)

    def set_variable(self, name: str, value: object) -> None:
        """Assign a variable: statements read the new value from now on. None is null.

        Errors: UsageError for an unknown name, a constant, and a value that is not of the variable's type.
        """
        self.entered()
        found = find_variable(name, self.registry.variables)
        if self.catalog.variables[name].constant:
            raise UsageError(f"`{name}` is a constant, it cannot be set")
        fitting = convert_value(name, value, found.type)
        with self.turn:
            found.set(fitting)
            if self._queue:
                self.turn.drain()

    # -------------------------------------------------------------- deploying
    @property
    def deployments(self) -> Mapping[str, Deployment]:
        """The deployments, by id, in order."""
        return self._deployer.deployments

    def statement(self, name: str) -> RunningStatement:
        """The running statement `name`. Errors: UsageError with the nearest known name."""
        self.entered()
        return lookup_name("statement", name, self.registry.statements, self.catalog)

    def compile(self, epl: str) -> ModulePlan:
        """Parse, bind and rewrite a module against the present catalogue. Errors: ParseError, BindError."""
        return self._deployer.compile(epl)

    def deploy(self, epl: str | ModulePlan, *, deployment_id: str | None = None) -> Deployment:
        """Compile a module and start it: all of it, or on any error nothing.

        Errors: ParseError, BindError; UsageError when `deployment_id` is taken.
        """
        self.entered()
        return self._deployer.deploy(epl, deployment_id)

    def undeploy(self, deployment_id: str, *, cascade: bool = False) -> None:
        """Stop a deployment and forget what it created.

        Errors: UsageError when there is none, or when others depend on it (named); `cascade` stops these too.
        """
        self.entered()
        self._deployer.undeploy(deployment_id, cascade=cascade)

    def undeploy_statement(self, deployment_id: str, name: str) -> bool:
        """Stop one statement; the rest of its deployment runs on. False: the rest needs it, nothing changed."""
        self.entered()
        return self._deployer.undeploy_statement(deployment_id, name)

    def redeploy(self, deployment_id: str, epl: str) -> Deployment:
        """Replace a deployment by a new module; deployments that depend on it are started afresh from their source.

        All are compiled before anything stops: on an error (ParseError, BindError, of the module or of a dependant that
        no longer fits) everything runs on as it was.
        """
        self.entered()
        return self._deployer.redeploy(deployment_id, epl)

    def _statements_changed(self) -> None:
        """Statements came or went: on those that run depends whether rows are held."""
        holds = any(statement.merges for statement in self.registry.statements.values())
        if holds != self.services.deliveries.holds:
            self.services.deliveries.holds = holds
            for statement in self.registry.statements.values():
                statement.outlet.hold(holds)
        self.rewired()

    def _next_order(self, priority: int) -> tuple[int, int]:
        self._serial += 1
        return (-priority if self.config.prioritized else 0, self._serial)

    def batch(self, types: Sequence[str]) -> BatchReplayer:
        """The entry for many events of `types` at once, as columns: what replays use. See `BatchReplayer`."""
        for name in types:
            self._route(name)
        return BatchReplayer(
            self, types, lambda: (plan for module in self.deployments.values() for plan in module.plan.statements)
        )

    def context(self, name: str) -> Context:
        """The running context `name`. Errors: UsageError with the nearest known name."""
        self.entered()
        return self._deployer.context(name)

    # -------------------------------------------------------------- reading
    def iterate(self, statement: str) -> list[Row]:
        """The rows that the statement's iterator gives now; of a context's partitions by ascending id."""
        return [row for _, rows in self.iterate_partitions(statement) for row in rows]

    def iterate_partitions(
        self, statement: str, selector: Selector | None = None
    ) -> list[tuple[int | None, list[Row]]]:
        """(partition id, rows) of every live partition, or of those that `selector` means, by id.

        Without a context: one entry with id None. Errors: StatementError when an expression of the statement fails on a
        row; UsageError when the selector does not go with the statement's context.
        """
        if statement not in self.registry.statements and any(
            statement == s.name for d in self._deployer.deployments.values() for s in d.plan.statements
        ):
            return []  # create statements deliver nothing and iterate empty
        found = self.statement(statement)
        if selector is not None and found.context is None:
            raise UsageError(f"statement `{statement}` has no context, its partitions cannot be selected")
        wanted = None if selector is None or found.context is None else select_partitions(selector, found.context)
        fresh = found.outlet.layout.fresh
        try:
            return [(id_, [fresh(row) for row in rows]) for id_, rows in found.iterated(self.now, wanted)]
        except Exception as failure:
            raise found.error(failure) from failure

    def query(self, epl: str, selector: Selector | None = None) -> list[Row]:
        """The rows that answer a fire-and-forget query over named windows and tables, of the partitions of `selector`.

        Errors: ParseError, BindError; StatementError where an expression fails on a row.
        """
        self.entered()
        self.turn.check()
        return run_query(self, epl, selector).rows

    def partitions(self, context: str) -> list[dict[str, Any]]:
        """The live partitions of a context, by id: built-in properties, and under ``statements`` who uses them."""
        found = self.context(context)
        names = [s.name for s in found.statements if s is not None]
        return [{**deep_copied(properties), "statements": list(names)} for properties in found.describe()]

    def end_partition(self, context: str, id_: int) -> None:
        """End a partition by hand, as a condition of its context would: output when terminated, then it is forgotten.

        Errors: UsageError when there is none with this id; StatementError as for `send`.
        """
        with self.turn:
            if not self.context(context).end_partition(id_):
                raise UsageError(f"context `{context}` has no live partition {id_}")
            if self._queue:
                self.turn.drain()

    def add_partition_listener(self, context: str | None, listener: PartitionListener) -> None:
        """Call ``listener(Notice)`` when a partition is allocated or deallocated, or the context (de)activated.

        `context` None: of all contexts, also of later ones.
        """
        self._notices.add(context, listener)
        self.rewired()

    def remove_partition_listener(self, context: str | None, listener: PartitionListener) -> None:
        """Errors: ValueError if `listener` was not added for `context`."""
        self._notices.remove(context, listener)
        self.rewired()

    def state(self, statement: str, partitions: Container[int] | None = None, partials: int = 200) -> list[Row]:
        """Plain data about what a statement holds, one entry per partition: retained events, groups, timers, and of a
        pattern the partial matches (how many, and of each partition the first `partials`). `partitions`: only of these.

        Inspection settles lazily expired windows, which nobody can see, and changes nothing else.
        """
        found = self.statement(statement)
        return found.inspect(self.now, partitions, partials)

    # -------------------------------------------------------------- snapshots
    def snapshot(self, partition: tuple[str, int] | None = None) -> bytes:
        """All but listeners and functions; or one context partition, (context, id).

        Errors: SnapshotError naming who holds a value that cannot be saved; UsageError for no such partition.
        """
        self.entered()
        return save_runtime(self) if partition is None else save_partition(self, *partition)

    def restore_partition(self, data: bytes) -> int:
        """Put in a partition that a runtime of the same modules saved; its id. Errors: SnapshotError."""
        self.entered()
        return restore_partition(self, data)

    @classmethod
    def restored(cls, data: bytes, functions: Mapping[str, Callable[..., Any]]) -> Runtime:
        """A runtime that goes on as the one of a snapshot would have, with the Python functions that it had registered.

        Errors: SnapshotError for what is no snapshot, is damaged, or was made by a version with other state.
        """
        return restore_runtime(cls, data, functions)[0]
