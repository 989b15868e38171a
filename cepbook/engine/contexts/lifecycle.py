"""Contexts that begin and end: one span after the other, or overlapping ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cepbook.engine.contexts.condition_watch import BEGINS, ConditionWatch, PatternWatch, TimeWatch, watch_condition
from cepbook.engine.contexts.context_compiler import EventCondition, NowCondition, TimeCondition
from cepbook.engine.contexts.ending import EndingBranch
from cepbook.engine.contexts.tree_nodes import ConditionMatch, DetachedNode, PartitionNode
from cepbook.engine.time.clock import NEVER
from cepbook.lang.plan import context as c

if TYPE_CHECKING:
    from cepbook.engine.contexts.event_routing import EventRouting
    from cepbook.engine.contexts.tree_levels import Level

_BY_TIME = ConditionMatch({}, False)


class LifecycleBranch(EndingBranch):
    """What spans have in common: conditions that begin nodes and that end them. `waiting` stands in for the next
    node: it waits for what is `awaited`.
    """

    __slots__ = ("begins", "waiting")

    def __init__(self, level: Level, parent: PartitionNode | None) -> None:
        super().__init__(level, parent)
        (begins,) = level.form.begins
        found = watch_condition(self, begins, BEGINS)
        assert found is not None
        self.begins: ConditionWatch = found
        self.waiting: PartitionNode | None = None

    def routed(self, round_: EventRouting) -> Iterable[PartitionNode]:
        return self.children.values()

    @property
    def awaited(self) -> ConditionWatch:
        """The condition that begins nodes."""
        return self.begins

    def wait(self) -> None:
        """Observe what is `awaited`."""
        self.waiting = PartitionNode(self, None, {})
        self.awaited.add(self.waiting, self.tree.now)

    def stop_waiting(self) -> None:
        """Observe it no more."""
        if self.waiting is not None:
            self.awaited.remove(self.waiting)
            self.waiting.ended = True
            self.waiting = None

    def properties(self, match: ConditionMatch) -> dict[str, Any]:
        """The properties of a node that `match` begins."""
        return {"startTime": self.tree.now, "endTime": None, **self.level.unknown, **match.properties}

    def waiting_node(self) -> PartitionNode | None:
        return self.waiting

    def resume(self, waiting: PartitionNode, held: DetachedNode | None) -> None:
        if held is not None:
            self.waiting = waiting
            waiting.branch = self
            self.awaited.resume(waiting, held)

    def finish(self) -> None:
        self.stop_waiting()
        super().finish()

    def drop(self) -> None:
        self.stop_waiting()
        super().drop()


class NonOverlappingBranch(LifecycleBranch):
    """``start … end …``: one node at most; while it lives nobody looks at the condition that starts it.

    With ``start @now`` there always is one, unless it could not begin (a variable has no such size): then the time that
    it would have had passes without it, and the next one is tried.
    """

    __slots__ = ()

    @property
    def at_once(self) -> bool:
        """Whether a node starts when the former one has ended (``@now``)."""
        return isinstance(self.level.form.begins[0], NowCondition)

    @property
    def awaited(self) -> ConditionWatch:
        return self.ends if self.at_once and self.ends is not None else self.begins

    def open(self) -> None:
        begins, ends = self.level.form.begins[0], self.level.form.ends
        if self.at_once:
            self._start(_BY_TIME)
            return
        self.wait()
        assert self.waiting is not None
        crontabs = [form for form in (begins, ends) if isinstance(form, TimeCondition) and form.crontab]
        if len(crontabs) == 2:  # between the points: the end comes before the next start (recorded: or with it)
            ends_at = crontabs[1].due(self.waiting, self.tree.now)
            if ends_at <= self.waiting.due < NEVER:
                self._start(_BY_TIME)
                return
        for match in self.begins.at_once(self.waiting, self.tree.now)[:1]:
            self._start(match)

    def adopt(self, node: PartitionNode, held: DetachedNode) -> None:
        self.stop_waiting()
        super().adopt(node, held)

    def _start(self, match: ConditionMatch) -> PartitionNode | None:
        self.stop_waiting()
        node = self.allocate(None, self.properties(match))
        if node is None and not self.at_once:
            self.wait()
        return node

    def unopened(self, node: PartitionNode) -> None:
        if self.at_once and self.ends is not None:
            node.below = None
            self.waiting = node
        else:
            super().unopened(node)

    def on_event(self, round_: EventRouting) -> None:
        if not self.children:
            if not self.at_once:
                self.admit(round_)
            elif self.waiting is not None and self.awaited.on_event(round_):
                self.show(self._start(_BY_TIME), round_)
            return
        found = () if self.ends is None else self.ends.on_event(round_)
        for node, match in found:
            if not node.ended:
                self.show_terminating_event(node, round_)
                self._end(node, match, round_)
        if not found:
            self.descend(round_)

    def admit(self, round_: EventRouting) -> None:
        if self.children or self.waiting is None or self.at_once:
            return
        for _, match in self.begins.on_event(round_)[:1]:
            self.show_all(self._start(match), match, round_)

    def _end(self, node: PartitionNode, match: ConditionMatch, round_: EventRouting | None = None) -> None:
        """End the node; the event of `round_` that does may start the next one, ``@now`` does so always."""
        self.end(node, match.properties)
        if self.at_once:
            started = self._start(_BY_TIME)
            if round_ is not None:
                self.show(started, round_)
            return
        self.wait()
        if round_ is not None and isinstance(self.level.form.begins[0], EventCondition):
            self.admit(round_)

    def met(self, owner: PartitionNode, match: ConditionMatch, round_: EventRouting) -> None:
        if owner is not self.waiting:
            self._end(owner, match)
        elif self.at_once:
            self._start(_BY_TIME)
        else:
            self.show_all(self._start(match), match, round_)

    def dismiss(self, node: PartitionNode) -> None:
        self._end(node, _BY_TIME)


class OverlappingBranch(LifecycleBranch):
    """``initiated by … terminated by …``: a node for each time that the condition comes true."""

    __slots__ = ("_serial",)

    def __init__(self, level: Level, parent: PartitionNode | None) -> None:
        super().__init__(level, parent)
        self._serial = 0

    def open(self) -> None:
        self.wait()
        assert self.waiting is not None
        spec = self.level.form.spec
        assert isinstance(spec, c.OverlappingSpec)
        if spec.also_now:
            self._initiate(_BY_TIME)
        if isinstance(self.begins, PatternWatch):  # a time that is there already waits for the next advance (recorded)
            for match in self.begins.at_once(self.waiting, self.tree.now):
                self._initiate(match)

    def alike(self, held: DetachedNode) -> PartitionNode | None:
        node = super().alike(held)
        if node is None or self.level.form.distinct is not None:
            return node
        started = ("startTime", *self.level.form.begins[0].names)  # numbers alone tell nothing of other trees' nodes
        return node if all(node.properties.get(name) == held.properties.get(name) for name in started) else None

    def adopt(self, node: PartitionNode, held: DetachedNode) -> None:
        if self.level.form.distinct is None:
            self._serial = max(self._serial, held.key)
            if held.key in self.children:
                self._serial += 1
                held.key = self._serial
        super().adopt(node, held)

    def _initiate(self, match: ConditionMatch) -> PartitionNode | None:
        """A new node, unless one of the same distinct key lives."""
        properties = self.properties(match)
        distinct = self.level.form.distinct
        if distinct is not None:
            key = distinct(None, PartitionNode(self, None, properties))
            return None if key in self.children else self.allocate(key, properties)
        self._serial += 1
        return self.allocate(self._serial, properties)

    def on_event(self, round_: EventRouting) -> None:
        found = [] if self.ends is None else self.ends.on_event(round_)
        inner = self.level.inner
        before = list(self.children.values()) if inner is not None and inner.concerns(round_.type_name) else ()
        self.admit(round_)
        for node, match in found:
            self.show_terminating_event(node, round_)
            self.end(node, match.properties)
        self.descend(round_, before)

    def admit(self, round_: EventRouting) -> None:
        found = self.begins.on_event(round_)
        for _, match in found:
            self.show_all(self._initiate(match), match, round_)
        if found:
            self._again()

    def _again(self) -> None:
        """The condition came true: a time will again, a pattern does so by itself if it is to (``every``)."""
        if self.waiting is not None and isinstance(self.begins, TimeWatch):
            self.begins.add(self.waiting, self.tree.now)

    def met(self, owner: PartitionNode, match: ConditionMatch, round_: EventRouting) -> None:
        if owner is not self.waiting:
            self.end(owner, match.properties)
            return
        self._again()
        self.show_all(self._initiate(match), match, round_)
