"""All contexts but plain keyed ones: a tree of levels (one, without nesting); its leaves are the context partitions.

Rules recorded from the reference: partition ids count from 0 in the order of allocation over the whole tree and are not
reused while the context is active; what allocates a partition is shown to all statements at the context's own
place in the order; what ends one is not shown to them; statements of an ending partition end in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from cepbook.engine.contexts.assigner import PartitionAssigner, PartitionLocator
from cepbook.engine.contexts.condition_watch import ConditionWatch
from cepbook.engine.contexts.context_compiler import CompiledLevels
from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.correlation_index import CorrelationIndex
from cepbook.engine.contexts.event_counts import PartitionCounts, count_event_in_tree
from cepbook.engine.contexts.event_routing import EventRouting
from cepbook.engine.contexts.members import (
    ContextMembers,
    deliver_to_members,
    dispatch_order,
    dropping_members,
    report_drops,
)
from cepbook.engine.contexts.partition import ContextPartition, PartitionAssignment
from cepbook.engine.contexts.partition_listeners import NoticeKind, PartitionListeners, PartitionNotice
from cepbook.engine.contexts.selectors import LevelIdentity, PartitionIdentity
from cepbook.engine.contexts.tree_levels import (
    Level,
    assignment_obstacle,
    build_levels,
    levels_from,
    locator_through,
    visible_properties,
)
from cepbook.engine.contexts.tree_nodes import Branch, DetachedNode, PartitionNode
from cepbook.engine.patterns.matcher import Matcher, PatternProgram
from cepbook.engine.services import EngineServices
from cepbook.engine.subscriptions.filter_index import (
    ContextSlots,
    EventHandler,
    EventReader,
    StatementOrder,
    Subscription,
)
from cepbook.engine.time.clock import NEVER
from cepbook.engine.time.timers import DueEntry, OwnerTimers
from cepbook.errors import StatementError
from cepbook.lang.plan.context import HashSpec, KeyedSpec
from cepbook.lang.plan.nodes import CreateContextTreeStatement

# of a timer: depth of the level, what begins before what ends, serial
TimerPath = tuple[int, int, int]


class TreeContext:
    """The live partitions of one context. What an event is to it is its `EventRouting`."""

    SAVED = ("_next_id", "_root", "_serial", "_tables", "_waiting", "_warned", "order", "partitions")
    PASSING = ("_readers", "event_counters")

    def __init__(
        self,
        plan: CreateContextTreeStatement,
        form: CompiledLevels,
        order: StatementOrder,
        host: EngineServices,
        notices: PartitionListeners,
    ) -> None:
        self.plan = plan
        self.name = plan.context.name
        self.order = order
        self.timed = OwnerTimers(order, self.fire, self.failed, leads=True)
        self.partitions: dict[int, ContextPartition] = {}  # by id, in order of allocation
        self._host = host
        self._notices = notices
        self._levels = build_levels(form, self)
        self.objection = assignment_obstacle(self._levels)
        self._ways: dict[str, PartitionLocator | None] = {}  # by event type
        self._root: Branch | None = None
        self._waiting: dict[TimerPath, tuple[ConditionWatch, PartitionNode]] = {}  # who has a timer
        self._serial = 0
        self._next_id = 0
        self.event_counters: list[PartitionCounts] = []
        self._roster = ContextMembers(host.clock)
        self._tables = CorrelationIndex()
        self._joining = False
        self._warned = False
        self._readers: dict[str, list[tuple[ContextMember, EventReader]]] = {}  # by event type

    # -------------------------------------------------------------- statements
    @property
    def statements(self) -> Sequence[ContextMember | None]:
        """Its statements by slot; None where one has gone."""
        return self._roster.members

    @property
    def assigner(self) -> PartitionAssigner | None:
        """None where there is an `objection`."""
        return PartitionAssigner(self) if self.objection is None else None

    @property
    def watched(self) -> bool:
        """Whether a partition listener listens to this context and no other."""
        return self._notices.watched(self.name)

    def join(self, statement: ContextMember) -> int:
        """Add a statement; it gets a state in every live partition. Returns its slot. The first one activates."""
        slot = self._roster.join(statement, self.partitions.values())
        self._readers.clear()
        self._tables.join(slot, statement, self.partitions.values())
        if self._root is None:
            self._tell("activated", None)
            self.timed.attach(self._host.clock)
            self._root = self._levels.branch(None)
            self._joining = True
            self._guarded(self._root.open)
            self._joining = False
        return slot

    def part(self, statement: ContextMember) -> None:
        """Remove a statement; without statements the context forgets its partitions, without any output."""
        slot = self._roster.part(statement, self.partitions.values())
        self._readers.clear()
        self._tables.part(slot)
        if self._roster:
            return
        assert self._root is not None
        for partition in self.partitions.values():
            partition.ended = True
            self._tell("deallocated", partition)
        self._root.drop()
        self._root = None
        self.timed.detach()
        self._roster.members.clear()
        self.partitions.clear()
        self._waiting.clear()
        self._next_id = 0
        self._tell("deactivated", None)

    @property
    def root(self) -> Branch | None:
        """The live nodes of the outermost level; None while the context is not active."""
        return self._root

    def outer_nodes(self) -> Iterator[PartitionNode]:
        """The live nodes of outer levels."""
        branches = [] if self._root is None else [self._root]
        for branch in branches:
            for node in branch.children.values():
                if node.below is not None:
                    yield node
                    branches.append(node.below)

    def rewired(self) -> None:
        """Event types or statements changed."""
        self._readers.clear()
        self._ways.clear()
        level: Level | None = self._levels
        while level is not None:
            level.rewired()
            level = level.inner

    def _readers_of(self, type_name: str) -> list[tuple[ContextMember, EventReader]]:
        """The statements that read events of a type, in order of priority and deployment."""
        found = self._readers.get(type_name)
        if found is None:
            found = self._readers[type_name] = self._roster.readers(type_name)
        return found

    # -------------------------------------------------------------- events
    def several(self, type_names: Iterable[str], at_end: bool) -> bool:
        """Unless keys and hashes divide all these events, and no statement delivers at the end of what they divide: an
        event may reach several partitions, or begin one and reach another."""
        level, alone = self._levels, self.objection is None or self._levels.inner is None
        divides = alone and all(isinstance(each.form.spec, (KeyedSpec, HashSpec)) for each in levels_from(level))
        return not divides or (at_end and level.form.ends is not None) or not all(map(level.stream, type_names))

    def subscribers(self, type_name: str, place: int) -> list[Subscription]:
        """Who is to see events of a type: the context itself, which ends and allocates, and its statements."""
        readers = self._readers_of(type_name)
        if self._root is None or not (readers or self._levels.concerns(type_name)):
            return []
        concerned = self._levels.concerns(type_name)

        def looks(event: Any, rounds: ContextSlots) -> None:
            round_ = rounds[place] = EventRouting(type_name, event, self._next_id)
            if concerned:
                self._look(round_)
            if self.event_counters:
                count_event_in_tree((*self._older(round_), *self._since(round_.first)), self._host.clock.now)

        droppers = dropping_members(readers, self.order)
        look = report_drops(looks, place, droppers)
        found = [Subscription(self.order, None, look, look, bool(droppers))]
        for member, reading in readers:
            takes = self._takes(member, type_name, place, reading.checked)
            more = reading.drops, reading.type, self._levels.selects(type_name), reading.late
            found.append(Subscription(dispatch_order(member, reading, self.order), None, takes, takes, *more))
        return found

    def _since(self, first: int) -> Iterator[ContextPartition]:
        """The live partitions with an id from `first` on, newest first."""
        return takewhile(lambda partition: partition.id >= first, reversed(self.partitions.values()))

    def owning(self, type_name: str, event: Any) -> Sequence[ContextPartition]:
        """The live partitions that an event of a type belongs to, by id."""
        return list(self._older(EventRouting(type_name, event, NEVER)))

    def _takes(
        self, member: ContextMember, type_name: str, place: int, take: Callable[[Any, Any], object]
    ) -> EventHandler:
        """What hands an event to a statement, in all partitions that it belongs to."""
        slot = self._roster.members.index(member)
        ahead = member.order < self.order
        older, guarded = self._older, member.guarded
        correlated = member.correlation is not None and not self._levels.selects(type_name)

        def on_event(event: Any, rounds: ContextSlots) -> object:
            round_: EventRouting = EventRouting(type_name, event, NEVER) if ahead else rounds[place]
            targets = self._correlated(round_, slot) if correlated else None
            if targets is None:
                targets = round_.targets
                if targets is None:
                    targets = round_.targets = older(round_)
            took = guarded(take, event, targets)
            return took or member in round_.took

        return on_event

    def _look(self, round_: EventRouting) -> None:
        """What the context does with an event, at its own place in the order: end partitions, allocate others.

        Statements are shown the event in the partitions that it allocates, here and now.
        """
        if self._root is not None:
            try:
                self._root.on_event(round_)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self.failed(failure)
            if round_.late:
                self._show_late(round_)

    def _show_late(self, round_: EventRouting) -> None:
        """Show an event in the partitions that were there, and then in those of inner levels that it allocated."""
        for partition in self._older(round_):
            self._show_behind(partition, round_)
        round_.targets = ()
        for partition, late in round_.late:
            self._show(partition, late, self._readers_of(late.type_name))

    def _correlated(self, round_: EventRouting, slot: int) -> Sequence[ContextPartition] | None:
        """The partitions, by id, that the filter of the statement at `slot` does not exclude by a key; None: all."""
        found = None if round_.targets == () else self._tables.find(slot, round_.event)
        return None if found is None else _before(round_, found)

    def _older(self, round_: EventRouting) -> Sequence[ContextPartition]:
        """The partitions that an event belongs to, of those that it did not allocate, by id."""
        if self._root is None:
            return ()
        if not self._levels.selects(round_.type_name):
            return _before(round_, list(self.partitions.values()))
        found: list[ContextPartition] = []
        try:
            self._root.leaves(round_, found)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)
        if len(found) > 1:
            found.sort(key=lambda p: p.id)
        return _before(round_, found)

    def present(self, partition: ContextPartition, round_: EventRouting) -> None:
        """Show an event to all statements in a fresh partition."""
        if round_.defers:
            round_.late.append((partition, round_))
        else:
            self._show(partition, round_, self._readers_of(round_.type_name))

    def present_terminating_event(self, node: PartitionNode, round_: EventRouting) -> None:
        """Show an event to the statements behind the context in the partitions below a node that it ends."""
        found: list[ContextPartition] = []
        node.leaves(round_, found)
        for partition in found:
            self._show_behind(partition, round_)

    def _show_behind(self, partition: ContextPartition, round_: EventRouting) -> None:
        """Statements ahead of the context have seen it."""
        behind = [reader for reader in self._readers_of(round_.type_name) if reader[0].order > self.order]
        self._show(partition, round_, behind)

    def _show(
        self, partition: ContextPartition, round_: EventRouting, readers: Iterable[tuple[ContextMember, EventReader]]
    ) -> None:
        round_.took += deliver_to_members(readers, round_.event, partition)

    # -------------------------------------------------------------- partitions
    def open(self, node: PartitionNode) -> None:
        """Allocate the context partition of a leaf."""
        properties = node.properties
        if node.branch.level.nested:
            properties = {each.name: each.properties for each in _path(node)}
            node.properties["id"] = self._next_id
        partition = ContextPartition(self._next_id, self.name, properties, node)
        self._roster.begin(partition)
        node.partition = partition
        self.partitions[partition.id] = partition
        self._tables.open(partition)
        self._next_id += 1
        self._tell("allocated", partition)
        if not self._joining:
            self._roster.opened(partition)

    def close(self, node: PartitionNode) -> None:
        """The context partition of a leaf ends: its statements, last deployed first."""
        partition = node.partition
        assert partition is not None
        partition.ended = True
        del self.partitions[partition.id]
        self._tables.close(partition)
        self._roster.end(partition)
        self._tell("deallocated", partition)
        partition.place = None  # no circle with its node, so that it takes no collector to free the two

    def end_partition(self, id_: int) -> bool:
        """End a partition by hand, as a condition would. Whether there is one with this id."""
        partition = self.partitions.get(id_)
        if partition is not None:
            self._guarded(lambda: partition.place.branch.dismiss(partition.place))
        return partition is not None

    # -------------------------------------------------------------- replays
    def way(self, type_name: str) -> PartitionLocator | None:
        """As of `Assignable`; keys are those of all levels, outermost first."""
        if type_name not in self._ways:
            self._ways[type_name] = locator_through(self._levels, type_name)
        return self._ways[type_name]

    def by_key(self) -> dict[Any, ContextPartition]:
        """As of `Assignable`."""
        return {}

    def find(self, key: Any) -> PartitionAssignment:
        """As of `Assignable`."""
        found: list[ContextPartition] = []
        there = self._root is not None and self._root.gather(key, found)
        return _place([], found) if there else None

    def allocate(self, key: Any, keys: Any, time: int) -> PartitionAssignment:
        """As of `Assignable`: also the nodes around it, as far as they are not there."""
        assert self._root is not None
        new, older = list[ContextPartition](), list[ContextPartition]()
        clock, now = self._host.clock, self._host.clock.now
        try:
            clock.now = max(now, time)
            self._root.allocate_missing(key, keys, new, older)
        finally:
            clock.now = now
        return _place(new, older)

    # -------------------------------------------------------------- partitions from elsewhere
    def around(self, partition: ContextPartition) -> tuple[list[DetachedNode], dict[str, PartitionNode]]:
        """What there is of the nodes that `partition` is in, outermost first; these and what stands in, by name."""
        nodes = _path(partition.place)
        named = {f"node {depth}": node for depth, node in enumerate(nodes)}
        for depth, node in enumerate(nodes):
            waiting = None if node.below is None else node.below.waiting_node()
            if waiting is not None:
                named[f"waiting {depth}"] = waiting
        return [DetachedNode(node) for node in nodes], named

    def placeholder_nodes(self) -> dict[str, PartitionNode]:
        """Fresh nodes by the names of `around`."""
        assert self._root is not None
        level: Level | None = self._levels
        found: dict[str, PartitionNode] = {}
        while level is not None:
            found[f"node {level.depth}"] = PartitionNode(self._root, None, {})
            found[f"waiting {level.depth}"] = PartitionNode(self._root, None, {})
            level = level.inner
        return found

    def admit(
        self, partition: ContextPartition, around: Sequence[DetachedNode], nodes: Mapping[str, PartitionNode]
    ) -> None:
        """Put in a partition that has its states, in place of the one that is alike, under its own id if that is free.

        Nodes of outer levels that live here stay as they are; those that do not come with it.
        """
        branch = self._root
        for depth, held in enumerate(around):
            assert branch is not None
            inner = branch.level.inner
            live = branch.alike(held)
            node = nodes[f"node {depth}"]
            if inner is None:
                self._replace(live, node, partition)
                branch.adopt(node, held)
            elif live is not None:
                node = live
            else:
                branch.adopt(node, held)
                node.below = inner.branch(node)
                node.below.resume(nodes[f"waiting {depth}"], held.waiting)
            branch = node.below
        partition.properties = node.properties
        if node.branch.level.nested:
            partition.properties = {each.name: each.properties for each in _path(node)}
            node.properties["id"] = partition.id
        behind = self.partitions and partition.id < next(reversed(self.partitions))
        self.partitions[partition.id] = partition
        if behind:
            self.partitions = dict(sorted(self.partitions.items()))
        self._tables.open(partition)
        self._tables.sort(partition)
        self._tell("allocated", partition)

    def _replace(self, live: PartitionNode | None, node: PartitionNode, partition: ContextPartition) -> None:
        """`node` becomes that of `partition`, `live` is no more."""
        if live is not None:
            former = live.partition
            assert former is not None
            former.ended = live.ended = True
            live.branch.left(live)
            del live.branch.children[live.key]
            del self.partitions[former.id]
            self._tables.close(former)
            self._roster.forget(former)
            self._tell("deallocated", former)
        if partition.id in self.partitions:
            partition.id = self._next_id
        self._next_id = max(self._next_id, partition.id + 1)
        partition.place, partition.found_by, node.partition = node, None, partition

    def describe(self) -> list[dict[str, Any]]:
        """The live partitions with their built-in properties, by id."""
        return [_described(partition) for partition in self.partitions.values()]

    def identities(self) -> Iterator[PartitionIdentity]:
        """The live partitions, as selectors see them, by id."""
        return map(self.identity, self.partitions.values())

    def identity(self, partition: ContextPartition) -> PartitionIdentity:
        """A live partition, as selectors see it."""
        nodes = _path(partition.place)
        steps = (LevelIdentity(n.name, n.branch.level.kind, n.branch.identity(n), visible_properties(n)) for n in nodes)
        return PartitionIdentity(partition.id, _described(partition), tuple(steps))

    def _tell(self, kind: NoticeKind, partition: ContextPartition | None) -> None:
        if self._notices.wanted(self.name):
            id_, properties = (None, {}) if partition is None else (partition.id, _described(partition))
            self._notices.tell(PartitionNotice(kind, self.name, id_, properties, self.now))

    # -------------------------------------------------------------- time
    @property
    def now(self) -> int:
        """Engine time."""
        return self._host.clock.now

    def arm(self, watch: ConditionWatch, owner: PartitionNode, due: int) -> None:
        """Look at a condition again when it is `due`."""
        if owner.due < NEVER:
            self.disarm(owner)
        if due < NEVER:
            owner.due = due
            self._serial += 1
            owner.timer = watch.branch.level.depth, watch.rank, self._serial
            self._waiting[owner.timer] = watch, owner
            self.timed.arm(owner.timer, due)

    def resume(self, watch: ConditionWatch, owner: PartitionNode, held: DetachedNode) -> None:
        """`arm` for a node from elsewhere: at its place among the timers, if that is free, unless the timer is lost."""
        self.arm(watch, owner, held.due)
        if owner.due < NEVER:
            if held.timer not in self._waiting:
                self.disarm(owner)
                owner.due, owner.timer = held.due, held.timer
                self._serial = max(self._serial, held.timer[-1])
                self._waiting[owner.timer] = watch, owner
            self.timed.arm(owner.timer, NEVER if held.lost else held.due)

    def disarm(self, owner: PartitionNode) -> None:
        """Forget the timer of `owner`."""
        owner.due = NEVER
        self._waiting.pop(owner.timer, None)
        self.timed.arm(owner.timer, NEVER)

    def fire(self, now: int, entries: list[DueEntry]) -> None:
        """Timers of conditions are due: each once, by time, then outer levels before inner ones."""
        round_ = EventRouting("", None, self._next_id)
        for _, path in entries:
            if path in self._waiting:
                watch, owner = self._waiting.pop(path)
                owner.due = NEVER
                self._guarded(lambda watch=watch, owner=owner: watch.branch.fired(watch, owner, round_))  # type: ignore[misc]

    # -------------------------------------------------------------- for the levels
    def is_a(self, type_name: str, supertype: str) -> bool:
        """Whether events of a type are events of another."""
        return self._host.catalog.is_a(type_name, supertype)

    def types_of(self, type_name: str) -> tuple[str, ...]:
        """The types of an event of a type: its own first, then the supertypes."""
        found = self._host.catalog.event_types.get(type_name)
        return (type_name, *(() if found is None else found.supertypes))

    def matcher(self, program: PatternProgram, owner: PartitionNode) -> Matcher:
        """What looks for the pattern of a condition on behalf of `owner`."""
        limit = self._host.config.pattern_limit
        return Matcher(program, self, partition=owner, limit=limit)

    def partials_limit_reached(self) -> None:
        """Tell, once, that the pattern of a condition has as many partial matches as there may be."""
        if not self._warned:
            self._warned = True
            limit = self._host.config.pattern_limit
            fact = f"a pattern of context `{self.name}` has {limit:,} open partial matches, further ones are dropped"
            hint = "hint: end them (where timer:within, and not), or raise Config.pattern_limit"
            self._host.report(StatementError(self.name, f"{fact}\n  {hint}", None, OverflowError(fact)))

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)

    def failed(self, failure: Exception) -> None:
        """Report a run-time failure. Timers that it may have kept from being armed are armed."""
        self._roster.settle()
        self.timed.settle()
        statement = self._roster.blamed(failure)
        if statement is None:
            self._notices.failed(self.name, failure)
        else:
            self._host.report(statement.error(failure))


def _before(round_: EventRouting, found: Sequence[ContextPartition]) -> Sequence[ContextPartition]:
    """Those of the partitions (by id) that the event did not allocate."""
    if not found or found[-1].id < round_.first:
        return found
    return [partition for partition in found if partition.id < round_.first]


def _place(new: Sequence[ContextPartition], older: Iterable[ContextPartition]) -> PartitionAssignment:
    """The `new` partitions, in which an event is shown first, and the `older` ones by id."""
    found = (*new, *sorted(older, key=lambda partition: partition.id))
    return found[0] if len(found) == 1 else found


def _path(leaf: PartitionNode) -> list[PartitionNode]:
    """The nodes from the outermost level to `leaf`."""
    found: list[PartitionNode] = []
    node: PartitionNode | None = leaf
    while node is not None:
        found.append(node)
        node = node.branch.parent
    return found[::-1]


def _described(partition: ContextPartition) -> dict[str, Any]:
    leaf: PartitionNode = partition.place
    if leaf.branch.level.nested:
        properties: dict[str, Any] = {node.name: visible_properties(node) for node in _path(leaf)}
    else:
        properties = visible_properties(leaf)
    return {"id": partition.id, **properties, "name": partition.name}
