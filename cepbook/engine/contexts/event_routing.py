"""The way of one event through the levels of a context's tree, and then to the statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cepbook.engine.contexts.conditions import LevelStream
from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.partition import ContextPartition


class LevelMatch(NamedTuple):
    """The result of one event at one level.

    `stream` is the listed stream of the event; None if the level does not list its type. `passes` tells whether the
    event passes the stream's filter. `key` identifies the node of the event, `keys` are the key values. At a category
    level, `keys` are the numbers of the matching categories.
    """

    stream: LevelStream | None
    passes: bool
    key: Any
    keys: Sequence[Any]


UNLISTED = LevelMatch(None, True, None, ())


class EventRouting:
    """One event (or one instant) on its way through the tree.

    The event created the partitions with ids from `first_new` on. The statements have already received it there, and
    those in `taken_by` took it. With `defers`, such partitions are collected in `deferred`, each with the routing to
    deliver, until older partitions have received the event. `targets` are the older partitions that receive the event,
    once they are known. `matches` caches the result per level.
    """

    __slots__ = ("deferred", "defers", "event", "first_new", "matches", "taken_by", "targets", "type_name")

    def __init__(self, type_name: str, event: Any, first_new: int) -> None:
        self.type_name = type_name
        self.event = event
        self.first_new = first_new
        self.taken_by: list[ContextMember] = []
        self.deferred: list[tuple[ContextPartition, EventRouting]] = []
        self.defers = False
        self.targets: Sequence[ContextPartition] | None = None
        self.matches: dict[int, LevelMatch] = {}

    def with_event(self, type_name: str, event: Any) -> EventRouting:
        """Return a routing of another event that is delivered in the course of this one."""
        routing = EventRouting(type_name, event, self.first_new)
        routing.taken_by, routing.deferred, routing.defers = self.taken_by, self.deferred, self.defers
        return routing

    def deferring(self) -> EventRouting:
        """Return a routing of the same event that reaches new partitions after older ones."""
        routing = self.with_event(self.type_name, self.event)
        routing.matches, routing.defers = self.matches, True
        return routing
