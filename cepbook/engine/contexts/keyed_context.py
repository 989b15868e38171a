"""Keyed contexts at run time: who allocates a context partition, and which one an event belongs to.

Rules recorded from the reference: every event of a listed stream allocates, whatever the statements' own filters;
the context's filter hides events from its statements; null is a key like any other; partition ids count
from 0 and are not reused while the context is active; a context is active while a statement uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from cepbook.engine.contexts.assigner import (
    OUTSIDE,
    PartitionAssigner,
    PartitionLocation,
    PartitionLocator,
    keys_are_deterministic,
    read_properties,
)
from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.event_counts import PartitionCounts, count_event
from cepbook.engine.contexts.members import (
    ContextMembers,
    deliver_to_members,
    dispatch_order,
    dropping_members,
    report_drops,
)
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.contexts.partition_listeners import NoticeKind, PartitionListeners, PartitionNotice
from cepbook.engine.contexts.selectors import LevelIdentity, PartitionIdentity
from cepbook.engine.contexts.tree_nodes import DetachedNode, PartitionNode
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.hashable import key_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.services import EngineServices
from cepbook.engine.subscriptions.filter_index import (
    ContextSlots,
    EventHandler,
    EventReader,
    StatementOrder,
    Subscription,
)
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import CreateContextStatement, KeyedStream, KeyedStreams
from cepbook.lang.types import Type

TakeEvent = Callable[[Any, Any], object]  # (event, state)
Locators = Mapping[str, PartitionLocator]  # by listed event type


class NewPartitionRouting:
    """What an event is that made its partition: all statements have seen it, and those in `took` took it.

    With `made` they have not yet.
    """

    __slots__ = ("made", "took")
    ended = True

    def __init__(self, took: Sequence[ContextMember], made: ContextPartition | None = None) -> None:
        self.took = took
        self.made = made


class FlatKeyedContext:
    """The live partitions of one keyed context, by key.

    The round of an event of a listed type is its `Partition`, `Shown` if the event made it, None if it is in none.
    An event of any other type is for all partitions.
    """

    SAVED = ("_next_id", "order", "partitions")
    PASSING = ("event_counters",)

    def __init__(
        self,
        plan: CreateContextStatement,
        ways: Locators,
        order: StatementOrder,
        host: EngineServices,
        notices: PartitionListeners,
    ) -> None:
        self.plan = plan
        self.name = plan.context.name
        self.order = order
        self.partitions: dict[Any, ContextPartition] = {}  # new ones come last, so in order of ids, too
        self._ways = ways
        self._host = host
        self._notices = notices
        self._roster = ContextMembers(host.clock)
        self._next_id = 0
        self.event_counters: list[PartitionCounts] = []

    # -------------------------------------------------------------- statements
    @property
    def statements(self) -> Sequence[ContextMember | None]:
        """Its statements by slot; None where one has gone."""
        return self._roster.members

    @property
    def assigner(self) -> PartitionAssigner:
        """Which partition an event belongs to depends on nothing but the event."""
        return PartitionAssigner(self)

    @property
    def objection(self) -> None:
        """As of `Context`."""

    def join(self, statement: ContextMember) -> int:
        """Add a statement; it gets a state in every live partition. Returns its slot."""
        if not self._roster:
            self._tell("activated", None)
        return self._roster.join(statement, self.partitions.values())

    def part(self, statement: ContextMember) -> None:
        """Remove a statement; without statements the context forgets its partitions."""
        self._roster.part(statement, self.partitions.values())
        if self._roster:
            return
        for partition in self.partitions.values():
            partition.ended = True
            self._tell("deallocated", partition)
        self._roster.members.clear()
        self.partitions.clear()
        self._next_id = 0
        self._tell("deactivated", None)

    def rewired(self) -> None:
        """Nothing is kept of event types and statements."""

    # -------------------------------------------------------------- administration
    def end_partition(self, id_: int) -> bool:
        """End a partition by hand. Whether there is one with this id; the next event of its key allocates another."""
        partition = next((p for p in self.partitions.values() if p.id == id_), None)
        if partition is None:
            return False
        partition.ended = True
        del self.partitions[partition.place]
        self._roster.end(partition)
        self._tell("deallocated", partition)
        return True

    def identities(self) -> Iterator[PartitionIdentity]:
        """The live partitions, as selectors see them, by id."""
        return map(self.identity, self.partitions.values())

    def identity(self, partition: ContextPartition) -> PartitionIdentity:
        """A live partition, as selectors see it."""
        step = LevelIdentity(self.name, "keyed", tuple(partition.properties.values()), partition.properties)
        return PartitionIdentity(partition.id, _described(partition), (step,))

    def describe(self) -> list[dict[str, Any]]:
        """The live partitions with their built-in properties, by id."""
        return [_described(partition) for partition in self.partitions.values()]

    @property
    def watched(self) -> bool:
        """Whether somebody listens to this context and no other."""
        return self._notices.watched(self.name)

    def _tell(self, kind: NoticeKind, partition: ContextPartition | None, time: int | None = None) -> None:
        if self._notices.wanted(self.name):
            id_, properties = (None, {}) if partition is None else (partition.id, _described(partition))
            now = self._host.clock.now if time is None else time
            self._notices.tell(PartitionNotice(kind, self.name, id_, properties, now))

    # -------------------------------------------------------------- events
    def listed(self, type_name: str) -> str | None:
        """The listed type that events of `type_name` are of; None: they are for all partitions."""
        is_a = self._host.catalog.is_a
        return next((listed for listed in self._ways if is_a(type_name, listed)), None)

    def several(self, type_names: Iterable[str], at_end: bool) -> bool:
        """Whether an event of one of these types may be for several partitions. None ends but by hand."""
        return any(self.listed(type_name) is None for type_name in type_names)

    def subscribers(self, type_name: str, place: int) -> list[Subscription]:
        """Who is to see events of a type: the context itself, which finds or makes the partition; its statements."""
        if not self._roster:
            return []
        listed = self.listed(type_name)
        readers = self._roster.readers(type_name)
        found: list[Subscription] = []
        if listed is not None:
            prompt = self._host.config.prioritized
            droppers = dropping_members(readers, self.order)
            looks = report_drops(self._looks(listed, place, readers if prompt else None), place, droppers)
            found.append(Subscription(self.order, None, looks, looks, bool(droppers)))
            if not prompt:  # it opens where the first of its statements is: there it came to life
                first = min(member.order for member in self.statements if member is not None)
                shows = self._shows(place, readers)
                found.append(Subscription(first, None, shows, shows, reads=listed))
        for member, reading in readers:
            takes = [self._takes(member, listed, place, take) for take in (reading.checked, reading.matched)]
            order = dispatch_order(member, reading, self.order)
            by_value = listed is not None
            more = reading.drops, reading.type, by_value, reading.late
            found.append(Subscription(order, reading.condition, takes[0], takes[1], *more))
        return found

    def owning(self, type_name: str, event: Any) -> Sequence[ContextPartition]:
        """The live partition that an event of a type belongs to, all of them if the type is not listed."""
        listed = self.listed(type_name)
        found = None if listed is None else self._find(listed, event)
        return list(self.partitions.values()) if listed is None else [] if found is None else [found]

    def allocate(self, key: Any, keys: Sequence[Any], time: int | None = None) -> ContextPartition:
        """A new partition for `key`, with fresh states of all statements, which begin at `time`; None: now."""
        properties = {f"key{i}": value for i, value in enumerate(keys, 1)}
        partition = ContextPartition(self._next_id, self.name, properties, key)
        self._next_id += 1
        clock, now = self._host.clock, self._host.clock.now
        try:
            clock.now = now if time is None else max(now, time)
            self._roster.begin(partition)
        finally:
            clock.now = now
        self.partitions[key] = partition  # when a state could not begin (a variable has no such size) there is none
        self._tell("allocated", partition, time)
        self._roster.opened(partition)
        return partition

    def around(self, partition: ContextPartition) -> tuple[list[DetachedNode], dict[str, PartitionNode]]:
        """Nothing but its key is beside a partition."""
        return [], {}

    def placeholder_nodes(self) -> dict[str, PartitionNode]:
        """As of `Context`."""
        return {}

    def admit(
        self, partition: ContextPartition, around: Sequence[DetachedNode], nodes: Mapping[str, PartitionNode]
    ) -> None:
        """Put in a partition that has its states, in place of the one of its key, under its own id if that is free."""
        former = self.partitions.pop(partition.place, None)
        if former is not None:
            former.ended = True
            self._roster.forget(former)
            self._tell("deallocated", former)
        behind = self.partitions and partition.id <= next(reversed(self.partitions.values())).id
        if behind and any(each.id == partition.id for each in self.partitions.values()):
            partition.id = self._next_id
        self._next_id = max(self._next_id, partition.id + 1)
        self.partitions[partition.place] = partition
        if behind:
            found = sorted(self.partitions.values(), key=lambda each: each.id)
            self.partitions.clear()
            self.partitions.update((each.place, each) for each in found)
        self._tell("allocated", partition)

    def _shows(self, place: int, readers: Sequence[tuple[ContextMember, EventReader]]) -> EventHandler:
        """What shows an event in the partition that it has made."""

        def on_event(event: Any, rounds: ContextSlots) -> None:
            found = rounds[place]
            if isinstance(found, NewPartitionRouting) and found.made is not None:
                rounds[place] = NewPartitionRouting(deliver_to_members(readers, event, found.made))

        return on_event

    def _looks(
        self, listed: str, place: int, readers: Sequence[tuple[ContextMember, EventReader]] | None
    ) -> EventHandler:
        """What the context does with an event of listed type `listed`: find the partition, or make it.

        `readers`, the context's statements that read the event, in order, are shown it in a new one here and now; None:
        later (recorded: op_current_evaluation_context, tx_global_table_in_context).
        """
        locate, partitions, clock = self._ways[listed].locate, self.partitions, self._host.clock
        event_counters = self.event_counters  # somebody may begin to look while the event is located

        def on_event(event: Any, rounds: ContextSlots) -> None:
            try:
                key, keys = locate(event)
                partition = partitions.get(key)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self.failed(failure)
                return
            if partition is not None:
                rounds[place] = partition
            elif key is not OUTSIDE:
                partition = self.allocate(key, keys)
                rounds[place] = (
                    NewPartitionRouting((), partition)
                    if readers is None
                    else NewPartitionRouting(deliver_to_members(readers, event, partition))
                )
            if event_counters:
                count_event((partition,), clock.now)

        return on_event

    def _takes(self, member: ContextMember, listed: str | None, place: int, take: TakeEvent) -> EventHandler:
        """What hands an event to a statement, in the partitions that it belongs to."""
        if listed is None:
            return self._everywhere(member, take)
        slot = self._roster.members.index(member)
        if member.order < self.order:  # the context looks at the event, and may open a partition for it, later
            return self._ahead(listed, slot, take)

        def on_event(event: Any, rounds: ContextSlots) -> object:
            found = rounds[place]
            if found is None:
                return False
            if found.ended:
                return member in found.took
            return take(event, found.states[slot])

        return on_event

    def _ahead(self, listed: str, slot: int, take: TakeEvent) -> EventHandler:
        def on_event(event: Any, _rounds: ContextSlots) -> object:
            partition = self._find(listed, event)
            return partition is not None and take(event, partition.states[slot])

        return on_event

    def _everywhere(self, member: ContextMember, take: TakeEvent) -> EventHandler:
        partitions = self.partitions

        def on_event(event: Any, _rounds: ContextSlots) -> object:
            return member.guarded(take, event, list(partitions.values()))

        return on_event

    def _find(self, listed: str, event: Any) -> ContextPartition | None:
        """The partition of an event of listed type `listed`, if there is one."""
        try:
            key, _ = self._ways[listed].locate(event)
            return self.partitions.get(key)  # none is outside
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)
            return None

    def failed(self, failure: Exception) -> None:
        """Report a run-time failure."""
        self._notices.failed(self.name, failure)

    # -------------------------------------------------------------- replays
    def way(self, type_name: str) -> PartitionLocator | None:
        """As of `Assignable`."""
        listed = self.listed(type_name)
        return None if listed is None else self._ways[listed]

    def by_key(self) -> dict[Any, ContextPartition]:
        """As of `Assignable`."""
        return self.partitions

    def find(self, key: Any) -> ContextPartition | None:
        """As of `Assignable`."""
        return self.partitions.get(key)


def _described(partition: ContextPartition) -> dict[str, Any]:
    return {"id": partition.id, **partition.properties, "name": partition.name}


def keys_code(source: SourceWriter, code: str, types: Sequence[Type]) -> str:
    """Code of the key that stands for the tuple of values `code`; for a single value that of the value itself."""
    parts = [f"{code}[{i}]" for i in range(len(types))]
    keys = [key_code(source, part, type_) for part, type_ in zip(parts, types, strict=True)]
    if len(keys) == 1:
        return keys[0]
    return code if keys == parts else f"({', '.join(keys)})"


def compile_locators(spec: KeyedStreams, scope_in: lower.ScopeFactory) -> Locators:
    """For each stream how its events find their partition.

    Errors: Refusal for an expression that the row engine cannot run.
    """
    return {stream.event_type: _way(stream, scope_in) for stream in spec.streams}


def _way(stream: KeyedStream, scope_in: lower.ScopeFactory) -> PartitionLocator:
    decides = keys_are_deterministic(stream.filter, stream.keys)
    as_is = decides and stream.filter is None and len(stream.keys) == 1 and isinstance(stream.keys[0], x.Prop)
    return PartitionLocator(_locator(stream, scope_in), read_properties(stream.filter, *stream.keys), decides, as_is)


def _locator(stream: KeyedStream, scope_in: lower.ScopeFactory) -> Callable[[Any], PartitionLocation]:
    source = SourceWriter()
    names = lower.property_names(stream.filter, *stream.keys)
    scope = scope_in(source).at(
        props=lower.property_codes({name: f"p{i}" for i, name in enumerate(names)}), events={0: "e"}
    )
    source.bind("OUTSIDE", OUTSIDE)
    with source.block("def locate(e):"):
        for i, name in enumerate(names):
            source.line(f"p{i} = e.get({source.const(name, 'n')})")
        if stream.filter is not None:
            with source.block(f"if not ({lower.filter_condition(scope, stream.filter)}):"):
                source.line("return OUTSIDE, None")
        source.line(f"keys = ({''.join(lower.value(scope, e) + ', ' for e in stream.keys)})")
        source.line(f"return {keys_code(source, 'keys', [e.type for e in stream.keys])}, keys")
    locate: Callable[[Any], PartitionLocation] = source.load()["locate"]
    return locate
