"""Branches of levels that divide events: by key, by hash, by category."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cepbook.engine.contexts.condition_watch import EndingBranch
from cepbook.engine.contexts.conditions import EventCondition, LevelStream
from cepbook.engine.contexts.event_routing import EventRouting, LevelMatch
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.contexts.tree_nodes import Branch, PartitionNode

_NO_NODES: tuple[PartitionNode, ...] = ()


class PartitioningBranch(EndingBranch):
    """A branch in which events of a listed type belong to one node at most, and other events to all nodes."""

    def allocate_for_event(self, routing: EventRouting) -> None:
        """Allocate the node that an event begins. Below a lifecycle level, older partitions receive the event first.

        Recorded: new_inner_partition_is_delivered_last; nested_category_keyed shows that it is not so below a category.
        """
        self.begin_nodes(routing.deferring() if self.parent is not None and self.parent.branch.level.timed else routing)

    def set_target(self, routing: EventRouting, node: PartitionNode | None) -> None:
        """Store `node`, of the outermost level, as the target of the event if it is a live partition."""
        if node is not None and node.partition is not None and not node.ended:
            routing.targets = (node.partition,)

    def key_properties(self, keys: Sequence[Any]) -> dict[str, Any]:
        """Return the properties of a node with these key values."""
        return {}

    def gather(self, key: Sequence[Any], partitions: list[ContextPartition]) -> bool:
        return _gather(self.children.get(key[0]), key, partitions)

    def allocate_missing(
        self, key: Sequence[Any], keys: Sequence[Any], new: list[ContextPartition], older: list[ContextPartition]
    ) -> None:
        node = self.children.get(key[0])
        if node is None:
            node, older = self.allocate(key[0], self.key_properties(keys[0])), new
        _allocate_below(node, key, keys, new, older)

    def nodes_of(self, routing: EventRouting) -> Iterable[PartitionNode]:
        match = self.level.match(routing)
        if match.stream is None:
            return self.children.values()
        node = self.children.get(match.key) if match.passes else None
        return _NO_NODES if node is None else (node,)


class KeyedBranch(PartitioningBranch):
    """``partition by``: one node per key, optionally begun by certain events only, optionally with an end.

    Events of listed types concern the node of their key alone, for conditions as well. The filters of listed streams
    apply to delivery and allocation, not to conditions (recorded).
    """

    def on_event(self, routing: EventRouting) -> None:
        match = self.level.match(routing)
        among = None if match.stream is None else self.children.get(match.key)
        if match.stream is not None and among is None:
            self.allocate_for_event(routing)
            return
        if self.ends is not None:
            for node, end in self.ends.on_event(routing, among):
                self.end(node, end.properties)
        self.descend(routing)
        if self.parent is None and match.stream is not None and match.passes:
            self.set_target(routing, among)

    def begin_nodes(self, routing: EventRouting) -> None:
        match = self.level.match(routing)
        if match.stream is None or match.key in self.children:
            return
        events = self._event_properties(routing, match, match.stream)
        if events is not None:
            node = self.allocate(match.key, {**self.key_properties(match.keys), **events})
            if match.passes:
                self.deliver(node, routing)

    def key_properties(self, keys: Sequence[Any]) -> dict[str, Any]:
        return {f"key{i}": value for i, value in enumerate(keys, 1)}

    def _event_properties(self, routing: EventRouting, match: LevelMatch, stream: LevelStream) -> dict[str, Any] | None:
        """Return the named events of a node that an event allocates; None if the event does not begin a node."""
        compiled, event = self.level.compiled, routing.event
        if not compiled.begins:
            names = [listed.alias for listed in compiled.streams if listed.alias is not None]
            return {name: event if name == stream.alias else None for name in names} if match.passes else None
        for begin in compiled.begins:
            assert isinstance(begin, EventCondition)
            is_a = self.tree.is_a(routing.type_name, begin.event_type)
            if is_a and (begin.test is None or begin.test(event, None)):
                events = [event] if begin.unfold is None else begin.unfold(event, None)
                if events:
                    unset = {name: None for condition in compiled.begins for name in condition.names}
                    return {**unset, **dict.fromkeys(begin.names, events[0])}
        return None

    def identity(self, node: PartitionNode) -> Any:
        keys = self.level.compiled.spec.keyed_streams[0].keys
        return tuple(node.properties[f"key{i}"] for i in range(1, len(keys) + 1))

    def watch_end(self, node: PartitionNode) -> None:
        if self.ends is not None:
            node.properties.update(dict.fromkeys(self.level.hidden))
        super().watch_end(node)


class HashBranch(PartitioningBranch):
    """``coalesce by``: one node per hash; with ``preallocate``, all nodes exist from the beginning."""

    def open(self) -> None:
        for number in range(self.level.compiled.preallocated):
            self.allocate(number, {})

    def identity(self, node: PartitionNode) -> Any:
        return node.key

    def on_event(self, routing: EventRouting) -> None:
        self.descend(routing)
        match = self.level.match(routing)
        if match.stream is None or not match.passes:
            return
        node = self.children.get(match.key)
        if node is None:
            self.allocate_for_event(routing)
        elif self.parent is None:
            self.set_target(routing, node)

    def begin_nodes(self, routing: EventRouting) -> None:
        match = self.level.match(routing)
        if match.stream is not None and match.passes and match.key not in self.children:
            self.deliver(self.allocate(match.key, {}), routing)


class CategoryBranch(Branch):
    """``group … as label``: one node per category from the beginning on.

    If one was ended by hand, the next event of its category allocates another.
    """

    def open(self) -> None:
        for number in range(len(self.level.compiled.labels)):
            self._allocate(number)

    def identity(self, node: PartitionNode) -> Any:
        return node.properties["label"]

    def nodes_of(self, routing: EventRouting) -> Iterable[PartitionNode]:
        match = self.level.match(routing)
        if match.stream is None:
            return self.children.values()
        return [self.children[number] for number in match.keys if number in self.children]

    def on_event(self, routing: EventRouting) -> None:
        self.descend(routing)
        self.begin_nodes(routing)

    def begin_nodes(self, routing: EventRouting) -> None:
        if len(self.children) == len(self.level.compiled.labels):
            return
        for number in self.level.match(routing).keys:
            if number not in self.children:
                self.deliver(self._allocate(number), routing)

    def gather(self, key: Sequence[Any], partitions: list[ContextPartition]) -> bool:
        return all(_gather(self.children.get(number), key, partitions) for number in key[0])

    def allocate_missing(
        self, key: Sequence[Any], keys: Sequence[Any], new: list[ContextPartition], older: list[ContextPartition]
    ) -> None:
        for number in key[0]:
            node = self.children.get(number)
            if node is None:
                _allocate_below(self._allocate(number), key, keys, new, new)
            else:
                _allocate_below(node, key, keys, new, older)

    def _allocate(self, number: int) -> PartitionNode | None:
        return self.allocate(number, {"label": self.level.compiled.labels[number]})


def _gather(node: PartitionNode | None, key: Sequence[Any], partitions: list[ContextPartition]) -> bool:
    if node is None:
        return False
    if node.below is not None:
        return node.below.gather(key[1:], partitions)
    if node.partition is not None:
        partitions.append(node.partition)
    return True


def _allocate_below(
    node: PartitionNode | None,
    key: Sequence[Any],
    keys: Sequence[Any],
    new: list[ContextPartition],
    older: list[ContextPartition],
) -> None:
    """Apply `Branch.allocate_missing` to one node; None if it could not begin."""
    if node is not None and node.below is not None:
        node.below.allocate_missing(key[1:], keys[1:], new, older)
    elif node is not None and node.partition is not None:
        older.append(node.partition)
