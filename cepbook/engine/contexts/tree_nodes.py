"""The moving parts of a context's tree: nodes, and the branches that hold those of one level under one parent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.state import State
from cepbook.engine.time.clock import NEVER

if TYPE_CHECKING:
    from cepbook.engine.contexts.condition_watch import ConditionWatch
    from cepbook.engine.contexts.event_routing import EventRouting
    from cepbook.engine.contexts.tree_context import TreeContext
    from cepbook.engine.contexts.tree_levels import Level


class PartitionNode(State):
    """A partition of one level. Of the innermost level it has a context `partition`, else the branch `below`.

    Conditions read `properties`, those of its own level, and `name`. What is observed on its behalf is kept here: when
    its `timer` is `due` (`NEVER`: it has none), its `matcher`, the key that it is `found_by`. An `ended` node is none
    any more. Of outer levels it counts the events of the partitions below, as these do.
    """

    PASSING = ("arrived", "last")

    __slots__ = (
        "arrived",
        "below",
        "branch",
        "due",
        "ended",
        "found_by",
        "key",
        "last",
        "matcher",
        "partition",
        "properties",
        "timer",
    )
    arrived: int
    last: int

    def __init__(self, branch: Branch, key: Any, properties: dict[str, Any]) -> None:
        self.branch = branch
        self.key = key
        self.properties = properties
        self.below: Branch | None = None
        self.partition: ContextPartition | None = None
        self.due = NEVER
        self.timer: Any = None
        self.matcher: Any = None
        self.found_by: Any = None
        self.ended = False

    def __getattr__(self, name: str) -> Any:
        """Nothing was counted yet."""
        if name in self.PASSING:
            return 0
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def id(self) -> int | None:
        """The id of its context partition; None but on the innermost level."""
        return None if self.partition is None else self.partition.id

    @property
    def name(self) -> str:
        """The name of its level."""
        return self.branch.level.name

    def leaves(self, round_: EventRouting, found: list[ContextPartition]) -> None:
        """Collect its context partition, or those below that an event belongs to."""
        if self.partition is not None:
            found.append(self.partition)
        elif self.below is not None:
            self.below.leaves(round_, found)


class DetachedNode(State):
    """What a node has beside what is below it, on its way to another tree: its `key` and `properties`, when its `timer`
    is `due`, its `matcher`. A timer may be `lost` to a statement with ``@Drop``. `waiting` is the same of what the
    branch below waits for.
    """

    __slots__ = ("due", "key", "lost", "matcher", "properties", "timer", "waiting")

    def __init__(self, node: PartitionNode) -> None:
        self.key = node.key
        self.properties = node.properties
        self.due = node.due
        self.timer = node.timer
        self.lost = node.due < NEVER and node.branch.tree.timed.at(node.timer) >= NEVER
        self.matcher = node.matcher
        waits = None if node.below is None else node.below.waiting_node()
        self.waiting = None if waits is None else DetachedNode(waits)


class ConditionMatch(State):
    """A condition came true: the `properties` that it gives, and what the statements are shown of it.

    `shows`: the event that made it true; `replay`: the events of an inclusive pattern, with their types.
    """

    __slots__ = ("properties", "replay", "shows")

    def __init__(self, properties: dict[str, Any], shows: bool, replay: tuple[tuple[str, Any], ...] = ()) -> None:
        self.properties = properties
        self.shows = shows
        self.replay = replay


class Branch(State, ABC):
    """The live nodes of one level under one parent, in order of allocation."""

    __slots__ = ("children", "level", "parent", "tree")

    def __init__(self, level: Level, parent: PartitionNode | None) -> None:
        self.level = level
        self.tree: TreeContext = level.tree
        self.parent = parent
        self.children: dict[Any, PartitionNode] = {}

    # -------------------------------------------------------------- what the levels differ in
    def open(self) -> None:
        """The parent was allocated, or the context activated: allocate what is there from the beginning."""
        return None

    @abstractmethod
    def routed(self, round_: EventRouting) -> Iterable[PartitionNode]:
        """The nodes that an event belongs to, as things are, by age."""

    @abstractmethod
    def on_event(self, round_: EventRouting) -> None:
        """What an event does here and below: end nodes, allocate others."""

    @abstractmethod
    def admit(self, round_: EventRouting) -> None:
        """Allocate the nodes that an event begins, and show it to the statements in them."""

    def met(self, owner: PartitionNode, match: ConditionMatch, round_: EventRouting) -> None:
        """A condition that is observed for `owner` came true with time."""
        self.end(owner, match.properties)

    # -------------------------------------------------------------- replays
    def gather(self, key: Sequence[Any], found: list[ContextPartition]) -> bool:
        """Collect the context partitions of a key, whose first part is of this level; whether all nodes are there."""
        raise NotImplementedError

    def allocate_missing(
        self, key: Sequence[Any], keys: Sequence[Any], new: list[ContextPartition], older: list[ContextPartition]
    ) -> None:
        """As `gather`, but what is missing begins, where it can, and shows the values `keys`."""
        raise NotImplementedError

    # -------------------------------------------------------------- nodes
    def first(self, round_: EventRouting) -> None:
        """An event that allocated the parent: statements are shown it in what is there, and it ends nothing."""
        for node in list(self.routed(round_)):
            self.show(node, round_)
        self.admit(round_)

    def allocate(self, key: Any, properties: dict[str, Any]) -> PartitionNode | None:
        """A new node, and all below it that is there from the beginning.

        None if a state or a timer in it cannot begin (a variable has no such size): that is reported.
        """
        level = self.level
        if level.nested:
            properties["name"] = level.name
        node = PartitionNode(self, key, properties)
        self.children[key] = node
        give_up = self.unbegun
        try:
            self.begun(node)
            give_up = self.unopened
            if level.inner is None:
                self.tree.open(node)
            else:
                node.below = level.inner.branch(node)
                node.below.open()
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            del self.children[key]
            give_up(node)
            self.tree.failed(failure)
            return None
        return node

    def unbegun(self, node: PartitionNode) -> None:
        """`node` could not begin."""
        node.ended = True
        self.left(node)

    def unopened(self, node: PartitionNode) -> None:
        """What would be in `node`, whose end is observed, could not begin."""
        self.unbegun(node)

    def begun(self, node: PartitionNode) -> None:
        """Observe the condition that ends `node`."""
        return None

    def left(self, node: PartitionNode) -> None:
        """Observe it no more."""
        return None

    def show(self, node: PartitionNode | None, round_: EventRouting) -> None:
        """Show an event to the statements in a node that was allocated by it."""
        if node is None:
            return
        if node.partition is not None:
            self.tree.present(node.partition, round_)
        else:
            assert node.below is not None
            node.below.first(round_)

    def show_all(self, node: PartitionNode | None, match: ConditionMatch, round_: EventRouting) -> None:
        """Show what `match` wants to be shown in the node that it allocated."""
        if match.shows:
            self.show(node, round_)
        for type_name, event in match.replay:
            self.show(node, round_.of(type_name, event))

    def show_terminating_event(self, node: PartitionNode, round_: EventRouting) -> None:
        """Statements see the event that ends a node of an inner level; that of a level alone or outermost they do not.

        Recorded: nested_terminating_event_is_still_counted.
        """
        if self.level.depth and not node.ended:
            self.tree.present_terminating_event(node, round_)

    def descend(self, round_: EventRouting, nodes: Iterable[PartitionNode] | None = None) -> None:
        """Hand an event on to the levels below: in `nodes`, by default those that it belongs to."""
        inner = self.level.inner
        if inner is not None and inner.concerns(round_.type_name):
            for node in list(self.routed(round_) if nodes is None else nodes):
                if not node.ended and node.below is not None:
                    node.below.on_event(round_)

    def end(self, node: PartitionNode, properties: dict[str, Any]) -> None:
        """End a node and all below it, in order of allocation. `properties` are those of what ended it."""
        if node.ended:
            return
        del self.children[node.key]
        self.left(node)
        node.ended = True
        if node.partition is not None:
            node.properties.update(properties)
            self.tree.close(node)
        else:
            assert node.below is not None
            node.below.finish()

    def identity(self, node: PartitionNode) -> Any:
        """What tells a node from others, for selectors; None if only its id does."""
        return None

    def fired(self, watch: ConditionWatch, owner: PartitionNode, round_: EventRouting) -> None:
        """A timer of `watch` is due for `owner`."""
        for match in watch.fired(owner, self.tree.now):
            if not owner.ended:
                self.met(owner, match, round_)

    def dismiss(self, node: PartitionNode) -> None:
        """End a node by hand, as a condition would."""
        self.end(node, {})

    def finish(self) -> None:
        """The parent ended: end all nodes and observe nothing more."""
        for node in list(self.children.values()):
            self.end(node, {})

    def drop(self) -> None:
        """Forget everything, without any output."""
        for node in self.children.values():
            self.left(node)
            node.ended = True
            if node.below is not None:
                node.below.drop()
        self.children.clear()

    # -------------------------------------------------------------- nodes from elsewhere
    def waiting_node(self) -> PartitionNode | None:
        """The node on whose behalf it observes what begins others, if it does."""
        return None

    def resume(self, waiting: PartitionNode, held: DetachedNode | None) -> None:
        """`open`, below a node from elsewhere, where the branch observed this on behalf of `waiting`."""
        self.open()

    def alike(self, held: DetachedNode) -> PartitionNode | None:
        """The live node in whose place a node from elsewhere comes."""
        return self.children.get(held.key)

    def adopt(self, node: PartitionNode, held: DetachedNode) -> None:
        """Take in a node from elsewhere: what is observed on its behalf goes on. Those of partitions stand by id."""
        node.branch, node.key, node.properties = self, held.key, held.properties
        last = next(reversed(self.children.values()), None)
        self.children[node.key] = node
        behind = last is not None and (node.id or 0) < (last.id or 0)
        if behind:
            found = sorted(self.children.items(), key=lambda each: each[1].id or 0)
            self.children.clear()
            self.children.update(found)
        self.goes_on(node, held, behind)

    def goes_on(self, node: PartitionNode, held: DetachedNode, behind: bool) -> None:
        """Observe on behalf of `node`, which came from elsewhere and may not be the last one, what ends it."""
        return None

    def leaves(self, round_: EventRouting, found: list[ContextPartition]) -> None:
        """Collect the context partitions below that an event belongs to."""
        for node in self.routed(round_):
            node.leaves(round_, found)
