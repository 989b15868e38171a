"""The statements of one context, and the state of each statement in each partition.

A context of any kind has one `ContextMembers`, which knows nothing of levels and nesting: its partitions are those of
the innermost level. `FlatKeyedContext` and `TreePartitions` call `create_states` and `opened` when they allocate a
partition, `end` when it ends, and `forget` when a saved partition replaces it. What has to happen at an end beyond the
statements (notices to listeners, removal from indexes) stands in these callers, behind their call of `end`.

The functions below put statements with ``@Drop`` in the order in which an event is dispatched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.subscriptions.filter_index import (
    ContextSlots,
    EventHandler,
    EventReader,
    StatementOrder,
    Subscription,
    before_peers,
)
from cepbook.engine.time.clock import Clock

Readers = Sequence[tuple[ContextMember, EventReader]]  # in dispatch order


@dataclass(slots=True)
class ContextSubscriptions:
    """The subscriptions of a context to events of a type, at its `position` in the context slots: its own, and those of
    its statements, by name, with their readers (None for a statement that does not read the type). Statements that have
    not changed keep theirs.
    """

    position: int
    own: list[Subscription] = field(default_factory=list)
    members: dict[str, Subscription] = field(default_factory=dict)
    readers: dict[str, EventReader | None] = field(default_factory=dict)

    def discard(self, names: Set[str]) -> list[Subscription]:
        """Remove and return the subscriptions of the context itself and of the statements `names`."""
        removed, self.own = self.own, []
        for name in self.readers.keys() & names:
            del self.readers[name]
            if name in self.members:
                removed.append(self.members.pop(name))
        return removed


class ContextMembers:
    """The statements of one context by slot, which is also the index of their state in ``partition.states``.

    The slot of a removed statement holds None and is not used again. `partitions` are always all live partitions.
    """

    SAVED = ("statements",)  # the attributes that a snapshot contains

    def __init__(self, clock: Clock) -> None:
        self.statements: list[ContextMember | None] = []
        self._clock = clock

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def __iter__(self) -> Iterator[ContextMember]:
        """Iterate over the statements in the order of their deployment."""
        return (member for member in self.statements if member is not None)

    def add(self, member: ContextMember, partitions: Iterable[ContextPartition]) -> int:
        """Add a statement with a state in each of `partitions` and return its slot.

        If one of the states cannot be created, no partition gets one and the exception is raised.
        """
        live = list(partitions)
        states = [member.new_state(partition) for partition in live]  # all of them first, because one may fail
        for partition, state in zip(live, states, strict=True):
            partition.states.append(state)
        self.statements.append(member)
        return len(self.statements) - 1

    def remove(self, member: ContextMember, partitions: Iterable[ContextPartition]) -> int:
        """Remove a statement and its states, and return its slot."""
        slot = self.statements.index(member)
        self.statements[slot] = None
        for partition in partitions:
            partition.states[slot] = None
        return slot

    def create_states(self, partition: ContextPartition) -> None:
        """Create the states of all statements in a new partition."""
        partition.states = [None if member is None else member.new_state(partition) for member in self.statements]

    def opened(self, partition: ContextPartition) -> None:
        """Notify the statements that a partition was allocated and has all its states."""
        for member in self:
            member.opened(partition)

    def end(self, partition: ContextPartition) -> None:
        """End a partition in all statements, the last deployed first. Each delivers its last output."""
        for member in reversed(self.statements):
            if member is not None:
                member.end(partition, self._clock.now)

    def forget(self, partition: ContextPartition) -> None:
        """Discard the states of a partition. Unlike `end`, nothing is delivered."""
        for member in self:
            member.forget(partition)

    def failing_member(self, failure: Exception) -> ContextMember | None:
        """Return the statement whose generated code raised `failure`; None if it was not a statement's code."""
        return next((member for member in self if member.caused(failure)), None)

    def settle(self) -> None:
        """Repair the timer queues of all statements after a failure that may have interrupted the arming of a timer."""
        for member in self:
            member.settle()

    def readers(self, type_name: str, known: dict[str, EventReader | None]) -> Readers:
        """Return the statements that read events of a type, by priority (``@Drop`` first) and deployment order. `known`
        has the readers of statements that have not changed, by name, and gets those of the others.
        """
        readers: list[tuple[ContextMember, EventReader]] = []
        for member in self:
            name = member.name
            reader = known[name] if name in known else known.setdefault(name, member.reading(type_name))
            if reader is not None:
                readers.append((member, reader))
        return sorted(readers, key=_dispatch_key)


def _dispatch_key(entry: tuple[ContextMember, EventReader]) -> tuple[int, bool, StatementOrder]:
    member, reader = entry
    priority, _deployed = member.order  # the higher the priority, the smaller the number
    return priority, not reader.drops, member.order


def dispatch_order(member: ContextMember, reader: EventReader, context: StatementOrder) -> StatementOrder:
    """Return the position of a statement in the dispatch order.

    A context is dispatched like a statement, at its own position `context`: there it ends and allocates partitions.
    ``@Drop`` moves a statement in front of all statements of its priority, but not across its context.
    """
    if not reader.drops:
        return member.order
    front = before_peers(member.order)
    return front if member.order <= context else max(context, front)


def dropping_members(readers: Readers, context: StatementOrder) -> list[ContextMember]:
    """Return the ``@Drop`` statements that are dispatched before their context.

    They have passed when the context allocates a partition, so they receive the event that allocated it only then. If
    one of them consumes that event, the context has to drop it: see `report_drops`.
    """
    return [member for member, reader in readers if reader.drops and member.order < context]


def report_drops(handler: EventHandler, position: int, droppers: Sequence[ContextMember]) -> EventHandler:
    """Wrap a context's handler so that it returns True if one of `droppers` consumed the event in a new partition.

    True ends the dispatch of the event, because the subscription of the context drops then. `position` is that of the
    context in the context slots.
    """
    if not droppers:
        return handler

    def on_event(event: Any, slots: ContextSlots) -> bool:
        handler(event, slots)  # the handler of a context returns nothing
        routing = slots[position]
        return routing is not None and any(member in routing.taken_by for member in droppers)

    return on_event


def deliver_to_members(readers: Readers, event: Any, partition: ContextPartition) -> list[ContextMember]:
    """Deliver an event to statements in one partition and return those that consumed it; stop after a drop."""
    taken_by: list[ContextMember] = []
    for member, reader in readers:
        if member.guarded(reader.checked, event, (partition,)):  # tests the filter too, and reports failures
            taken_by.append(member)
            if reader.drops:
                break
    return taken_by
