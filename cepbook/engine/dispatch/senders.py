"""Functions that send events of one type, with the routing resolved once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cepbook.engine.dispatch.turn import Turn
from cepbook.engine.subscriptions.filter_index import EventHandler
from cepbook.engine.time.clock import Clock


def build_sender(
    routes: Mapping[str, EventHandler],
    type_name: str,
    clock: Clock,
    turn: Turn,
    caught: Callable[[Exception], None],
    time: str | None,
) -> Callable[[dict[str, Any]], None]:
    """Return a sender by `routes`, which may change; `time` names the property with the event's time."""
    queue = turn.queue

    def send(event: dict[str, Any]) -> None:
        try:
            try:
                routes[type_name](event)
            except Exception as failure:  # noqa: BLE001 - attributed to its statement
                caught(failure)
            if queue:
                turn.drain()
        except BaseException as failure:
            turn.mark_broken(failure)
            raise

    def send_at(event: dict[str, Any]) -> None:
        now = event[time]  # type: ignore[index]
        try:
            if now > clock.now:
                if now < clock.due:
                    clock.now = now
                else:
                    turn.fire(now)
                    if queue:
                        turn.drain(raising=False)
            try:
                routes[type_name](event)
            except Exception as failure:  # noqa: BLE001 - attributed to its statement
                caught(failure)
            if queue:
                turn.drain()
        except BaseException as failure:
            turn.mark_broken(failure)
            raise

    return send if time is None else send_at


def build_handler_sender(
    handler: EventHandler, turn: Turn, caught: Callable[[Exception], None]
) -> Callable[[dict[str, Any]], None]:
    """Return a function that sends events to `handler`."""
    queue = turn.queue

    def send(event: dict[str, Any]) -> None:
        try:
            try:
                handler(event)
            except Exception as failure:  # noqa: BLE001 - attributed to its statement
                caught(failure)
            if queue:
                turn.drain()
        except BaseException as failure:
            turn.mark_broken(failure)
            raise

    return send
