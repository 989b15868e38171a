"""The moving parts of a tree context.

::

    Level 0   Branch ── PartitionNode    a node is one partition of its level
                             │ below
    Level 1                Branch ── PartitionNode ── ContextPartition
                                  ── PartitionNode ── ContextPartition

A `Level` holds what is the same for all its branches. A `Branch` holds the live nodes of one level under one parent. A
node of the innermost level owns a context partition; other nodes own the branch below. Kinds of levels differ in their
class of branch, see `partitioning` and `lifecycle`.

Invariants: a node is in its branch's `children` until it ends, and never after. Nodes are in order of allocation, so
partitions are in order of their ids. A branch whose parent ended holds no nodes and watches no conditions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from cepbook.engine.contexts.conditions import CompiledLevel, EventCondition, LevelStream, PatternCondition
from cepbook.engine.contexts.event_routing import UNLISTED, EventRouting, LevelMatch
from cepbook.engine.contexts.partition import ContextPartition, Counted, PartitionAssignment
from cepbook.engine.contexts.tree_partitions import TreePartitions
from cepbook.engine.state import State
from cepbook.engine.time.clock import NEVER
from cepbook.lang.plan import expressions as x

_BY_EVENTS = (EventCondition, PatternCondition)


class Level:
    """One level of a context's tree: its `compiled` form, the level `inner` to it, and the events that concern it.

    `timed` levels have startTime and endTime. `hidden` are the properties that only the end of a node defines.
    `unknown` holds null for every property that conditions define.
    """

    def __init__(
        self,
        compiled: CompiledLevel,
        branch_type: type[Branch],
        depth: int,
        tree: TreePartitions,
        inner: Level | None,
        nested: bool,
    ) -> None:
        self.compiled = compiled
        self.name = compiled.name
        self.branch_type = branch_type
        self.depth = depth
        self.tree = tree
        self.inner = inner
        self.nested = nested
        self.timed = not compiled.spec.event_types
        self.kind = compiled.spec.kind
        self.hidden: tuple[str, ...] = () if compiled.ends is None else compiled.ends.names
        self.unknown = dict.fromkeys([*(name for begins in compiled.begins for name in begins.names), *self.hidden])
        self._concerns: dict[str, bool] = {}
        self._selects: dict[str, bool] = {}
        self._streams: dict[str, LevelStream | None] = {}
        self._types: dict[str, frozenset[str]] = {}

    def branch(self, parent: PartitionNode | None) -> Branch:
        return self.branch_type(self, parent)

    def rewired(self) -> None:
        """Drop what was derived from event types, which have changed."""
        self._concerns.clear()
        self._selects.clear()
        self._streams.clear()
        self._types.clear()

    def is_a(self, type_name: str, supertype: str) -> bool:
        """Return whether events of a type are events of another; cached."""
        types = self._types.get(type_name)
        if types is None:
            types = self._types[type_name] = frozenset(self.tree.types_of(type_name))
        return supertype in types

    def stream(self, type_name: str) -> LevelStream | None:
        """Return the listed stream of a type; None if events of the type belong to all nodes of the level."""
        try:
            return self._streams[type_name]
        except KeyError:
            is_a, like = self.tree.is_a, self.tree.row_type(type_name) if self.kind == "keyed" else type_name
            streams = (stream for stream in self.compiled.streams if is_a(like, stream.event_type))
            return self._streams.setdefault(type_name, next(streams, None))

    def match(self, routing: EventRouting) -> LevelMatch:
        """Return the result of an event at this level, which is computed once per event.

        If computing it fails, the first caller gets the exception, and for later callers the event has no node.
        """
        match = routing.matches.get(self.depth)
        if match is None:
            try:
                match = self._match(routing.type_name, routing.event)
            except Exception:
                routing.matches[self.depth] = LevelMatch(self.stream(routing.type_name), False, object(), ())
                raise
            routing.matches[self.depth] = match
        return match

    def _match(self, type_name: str, event: Any) -> LevelMatch:
        stream = self.stream(type_name)
        if stream is None:
            return UNLISTED
        passes = stream.passes is None or stream.passes(event)
        key, keys = stream.locate(event) if passes or self.kind == "keyed" else (None, ())
        return LevelMatch(stream, passes, key, keys)

    def selects(self, type_name: str) -> bool:
        """Return whether events of a type select nodes at this level or below, instead of belonging to all."""
        selects = self._selects.get(type_name)
        if selects is None:
            below = self.inner is not None and self.inner.selects(type_name)
            selects = self._selects[type_name] = below or self.stream(type_name) is not None
        return selects

    def concerns(self, type_name: str) -> bool:
        """Return whether events of a type may allocate or end nodes at this level or below."""
        concerns = self._concerns.get(type_name)
        if concerns is None:
            concerns = self._concerns[type_name] = self._concerned(type_name)
        return concerns

    def filter(self, type_name: str) -> x.BoundExpr | None:
        """Return the condition that an event of a type must meet to allocate or end a node; None if there is none that
        all these events meet.
        """
        if self.inner is not None or self.selects(type_name):
            return None
        conditions = [c for c in (*self.compiled.begins, self.compiled.ends) if isinstance(c, _BY_EVENTS)]
        by_condition = [c.conjuncts(self.tree.types_of(type_name)) for c in conditions]
        first, *others = [conjuncts for conjuncts in by_condition if conjuncts is not None] or [[]]
        return x.conjunction([e for e in first if all(e in conjuncts for conjuncts in others)])

    def _concerned(self, type_name: str) -> bool:
        if self.inner is not None and self.inner.concerns(type_name):
            return True
        types = {stream.event_type for stream in self.compiled.streams}
        for condition in (*self.compiled.begins, self.compiled.ends):
            if isinstance(condition, PatternCondition):
                types.update(condition.types)
            elif isinstance(condition, EventCondition):
                types.add(condition.event_type)
        return any(self.tree.is_a(type_name, event_type) for event_type in types)


class PartitionNode(Counted):
    """A partition of one level. On the innermost level it has a context `partition`, on others the branch `below`.

    Conditions read the `properties` of the node's own level, and `name`. The node also holds the state of the condition
    that ends it: `due` is the time of its `timer` (`NEVER` if it has none), `matcher` that of a pattern, and `lookup`
    the keys under which it waits. Nodes of outer levels count the events of the partitions below.
    """

    __slots__ = ("below", "branch", "due", "ended", "key", "lookup", "matcher", "partition", "properties", "timer")

    def __init__(self, branch: Branch, key: Any, properties: dict[str, Any]) -> None:
        self.branch = branch
        self.key = key
        self.properties = properties
        self.below: Branch | None = None
        self.partition: ContextPartition | None = None
        self.due = NEVER
        self.timer: Any = None
        self.matcher: Any = None
        self.lookup: Any = None
        self.ended = False

    @property
    def id(self) -> int | None:
        """The id of the node's context partition; None on outer levels."""
        return None if self.partition is None else self.partition.id

    @property
    def name(self) -> str:
        return self.branch.level.name

    @property
    def visible_properties(self) -> dict[str, Any]:
        """The properties of a live node that inspection shows: without those that only its end defines."""
        hidden = self.branch.level.hidden
        return {name: value for name, value in self.properties.items() if name not in hidden}

    @property
    def path(self) -> list[PartitionNode]:
        """The nodes from the outermost level to this one."""
        nodes: list[PartitionNode] = []
        node: PartitionNode | None = self
        while node is not None:
            nodes.append(node)
            node = node.branch.parent
        return nodes[::-1]

    def collect_partitions(self, routing: EventRouting, partitions: list[ContextPartition]) -> None:
        """Append the node's partition, or those below that an event belongs to."""
        if self.partition is not None:
            partitions.append(self.partition)
        elif self.below is not None:
            self.below.collect_partitions(routing, partitions)


