"""Context partitions, and the number of events that reached them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from cepbook.engine.state import State


class Counted(State):
    """State that events are counted for: a context partition, or a node of the tree around partitions.

    `arrived` is the number of events, `last` the engine time of the latest one. Both are 0 until an event is counted.
    Events are counted only while the context has `PartitionCounts`.
    """

    PASSING = ("arrived", "last")
    __slots__ = ("arrived", "last")
    arrived: int
    last: int

    def __getattr__(self, name: str) -> Any:
        if name in self.PASSING:
            return 0
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class ContextPartition(Counted):
    """One context partition. `states` holds one state per statement of the context, at the statement's slot.

    `properties` are the built-in properties besides id and name. `owner` is the key in a flat keyed context, and the
    tree node in other contexts; it is None once the partition has ended. Timers of an `ended` partition do not fire.
    `correlation_keys` holds the keys under which the correlation index lists the partition, by slot. `variables` holds
    the values of the context's variables.
    """

    taken_by: ClassVar[tuple[Any, ...]] = ()  # no statement took an event that came after a listener ended this one
    __slots__ = ("correlation_keys", "ended", "id", "name", "owner", "properties", "states", "variables")

    def __init__(self, id_: int, name: str, properties: dict[str, Any], owner: Any) -> None:
        self.id = id_
        self.name = name
        self.properties = properties
        self.owner = owner
        self.states: list[Any] = []
        self.ended = False
        self.correlation_keys: dict[int, Any] | None = None
        self.variables: dict[str, Any] = {}


PartitionAssignment = ContextPartition | tuple[ContextPartition, ...] | None  # one partition, several, or none


class PartitionCounts:
    """The events that partitions received since engine time `since`.

    `live` are the partitions and tree nodes that exist at that time. Their earlier counts are subtracted.
    """

    __slots__ = ("_before", "since")

    def __init__(self, since: int, live: Iterable[Counted]) -> None:
        self.since = since
        self._before = {counted: counted.arrived for counted in live if counted.arrived}

    def of(self, counted: Counted) -> tuple[int, int | None]:
        """Return the number of events since `since`, and the time of the latest; None if there was none."""
        arrived = counted.arrived - self._before.get(counted, 0)
        return arrived, counted.last if arrived else None
