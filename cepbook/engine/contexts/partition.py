"""Context partitions: what every kind of context allocates."""

from __future__ import annotations

from typing import Any, ClassVar

from cepbook.engine.state import State


class ContextPartition(State):
    """One context partition. `states` has one state per statement of the context, at the statement's slot.

    `properties` are the built-in properties besides id and name. `place` is where the context keeps it: the key of a
    plain keyed context, else the node of the tree while it lives. An `ended` partition is none any more: timers that
    statements had in it are not run. `found_by` has the keys under which statements find it, by slot; `variables` the
    values of the context's variables. `arrived` events, the `last` at that time, were counted while somebody looked
    (`Tally`).
    """

    PASSING = ("arrived", "last")

    took: ClassVar[tuple[Any, ...]] = ()  # of an event that came after a listener ended it nobody took anything
    __slots__ = ("arrived", "ended", "found_by", "id", "last", "name", "place", "properties", "states", "variables")
    arrived: int
    last: int

    def __init__(self, id_: int, name: str, properties: dict[str, Any], place: Any) -> None:
        self.id = id_
        self.name = name
        self.properties = properties
        self.place = place
        self.states: list[Any] = []
        self.ended = False
        self.found_by: dict[int, Any] | None = None
        self.variables: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """Nothing was counted yet."""
        if name in self.PASSING:
            return 0
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


PartitionAssignment = (
    ContextPartition | tuple[ContextPartition, ...] | None
)  # where an event is: in one partition, several, or none
