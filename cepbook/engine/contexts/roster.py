"""The statements of a context, and the states that they have in its partitions."""

from __future__ import annotations

from collections.abc import Iterable

from cepbook.engine.clock import Clock
from cepbook.engine.contexts.partition import Partition
from cepbook.engine.ports import Member, Reading


class Roster:
    """The statements of one context, by slot; None where one has gone."""

    SAVED = ("members",)

    def __init__(self, clock: Clock) -> None:
        self.members: list[Member | None] = []
        self._clock = clock

    def __bool__(self) -> bool:
        return any(member is not None for member in self.members)

    def join(self, statement: Member, partitions: Iterable[Partition]) -> int:
        """Add a statement with a state in each of `partitions`, or in none if one of them cannot begin."""
        live = list(partitions)
        for partition, state in zip(live, [statement.new_state(each) for each in live], strict=True):
            partition.states.append(state)
        self.members.append(statement)
        return len(self.members) - 1

    def part(self, statement: Member, partitions: Iterable[Partition]) -> int:
        """Remove a statement and its states; returns its slot."""
        slot = self.members.index(statement)
        self.members[slot] = None
        for partition in partitions:
            partition.states[slot] = None
        return slot

    def begin(self, partition: Partition) -> None:
        """Make the states of a new partition."""
        partition.states = [None if each is None else each.new_state(partition) for each in self.members]

    def opened(self, partition: Partition) -> None:
        """Tell the statements of a partition that has all its states."""
        for statement in self.members:
            if statement is not None:
                statement.opened(partition)

    def end(self, partition: Partition) -> None:
        """A partition ends: its statements, last deployed first."""
        for statement in reversed(self.members):
            if statement is not None:
                statement.end(partition, self._clock.now)

    def readers(self, type_name: str) -> list[tuple[Member, Reading]]:
        """Who reads events of a type, and how, by priority and deployment."""
        statements = sorted((each for each in self.members if each is not None), key=lambda s: s.order)
        found = ((statement, statement.reading(type_name)) for statement in statements)
        return [(statement, reading) for statement, reading in found if reading is not None]
