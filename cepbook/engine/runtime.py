"""`Runtime`: compile, deploy, send, advance, iterate. One kernel-side engine with an external clock.

One event takes this way: ``send`` → filter index → context partition → generated ``on_event`` → listeners and sinks;
rows of ``insert into`` queue up and follow, one event at a time, when all statements have seen the event before.
Time is an input: ``advance(t)`` fires everything due, statement by statement, and nothing here reads a wall clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from cepbook.engine.config import Config
from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.partition_listeners import PartitionListener, PartitionListeners
from cepbook.engine.contexts.selectors import Selector, select_partitions
from cepbook.engine.delivery.delta import Row
from cepbook.engine.deploy.deployer import Deployer
from cepbook.engine.deploy.deployments import Deployment, deployments_using, statement_names_text
from cepbook.engine.deploy.fire_and_forget import run_query
from cepbook.engine.deploy.naming import check_function_name, lookup_name
from cepbook.engine.dispatch.failures import ErrorListener, FailureLog, attribute_failure
from cepbook.engine.dispatch.routing import EventRoutes, build_route, ignore_call
from cepbook.engine.dispatch.senders import build_handler_sender, build_sender
from cepbook.engine.dispatch.turn import Turn
from cepbook.engine.expressions.primitives import deep_copied
from cepbook.engine.replay.batch_replayer import BatchReplayer
from cepbook.engine.services import DeliveryHolder
from cepbook.engine.snapshot.partition_snapshot import restore_partition, save_partition
from cepbook.engine.snapshot.runtime_snapshot import restore_runtime, save_runtime
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.statements.variables import SIMPLE, RuntimeVariable, Variables, convert_value, find_variable
from cepbook.engine.subscriptions.filter_index import EventHandler
from cepbook.engine.subscriptions.subscription_order import latest_first_key
from cepbook.engine.time.clock import LAST_TIME, NEVER, Clock
from cepbook.errors import EventError, Interrupted, StatementError, UsageError, hint_line
from cepbook.lang.plan.catalog import Catalog, EventType, FunctionType, ReturnSpec, VariableType
from cepbook.lang.plan.nodes import ModulePlan
from cepbook.lang.types import OBJECT, Type

__all__ = ["Config", "Deployment", "Runtime", "RunningStatement"]


class Runtime:
    """A running engine.

    `now` is engine time in ms, `catalog` what modules may refer to. `errors` holds the last run-time failures of
    statements; with an error listener they are reported to it, without one `send` and `advance` raise the first of them
    after everything else was done.
    """

    SAVED = ("_serial",)

    def __init__(
        self, config: Config = Config(), *, start: int = 0, functions: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        self.config = config
        self.clock = Clock(start, None if config.prioritized else latest_first_key)
        self.functions: dict[str, Callable[..., Any]] = {}
        self._failures = FailureLog()
        self.version = 0
        self._notices = PartitionListeners(self.report)
        self._routes: dict[str, EventHandler] = {}  # built at the first event of the type after a change
        self.routes = EventRoutes(self, self._routes, self._route, self._caught)
        self.entered: Callable[[], object] = ignore_call  # called before anything is done or read from outside
        self.holds = False  # whether statements hold their rows until all have seen the event
        self.rounds = Turn(self.clock, self._failures, self._known_route, self._caught, self.rewired)
        self._queue = self.rounds.queue
        self.changes = self.rounds.changes
        self.activations = self.rounds.activations
        self._serial = 0
        modules = Deployer(self, self.rounds, self.functions, self._notices, self._next_order, self._changed)
        self._modules = modules
        self._statements, self._contexts = modules.statements, modules.contexts
        self.stores = modules.stores  # the named windows and tables
        for name, function in (functions or {}).items():
            self.register_function(name, function)

    # -------------------------------------------------------------- catalogue
    @property
    def catalog(self) -> Catalog:
        """What modules may refer to."""
        return self._modules.catalog

    @property
    def now(self) -> int:
        """Engine time in ms."""
        return self.clock.now

    @property
    def next_due(self) -> int | None:
        """When the next timer is due, in ms; None if none is."""
        self.entered()
        return None if self.clock.due >= NEVER else self.clock.due

    def due_after(self, time: int) -> int | None:
        """When the next timer behind `time` is due, in ms; None if none is."""
        due = self.clock.beyond(time)
        return None if due >= NEVER else due

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
            found = deployments_using(self._modules.deployments, [("event type", name)])
            if found and self.catalog.event_types[name] != event_type:
                raise UsageError(f"event type `{name}` is used by {statement_names_text(found)}; drop these first")
            if not replace and not found:
                raise UsageError(f"event type `{name}` exists already")
        self.catalog.event_types[name] = event_type
        self.rewired()

    # -------------------------------------------------------------- variables
    @property
    def variables(self) -> Variables:
        """The variables and constants, by name."""
        return self._modules.variables

    def define_variable(self, name: str, type_: Type, value: object = None, *, constant: bool = False) -> None:
        """Add a variable that does not come from EPL. Errors: UsageError when there is one, or `value` does not fit."""
        if name in self.catalog.variables:
            raise UsageError(f"variable `{name}` exists already")
        fitting = convert_value(name, value, type_)
        simple = constant and type_.of is None and type_.name in SIMPLE
        self.catalog.variables[name] = VariableType(name, type_, constant, fitting if constant else None, simple)
        self._modules.variables = {**self._modules.variables, name: RuntimeVariable(name, type_, fitting)}

    def external_variables(self) -> tuple[tuple[str, Type, Any, bool], ...]:
        """What `define_variable` takes, of every variable: values as they were given, not as statements left them."""
        found = [v for v in self.catalog.variables.values() if v.context is None]
        return tuple((v.name, v.type, self._modules.variables[v.name].given, v.constant) for v in found)

    def get_variable(self, name: str) -> Any:
        """The present value of a variable, of an array a copy. Errors: UsageError with the nearest known name."""
        found = find_variable(name, self._modules.variables)
        return found.value if found.type.of is None else deep_copied(found.value)

    def set_variable(self, name: str, value: object) -> None:
        """Assign a variable: statements read the new value from now on. None is null.

        Errors: UsageError for an unknown name, a constant, and a value that is not of the variable's type.
        """
        self.entered()
        found = find_variable(name, self._modules.variables)
        if self.catalog.variables[name].constant:
            raise UsageError(f"`{name}` is a constant, it cannot be set")
        fitting = convert_value(name, value, found.type)
        with self.rounds:
            found.set(fitting)
            if self._queue:
                self.rounds.drain()

    # -------------------------------------------------------------- deploying
    @property
    def statements(self) -> Mapping[str, RunningStatement]:
        """The statements that run, by name, in deployment order."""
        return self._statements

    @property
    def deployments(self) -> Mapping[str, Deployment]:
        """The deployments, by id, in order."""
        return self._modules.deployments

    def statement(self, name: str) -> RunningStatement:
        """The running statement `name`. Errors: UsageError with the nearest known name."""
        self.entered()
        return lookup_name("statement", name, self._statements, self.catalog)

    def compile(self, epl: str) -> ModulePlan:
        """Parse, bind and rewrite a module against the present catalogue. Errors: ParseError, BindError."""
        return self._modules.compile(epl)

    def deploy(self, epl: str | ModulePlan, *, deployment_id: str | None = None) -> Deployment:
        """Compile a module and start it: all of it, or on any error nothing.

        Errors: ParseError, BindError; UsageError when `deployment_id` is taken.
        """
        self.entered()
        return self._modules.deploy(epl, deployment_id)

    def undeploy(self, deployment_id: str, *, cascade: bool = False) -> None:
        """Stop a deployment and forget what it created.

        Errors: UsageError when there is none, or when others depend on it (named); `cascade` stops these too.
        """
        self.entered()
        self._modules.undeploy(deployment_id, cascade=cascade)

    def undeploy_statement(self, deployment_id: str, name: str) -> bool:
        """Stop one statement; the rest of its deployment runs on. False: the rest needs it, nothing changed."""
        self.entered()
        return self._modules.undeploy_statement(deployment_id, name)

    def redeploy(self, deployment_id: str, epl: str) -> Deployment:
        """Replace a deployment by a new module; deployments that depend on it are started afresh from their source.

        All are compiled before anything stops: on an error (ParseError, BindError, of the module or of a dependant that
        no longer fits) everything runs on as it was.
        """
        self.entered()
        return self._modules.redeploy(deployment_id, epl)

    def _changed(self) -> None:
        """Statements came or went: on those that run depends whether rows are held."""
        holds = any(statement.merges for statement in self._statements.values())
        if holds != self.holds:
            self.holds = holds
            for statement in self._statements.values():
                statement.outlet.hold(holds)
        self.rewired()

    def _next_order(self, priority: int) -> tuple[int, int]:
        self._serial += 1
        return (-priority if self.config.prioritized else 0, self._serial)

    # -------------------------------------------------------------- events
    def send(self, type_name: str, event: dict[str, Any], at: int | None = None) -> None:
        """Process one event. The dict is the event: it is not copied, and a property that it lacks is null.

        With `at` (ms) the clock first advances to the event's time, unless it is there or past it already.
        Errors: EventError for an unknown type; StatementError when a statement failed and nobody listens for errors.
        """
        try:
            if at is not None:
                clock = self.clock
                if at > clock.now:
                    if at < clock.due:
                        clock.now = at
                    else:
                        self.rounds.advance(at, raising=False)
            try:
                self._routes[type_name](event)
            except Exception as failure:  # noqa: BLE001 - attributed to its statement
                if type_name in self._routes:
                    self._caught(failure)
                else:
                    self._route(type_name)
                    self.send(type_name, event)
            if self._queue:
                self.rounds.drain()
        except BaseException as failure:
            self.rounds.broke(failure)
            raise

    def send_together(self, events: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Process events, (type, event) each, that arrive together: one activation. To EPL they come one by one.

        Errors: as `send`.
        """
        with self.rounds:
            with self.activations.gathering():
                for type_name, event in events:
                    self.send(type_name, event)
            self.rounds.settled()

    def sender(self, type_name: str, *, time: str | None = None) -> Callable[[dict[str, Any]], None]:
        """`send` with the routing resolved once; stays valid when statements come and go.

        `time` names the property that holds the event's time in ms: the clock then advances to it first, as with
        ``send(…, at=…)``.
        """
        self._route(type_name)
        return build_sender(self._routes, type_name, self.clock, self.rounds, self._caught, time)

    def sender_to(self, type_name: str, statements: Container[str]) -> Callable[[dict[str, Any]], None]:
        """As `sender`, to some statements, with all of their contexts; valid until statements come or go."""
        return build_handler_sender(self.routes.only(type_name, statements), self.rounds, self._caught)

    def enqueue_rows(self, type_name: str, rows: list[Row], partition: Any = None) -> None:
        """As `Host.enqueue`."""
        for reader, number in self.activations.readers.get(type_name, ()):
            reader.put(number, rows)
        store = self.stores.get(type_name)
        if store is None or store.type.kind == "window":
            self._queue.append((type_name, rows))
            return
        for row in rows:  # a table has them at once
            store.inserted(row, partition)

    def batch(self, types: Sequence[str]) -> BatchReplayer:
        """The entry for many events of `types` at once, as columns: what replays use. See `BatchReplayer`."""
        for name in types:
            self._route(name)
        return BatchReplayer(self, types)

    def held(self, statement: DeliveryHolder) -> None:
        """`statement` holds rows until everybody has seen the present event (or instant)."""
        self.rounds.held(statement)

    def _route(self, type_name: str) -> EventHandler:
        route = self._routes.get(type_name)
        if route is None:
            if type_name not in self.catalog.event_types:
                hint = hint_line(type_name, self.catalog.event_types)
                raise EventError(f"there is no event type `{type_name}`{hint}")
            route = self._routes[type_name] = self._unbuilt_route(type_name)
        return route

    def _known_route(self, type_name: str) -> EventHandler | None:
        store = self.stores.get(type_name)
        if store is not None:
            return self.routes.into(store)
        return self._route(type_name) if type_name in self._modules.catalog.event_types else None

    def _unbuilt_route(self, type_name: str) -> EventHandler:
        def first(event: Any) -> None:
            self.rounds.check()
            if type_name not in self.catalog.event_types:
                raise EventError(f"event type `{type_name}` was dropped")
            self._routes[type_name] = build_route(self, type_name, self._caught)
            self._routes[type_name](event)

        return first

    def rewired(self) -> None:
        """Statements or their listeners changed: routes are built anew at their next event."""
        self.version += 1
        for context in self._contexts.values():
            context.rewired()
        for name in self._routes:
            self._routes[name] = self._unbuilt_route(name)
        self.rounds.frozen()

    def readers(self, type_name: str) -> list[RunningStatement]:
        """The statements that read events of `type_name`, in delivery order."""
        found = [s for s in self._statements.values() if s.reads(type_name)]
        return sorted(found, key=lambda s: s.order)

    @property
    def contexts(self) -> Mapping[str, Context]:
        """The running contexts, by name."""
        return self._contexts

    def context(self, name: str) -> Context:
        """The running context `name`. Errors: UsageError with the nearest known name."""
        self.entered()
        return self._modules.context(name)

    # -------------------------------------------------------------- time
    def advance(self, t: int, *, stepping: bool = False) -> None:
        """Set the clock to `t` ms. Everything due fires once, at `t`; `stepping` stops at every due time on the way.

        Going back is allowed and fires nothing. Errors: StatementError as for `send`; Interrupted between two steps.
        """
        self.entered()
        clock = self.clock
        if t < clock.due:
            clock.now = t
            return
        if t > LAST_TIME:
            raise EventError(f"{t} ms is beyond the last time that the clock can show ({LAST_TIME})")
        due = clock.due
        while stepping and due < t:
            if self.rounds.halt:
                raise Interrupted(f"interrupted: the clock stopped at {clock.now} on its way to {t}")
            self.rounds.advance(due)
            due = clock.beyond(due)  # what waits for the next advance, whatever its time, is no reason for one
        self.rounds.advance(t)

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
        if statement not in self._statements and any(
            statement == s.name for d in self._modules.deployments.values() for s in d.plan.statements
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
        self.rounds.check()
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
        with self.rounds:
            if not self.context(context).end_partition(id_):
                raise UsageError(f"context `{context}` has no live partition {id_}")
            if self._queue:
                self.rounds.drain()

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

    # -------------------------------------------------------------- errors
    @property
    def errors(self) -> deque[StatementError]:
        """The last run-time failures of statements."""
        return self._failures.recorded

    def add_error_listener(self, listener: ErrorListener) -> None:
        """Call ``listener(StatementError)`` for run-time failures; `send` and `advance` then do not raise them."""
        self._failures.listeners.append(listener)

    def remove_error_listener(self, listener: ErrorListener) -> None:
        """Errors: ValueError if `listener` was not added."""
        self._failures.listeners.remove(listener)

    def report(self, error: StatementError) -> None:
        """Record a statement's failure and tell whoever listens."""
        if self._failures.report(error):
            self.rounds.request_flush()

    def raise_pending(self) -> None:
        """Raise the first failure that no error listener was told of."""
        self._failures.raise_pending()

    def _caught(self, failure: Exception) -> None:
        """A failure on an event: of its statement, or one to be raised when the round is over."""
        if isinstance(failure, EventError | UsageError):
            raise failure
        if not attribute_failure(failure, self._statements.values()):
            self._failures.keep(failure)
            self.rounds.request_flush()
