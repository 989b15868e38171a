"""The statements of a context, and their states in its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.subscriptions.filter_index import (
    ContextSlots,
    EventHandler,
    EventReader,
    StatementOrder,
    before_peers,
)
from cepbook.engine.time.clock import Clock

Readers = Sequence[tuple[ContextMember, EventReader]]  # in dispatch order


class ContextMembers:
    """The statements of one context by slot. The slot of a removed statement holds None."""

    SAVED = ("statements",)

    def __init__(self, clock: Clock) -> None:
        self.statements: list[ContextMember | None] = []
        self._clock = clock

    def __bool__(self) -> bool:
        return any(statement is not None for statement in self.statements)

    def add(self, statement: ContextMember, partitions: Iterable[ContextPartition]) -> int:
        """Add a statement with a state in each of `partitions` and return its slot.

        If one of the states cannot be created, no partition gets one and the exception is raised.
        """
        live = list(partitions)
        for partition, state in zip(live, [statement.new_state(partition) for partition in live], strict=True):
            partition.states.append(state)
        self.statements.append(statement)
        return len(self.statements) - 1

    def remove(self, statement: ContextMember, partitions: Iterable[ContextPartition]) -> int:
        """Remove a statement and its states, and return its slot."""
        slot = self.statements.index(statement)
        self.statements[slot] = None
        for partition in partitions:
            partition.states[slot] = None
        return slot

    def create_states(self, partition: ContextPartition) -> None:
        partition.states = [None if member is None else member.new_state(partition) for member in self.statements]

    def opened(self, partition: ContextPartition) -> None:
        """Notify the statements that a partition was allocated and has all its states."""
        for statement in self.statements:
            if statement is not None:
                statement.opened(partition)

    def end(self, partition: ContextPartition) -> None:
        """End a partition in all statements, the last deployed first."""
        for statement in reversed(self.statements):
            if statement is not None:
                statement.end(partition, self._clock.now)

    def forget(self, partition: ContextPartition) -> None:
        """Drop the states of a partition without output."""
        for statement in self.statements:
            if statement is not None:
                statement.forget(partition)

    def failing_member(self, failure: Exception) -> ContextMember | None:
        """Return the statement whose generated code raised `failure`; None if it was not a statement's code."""
        return next((member for member in self.statements if member is not None and member.caused(failure)), None)

    def settle(self) -> None:
        for statement in self.statements:
            if statement is not None:
                statement.settle()

    def readers(self, type_name: str) -> Readers:
        """Return the statements that read events of a type, by priority (``@Drop`` first) and deployment order."""
        readers = [
            (statement, reader)
            for statement in self.statements
            if statement is not None and (reader := statement.reading(type_name)) is not None
        ]
        return sorted(readers, key=lambda entry: (entry[0].order[0], not entry[1].drops, entry[0].order))


def dispatch_order(member: ContextMember, reader: EventReader, context: StatementOrder) -> StatementOrder:
    """Return the position of a statement in the dispatch order, given that of its context.

    A statement with ``@Drop`` comes before its peers, but not before the context if it was behind the context.
    """
    if not reader.drops:
        return member.order
    return max(context, before_peers(member.order)) if context < member.order else before_peers(member.order)


def dropping_members(readers: Readers, context: StatementOrder) -> list[ContextMember]:
    """Return the statements before the context that keep a taken event from all later ones (``@Drop``).

    This also holds for an event that such a statement takes in a partition created by the event.
    """
    return [member for member, reader in readers if reader.drops and member.order < context]


def report_drops(handler: EventHandler, position: int, droppers: Sequence[ContextMember]) -> EventHandler:
    """Wrap a context's handler so that it returns True if one of `droppers` took the event in a new partition."""
    if not droppers:
        return handler

    def on_event(event: Any, slots: ContextSlots) -> bool:
        handler(event, slots)
        slot = slots[position]
        return slot is not None and any(member in slot.taken_by for member in droppers)

    return on_event


def deliver_to_members(readers: Readers, event: Any, partition: ContextPartition) -> list[ContextMember]:
    """Deliver an event to statements in one partition and return those that took it; stop after a drop."""
    taken_by: list[ContextMember] = []
    for member, reader in readers:
        if member.guarded(reader.checked, event, (partition,)):
            taken_by.append(member)
            if reader.drops:
                break
    return taken_by