class DetachedNode(State):
    """The own state of a node that is saved to be put into another tree.

    `lost`: its timer was suppressed by a statement with ``@Drop``. `waiting` is the state of the node for which the
    branch below waits.
    """

    __slots__ = ("due", "key", "lost", "matcher", "properties", "timer", "waiting")

    def __init__(self, node: PartitionNode) -> None:
        self.key = node.key
        self.properties = node.properties
        self.due = node.due
        self.timer = node.timer
        self.lost = node.due < NEVER and node.branch.tree.timed.at(node.timer) >= NEVER
        self.matcher = node.matcher
        waiting = None if node.below is None else node.below.waiting_node()
        self.waiting = None if waiting is None else DetachedNode(waiting)


class ConditionMatch(State):
    """A condition that came true, and the `properties` that it defines.

    `delivers`: the event that made it true is delivered to the statements. `replay`: the events of an inclusive
    pattern, with their types, which are delivered as well.
    """

    __slots__ = ("delivers", "properties", "replay")

    def __init__(self, properties: dict[str, Any], delivers: bool, replay: tuple[tuple[str, Any], ...] = ()) -> None:
        self.properties = properties
        self.delivers = delivers
        self.replay = replay


class Branch(State):
    """The live nodes of one level under one parent, by key, in order of allocation."""

    __slots__ = ("children", "level", "parent", "tree")

    def __init__(self, level: Level, parent: PartitionNode | None) -> None:
        self.level = level
        self.tree: TreePartitions = level.tree
        self.parent = parent
        self.children: dict[Any, PartitionNode] = {}

    def open(self) -> None:
        """Allocate the nodes that exist from the beginning. Called for a new parent, or when the context activates."""
        return None

    @abstractmethod
    def nodes_of(self, routing: EventRouting) -> Iterable[PartitionNode]:
        """Return the present nodes that an event belongs to, oldest first."""

    def ignores(self, type_name: str, event: Any) -> bool:
        """Return True if an event neither ends nor allocates a node here or below, False if `on_event` has to decide.

        This is the cheap answer for most events, which needs no routing.
        """
        return False

    @abstractmethod
    def on_event(self, routing: EventRouting) -> None:
        """Process an event here and below: end nodes and allocate others."""

    @abstractmethod
    def begin_nodes(self, routing: EventRouting) -> None:
        """Allocate the nodes that an event begins and deliver it to their statements."""

    def on_condition(self, owner: PartitionNode, match: ConditionMatch, routing: EventRouting) -> None:
        """Handle a condition of `owner` that came true by time. By default, the node ends."""
        self.end(owner, match.properties)

    def gather(self, key: Sequence[Any], partitions: list[ContextPartition]) -> bool:
        """Append the partitions of a key, whose first element is for this level. Return False if a node is missing."""
        raise NotImplementedError

    def allocate_missing(
        self, key: Sequence[Any], keys: Sequence[Any], new: list[ContextPartition], older: list[ContextPartition]
    ) -> None:
        """Gather partitions and allocate missing nodes, which show the values `keys`, if they can begin."""
        raise NotImplementedError

    def deliver_first(self, routing: EventRouting) -> None:
        """Process the event that allocated the parent: deliver it to present nodes, begin others, and end none."""
        for node in list(self.nodes_of(routing)):
            self.deliver(node, routing)
        self.begin_nodes(routing)

    def allocate(self, key: Any, properties: dict[str, Any]) -> PartitionNode | None:
        """Allocate a node and everything below it that exists from the beginning.

        Return None if a state or timer in it cannot begin (for example, a window size is null). That is reported.
        """
        level = self.level
        if level.nested:
            properties["name"] = level.name
        node = PartitionNode(self, key, properties)
        self.children[key] = node
        give_up = self.abandon
        try:
            self.watch_end(node)
            give_up = self.abandon_opened
            if level.inner is None:
                self._open_partition(node)
            else:
                node.below = level.inner.branch(node)
                node.below.open()
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            del self.children[key]
            give_up(node)
            self.tree.failed(failure)
            return None
        return node

    def _open_partition(self, node: PartitionNode) -> None:
        tree, properties = self.tree, node.properties
        if self.level.nested:
            properties = {outer.name: outer.properties for outer in node.path}
            node.properties["id"] = tree.next_id
        partition = ContextPartition(tree.next_id, tree.name, properties, node)
        tree.create_states(partition)
        node.partition = partition
        tree.open(partition)

    def abandon(self, node: PartitionNode) -> None:
        node.ended = True
        self.unwatch_end(node)

    def abandon_opened(self, node: PartitionNode) -> None:
        """Give up a node whose end is watched but whose contents could not begin."""
        self.abandon(node)

    def watch_end(self, node: PartitionNode) -> None:
        """Watch the condition that ends `node`."""
        return None

    def unwatch_end(self, node: PartitionNode) -> None:
        return None

    def deliver(self, node: PartitionNode | None, routing: EventRouting) -> None:
        """Deliver an event to the statements in a node that was allocated by it."""
        if node is None:
            return
        if node.partition is not None:
            self.tree.deliver(node.partition, routing)
        else:
            assert node.below is not None
            node.below.deliver_first(routing)

    def deliver_match(self, node: PartitionNode | None, match: ConditionMatch, routing: EventRouting) -> None:
        """Deliver the events of `match` in the node that it allocated."""
        if match.delivers:
            self.deliver(node, routing)
        for type_name, event in match.replay:
            self.deliver(node, routing.with_event(type_name, event))

    def deliver_terminating_event(self, node: PartitionNode, routing: EventRouting) -> None:
        """Deliver the event that ends a node of an inner level. Outermost nodes do not receive it.

        Recorded: nested_terminating_event_is_still_counted.
        """
        if self.level.depth and not node.ended:
            partitions: list[ContextPartition] = []
            node.collect_partitions(routing, partitions)
            for partition in partitions:
                self.tree.deliver_behind(partition, routing)

    def descend(self, routing: EventRouting, nodes: Iterable[PartitionNode] | None = None) -> None:
        """Pass an event to the branches below `nodes`, by default those that it belongs to."""
        inner = self.level.inner
        if inner is not None and inner.concerns(routing.type_name):
            for node in list(self.nodes_of(routing) if nodes is None else nodes):
                if not node.ended and node.below is not None:
                    node.below.on_event(routing)

    def end(self, node: PartitionNode, properties: dict[str, Any]) -> None:
        """End a node and everything below, in order of allocation. The condition that ended it gives `properties`."""
        if node.ended:
            return
        del self.children[node.key]
        self.unwatch_end(node)
        node.ended = True
        if node.partition is not None:
            node.properties.update(properties)
            self.tree.close(node.partition)
        else:
            assert node.below is not None
            node.below.end_all()

    def identity(self, node: PartitionNode) -> Any:
        """Return the key of a node for selectors; None if the level has no keys."""
        return None

    def end_by_hand(self, node: PartitionNode) -> None:
        """End a node as a condition would."""
        self.end(node, {})

    def end_all(self) -> None:
        """End all nodes and stop watching conditions, because the parent ended."""
        for node in list(self.children.values()):
            self.end(node, {})

    def drop(self) -> None:
        """Forget everything without output."""
        for node in self.children.values():
            self.unwatch_end(node)
            node.ended = True
            if node.below is not None:
                node.below.drop()
        self.children.clear()

    def waiting_node(self) -> PartitionNode | None:
        """Return the node for which the branch watches the condition that begins others, if it does."""
        return None

    def resume(self, waiting: PartitionNode, detached: DetachedNode | None) -> None:
        """Open the branch below a saved node; `waiting` takes the place of its `waiting_node`."""
        self.open()

    def counterpart(self, detached: DetachedNode) -> PartitionNode | None:
        """Return the live node that a saved node replaces."""
        return self.children.get(detached.key)

    def adopt(self, node: PartitionNode, detached: DetachedNode) -> None:
        """Insert a saved node and continue watching its condition. Nodes with partitions are kept in order of ids."""
        node.branch, node.key, node.properties = self, detached.key, detached.properties
        last = next(reversed(self.children.values()), None)
        self.children[node.key] = node
        out_of_order = last is not None and (node.id or 0) < (last.id or 0)
        if out_of_order:
            nodes = sorted(self.children.items(), key=lambda entry: entry[1].id or 0)
            self.children.clear()
            self.children.update(nodes)
        self.resume_end(node, detached, out_of_order)

    def resume_end(self, node: PartitionNode, detached: DetachedNode, out_of_order: bool) -> None:
        """Continue watching the condition that ends a saved node, which may not be the last one (`out_of_order`)."""
        return None

    def collect_partitions(self, routing: EventRouting, partitions: list[ContextPartition]) -> None:
        """Append the context partitions below that an event belongs to."""
        for node in self.nodes_of(routing):
            node.collect_partitions(routing, partitions)


def count_event_in_tree(partitions: Iterable[ContextPartition], time: int) -> None:
    """Count one event for partitions of a tree and for all nodes around them."""
    for partition in partitions:
        partition.arrived += 1
        partition.last = time
        node = partition.owner.branch.parent
        while node is not None:
            node.arrived += 1
            node.last = time
            node = node.branch.parent


def count_batch(partitions: Sequence[PartitionAssignment], times: Sequence[int], alone: bool) -> None:
    """Count events in order, given the partitions and the time of each.

    Unless they are `alone` in their batch, later events of another type may have been counted before. The counts are
    fields of the partitions, because a dict beside them takes five times as long (measured with 10,000 partitions,
    whose dict entries have left the processor's cache).
    """
    for partition, time in zip(partitions, times, strict=True):
        if partition is None:
            continue
        if isinstance(partition, tuple):
            count_batch(partition, [time] * len(partition), alone)
            continue
        counted: Counted | None = partition
        node = partition.owner.branch.parent if isinstance(partition.owner, PartitionNode) else None
        while counted is not None:
            counted.last = time if alone or not counted.arrived else max(time, counted.last)
            counted.arrived += 1
            counted, node = node, None if node is None else node.branch.parent
