"""What one event (or one instant) is to the tree of a context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.partition import ContextPartition

if TYPE_CHECKING:
    from cepbook.engine.contexts.tree_levels import LevelMatch


class EventRouting:
    """One event on its way through the tree, and then through the statements.

    Partitions with an id from `first` on arose by it: statements have been shown in them what they are to see of it,
    and those in `took` took it. While it `defers`, such partitions are kept in `late`, each with what is to be shown in
    it, until the older ones have been shown it. `targets` are the partitions in which statements are to see it, once
    that is known. `looks` has what it means to each level.
    """

    __slots__ = ("defers", "event", "first", "late", "looks", "targets", "took", "type_name")

    def __init__(self, type_name: str, event: Any, first: int) -> None:
        self.type_name = type_name
        self.event = event
        self.first = first
        self.took: list[ContextMember] = []
        self.late: list[tuple[ContextPartition, EventRouting]] = []
        self.defers = False
        self.targets: Sequence[ContextPartition] | None = None
        self.looks: dict[int, LevelMatch] = {}

    def of(self, type_name: str, event: Any) -> EventRouting:
        """Another event in the course of this one."""
        made = EventRouting(type_name, event, self.first)
        made.took, made.late, made.defers = self.took, self.late, self.defers
        return made

    def deferring(self) -> EventRouting:
        """The same, but new partitions are shown it after the older ones."""
        made = self.of(self.type_name, self.event)
        made.looks, made.defers = self.looks, True
        return made
