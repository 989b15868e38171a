"""The registry of everything that runs, and routes: which of it sees an event of a type, and in which order.

A route is a function of one event, composed from the inside out:

1. `build_dispatcher` calls the subscribers, in delivery order, through the filter index.
2. If a statement assigns a variable that a filter reads, all filters are evaluated with the former value.
3. If a reader asks for the type of an event, the event is wrapped in a `TypedEvent`.
4. Statements with `update istream` change the event, or drop it, before anything else sees it. A derived event passes
   them when it is inserted, before the statement that inserts it delivers.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.members import ContextSubscriptions
from cepbook.engine.dispatch.turn import Turn, build_sender
from cepbook.engine.expressions.primitives import TypedEvent
from cepbook.engine.relations.store import Store
from cepbook.engine.services import EngineServices
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.statements.update import combine_updates, handler_after_updates
from cepbook.engine.statements.variables import Variables
from cepbook.engine.subscriptions.filter_index import (
    EventHandler,
    FilterIndex,
    StatementOrder,
    Subscription,
    build_dispatcher,
)
from cepbook.engine.subscriptions.subscription_order import unprioritized_order
from cepbook.lang.plan.catalog import Catalog

AFTER_ALL: StatementOrder = (1 << 62, 0)  # an order behind that of every statement


class StatementRegistry:
    """The running statements and contexts by name, with the catalog and the variables that further modules may use.

    `version` grows with every change of statements or listeners. Routes and replay plans are derived from the registry
    and are valid for one version.
    """

    def __init__(self, services: EngineServices) -> None:
        self.services = services
        self.stores = services.stores
        self.version = 0
        self.variables: Variables = {}
        self.statements: dict[str, RunningStatement] = {}
        self.updating: set[str] = set()  # the statements with `update istream`
        self.assigning: set[str] = set()  # the statements that assign variables
        self.type_reading: set[str] = set()  # the statements that read the types of events
        self.changed: set[str] = set()  # the statements that came or went since the last routes, and their contexts
        self.contexts: dict[str, Context] = {}

    @property
    def catalog(self) -> Catalog:
        """Names that modules may refer to."""
        return self.services.catalog

    @catalog.setter
    def catalog(self, catalog: Catalog) -> None:
        self.services.catalog = catalog

    def add(self, statement: RunningStatement) -> None:
        """Add a statement."""
        self.statements[statement.name] = statement
        self.note_changed(statement)
        if statement.steps.emit.changes:
            self.updating.add(statement.name)
        if statement.steps.emit.assigned:
            self.assigning.add(statement.name)
        if statement.program.reads_types:
            self.type_reading.add(statement.name)

    def remove(self, name: str) -> None:
        """Remove a statement, if there is one of the name."""
        statement = self.statements.pop(name, None)
        if statement is not None:
            self.note_changed(statement)
        for names in (self.updating, self.assigning, self.type_reading):
            names.discard(name)

    def note_changed(self, statement: RunningStatement) -> None:
        """Note that a statement came or went."""
        self.changed.add(statement.name)
        if statement.steps.context is not None:
            self.changed.add(statement.steps.context)

    def readers(self, type_name: str) -> list[RunningStatement]:
        """Return the statements that read events of a type, in delivery order."""
        readers = [statement for statement in self.statements.values() if statement.reads(type_name)]
        return sorted(readers, key=lambda statement: statement.order)


@dataclass(eq=False)
class EventRoutes:
    """Routes to a subset of the statements, and notification of events that come from outside.

    `handlers` has the route of each type to all statements; `route` builds a missing one. `dispatched` is the order of
    the statement that an event of a subset route has reached (`only`).
    """

    _registry: StatementRegistry
    _turn: Turn
    _handlers: dict[str, EventHandler]
    _route: Callable[[str], EventHandler]
    _failed: Callable[[Exception], None]
    dispatched: StatementOrder = AFTER_ALL
    _updated: dict[str, EventHandler] = field(default_factory=dict)
    _updates: dict[str, Callable[[Any], Any] | None] = field(default_factory=dict)
    _indexed: dict[str, _TypeIndex] = field(default_factory=dict)

    def rewired(self, *, whole: bool = True) -> None:
        """Drop routes that are built anew at the next event. Indexes remain if not the `whole` of them changes: the
        statements that came or went are exchanged in them.
        """
        registry, former, self._indexed = self._registry, {} if whole else self._indexed, {}
        remaining = {name: indexed for name, indexed in former.items() if indexed.may_change(registry, name)}
        for indexed in remaining.values():
            indexed.remove(registry.changed)
        self._indexed = remaining  # a change that is cut short leaves none
        registry.changed.clear()
        self._updated.clear()
        self._updates.clear()

    def build(self, type_name: str) -> EventHandler:
        """Return a function that passes an event of `type_name` to all subscribers in delivery order."""
        return handler_after_updates(_updates(self._registry, type_name, None), self._build_updated(type_name))

    def _build_updated(self, type_name: str) -> EventHandler:
        indexed = self._type_index(type_name)
        dispatch = indexed.index.dispatcher(self._failed, indexed.contexts)
        return _with_type(self._registry, type_name, _with_former_variables(self._registry, type_name, dispatch))

    def _type_index(self, type_name: str) -> _TypeIndex:
        """Return the index of the present subscriptions to a type."""
        registry = self._registry
        indexed = self._indexed.pop(type_name, None)
        if indexed is None or not indexed.add_changed(registry):
            indexed = _TypeIndex(registry, type_name)
        self._indexed[type_name] = indexed  # a change that is cut short leaves none
        return indexed

    def update(self, type_name: str, rows: list[Any]) -> list[Any]:
        """Return derived events as `update istream` changes them, without those that are dropped."""
        if type_name not in self._updates:
            self._updates[type_name] = combine_updates(_updates(self._registry, type_name, None))
        update = self._updates[type_name]
        return rows if update is None else [event for event in map(update, rows) if event is not None]

    def updated(self, type_name: str, store: Store | None) -> EventHandler:
        """Return the route of derived events, which the updates have changed already. A row of `store` is inserted, and
        passed to patterns as an event.
        """
        handler = self._updated.get(type_name)
        if handler is None:
            handler = dispatch = self._build_updated(type_name)
            if store is not None:

                def insert(row: Any) -> None:
                    try:
                        store.inserted(row)
                    finally:
                        dispatch(row)

                handler = insert
            self._updated[type_name] = handler
        return handler

    def call_counter(self, type_name: str) -> Callable[[Any], int]:
        """Return a function that counts the handlers that the filter index calls for an event; valid until a change."""
        index = self._type_index(type_name).index
        root = index.root

        def count(event: Any) -> int:
            handlers: list[tuple[StatementOrder, EventHandler]] = []
            try:
                root.match(event, handlers)
            except Exception:  # noqa: BLE001 - a value that cannot be looked up: every statement is called
                return len(index)
            return len(handlers)

        return count

    def only(self, type_name: str, names: Container[str]) -> EventHandler:
        """Return a function that passes events of a type to the named statements; valid until the next change."""
        route = self._route_among(type_name, names, self._noting_order)

        def dispatch(event: Any) -> None:
            try:
                route(event)
            except Exception as failure:  # noqa: BLE001 - attributed to its statement
                self._failed(failure)
            self.dispatched = AFTER_ALL

        return dispatch

    def sender_for_group(self, type_name: str, names: Container[str]) -> Callable[[Any], None]:
        """Return a sender to the named statements, which are all statements of their contexts; valid until a change."""
        route = self._route_among(type_name, names, lambda subscription: subscription)
        return build_sender({type_name: route}, type_name, self._turn, self._failed)

    def _route_among(
        self, type_name: str, names: Container[str], wrap: Callable[[Subscription], Subscription]
    ) -> EventHandler:
        subscriptions, contexts = _subscriptions(self._registry, type_name, names)
        dispatch = build_dispatcher([wrap(subscription) for subscription in subscriptions], self._failed, contexts)
        dispatch = _with_type(self._registry, type_name, _with_former_variables(self._registry, type_name, dispatch))
        return handler_after_updates(_updates(self._registry, type_name, names), dispatch)

    def _noting_order(self, subscription: Subscription) -> Subscription:
        order = subscription.order

        def noting(handler: EventHandler) -> EventHandler:
            def handle(*event: Any) -> object:
                self.dispatched = order
                return handler(*event)

            return handle

        return replace(subscription, checked=noting(subscription.checked), matched=noting(subscription.matched))

    @contextmanager
    def announced(self, entered: Callable[[], None], derived: Container[str]) -> Iterator[None]:
        """Within the block, call `entered` before any event is dispatched, except events of the types `derived`."""
        types = [name for name in self._registry.catalog.event_types if name not in derived]
        former = {name: self._route(name) for name in types}
        announcing = {name: self._announcing(name, entered, handler) for name, handler in former.items()}
        self._handlers.update(announcing)
        try:
            yield
        finally:
            for name, handler in announcing.items():
                if self._handlers[name] is handler:
                    self._handlers[name] = former[name]

    def _announcing(self, type_name: str, entered: Callable[[], None], handler: EventHandler) -> EventHandler:
        def announce(event: Any) -> object:
            entered()
            present = self._handlers[type_name]
            return (handler if present is announce else present)(event)

        return announce


def ignore_call() -> None:
    """Do nothing: no replay observes calls from outside."""


class _TypeIndex:
    """The index of the subscriptions to a type, and the number of context slots of an event.

    It changes with the statements: one that came or went is exchanged, with the subscription of its context itself.
    """

    __slots__ = ("_changed", "_event_type", "_free", "_own", "_parts", "_type_name", "contexts", "index")

    def __init__(self, registry: StatementRegistry, type_name: str) -> None:
        self.contexts = 0
        self._type_name = type_name
        self._event_type = registry.catalog.event_types.get(type_name)
        self._changed: set[str] = set()  # the statements and contexts that came or went
        self._own: dict[str, list[Subscription]] = {}  # by statement without context
        self._parts: dict[str, ContextSubscriptions] = {}  # by context
        self._free: list[int] = []  # positions of contexts that went
        if registry.services.config.prioritized:
            self.index = FilterIndex([])
            self._add(registry.contexts.values(), registry.readers(type_name))
        else:
            subscriptions, self.contexts = _subscriptions(registry, type_name, None)
            self.index = FilterIndex(subscriptions)

    def may_change(self, registry: StatementRegistry, type_name: str) -> bool:
        """Return whether statements can be exchanged: the place of each is its own, and the type is the same."""
        same = registry.catalog.event_types.get(type_name) is self._event_type
        return same and registry.services.config.prioritized

    def remove(self, names: Set[str]) -> None:
        """Remove the subscriptions of statements and contexts that came or went."""
        self._changed.update(names)
        for name in names:
            of_context = self._parts[name].discard(names) if name in self._parts else ()
            for subscription in (*self._own.pop(name, ()), *of_context):
                self.index.remove(subscription)

    def add_changed(self, registry: StatementRegistry) -> bool:
        """Add the subscriptions of statements and contexts that came since the last call. Return False if the index has
        to be built anew: the first context came or the last one went, or statements with `@Drop` have one place.
        """
        former = self.contexts
        for name in self._changed:
            if name in self._parts and name not in registry.contexts:
                self._free.append(self._parts.pop(name).position)
        contexts = [registry.contexts[name] for name in self._changed if name in registry.contexts]
        statements = [registry.statements[name] for name in self._changed if name in registry.statements]
        self._add(contexts, sorted(statements, key=lambda statement: statement.order))
        self._changed.clear()
        return bool(former) == bool(self._parts) and not (former and self.index.drops)

    def _add(self, contexts: Iterable[Context], statements: Iterable[RunningStatement]) -> None:
        for context in contexts:
            known = self._parts.pop(context.name, None)
            if known is None:
                known = ContextSubscriptions(self._free.pop() if self._free else self.contexts)
            of_context = context.subscribers(self._type_name, known)
            if not of_context:
                self._free.append(known.position)
                continue
            self._parts[context.name] = known
            self.contexts = max(self.contexts, known.position + 1)
            for subscription in of_context:
                if subscription not in self.index:
                    self.index.add(subscription)
        for statement in statements:
            if statement.context is None and statement.reads(self._type_name):
                own = statement.subscribers(self._type_name)
                self._own[statement.name] = [*map(_ignoring_slots, own)] if self.contexts else own
                for subscription in self._own[statement.name]:
                    self.index.add(subscription)


def _subscriptions(
    registry: StatementRegistry, type_name: str, among: Container[str] | None
) -> tuple[list[Subscription], int]:
    """Return the subscriptions to a type (of statements `among` these) and the number of contexts in them."""
    subscriptions: list[Subscription] = []
    contexts = 0
    for context in registry.contexts.values():
        if among is not None and not any(member.name in among for member in context.statements if member is not None):
            continue
        own = context.subscribers(type_name, ContextSubscriptions(contexts))
        if own:
            subscriptions += own
            contexts += 1
    for statement in registry.readers(type_name):
        if statement.context is None and (among is None or statement.name in among):
            own = statement.subscribers(type_name)
            subscriptions += map(_ignoring_slots, own) if contexts else own
    if registry.services.config.prioritized:
        return subscriptions, contexts
    event_type = registry.catalog.event_types.get(type_name)
    inherited = () if event_type is None else reversed(event_type.supertypes)
    return unprioritized_order(subscriptions, (type_name, *inherited)), contexts


def _with_former_variables(registry: StatementRegistry, type_name: str, dispatch: EventHandler) -> EventHandler:
    """Return `dispatch` so that filters read variables as they were before the event.

    Filters decide as if all of them were evaluated before any statement processes the event. That matters where a
    statement that reacts to the event assigns a variable that a filter reads.
    """
    variables = [registry.variables[name] for name in sorted(_assigned(registry, type_name))]
    filtering = [variable for variable in variables if variable.read_by_filters]
    if not filtering:
        return dispatch

    def decided(event: Any) -> object:
        for variable in filtering:
            variable.hold()
        try:
            return dispatch(event)
        finally:
            for variable in filtering:
                variable.release()

    return decided


def _assigned(registry: StatementRegistry, type_name: str) -> set[str]:
    """Return the variables that may be assigned in reaction to an event of a type, also by way of others."""
    remaining = [registry.statements[name] for name in registry.assigning]
    all_contexts = registry.contexts.values() if remaining else ()
    contexts = [context for context in all_contexts if context.subscribers(type_name, ContextSubscriptions(0))]
    names: set[str] = set()
    reacting = [s for s in remaining if s.reads(type_name) or s.context in contexts]
    while reacting:
        names.update(name for statement in reacting for name in statement.steps.emit.assigned)
        remaining = [s for s in remaining if s not in reacting]
        reacting = [s for s in remaining if any(cell.name in names for cell in s.program.output_watched)]
    return names


def _with_type(registry: StatementRegistry, type_name: str, dispatch: EventHandler) -> EventHandler:
    """Return `dispatch` so that events carry their type, if a reader asks for it."""
    if not any(registry.statements[name].reads(type_name) for name in registry.type_reading):
        return dispatch

    def typed(event: Any) -> object:
        return dispatch(TypedEvent(type_name, event))

    return typed


def _updates(registry: StatementRegistry, type_name: str, among: Container[str] | None) -> list[RunningStatement]:
    readers = registry.readers(type_name) if registry.updating else []
    updates = [statement for statement in readers if statement.updates(type_name)]
    return [statement for statement in updates if among is None or statement.name in among]


def _ignoring_slots(subscription: Subscription) -> Subscription:
    """Return a subscription without context, in a form that takes the slots of contexts as well."""

    def ignoring(handler: EventHandler) -> EventHandler:
        return lambda event, _slots: handler(event)

    return replace(subscription, checked=ignoring(subscription.checked), matched=ignoring(subscription.matched))
