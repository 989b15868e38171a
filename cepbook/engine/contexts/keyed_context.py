"""Flat keyed contexts: ``partition by`` without conditions and without nesting.

Rules recorded from the reference: every event of a listed stream allocates, whatever the filters of the statements; the
filter of the context hides events from its statements; null is a key like any other; partition ids count from 0 and are
not reused while the context is active.

An event has a *context slot* for each context that reads its type. The context's handler leaves the partition there for
the handlers of the statements. The *slot* of a statement is the index of its state in ``partition.states``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.context_compiler import Locators
from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.locator import OUTSIDE, PartitionLocator
from cepbook.engine.contexts.members import (
    ContextSubscriptions,
    Readers,
    deliver_to_members,
    dispatch_order,
    dropping_members,
    report_drops,
)
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.contexts.partition_listeners import PartitionListeners
from cepbook.engine.contexts.selectors import LevelIdentity, PartitionIdentity
from cepbook.engine.services import EngineServices
from cepbook.engine.subscriptions.filter_index import ContextSlots, EventHandler, StatementOrder, Subscription
from cepbook.lang.plan.nodes import CreateContextStatement

TakeEvent = Callable[[Any, Any], object]  # (event, state)


class NewPartitionRouting:
    """The content of the context slot of an event that allocated its partition. Those of `taken_by` consumed the event.

    If `partition` is set, the statements have not received the event yet. Otherwise all of them have.
    """

    __slots__ = ("partition", "taken_by")
    ended = True  # as of an ended `ContextPartition`: a handler of a statement processes the event in neither

    def __init__(self, taken_by: Sequence[ContextMember], partition: ContextPartition | None = None) -> None:
        self.taken_by = taken_by
        self.partition = partition


class FlatKeyedContext(Context):
    """The live partitions of one flat keyed context, by key.

    The context slot of an event of a listed type holds its `ContextPartition`, a `NewPartitionRouting` if the event
    allocated it, or None if the event is outside. An event of any other type belongs to all partitions.
    """

    SAVED = ("next_id", "order", "partitions")
    replay_obstacle = None

    def __init__(
        self,
        plan: CreateContextStatement,
        locators: Locators,
        order: StatementOrder,
        host: EngineServices,
        listeners: PartitionListeners,
    ) -> None:
        super().__init__(plan, order, host, listeners)
        self.partitions: dict[Any, ContextPartition] = {}  # new ones come last, so they are in order of ids
        self._locators = locators

    def join(self, statement: ContextMember) -> int:
        if not self._members:
            self.notify("activated", None)
        return self._members.add(statement, self.partitions.values())

    def end_partition(self, id_: int) -> bool:
        """End a partition; the next event of its key allocates another. Return False if there is none with this id."""
        partition = next((p for p in self.partitions.values() if p.id == id_), None)
        if partition is None:
            return False
        partition.ended = True
        del self.partitions[partition.owner]
        self._members.end(partition)
        self.notify("deallocated", partition)
        return True

    def identity(self, partition: ContextPartition) -> PartitionIdentity:
        level = LevelIdentity(self.name, "keyed", tuple(partition.properties.values()), partition.properties)
        return PartitionIdentity(partition.id, self.described(partition), (level,))

    def described(self, partition: ContextPartition) -> dict[str, Any]:
        return {"id": partition.id, **partition.properties, "name": partition.name}

    def listed_type(self, type_name: str) -> str | None:
        """Return the listed type that events of a type belong to; None if they belong to all partitions."""
        is_a = self._host.catalog.is_a
        return next((listed for listed in self._locators if is_a(type_name, listed)), None)

    def delivers_repeatedly(self, type_names: Iterable[str], at_end: bool) -> bool:
        return any(self.listed_type(type_name) is None for type_name in type_names)

    def subscribers(self, type_name: str, known: ContextSubscriptions) -> list[Subscription]:
        if not self._members:
            return []
        listed, position = self.listed_type(type_name), known.position
        readers = self._members.readers(type_name, known.readers)
        at_once = listed is not None and self._host.config.prioritized
        if listed is not None:
            droppers = dropping_members(readers, self.order)
            routes = report_drops(self._router(listed, position, readers if at_once else None), position, droppers)
            known.own = [Subscription(self.order, None, routes, routes, bool(droppers))]
            if not at_once:  # a new partition receives its first event when the first statement is to receive it
                first = min(member.order for member in self.statements if member is not None)
                delivers = self._delivery_to_new(position, readers)
                known.own.append(Subscription(first, None, delivers, delivers, reads=listed))
        for member, reader in readers:
            if member.name in known.members:
                continue
            known.members[member.name] = Subscription(
                dispatch_order(member, reader, self.order),
                reader.condition,
                checked=self._handler(member, type_name, listed, position, reader.checked),
                matched=self._handler(member, type_name, listed, position, reader.matched),
                drops=reader.drops,
                reads=reader.type,
                within=listed is not None,
                late=reader.late,
                alone=self._handler_alone(listed, member, reader.checked) if at_once else None,
            )
        return [*known.own, *known.members.values()]

    def partitions_of_event(self, type_name: str, event: Any) -> Sequence[ContextPartition]:
        listed = self.listed_type(type_name)
        if listed is None:
            return list(self.partitions.values())
        partition = self._find_for(listed, event)
        return [] if partition is None else [partition]

    def allocate(self, key: Any, keys: Sequence[Any], time: int | None = None) -> ContextPartition:
        """Allocate a partition for `key`, which becomes its owner, with fresh states of all statements. These begin
        now, or at `time` if that is later.
        """
        properties = {f"key{i}": value for i, value in enumerate(keys, 1)}
        partition = ContextPartition(self.next_id, self.name, properties, key)
        self.next_id += 1
        clock, now = self._host.clock, self._host.clock.now
        try:
            clock.now = now if time is None else max(now, time)
            self._members.create_states(partition)
        finally:
            clock.now = now
        self.partitions[key] = partition  # not reached if a state could not begin (for example, a window size is null)
        self.notify("allocated", partition, time)
        self._members.opened(partition)
        return partition

    def admit(self, partition: ContextPartition, enclosing: Sequence[Any], nodes: Mapping[str, Any]) -> None:
        """Put in a saved partition in place of the one with its key, under its own id if that is free."""
        former = self.partitions.pop(partition.owner, None)
        if former is not None:
            former.ended = True
            self._members.forget(former)
            self.notify("deallocated", former)
        out_of_order = self.partitions and partition.id <= next(reversed(self.partitions.values())).id
        if out_of_order and any(other.id == partition.id for other in self.partitions.values()):
            partition.id = self.next_id
        self.next_id = max(self.next_id, partition.id + 1)
        self.partitions[partition.owner] = partition
        if out_of_order:
            partitions = sorted(self.partitions.values(), key=lambda other: other.id)
            self.partitions.clear()
            self.partitions.update((other.owner, other) for other in partitions)
        self.notify("allocated", partition)

    def _delivery_to_new(self, position: int, readers: Readers) -> EventHandler:
        """Return a handler that delivers an event in the partition that it allocated."""

        def on_event(event: Any, slots: ContextSlots) -> None:
            slot = slots[position]
            if isinstance(slot, NewPartitionRouting) and slot.partition is not None:
                slots[position] = NewPartitionRouting(deliver_to_members(readers, event, slot.partition))

        return on_event

    def _router(self, listed: str, position: int, readers: Readers | None) -> EventHandler:
        """Return the context's handler for events of a listed type: it finds or allocates the partition.

        If `readers` are given (the statements that read the event, in order), a new partition receives the event at
        once; otherwise later (recorded: op_current_evaluation_context, tx_global_table_in_context).
        """
        locate, partitions, clock = self._locators[listed].locate, self.partitions, self._host.clock
        event_counters = self.event_counters  # the list may change while the event is located

        def on_event(event: Any, slots: ContextSlots) -> None:
            try:
                key, keys = locate(event)
                partition = partitions.get(key)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self.failed(failure)
                return
            if partition is not None:
                slots[position] = partition
            elif key is not OUTSIDE:
                partition = self.allocate(key, keys)
                if readers is None:
                    slots[position] = NewPartitionRouting((), partition)
                else:
                    slots[position] = NewPartitionRouting(deliver_to_members(readers, event, partition))
            if event_counters and partition is not None:
                partition.arrived += 1
                partition.last = clock.now

        return on_event

    def _handler(
        self, member: ContextMember, type_name: str, listed: str | None, position: int, take: TakeEvent
    ) -> EventHandler:
        """Return the handler that passes an event to a statement, in the partitions that the event belongs to."""
        slot, row_listed = self._members.statements.index(member), self.listed_type(self.row_type(type_name))
        if row_listed is None:
            partitions = self.partitions
            return lambda event, _slots: member.guarded(take, event, list(partitions.values()))
        if listed is None or member.order < self.order:  # the context leaves no partition in its slot, or only later
            return self._locating_handler(row_listed, slot, take)

        def on_event(event: Any, slots: ContextSlots) -> object:
            partition = slots[position]
            if partition is None:
                return False
            if partition.ended:
                return member in partition.taken_by
            return take(event, partition.states[slot])

        return on_event

    def _handler_alone(
        self, listed: str | None, member: ContextMember, take: TakeEvent
    ) -> Callable[[Callable[[Any], object]], Callable[[Any], object]] | None:
        """Return `Subscription.alone` of a statement: its handler finds the partition itself, without a dispatch. None
        unless the partition key is the value of a single property, as it is.
        """
        locator = None if listed is None or member.order < self.order else self._locators[listed]
        if locator is None or not locator.as_is or locator.reads is None:
            return None
        slot, partitions, event_counters = self._members.statements.index(member), self.partitions, self.event_counters
        (name,) = locator.reads

        def alone(dispatch: Callable[[Any], object]) -> Callable[[Any], object]:
            def on_event(event: Any) -> object:
                try:
                    partition = partitions.get(event.get(name))
                except Exception:  # noqa: BLE001 - `dispatch` reports it
                    partition = None
                if partition is None or partition.ended or event_counters:
                    return dispatch(event)
                return take(event, partition.states[slot])

            return on_event

        return alone

    def _locating_handler(self, listed: str, slot: int, take: TakeEvent) -> EventHandler:
        """Return a handler that locates the partition itself, and processes the event only if the partition exists."""

        def on_event(event: Any, _slots: ContextSlots) -> object:
            partition = self._find_for(listed, event)
            return partition is not None and take(event, partition.states[slot])

        return on_event

    def _find_for(self, listed: str, event: Any) -> ContextPartition | None:
        try:
            key, _ = self._locators[listed].locate(event)
            return self.partitions.get(key)  # no partition has the key OUTSIDE
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)
            return None

    def locator(self, type_name: str) -> PartitionLocator | None:
        listed = self.listed_type(type_name)
        return None if listed is None else self._locators[listed]

    def partitions_by_key(self) -> dict[Any, ContextPartition]:
        return self.partitions

    def find(self, key: Any) -> ContextPartition | None:
        return self.partitions.get(key)
