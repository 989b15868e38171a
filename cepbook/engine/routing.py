"""Who must see an event: the statements that read its type, and the contexts that it concerns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cepbook.engine.filters import Handler, Rounds, Subscriber, dispatcher
from cepbook.engine.flow import Replayed


def route(runtime: Replayed, type_name: str, failed: Callable[[Exception], None]) -> Handler:
    """A function that hands an event of `type_name` to everything that must see it, in delivery order."""
    found: list[Subscriber] = []
    contexts = 0
    for context in runtime.contexts.values():
        own = context.subscribers(type_name, contexts)
        if own:
            found += own
            contexts += 1
    for statement in runtime.readers(type_name):
        if statement.context is None:
            own = statement.subscribers(type_name)
            found += map(_beside_contexts, own) if contexts else own
    return dispatcher(found, failed, contexts)


def _beside_contexts(subscriber: Subscriber) -> Subscriber:
    """A statement without context, for events that contexts look at, too."""
    return replace(subscriber, checked=_alone(subscriber.checked), matched=_alone(subscriber.matched))


def _alone(handler: Handler) -> Handler:
    def on_event(event: Any, _rounds: Rounds) -> object:
        return handler(event)

    return on_event
