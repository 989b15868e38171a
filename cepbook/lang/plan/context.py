"""Contexts in the plan: what allocates and ends context partitions (Esper reference, chapter "Context and Context
Partitions").

Expressions of conditions read stream 0, the event that arrives, and the partition's built-in properties
(`expr.ContextProp`): ``terminated by End(id = s.id)`` reads `ContextProp` ``s`` and its member ``id``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from cepbook.lang.plan.crontab import CrontabSpec
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.pattern import Pattern
from cepbook.lang.plan.plan_node import ContainedSelection, PlanNode


@dataclass(frozen=True, slots=True)
class PartitionCondition(PlanNode):
    """Begins or ends a partition. `alias` names its event or match among the built-in properties."""


@dataclass(frozen=True, slots=True)
class AtOnce(PartitionCondition):
    """``@now``: at once."""


@dataclass(frozen=True, slots=True)
class OnEvent(PartitionCondition):
    """The next event of `event_type` that passes `filter`; with `contained` each of the events within."""

    event_type: str
    filter: BoundExpr | None
    alias: str | None
    contained: tuple[ContainedSelection, ...] = ()


@dataclass(frozen=True, slots=True)
class OnPattern(PartitionCondition):
    """A match of `pattern`. Without an alias its tags are built-in properties themselves. With `inclusive` the tagged
    events of the match count for the statements."""

    pattern: Pattern
    inclusive: bool
    alias: str | None


@dataclass(frozen=True, slots=True)
class OnCrontab(PartitionCondition):
    """The next time that one of `crontabs` matches, strictly later."""

    crontabs: tuple[CrontabSpec, ...]


@dataclass(frozen=True, slots=True)
class AfterPeriod(PartitionCondition):
    """A time period later: an `expr.Period`."""

    period: BoundExpr


@dataclass(frozen=True, slots=True)
class KeyedStream(PlanNode):
    """One stream of a keyed context: key expressions over stream 0 and an optional filter."""

    event_type: str
    keys: tuple[BoundExpr, ...]
    filter: BoundExpr | None
    alias: str | None


@dataclass(frozen=True, slots=True)
class ContextLevel(PlanNode):
    """A rule that allocates the partitions of a context, or of one level of a nested context.

    `exclusive` levels have at most one partition for each event.
    """

    kind: ClassVar[Literal["keyed", "hash", "category", "nonoverlapping", "overlapping", "nested"]]
    exclusive: ClassVar[bool] = False

    @property
    def filters(self) -> tuple[tuple[str, BoundExpr | None], ...]:
        """The event types that the level divides by keys or hashes, each with the filter of its events."""
        return tuple((stream.event_type, stream.filter) for stream in self.keyed_streams)

    @property
    def beginning(self) -> PartitionCondition | None:
        """The condition that begins a partition, if that is no key, hash or category."""
        return None

    @property
    def keyed_streams(self) -> tuple[KeyedStream, ...]:
        """The streams whose keys are those of the partitions; empty for a context of another kind."""
        return ()

    @property
    def event_types(self) -> tuple[str, ...]:
        """The event types whose events each belong to certain partitions; empty if partitions begin and end."""
        return tuple(event_type for event_type, _ in self.filters)


@dataclass(frozen=True, slots=True)
class KeyedStreams(ContextLevel):
    """``partition by``: each event type once, all with as many keys of the same types."""

    streams: tuple[KeyedStream, ...]

    kind: ClassVar[Literal["keyed"]] = "keyed"
    exclusive: ClassVar[bool] = True

    @property
    def keyed_streams(self) -> tuple[KeyedStream, ...]:
        return self.streams


@dataclass(frozen=True, slots=True)
class KeyedSpec(ContextLevel):
    """``partition by``: `streams` as in `KeyedStreams`; only `initiated` conditions, if any, allocate."""

    streams: KeyedStreams
    initiated: tuple[OnEvent, ...] = ()
    terminated: PartitionCondition | None = None

    kind: ClassVar[Literal["keyed"]] = "keyed"
    exclusive: ClassVar[bool] = True

    @property
    def keyed_streams(self) -> tuple[KeyedStream, ...]:
        return self.streams.streams


@dataclass(frozen=True, slots=True)
class HashedStream(PlanNode):
    """``function(args) from event_type(filter)``: consistent_hash_crc32, hash_code or a registered function."""

    event_type: str
    function: str
    args: tuple[BoundExpr, ...]
    filter: BoundExpr | None

    @property
    def key_properties(self) -> tuple[str, ...]:
        """The properties among `args` whose values can divide events."""
        return tuple(prop.name for arg in self.args if (prop := arg.key_property) is not None)


@dataclass(frozen=True, slots=True)
class HashSpec(ContextLevel):
    """``coalesce by …``: the partition is the hash modulo `granularity`."""

    streams: tuple[HashedStream, ...]
    granularity: int
    preallocate: bool

    kind: ClassVar[Literal["hash"]] = "hash"
    exclusive: ClassVar[bool] = True

    @property
    def filters(self) -> tuple[tuple[str, BoundExpr | None], ...]:
        return tuple((stream.event_type, stream.filter) for stream in self.streams)


@dataclass(frozen=True, slots=True)
class CategorySpec(ContextLevel):
    """``group … as label``: a partition for each category, all from the activation on."""

    event_type: str
    filter: BoundExpr | None
    categories: tuple[tuple[str, BoundExpr], ...]

    kind: ClassVar[Literal["category"]] = "category"

    @property
    def event_types(self) -> tuple[str, ...]:
        return (self.event_type,)


@dataclass(frozen=True, slots=True)
class NonOverlappingSpec(ContextLevel):
    """``start … end …``: one partition at most. `end` None: it lasts."""

    start: PartitionCondition
    end: PartitionCondition | None

    kind: ClassVar[Literal["nonoverlapping"]] = "nonoverlapping"

    @property
    def beginning(self) -> PartitionCondition:
        return self.start


@dataclass(frozen=True, slots=True)
class OverlappingSpec(ContextLevel):
    """``initiated by … terminated by …``: a partition for each initiation; `also_now` one at the activation.

    `distinct` keys read `ContextProp`s of the initiating event: while a partition of a key lives, no other begins.
    """

    initiated: PartitionCondition
    terminated: PartitionCondition | None
    distinct: tuple[BoundExpr, ...] = ()
    also_now: bool = False

    kind: ClassVar[Literal["overlapping"]] = "overlapping"

    @property
    def beginning(self) -> PartitionCondition:
        return self.initiated


@dataclass(frozen=True, slots=True)
class NestedSpec(ContextLevel):
    """Contexts inside each other, outermost first, by name."""

    levels: tuple[tuple[str, ContextSpec], ...]

    kind: ClassVar[Literal["nested"]] = "nested"


ContextSpec = KeyedSpec | HashSpec | CategorySpec | NonOverlappingSpec | OverlappingSpec | NestedSpec
