"""The event engine: events and time on their way through the running statements.

The engine owns the clock, the turn and the routes. It knows neither EPL text nor deployments: these are above it, in
`Runtime`, and put statements and contexts into its registry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from cepbook.engine.config import Config
from cepbook.engine.contexts.context import Context
from cepbook.engine.delivery.delta import Row
from cepbook.engine.delivery.outlet import DeliveryServices, Precedence
from cepbook.engine.dispatch.failures import ErrorListener, FailureLog, attribute_failure
from cepbook.engine.dispatch.routing import EventRoutes, StatementRegistry, ignore_call
from cepbook.engine.dispatch.turn import Turn, build_sender
from cepbook.engine.relations.store import Store
from cepbook.engine.services import EngineServices
from cepbook.engine.statements.state_limit import StateLimit
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.statements.variables import Variables
from cepbook.engine.subscriptions.filter_index import EventHandler
from cepbook.engine.subscriptions.subscription_order import latest_first_key
from cepbook.engine.time.clock import LAST_TIME, NEVER, Clock
from cepbook.errors import EventError, Interrupted, StatementError, UsageError, hint_line
from cepbook.lang.plan.catalog import Catalog

_WINDOWS_FIRST = 1 << 61  # added to the rank of rows for named windows


class EventEngine:
    """Processes events and advances of time, one turn each."""

    def __init__(self, config: Config, start: int) -> None:
        self.config = config
        self.clock = Clock(start, None if config.prioritized else latest_first_key)
        self._failures = FailureLog()
        self.entered: Callable[[], object] = ignore_call
        """Called before anything is done or read from outside."""

        self.turn = Turn(self.clock, self._failures, self._known_route, self._caught, self.rewired)
        self._queue = self.turn.queue
        relistened = partial(self.rewired, whole=False)
        deliveries = DeliveryServices(self.enqueue_rows, self.turn.request_release, self.rewired, relistened)
        changes, activations = self.turn.changes, self.turn.activations
        self.services = EngineServices(config, self.clock, deliveries, changes, activations, self.report)
        self.registry = StatementRegistry(self.services)
        self._activations = activations
        self.statements: Mapping[str, RunningStatement] = self.registry.statements  # in deployment order
        self.contexts: Mapping[str, Context] = self.registry.contexts
        self.stores: Mapping[str, Store] = self.services.stores
        self.state_limit = self._state_limit()
        self._routes: dict[str, EventHandler] = {}  # built at the first event of the type after a change
        self._built: set[str] = set()  # the types whose routes are built
        self._by_precedence = config.precedence
        self._updates = False  # True if a statement is `update istream`
        self.routes = EventRoutes(self.registry, self.turn, self._routes, self._route, self._caught)

    def _state_limit(self) -> StateLimit | None:
        limit = self.config.state_limit
        return None if limit is None else StateLimit(limit, self.statements)

    def limit_state(self, limit: int | str | None) -> None:
        """Change `Config.state_limit`. Errors: UsageError for an invalid value."""
        self.config = replace(self.config, state_limit=limit)
        self.state_limit = self._state_limit()

    @property
    def catalog(self) -> Catalog:
        """Names that modules may refer to."""
        return self.services.catalog

    @property
    def version(self) -> int:
        """Grows with every change of statements or listeners."""
        return self.registry.version

    @property
    def now(self) -> int:
        """Engine time in ms."""
        return self.clock.now

    @property
    def variables(self) -> Variables:
        """The variables and constants, by name."""
        return self.registry.variables

    def readers(self, type_name: str) -> list[RunningStatement]:
        """Return the statements that read events of a type, in delivery order."""
        return self.registry.readers(type_name)

    def send(self, type_name: str, event: dict[str, Any], at: int | None = None) -> None:
        """Process one event. The dict is the event: it is not copied, and a missing property is null.

        With `at` (ms) the clock first advances to the event's time, unless it is there or past it already. Errors:
        EventError for an unknown type; StatementError if a statement failed and there is no error listener.
        """
        try:
            if at is not None:
                clock = self.clock
                if at > clock.now:
                    if at < clock.due:
                        clock.now = at
                    else:
                        self.turn.advance(at, raising=False)
            try:
                self._routes[type_name](event)
            except Exception as failure:  # noqa: BLE001 - attributed to its statement
                if type_name in self._routes:
                    self._caught(failure)
                else:
                    self._route(type_name)
                    self.send(type_name, event)
            if self._queue:
                self.turn.drain()
        except BaseException as failure:
            self.turn.mark_broken(failure)
            raise

    def send_together(self, events: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Process events (type, event) that arrive together as one activation. Errors as `send`."""
        with self.turn:
            with self._activations.gathering():
                for type_name, event in events:
                    self.send(type_name, event)
            self.turn.settled()

    def sender(self, type_name: str, *, time: str | None = None) -> Callable[[dict[str, Any]], None]:
        """Return `send` for one type with the routing resolved once; it stays valid when statements come and go.

        `time` names the property with the event's time in ms: the clock then advances to it first, as with `send(…,
        at=…)`.
        """
        self._route(type_name)
        return build_sender(self._routes, type_name, self.turn, self._caught, time)

    def sender_to(self, type_name: str, statements: Container[str]) -> Callable[[dict[str, Any]], None]:
        """Return a sender to some statements, with all of their contexts; valid until statements come or go."""
        routes = {type_name: self.routes.only(type_name, statements)}
        return build_sender(routes, type_name, self.turn, self._caught)

    def enqueue_rows(
        self, type_name: str, rows: list[Row], partition: Any = None, precedence: Precedence | None = None
    ) -> None:
        """Queue rows for a stream or named window. Rows for a table are inserted at once."""
        for reader, number in self._activations.readers.get(type_name, ()):
            reader.put(number, rows)
        store = self.stores.get(type_name)
        if store is not None and store.type.kind == "table":
            for row in rows:
                store.inserted(row, partition)
            return
        if self._updates:
            rows = self.routes.update(type_name, rows)
        first = 0 if store is None else _WINDOWS_FIRST
        if not self._by_precedence:
            if store is None:
                self._queue.append((type_name, rows, 0))  # the lowest rank
            else:
                self.turn.enqueue(type_name, rows, first)
            return
        for row in rows:
            rank = 0 if precedence is None else precedence(row)[0] or 0
            self.turn.enqueue(type_name, [row], first + rank)

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
            return self.routes.updated(type_name, store)
        if type_name not in self.services.catalog.event_types:
            return None
        return self.routes.updated(type_name, None) if self._updates else self._route(type_name)

    def _unbuilt_route(self, type_name: str) -> EventHandler:
        def first(event: Any) -> None:
            self.turn.check()
            if type_name not in self.catalog.event_types:
                raise EventError(f"event type `{type_name}` was dropped")
            self._built.add(type_name)
            self._routes[type_name] = self.routes.build(type_name)
            self._routes[type_name](event)

        return first

    def rewired(self, *, whole: bool = True) -> None:
        """Rebuild routes at their next event, because statements or listeners changed; their indexes only if the
        `whole` of them may differ, not if statements came or went.
        """
        self.registry.version += 1
        self._updates = bool(self.registry.updating)
        self.routes.rewired(whole=whole)
        for context in self.registry.contexts.values():
            context.rewired()
        for name in self._built:
            self._routes[name] = self._unbuilt_route(name)
        self._built.clear()
        self.turn.block_fast_paths()

    @property
    def next_due(self) -> int | None:
        """The time of the next timer in ms, or None."""
        self.entered()
        return None if self.clock.due >= NEVER else self.clock.due

    def due_after(self, time: int) -> int | None:
        """Return the time of the next timer after `time` in ms, or None."""
        due = self.clock.beyond(time)
        return None if due >= NEVER else due

    def advance(self, t: int, *, stepping: bool = False) -> None:
        """Advance the clock to `t` ms. Everything due fires once, at `t`; with `stepping` the clock stops at every due
        time.

        Setting the clock back is allowed and fires nothing. Errors: StatementError as for `send`; Interrupted between
        two steps.
        """
        self.entered()
        clock = self.clock
        if t < clock.due:
            clock.now = t
            return
        if t > LAST_TIME:
            raise EventError(f"{t} ms is later than the last time of the clock ({LAST_TIME})")
        due = clock.due
        while stepping and due < t:
            if self.turn.halt:
                raise Interrupted(f"interrupted: the clock stopped at {clock.now} on its way to {t}")
            self.turn.advance(max(due, clock.now))
            due = clock.beyond(clock.now)  # a timer that waits for the next advance does not cause one
        self.turn.advance(t)

    @property
    def errors(self) -> deque[StatementError]:
        """The latest run-time failures of statements."""
        return self._failures.recorded

    def add_error_listener(self, listener: ErrorListener) -> None:
        """Call `listener(StatementError)` for run-time failures; `send` and `advance` then do not raise them."""
        self._failures.listeners.append(listener)

    def remove_error_listener(self, listener: ErrorListener) -> None:
        """Errors: ValueError if `listener` was not added."""
        self._failures.listeners.remove(listener)

    def report(self, error: StatementError) -> None:
        """Record a failure of a statement and notify the error listeners."""
        if self._failures.report(error):
            self.turn.request_flush()

    def _caught(self, failure: Exception) -> None:
        if isinstance(failure, EventError | UsageError):
            raise failure
        if not attribute_failure(failure, self.registry.statements.values()):
            self._failures.keep(failure)
            self.turn.request_flush()
