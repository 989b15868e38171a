"""Tree contexts: all contexts except flat keyed ones.

The levels of the context (one, without nesting) form a tree; the leaves are its context partitions. Rules recorded from
the reference: partition ids count from 0 in the order of allocation over the whole tree and are not reused while the
context is active; an event that allocates a partition is delivered to all statements at the context's own position in
the order; an event that ends one is not delivered to them; statements of an ending partition end in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from cepbook.engine.contexts.conditions import CompiledLevels
from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.event_routing import EventRouting
from cepbook.engine.contexts.lifecycle import NonOverlappingBranch
from cepbook.engine.contexts.locator import PartitionLocator
from cepbook.engine.contexts.members import ContextSubscriptions, dispatch_order, dropping_members, report_drops
from cepbook.engine.contexts.partition import ContextPartition, PartitionAssignment
from cepbook.engine.contexts.partition_listeners import PartitionListeners
from cepbook.engine.contexts.selectors import LevelIdentity, PartitionIdentity
from cepbook.engine.contexts.tree_levels import (
    assignment_obstacle,
    build_levels,
    has_single_period,
    levels_from,
    locator_through,
)
from cepbook.engine.contexts.tree_nodes import Branch, DetachedNode, PartitionNode, count_event_in_tree
from cepbook.engine.contexts.tree_partitions import TreePartitions
from cepbook.engine.services import EngineServices
from cepbook.engine.subscriptions.filter_index import (
    ContextSlots,
    EventHandler,
    IndexCondition,
    StatementOrder,
    Subscription,
)
from cepbook.engine.time.clock import NEVER
from cepbook.engine.time.timers import DueEntry
from cepbook.lang.plan.nodes import CreateContextTreeStatement


class TreeContext(TreePartitions):
    """The live partitions of one tree context. The slot of an event holds its `EventRouting`, or None if no partition
    begins or ends with it.
    """

    SAVED = ("_correlations", "_root", "_serial", "_waiting", "_warned", "next_id", "order", "partitions")
    PASSING = ("_readers", "event_counters")

    def __init__(
        self,
        plan: CreateContextTreeStatement,
        levels: CompiledLevels,
        order: StatementOrder,
        host: EngineServices,
        listeners: PartitionListeners,
    ) -> None:
        super().__init__(plan, order, host, listeners)
        self._outermost = build_levels(levels, self)
        self.replay_obstacle = assignment_obstacle(self._outermost)
        self.single_period = has_single_period(self._outermost)
        self._locators: dict[str, PartitionLocator | None] = {}  # by event type
        self._root: Branch | None = None

    def join(self, statement: ContextMember) -> int:
        slot = self._members.add(statement, self.partitions.values())
        self._readers.clear()
        self._correlations.add_statement(slot, statement, self.partitions.values())
        if self._root is None:
            self.notify("activated", None)
            self.timed.attach(self._host.clock)
            self._root = self._outermost.branch(None)
            self._joining = not self._host.restoring
            if self._joining:
                self.guarded(self._root.open)
            self._joining = False
        return slot

    @property
    def due(self) -> int:
        return self.timed.due

    def concerns(self, type_name: str) -> bool:
        return self._outermost.concerns(type_name)

    def turning_conditions(self, type_name: str) -> list[tuple[IndexCondition, ...]] | None:
        return self._root.turning_conditions(type_name) if isinstance(self._root, NonOverlappingBranch) else None

    def _removed(self, slot: int) -> None:
        self._readers.clear()
        self._correlations.remove_statement(slot)

    def _deactivate(self) -> None:
        assert self._root is not None
        self._root.drop()
        self._root = None
        self.timed.detach()
        self._waiting.clear()

    @property
    def root(self) -> Branch | None:
        """The branch of the outermost level; None while the context is not active."""
        return self._root

    def outer_nodes(self) -> Iterator[PartitionNode]:
        """Return the live nodes of outer levels."""
        branches = [] if self._root is None else [self._root]
        for branch in branches:
            for node in branch.children.values():
                if node.below is not None:
                    yield node
                    branches.append(node.below)

    def rewired(self) -> None:
        self._readers.clear()
        self._locators.clear()
        for level in levels_from(self._outermost):
            level.rewired()

    def delivers_repeatedly(self, type_names: Iterable[str], at_end: bool) -> bool:
        """Return False only if keys and hashes divide all these events and no delivery coincides with an end.

        Otherwise, an event may reach several partitions, or begin one and reach another.
        """
        level = self._outermost
        alone = self.replay_obstacle is None or level.inner is None
        divides = alone and all(inner.compiled.spec.exclusive for inner in levels_from(level))
        return not divides or (at_end and level.compiled.ends is not None) or not all(map(level.stream, type_names))

    def subscribers(self, type_name: str, known: ContextSubscriptions) -> list[Subscription]:
        position = known.position
        readers = self._readers[type_name] = self._members.readers(type_name, known.readers)
        concerned = self._outermost.concerns(type_name)
        if self._root is None or not (readers or concerned):
            return []

        selects = self._outermost.selects(type_name)

        def route(event: Any, slots: ContextSlots) -> None:
            root = self._root
            if not (self.event_counters or selects or (concerned and root and not root.ignores(type_name, event))):
                return  # handlers find an empty slot
            routing = slots[position] = EventRouting(type_name, event, self.next_id)
            if concerned:
                self._process(routing)
            if self.event_counters:
                new = takewhile(lambda partition: partition.id >= routing.first_new, reversed(self.partitions.values()))
                partitions = *self._older_targets(routing), *new
                count_event_in_tree(partitions, self._host.clock.now)

        droppers = dropping_members(readers, self.order)
        routes = report_drops(route, position, droppers)
        if self.event_counters or selects or concerned:
            condition = None if self.event_counters or selects else self._outermost.filter(type_name)
            known.own = [Subscription(self.order, condition, routes, routes, bool(droppers))]
        # Without priorities the order depends on conditions (recorded), and those of these statements do not count.
        indexed = self._host.config.prioritized and not selects
        for member, reader in readers:
            if member.name in known.members:
                continue
            checked = self._handler(member, type_name, position, reader.checked)
            matched = self._handler(member, type_name, position, reader.matched) if indexed else checked
            more = reader.drops, reader.type, selects, reader.late
            order, condition = dispatch_order(member, reader, self.order), reader.condition if indexed else None
            known.members[member.name] = Subscription(order, condition, checked, matched, *more)
        return [*known.own, *known.members.values()]

    def partitions_of_event(self, type_name: str, event: Any) -> Sequence[ContextPartition]:
        return list(self._older_targets(EventRouting(type_name, event, NEVER)))

    def _handler(
        self, member: ContextMember, type_name: str, position: int, take: Callable[..., object]
    ) -> EventHandler:
        slot = self._members.statements.index(member)
        older_targets, guarded = self._older_targets, member.guarded
        selects = self._outermost.selects(type_name)
        correlated = member.correlation is not None and not selects

        def on_event(event: Any, slots: ContextSlots) -> object:
            routing: EventRouting | None = slots[position]
            targets: Sequence[ContextPartition] | None
            if routing is None:  # the context has not seen the event yet, or it neither ends nor allocates a partition
                if selects:
                    targets = older_targets(EventRouting(type_name, event, NEVER))
                else:
                    targets = self._correlations.candidates(slot, event) if correlated else None
                if targets is None:
                    targets = list(self.partitions.values())
                return bool(targets) and guarded(take, event, targets)
            targets = self._correlated_targets(routing, slot) if correlated else None
            if targets is None:
                targets = routing.targets
                if targets is None:
                    targets = routing.targets = older_targets(routing)
            taken = guarded(take, event, targets)
            return taken or member in routing.taken_by

        return on_event

    def _process(self, routing: EventRouting) -> None:
        """End and allocate partitions for an event, and deliver it in the partitions that it allocated."""
        if self._root is not None:
            try:
                self._root.on_event(routing)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self.failed(failure)
            if routing.deferred:
                self._deliver_deferred(routing)

    def _deliver_deferred(self, routing: EventRouting) -> None:
        """Deliver an event in the partitions that existed, and then in those of inner levels that it allocated."""
        for partition in self._older_targets(routing):
            self.deliver_behind(partition, routing)
        routing.targets = ()
        for partition, deferred in routing.deferred:
            self._deliver(partition, deferred, self.readers_of(deferred.type_name))

    def _correlated_targets(self, routing: EventRouting, slot: int) -> Sequence[ContextPartition] | None:
        """Return the candidates of the correlation index for a statement, by id; None if it cannot tell."""
        candidates = None if routing.targets == () else self._correlations.candidates(slot, routing.event)
        return None if candidates is None else _older_than_event(routing, candidates)

    def _older_targets(self, routing: EventRouting) -> Sequence[ContextPartition]:
        """Return the partitions, by id, that an event belongs to and did not allocate."""
        if self._root is None:
            return ()
        if not self._outermost.selects(routing.type_name):
            return _older_than_event(routing, list(self.partitions.values()))
        partitions: list[ContextPartition] = []
        try:
            self._root.collect_partitions(routing, partitions)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)
        if len(partitions) > 1:
            partitions.sort(key=lambda partition: partition.id)
        return _older_than_event(routing, partitions)

    def end_partition(self, id_: int) -> bool:
        partition = self.partitions.get(id_)
        if partition is not None:
            self.guarded(lambda: partition.owner.branch.end_by_hand(partition.owner))
        return partition is not None

    def locator(self, type_name: str) -> PartitionLocator | None:
        """Return the locator of a type. Its keys are tuples of the keys of all levels, outermost first."""
        if type_name not in self._locators:
            self._locators[type_name] = locator_through(self._outermost, type_name)
        return self._locators[type_name]

    def find(self, key: Any) -> PartitionAssignment:
        partitions: list[ContextPartition] = []
        complete = self._root is not None and self._root.gather(key, partitions)
        return _assignment([], partitions) if complete else None

    def allocate(self, key: Any, keys: Any, time: int) -> PartitionAssignment:
        """Return the partitions of a key and allocate missing ones, with the missing nodes around them."""
        assert self._root is not None
        new, older = list[ContextPartition](), list[ContextPartition]()
        clock, now = self._host.clock, self._host.clock.now
        try:
            clock.now = max(now, time)
            self._root.allocate_missing(key, keys, new, older)
        finally:
            clock.now = now
        return _assignment(new, older)

    def enclosing_state(self, partition: ContextPartition) -> tuple[Sequence[DetachedNode], dict[str, PartitionNode]]:
        """Return the state of the nodes around `partition`, outermost first, and these nodes by name."""
        path: list[PartitionNode] = partition.owner.path
        named = {f"node {depth}": node for depth, node in enumerate(path)}
        for depth, node in enumerate(path):
            waiting = None if node.below is None else node.below.waiting_node()
            if waiting is not None:
                named[f"waiting {depth}"] = waiting
        return [DetachedNode(node) for node in path], named

    def placeholder_nodes(self) -> Mapping[str, PartitionNode]:
        assert self._root is not None
        nodes: dict[str, PartitionNode] = {}
        for level in levels_from(self._outermost):
            nodes[f"node {level.depth}"] = PartitionNode(self._root, None, {})
            nodes[f"waiting {level.depth}"] = PartitionNode(self._root, None, {})
        return nodes

    def admit(self, partition: ContextPartition, enclosing: Sequence[Any], nodes: Mapping[str, PartitionNode]) -> None:
        """Put in a saved partition in place of its counterpart, under its own id if that is free.

        Nodes of outer levels that live here stay as they are. Missing ones come with the partition.
        """
        branch = self._root
        for depth, detached in enumerate(enclosing):
            assert branch is not None
            inner = branch.level.inner
            live = branch.counterpart(detached)
            node = nodes[f"node {depth}"]
            if inner is None:
                self._replace(live, node, partition)
                branch.adopt(node, detached)
            elif live is not None:
                node = live
            else:
                branch.adopt(node, detached)
                node.below = inner.branch(node)
                node.below.resume(nodes[f"waiting {depth}"], detached.waiting)
            branch = node.below
        partition.properties = node.properties
        if node.branch.level.nested:
            partition.properties = {outer.name: outer.properties for outer in node.path}
            node.properties["id"] = partition.id
        out_of_order = self.partitions and partition.id < next(reversed(self.partitions))
        self.partitions[partition.id] = partition
        if out_of_order:
            self.partitions = dict(sorted(self.partitions.items()))
        self._correlations.add(partition)
        self._correlations.restore_order(partition)
        self.notify("allocated", partition)

    def _replace(self, live: PartitionNode | None, node: PartitionNode, partition: ContextPartition) -> None:
        if live is not None:
            former = live.partition
            assert former is not None
            former.ended = live.ended = True
            live.branch.unwatch_end(live)
            del live.branch.children[live.key]
            del self.partitions[former.id]
            self._correlations.remove(former)
            self._members.forget(former)
            self.notify("deallocated", former)
        if partition.id in self.partitions:
            partition.id = self.next_id
        self.next_id = max(self.next_id, partition.id + 1)
        partition.owner, partition.correlation_keys, node.partition = node, None, partition

    def identity(self, partition: ContextPartition) -> PartitionIdentity:
        path: list[PartitionNode] = partition.owner.path
        levels = (
            LevelIdentity(node.name, node.branch.level.kind, node.branch.identity(node), node.visible_properties)
            for node in path
        )
        return PartitionIdentity(partition.id, self.described(partition), tuple(levels))

    def described(self, partition: ContextPartition) -> dict[str, Any]:
        leaf: PartitionNode = partition.owner
        properties = leaf.visible_properties
        if leaf.branch.level.nested:
            properties = {node.name: node.visible_properties for node in leaf.path}
        return {"id": partition.id, **properties, "name": partition.name}

    def fire(self, now: int, entries: list[DueEntry]) -> None:
        """Handle due timers of conditions, each once, by time, then from outer levels to inner ones."""
        routing = EventRouting("", None, self.next_id)
        for _, path in entries:
            if path in self._waiting:
                watch, owner = self._waiting.pop(path)
                owner.due = NEVER
                try:
                    for match in watch.on_timer(owner, self.now):
                        if not owner.ended:
                            watch.branch.on_condition(owner, match, routing)
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    self.failed(failure)


def _older_than_event(routing: EventRouting, partitions: Sequence[ContextPartition]) -> Sequence[ContextPartition]:
    """Return those of `partitions`, which are in order of ids, that the event did not allocate."""
    if not partitions or partitions[-1].id < routing.first_new:
        return partitions
    return [partition for partition in partitions if partition.id < routing.first_new]


def _assignment(new: Sequence[ContextPartition], older: Iterable[ContextPartition]) -> PartitionAssignment:
    """Return the assignment to `new` partitions, which receive an event first, and to `older` ones by id."""
    partitions = (*new, *sorted(older, key=lambda partition: partition.id))
    return partitions[0] if len(partitions) == 1 else partitions
