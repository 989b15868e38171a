"""Contexts that divide events: by key, by hash, by category."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cepbook.engine.contexts.ending import EndingBranch
from cepbook.engine.contexts.forms import EventForm, Stream
from cepbook.engine.contexts.node import Branch, Node
from cepbook.lang import contexts as c

if TYPE_CHECKING:
    from cepbook.engine.contexts.levels import Look
    from cepbook.engine.contexts.round import Round

_NONE: tuple[Node, ...] = ()


class DividedBranch(EndingBranch):
    """Events of a listed type belong to one node at most, those of other types to all."""

    __slots__ = ()

    def enlarge(self, round_: Round) -> None:
        """Allocate the node that an event begins; below a span that is shown it after the older ones elsewhere.

        Recorded: new_inner_partition_is_delivered_last, and that below a category it is not so (nested_category_keyed).
        """
        self.admit(round_.deferring() if self.parent is not None and self.parent.branch.level.timed else round_)

    def routed(self, round_: Round) -> Iterable[Node]:
        look = self.level.look(round_)
        if look.stream is None:
            return self.children.values()
        node = self.children.get(look.key) if look.passes else None
        return _NONE if node is None else (node,)


class KeyedBranch(DividedBranch):
    """``partition by``: a node for each key, maybe begun by some events only, maybe with an end.

    Events of listed types concern the node of their key alone, also when conditions look at them; the filters of
    listed streams apply to what statements are shown and to what allocates, not to conditions (recorded).
    """

    __slots__ = ()

    def on_event(self, round_: Round) -> None:
        look = self.level.look(round_)
        among = None if look.stream is None else self.children.get(look.key)
        if look.stream is not None and among is None:
            self.enlarge(round_)
            return
        if self.ends is not None:
            for node, match in self.ends.on_event(round_, among):
                self.end(node, match.properties)
        self.descend(round_)

    def admit(self, round_: Round) -> None:
        look = self.level.look(round_)
        if look.stream is None or look.key in self.children:
            return
        named = self._named(round_, look, look.stream)
        if named is not None:
            node = self.allocate(look.key, {**{f"key{i}": value for i, value in enumerate(look.keys, 1)}, **named})
            if look.passes:
                self.show(node, round_)

    def _named(self, round_: Round, look: Look, stream: Stream) -> dict[str, Any] | None:
        """The named events of a node that an event allocates; None: it does not."""
        form, event = self.level.form, round_.event
        if not form.begins:
            names = [s.alias for s in form.streams if s.alias is not None]
            return {name: event if name == stream.alias else None for name in names} if look.passes else None
        for begin in form.begins:
            assert isinstance(begin, EventForm)
            if self.tree.is_a(round_.type_name, begin.event_type) and (begin.test is None or begin.test(event, None)):
                found = [event] if begin.unfold is None else begin.unfold(event, None)
                if found:
                    named = {name: None for each in form.begins for name in each.names}
                    return {**named, **dict.fromkeys(begin.names, found[0])}
        return None

    def identity(self, node: Node) -> Any:
        spec = self.level.form.spec
        assert isinstance(spec, c.Keyed)
        return tuple(node.properties[f"key{i}"] for i in range(1, len(spec.streams.streams[0].keys) + 1))

    def begun(self, node: Node) -> None:
        if self.ends is not None:
            node.properties.update(dict.fromkeys(self.level.hidden))
        super().begun(node)


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

    def on_event(self, round_: Round) -> None:
        self.descend(round_)
        self.enlarge(round_)

    def admit(self, round_: Round) -> None:
        look = self.level.look(round_)
        if look.stream is not None and look.passes and look.key not in self.children:
            self.show(self.allocate(look.key, {}), round_)


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

    def routed(self, round_: Round) -> Iterable[Node]:
        look = self.level.look(round_)
        if look.stream is None:
            return self.children.values()
        return [self.children[number] for number in look.keys if number in self.children]

    def on_event(self, round_: Round) -> None:
        self.descend(round_)
        self.admit(round_)

    def admit(self, round_: Round) -> None:
        labels = self.level.form.labels
        if len(self.children) == len(labels):
            return
        for number in self.level.look(round_).keys:
            if number not in self.children:
                self.show(self.allocate(number, {"label": labels[number]}), round_)
