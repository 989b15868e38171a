"""Who must see an event: the statements that read its type, and the contexts that it concerns."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cepbook.engine.dispatch.senders import build_handler_sender
from cepbook.engine.expressions.primitives import TypedEvent
from cepbook.engine.relations.store import Store
from cepbook.engine.replay.statement_pass import ReplayEngine
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.statements.update import handler_after_updates
from cepbook.engine.subscriptions.filter_index import (
    ContextSlots,
    EventHandler,
    StatementOrder,
    Subscription,
    build_dispatcher,
)
from cepbook.engine.subscriptions.subscription_order import unprioritized_order

AFTER_ALL: StatementOrder = (1 << 62, 0)  # behind all


def build_route(runtime: ReplayEngine, type_name: str, failed: Callable[[Exception], None]) -> EventHandler:
    """A function that hands an event of `type_name` to everything that must see it, in delivery order."""
    found, contexts = _subscribers(runtime, type_name, None)
    way = _typed(runtime, type_name, _deciding(runtime, type_name, build_dispatcher(found, failed, contexts)))
    return handler_after_updates(_updates(runtime, type_name, None), way)


class EventRoutes:
    """Ways of events to some of the statements, and who is told of events from outside.

    `handlers` have the way of each type to everybody, made by `route`. `shown` is how far the event in hand has come
    that only some statements are shown: to the one of this place in the order.
    """

    def __init__(
        self,
        runtime: ReplayEngine,
        handlers: dict[str, EventHandler],
        route: Callable[[str], EventHandler],
        failed: Callable[[Exception], None],
    ) -> None:
        self.shown = AFTER_ALL
        self._runtime = runtime
        self._handlers = handlers
        self._route = route
        self._failed = failed
        self._into: dict[
            str, tuple[int, EventHandler]
        ] = {}  # of named windows and tables, with the version of the runtime

    def into(self, store: Store) -> EventHandler:
        """What takes rows for a named window or table; patterns see them as events."""
        version, handler = self._into.get(store.name, (-1, None))
        if handler is None or version != self._runtime.version:
            found, contexts = _subscribers(self._runtime, store.name, None)
            way = _deciding(self._runtime, store.name, build_dispatcher(found, self._failed, contexts))
            show = _typed(self._runtime, store.name, way)

            def insert(row: Any) -> None:
                try:
                    store.inserted(row)
                finally:
                    show(row)

            handler = handler_after_updates(_updates(self._runtime, store.name, None), insert)
            self._into[store.name] = self._runtime.version, handler
        return handler

    def only(self, type_name: str, names: Container[str]) -> EventHandler:
        """What shows events of a type to some statements only, by their names; valid until a change."""
        way = self._way(type_name, names, self._noting)

        def show(event: Any) -> None:
            try:
                way(event)
            except Exception as failure:  # noqa: BLE001 - attributed to its statement
                self._failed(failure)
            self.shown = AFTER_ALL

        return show

    def sender_for_group(self, type_name: str, names: Container[str]) -> Callable[[Any], None]:
        """What sends events of a type to some statements, with all of their contexts; valid until a change."""
        way = self._way(type_name, names, lambda subscriber: subscriber)
        return build_handler_sender(way, self._runtime.rounds, self._failed)

    def _way(
        self, type_name: str, names: Container[str], taking: Callable[[Subscription], Subscription]
    ) -> EventHandler:
        found, contexts = _subscribers(self._runtime, type_name, names)
        way = _deciding(
            self._runtime, type_name, build_dispatcher([taking(each) for each in found], self._failed, contexts)
        )
        return handler_after_updates(_updates(self._runtime, type_name, names), _typed(self._runtime, type_name, way))

    def _noting(self, subscriber: Subscription) -> Subscription:
        order = subscriber.order

        def noting(handler: EventHandler) -> EventHandler:
            def handle(*event: Any) -> object:
                self.shown = order
                return handler(*event)

            return handle

        return replace(subscriber, checked=noting(subscriber.checked), matched=noting(subscriber.matched))

    @contextmanager
    def announced(self, entered: Callable[[], None], derived: Container[str]) -> Iterator[None]:
        """Within this, `entered` is called before anything takes an event, but for the types `derived`."""
        known = [name for name in self._runtime.catalog.event_types if name not in derived]
        before = {name: self._route(name) for name in known}
        own = {name: self._announcing(name, entered, handler) for name, handler in before.items()}
        self._handlers.update(own)
        try:
            yield
        finally:
            for name, handler in own.items():
                if self._handlers[name] is handler:
                    self._handlers[name] = before[name]

    def _announcing(self, type_name: str, entered: Callable[[], None], handler: EventHandler) -> EventHandler:
        def announce(event: Any) -> object:
            entered()
            present = self._handlers[type_name]
            return (handler if present is announce else present)(event)

        return announce


def ignore_call() -> None:
    """Nobody wants to know of calls from outside."""


def _subscribers(runtime: ReplayEngine, type_name: str, among: Container[str] | None) -> tuple[list[Subscription], int]:
    """Who must see events of a type, and the number of contexts that look at them.

    With `among` only the statements of these names, which are all of their contexts.
    """
    found: list[Subscription] = []
    contexts = 0
    for context in runtime.contexts.values():
        if among is not None and not any(each.name in among for each in context.statements if each is not None):
            continue
        own = context.subscribers(type_name, contexts)
        if own:
            found += own
            contexts += 1
    for statement in runtime.readers(type_name):
        if statement.context is None and (among is None or statement.name in among):
            own = statement.subscribers(type_name)
            found += map(_beside_contexts, own) if contexts else own
    if runtime.config.prioritized:
        return found, contexts
    event_type = runtime.catalog.event_types.get(type_name)
    inherited = () if event_type is None else reversed(event_type.supertypes)
    return unprioritized_order(found, (type_name, *inherited)), contexts


def _deciding(runtime: ReplayEngine, type_name: str, way: EventHandler) -> EventHandler:
    """`way` for events that filters decide on as if all of them were asked before any statement takes the event.

    That matters where a statement assigns a variable in reaction to it that a filter reads.
    """
    cells = [runtime.variables[name] for name in sorted(_assigned(runtime, type_name))]
    read_by_filters = [cell for cell in cells if cell.read_by_filters]
    if not read_by_filters:
        return way

    def decided(event: Any) -> object:
        for cell in read_by_filters:
            cell.hold()
        try:
            return way(event)
        finally:
            for cell in read_by_filters:
                cell.release()

    return decided


def _assigned(runtime: ReplayEngine, type_name: str) -> set[str]:
    """The variables that statements may assign when they or their contexts see an event of a type; others then."""
    waiting = [s for s in runtime.statements.values() if s.steps.apply.assigned]
    contexts = [context for context in runtime.contexts.values() if waiting and context.subscribers(type_name, 0)]
    found: set[str] = set()
    reacting = [s for s in waiting if s.reads(type_name) or s.context in contexts]
    while reacting:
        found.update(name for each in reacting for name in each.steps.apply.assigned)
        waiting = [s for s in waiting if s not in reacting]
        reacting = [s for s in waiting if any(cell.name in found for cell in s.program.output_watched)]
    return found


def _typed(runtime: ReplayEngine, type_name: str, way: EventHandler) -> EventHandler:
    """`way` for events that know their type, if one of the readers asks for it."""
    if not any(statement.program.reads_types for statement in runtime.readers(type_name)):
        return way

    def typed(event: Any) -> object:
        return way(TypedEvent(type_name, event))

    return typed


def _updates(runtime: ReplayEngine, type_name: str, among: Container[str] | None) -> list[RunningStatement]:
    """The statements that change events of a type before any other sees them."""
    found = [s for s in runtime.readers(type_name) if s.steps.apply.changes]
    return [s for s in found if among is None or s.name in among]


def _beside_contexts(subscriber: Subscription) -> Subscription:
    """A statement without context, for events that contexts look at, too."""
    return replace(subscriber, checked=_alone(subscriber.checked), matched=_alone(subscriber.matched))


def _alone(handler: EventHandler) -> EventHandler:
    def on_event(event: Any, _rounds: ContextSlots) -> object:
        return handler(event)

    return on_event
