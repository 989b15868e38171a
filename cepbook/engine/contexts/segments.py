"""Contexts that divide events: by key, by hash, by category."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cepbook.engine.contexts.forms import EventForm, Stream
from cepbook.engine.contexts.node import Branch, Node
from cepbook.engine.contexts.watch import ENDS, watch
from cepbook.lang import contexts as c

if TYPE_CHECKING:
    from cepbook.engine.contexts.levels import Level

_NONE: tuple[Node, ...] = ()


class DividedBranch(Branch):
    """Events of a listed type belong to one node at most, those of other types to all."""

    __slots__ = ()

    def routed(self, type_name: str, event: Any) -> Iterable[Node]:
        stream = self.level.stream(type_name)
        if stream is None:
            return self.children.values()
        if stream.passes is not None and not stream.passes(event):
            return _NONE
        node = self.children.get(stream.place(event)[0])
        return _NONE if node is None else (node,)


class KeyedBranch(DividedBranch):
    """``partition by``: a node for each key, maybe begun by some events only, maybe with an end.

    Events of listed types concern the node of their key alone, also when conditions look at them; the filters of
    listed streams apply to what statements are shown and to what allocates, not to conditions (recorded).
    """

    __slots__ = ("ends",)

    def __init__(self, level: Level, parent: Node | None) -> None:
        super().__init__(level, parent)
        self.ends = watch(self, level.form.ends, ENDS)

    def on_event(self, type_name: str, event: Any) -> None:
        stream = self.level.stream(type_name)
        among = None if stream is None else self.children.get(stream.place(event)[0])
        if stream is not None and among is None:
            self.admit(type_name, event)
            return
        if self.ends is not None:
            for node, match in self.ends.on_event(type_name, event, among):
                self.end(node, match.properties)
        self.descend(type_name, event)

    def admit(self, type_name: str, event: Any) -> None:
        stream = self.level.stream(type_name)
        if stream is None:
            return
        key, keys = stream.place(event)
        passes = stream.passes is None or stream.passes(event)
        named = self._named(stream, passes, type_name, event) if key not in self.children else None
        if named is not None:
            node = self.allocate(key, {**{f"key{i}": value for i, value in enumerate(keys, 1)}, **named})
            if passes:
                self.show(node, type_name, event)

    def _named(self, stream: Stream, passes: bool, type_name: str, event: Any) -> dict[str, Any] | None:
        """The named events of a node that an event allocates; None: it does not."""
        form = self.level.form
        if not form.begins:
            names = [s.alias for s in form.streams if s.alias is not None]
            return {name: event if name == stream.alias else None for name in names} if passes else None
        for begin in form.begins:
            assert isinstance(begin, EventForm)
            if self.tree.is_a(type_name, begin.event_type) and (begin.test is None or begin.test(event, None)):
                named = {name: None for each in form.begins for name in each.names}
                return {**named, **dict.fromkeys(begin.names, event)}
        return None

    def identity(self, node: Node) -> Any:
        spec = self.level.form.spec
        assert isinstance(spec, c.Keyed)
        return tuple(node.properties[f"key{i}"] for i in range(1, len(spec.streams.streams[0].keys) + 1))

    def begun(self, node: Node) -> None:
        if self.ends is not None:
            node.properties.update(dict.fromkeys(self.level.hidden))
            self.ends.add(node, self.tree.now)

    def left(self, node: Node) -> None:
        if self.ends is not None:
            self.ends.remove(node)


class HashBranch(DividedBranch):
    """``coalesce by``: a node for each hash, all from the beginning on with ``preallocate``."""

    __slots__ = ()

    def open(self) -> None:
        spec = self.level.form.spec
        assert isinstance(spec, c.Hash)
        if spec.preallocate:
            for number in range(spec.granularity):
                self.allocate(number, {})

    def identity(self, node: Node) -> Any:
        return node.key

    def on_event(self, type_name: str, event: Any) -> None:
        self.descend(type_name, event)
        self.admit(type_name, event)

    def admit(self, type_name: str, event: Any) -> None:
        stream = self.level.stream(type_name)
        if stream is None or (stream.passes is not None and not stream.passes(event)):
            return
        number = stream.place(event)[0]
        if number not in self.children:
            self.show(self.allocate(number, {}), type_name, event)


class CategoryBranch(Branch):
    """``group … as label``: a node for each category from the beginning on.

    If one was ended by hand, the next event of its category allocates another.
    """

    __slots__ = ()

    def open(self) -> None:
        for number, label in enumerate(self.level.form.labels):
            self.allocate(number, {"label": label})

    def identity(self, node: Node) -> Any:
        return node.properties["label"]

    def _categories(self, stream: Stream, event: Any) -> Sequence[int]:
        if stream.passes is not None and not stream.passes(event):
            return ()
        return stream.place(event)[1]

    def routed(self, type_name: str, event: Any) -> Iterable[Node]:
        stream = self.level.stream(type_name)
        if stream is None:
            return self.children.values()
        return [self.children[number] for number in self._categories(stream, event) if number in self.children]

    def on_event(self, type_name: str, event: Any) -> None:
        self.descend(type_name, event)
        self.admit(type_name, event)

    def admit(self, type_name: str, event: Any) -> None:
        stream = self.level.stream(type_name)
        if stream is None or len(self.children) == len(self.level.form.labels):
            return
        for number in self._categories(stream, event):
            if number not in self.children:
                label = self.level.form.labels[number]
                self.show(self.allocate(number, {"label": label}), type_name, event)
