"""The statements of a context, and the states that they have in its partitions."""

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


class ContextMembers:
    """The statements of one context, by slot; None where one has gone."""

    SAVED = ("members",)

    def __init__(self, clock: Clock) -> None:
        self.members: list[ContextMember | None] = []
        self._clock = clock

    def __bool__(self) -> bool:
        return any(member is not None for member in self.members)

    def join(self, statement: ContextMember, partitions: Iterable[ContextPartition]) -> int:
        """Add a statement with a state in each of `partitions`, or in none if one of them cannot begin."""
        live = list(partitions)
        for partition, state in zip(live, [statement.new_state(each) for each in live], strict=True):
            partition.states.append(state)
        self.members.append(statement)
        return len(self.members) - 1

    def part(self, statement: ContextMember, partitions: Iterable[ContextPartition]) -> int:
        """Remove a statement and its states; returns its slot."""
        slot = self.members.index(statement)
        self.members[slot] = None
        for partition in partitions:
            partition.states[slot] = None
        return slot

    def begin(self, partition: ContextPartition) -> None:
        """Make the states of a new partition."""
        partition.states = [None if each is None else each.new_state(partition) for each in self.members]

    def opened(self, partition: ContextPartition) -> None:
        """Tell the statements of a partition that has all its states."""
        for statement in self.members:
            if statement is not None:
                statement.opened(partition)

    def end(self, partition: ContextPartition) -> None:
        """A partition ends: its statements, last deployed first."""
        for statement in reversed(self.members):
            if statement is not None:
                statement.end(partition, self._clock.now)

    def forget(self, partition: ContextPartition) -> None:
        """A partition is no more, and nobody is told of its end."""
        for statement in self.members:
            if statement is not None:
                statement.forget(partition)

    def blamed(self, failure: Exception) -> ContextMember | None:
        """The statement whose generated code a failure came out of."""
        return next((each for each in self.members if each is not None and each.caused(failure)), None)

    def settle(self) -> None:
        """The context failed: the timers of its statements are made right."""
        for statement in self.members:
            if statement is not None:
                statement.settle()

    def readers(self, type_name: str) -> list[tuple[ContextMember, EventReader]]:
        """Who reads events of a type, and how, by priority (there ``@Drop`` first) and deployment."""
        found = ((each, each.reading(type_name)) for each in self.members if each is not None)
        readers = [(statement, reading) for statement, reading in found if reading is not None]
        return sorted(readers, key=lambda each: (each[0].order[0], not each[1].drops, each[0].order))


def dispatch_order(member: ContextMember, reading: EventReader, context: StatementOrder) -> StatementOrder:
    """The place of a statement of the context at `context`: with ``@Drop`` ahead of its peers, behind the context."""
    if not reading.drops:
        return member.order
    return max(context, before_peers(member.order)) if context < member.order else before_peers(member.order)


def dropping_members(
    readers: Iterable[tuple[ContextMember, EventReader]], context: StatementOrder
) -> list[ContextMember]:
    """The statements ahead of the context at `context` that keep an event that they take from all that follow: also
    one that they take in a partition that it begins.
    """
    return [member for member, reading in readers if reading.drops and member.order < context]


def report_drops(looks: EventHandler, place: int, droppers: Sequence[ContextMember]) -> EventHandler:
    """What a context does with an event, which then tells whether one of `droppers` took it in what it began."""
    if not droppers:
        return looks

    def on_event(event: Any, rounds: ContextSlots) -> bool:
        looks(event, rounds)
        found = rounds[place]
        return found is not None and any(member in found.took for member in droppers)

    return on_event


def deliver_to_members(
    readers: Iterable[tuple[ContextMember, EventReader]], event: Any, partition: ContextPartition
) -> list[ContextMember]:
    """Show an event to statements in a partition; who took it, as far as nobody dropped it."""
    took: list[ContextMember] = []
    for member, reading in readers:
        if member.guarded(reading.checked, event, (partition,)):
            took.append(member)
            if reading.drops:
                break
    return took
