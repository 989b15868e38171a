"""All contexts but plain keyed ones: a tree of levels (one, without nesting); its leaves are the context partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cepbook.engine.clock import Timed
from cepbook.engine.contexts.partition import Partition
from cepbook.engine.ports import Member
from cepbook.lang.plan import CreateContextTreeStatement

Order = tuple[int, int]


class Tree:
    """The live partitions of one context.

    While an event is dispatched, `took` holds the statements that have seen it in partitions that it allocated.
    """

    def __init__(self, plan: CreateContextTreeStatement, order: Order) -> None:
        self.plan = plan
        self.name = plan.context.name
        self.order = order
        self.timed = Timed(order, self.fire)
        self.statements: list[Member | None] = []
        self.partitions: dict[int, Partition] = {}  # by id
        self.took: list[Member] = []

    @property
    def active(self) -> bool:
        """Whether a statement uses the context."""
        return any(self.statements)

    def join(self, statement: Member) -> int:
        """Add a statement; it gets a state in every live partition. Returns its slot. The first one activates."""
        raise NotImplementedError

    def part(self, statement: Member) -> None:
        """Remove a statement; without statements the context forgets its partitions, without any output."""
        raise NotImplementedError

    def handles(self, type_name: str) -> bool:
        """Whether events of `type_name` may allocate or end partitions."""
        raise NotImplementedError

    def on_event(self, type_name: str, event: Any) -> None:
        """What the context does with an event, at its own place in the order: end partitions, allocate others.

        Statements are shown the event in the partitions that it allocates, here and now.
        """
        raise NotImplementedError

    def targets(self, type_name: str, event: Any, order: Order) -> Sequence[Partition]:
        """The partitions, by id, in which a statement of place `order` is to see the event at its own place."""
        raise NotImplementedError

    def fire(self, now: int) -> None:
        """Timers of conditions are due."""
        raise NotImplementedError

    def describe(self) -> list[dict[str, Any]]:
        """The live partitions with their built-in properties, by id."""
        raise NotImplementedError
