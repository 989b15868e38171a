"""Contexts that divide events: by key, by hash, by category."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cepbook.engine.contexts.context_compiler import EventCondition, LevelStream
from cepbook.engine.contexts.ending import EndingBranch
from cepbook.engine.contexts.tree_nodes import Branch, PartitionNode
from cepbook.lang.plan import context as c

if TYPE_CHECKING:
    from cepbook.engine.contexts.event_routing import EventRouting
    from cepbook.engine.contexts.partition import ContextPartition
    from cepbook.engine.contexts.tree_levels import LevelMatch

_NONE: tuple[PartitionNode, ...] = ()


class PartitioningBranch(EndingBranch):
    """Events of a listed type belong to one node at most, those of other types to all."""

    __slots__ = ()

    def allocate_for_event(self, round_: EventRouting) -> None:
        """Allocate the node that an event begins; below a span that is shown it after the older ones elsewhere.

        Recorded: new_inner_partition_is_delivered_last, and that below a category it is not so (nested_category_keyed).
        """
        self.admit(round_.deferring() if self.parent is not None and self.parent.branch.level.timed else round_)

    def settles(self, round_: EventRouting, node: PartitionNode | None) -> None:
        """The event belongs to `node`, of the outermost level: if that is a partition nobody need look for it again."""
        if node is not None and node.partition is not None and not node.ended:
            round_.targets = (node.partition,)

    def shown(self, keys: Sequence[Any]) -> dict[str, Any]:
        """The properties that a node has of the values of its key."""
        return {}

    def gather(self, key: Sequence[Any], found: list[ContextPartition]) -> bool:
        return _gathered(self.children.get(key[0]), key, found)

    def allocate_missing(
        self, key: Sequence[Any], keys: Sequence[Any], new: list[ContextPartition], older: list[ContextPartition]
    ) -> None:
        node = self.children.get(key[0])
        if node is None:
            node, older = self.allocate(key[0], self.shown(keys[0])), new
        _allotted(node, key, keys, new, older)

    def routed(self, round_: EventRouting) -> Iterable[PartitionNode]:
        look = self.level.look(round_)
        if look.stream is None:
            return self.children.values()
        node = self.children.get(look.key) if look.passes else None
        return _NONE if node is None else (node,)


class KeyedBranch(PartitioningBranch):
    """``partition by``: a node for each key, maybe begun by some events only, maybe with an end.

    Events of listed types concern the node of their key alone, also when conditions look at them; the filters of
    listed streams apply to what statements are shown and to what allocates, not to conditions (recorded).
    """

    __slots__ = ()

    def on_event(self, round_: EventRouting) -> None:
        look = self.level.look(round_)
        among = None if look.stream is None else self.children.get(look.key)
        if look.stream is not None and among is None:
            self.allocate_for_event(round_)
            return
        if self.ends is not None:
            for node, match in self.ends.on_event(round_, among):
                self.end(node, match.properties)
        self.descend(round_)
        if self.parent is None and look.stream is not None and look.passes:
            self.settles(round_, among)

    def admit(self, round_: EventRouting) -> None:
        look = self.level.look(round_)
        if look.stream is None or look.key in self.children:
            return
        named = self._named(round_, look, look.stream)
        if named is not None:
            node = self.allocate(look.key, {**self.shown(look.keys), **named})
            if look.passes:
                self.show(node, round_)

    def shown(self, keys: Sequence[Any]) -> dict[str, Any]:
        return {f"key{i}": value for i, value in enumerate(keys, 1)}

    def _named(self, round_: EventRouting, look: LevelMatch, stream: LevelStream) -> dict[str, Any] | None:
        """The named events of a node that an event allocates; None: it does not."""
        form, event = self.level.form, round_.event
        if not form.begins:
            names = [s.alias for s in form.streams if s.alias is not None]
            return {name: event if name == stream.alias else None for name in names} if look.passes else None
        for begin in form.begins:
            assert isinstance(begin, EventCondition)
            if self.tree.is_a(round_.type_name, begin.event_type) and (begin.test is None or begin.test(event, None)):
                found = [event] if begin.unfold is None else begin.unfold(event, None)
                if found:
                    named = {name: None for each in form.begins for name in each.names}
                    return {**named, **dict.fromkeys(begin.names, found[0])}
        return None

    def identity(self, node: PartitionNode) -> Any:
        spec = self.level.form.spec
        assert isinstance(spec, c.KeyedSpec)
        return tuple(node.properties[f"key{i}"] for i in range(1, len(spec.streams.streams[0].keys) + 1))

    def begun(self, node: PartitionNode) -> None:
        if self.ends is not None:
            node.properties.update(dict.fromkeys(self.level.hidden))
        super().begun(node)


class HashBranch(PartitioningBranch):
    """``coalesce by``: a node for each hash, all from the beginning on with ``preallocate``."""

    __slots__ = ()

    def open(self) -> None:
        spec = self.level.form.spec
        assert isinstance(spec, c.HashSpec)
        if spec.preallocate:
            for number in range(spec.granularity):
                self.allocate(number, {})

    def identity(self, node: PartitionNode) -> Any:
        return node.key

    def on_event(self, round_: EventRouting) -> None:
        self.descend(round_)
        look = self.level.look(round_)
        if look.stream is None or not look.passes:
            return
        node = self.children.get(look.key)
        if node is None:
            self.allocate_for_event(round_)
        elif self.parent is None:
            self.settles(round_, node)

    def admit(self, round_: EventRouting) -> None:
        look = self.level.look(round_)
        if look.stream is not None and look.passes and look.key not in self.children:
            self.show(self.allocate(look.key, {}), round_)


class CategoryBranch(Branch):
    """``group … as label``: a node for each category from the beginning on.

    If one was ended by hand, the next event of its category allocates another.
    """

    __slots__ = ()

    def open(self) -> None:
        for number in range(len(self.level.form.labels)):
            self._allocate(number)

    def identity(self, node: PartitionNode) -> Any:
        return node.properties["label"]

    def routed(self, round_: EventRouting) -> Iterable[PartitionNode]:
        look = self.level.look(round_)
        if look.stream is None:
            return self.children.values()
        return [self.children[number] for number in look.keys if number in self.children]

    def on_event(self, round_: EventRouting) -> None:
        self.descend(round_)
        self.admit(round_)

    def admit(self, round_: EventRouting) -> None:
        if len(self.children) == len(self.level.form.labels):
            return
        for number in self.level.look(round_).keys:
            if number not in self.children:
                self.show(self._allocate(number), round_)

    def gather(self, key: Sequence[Any], found: list[ContextPartition]) -> bool:
        return all(_gathered(self.children.get(number), key, found) for number in key[0])

    def allocate_missing(
        self, key: Sequence[Any], keys: Sequence[Any], new: list[ContextPartition], older: list[ContextPartition]
    ) -> None:
        for number in key[0]:
            node = self.children.get(number)
            if node is None:
                _allotted(self._allocate(number), key, keys, new, new)
            else:
                _allotted(node, key, keys, new, older)

    def _allocate(self, number: int) -> PartitionNode | None:
        return self.allocate(number, {"label": self.level.form.labels[number]})


def _gathered(node: PartitionNode | None, key: Sequence[Any], found: list[ContextPartition]) -> bool:
    """`gather` of one node."""
    if node is None:
        return False
    if node.below is not None:
        return node.below.gather(key[1:], found)
    if node.partition is not None:
        found.append(node.partition)
    return True


def _allotted(
    node: PartitionNode | None,
    key: Sequence[Any],
    keys: Sequence[Any],
    new: list[ContextPartition],
    older: list[ContextPartition],
) -> None:
    """`allocate_missing` of one node, which is there, or could not begin."""
    if node is not None and node.below is not None:
        node.below.allocate_missing(key[1:], keys[1:], new, older)
    elif node is not None and node.partition is not None:
        older.append(node.partition)
