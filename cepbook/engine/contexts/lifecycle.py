"""Branches of levels that begin and end by conditions: one period after the other, or overlapping ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cepbook.engine.contexts.condition_watch import (
    BEGINS,
    ConditionWatch,
    EndingBranch,
    PatternWatch,
    TimeWatch,
    watch_condition,
)
from cepbook.engine.contexts.conditions import EventCondition, NowCondition, TimeCondition
from cepbook.engine.contexts.event_routing import EventRouting
from cepbook.engine.contexts.tree_nodes import ConditionMatch, DetachedNode, Level, PartitionNode
from cepbook.engine.subscriptions.filter_index import IndexCondition, leading_conditions
from cepbook.engine.time.clock import NEVER

_BY_TIME = ConditionMatch({}, False)


class LifecycleBranch(EndingBranch):
    """A branch with a condition that begins nodes. The node `waiting` is the owner of that condition."""

    __slots__ = ("begins", "waiting")

    def __init__(self, level: Level, parent: PartitionNode | None) -> None:
        super().__init__(level, parent)
        (condition,) = level.compiled.begins
        begins = watch_condition(self, condition, BEGINS)
        assert begins is not None
        self.begins: ConditionWatch = begins
        self.waiting: PartitionNode | None = None

    def nodes_of(self, routing: EventRouting) -> Iterable[PartitionNode]:
        return self.children.values()

    @property
    def awaited(self) -> ConditionWatch:
        """The condition that `waiting` waits for."""
        return self.begins

    def wait(self) -> None:
        self.waiting = PartitionNode(self, None, {})
        self.awaited.add(self.waiting, self.tree.now)

    def stop_waiting(self) -> None:
        if self.waiting is not None:
            self.awaited.remove(self.waiting)
            self.waiting.ended = True
            self.waiting = None

    def properties(self, match: ConditionMatch) -> dict[str, Any]:
        """Return the properties of a node that `match` begins."""
        return {"startTime": self.tree.now, "endTime": None, **self.level.unknown, **match.properties}

    def waiting_node(self) -> PartitionNode | None:
        return self.waiting

    def resume(self, waiting: PartitionNode, detached: DetachedNode | None) -> None:
        if detached is not None:
            self.waiting = waiting
            waiting.branch = self
            self.awaited.resume(waiting, detached)

    def end_all(self) -> None:
        self.stop_waiting()
        super().end_all()

    def drop(self) -> None:
        self.stop_waiting()
        super().drop()


class NonOverlappingBranch(LifecycleBranch):
    """``start … end …``: one node at most. While it lives, the start condition is not watched.

    With ``start @now`` there is always a node, unless it could not begin (for example, a window size is null). Then its
    period passes without it, and the next one is tried.
    """

    @property
    def at_once(self) -> bool:
        """True if a node starts when the former one has ended (``@now``)."""
        return isinstance(self.level.compiled.begins[0], NowCondition)

    @property
    def awaited(self) -> ConditionWatch:
        return self.ends if self.at_once and self.ends is not None else self.begins

    def open(self) -> None:
        begins, ends = self.level.compiled.begins[0], self.level.compiled.ends
        if self.at_once:
            self._start(_BY_TIME)
            return
        self.wait()
        assert self.waiting is not None
        crontabs = [end for end in (begins, ends) if isinstance(end, TimeCondition) and end.crontab]
        if len(crontabs) == 2:  # between start and end: the end comes before the next start, or with it (recorded)
            ends_at = crontabs[1].due(self.waiting, self.tree.now)
            if ends_at <= self.waiting.due < NEVER:
                self._start(_BY_TIME)
                return
        for match in self.begins.at_once(self.waiting, self.tree.now)[:1]:
            self._start(match)

    def adopt(self, node: PartitionNode, detached: DetachedNode) -> None:
        self.stop_waiting()
        super().adopt(node, detached)

    def _start(self, match: ConditionMatch) -> PartitionNode | None:
        self.stop_waiting()
        node = self.allocate(None, self.properties(match))
        if node is None and not self.at_once:
            self.wait()
        return node

    def abandon_opened(self, node: PartitionNode) -> None:
        if self.at_once and self.ends is not None:
            node.below = None
            self.waiting = node
        else:
            super().abandon_opened(node)

    def ignores(self, type_name: str, event: Any) -> bool:
        watch = self.ends if self.children else self.awaited
        return self.level.inner is None and (watch is None or watch.ignores(type_name, event))

    def turning_conditions(self, type_name: str) -> list[tuple[IndexCondition, ...]] | None:
        """Return the conditions of which an event of a type must meet one to end the live node, or to begin one if none
        lives. Without conditions no event of the type can; None: any may.
        """
        compiled = self.level.compiled
        condition = compiled.ends if self.children or self.at_once else compiled.begins[0]
        if not isinstance(condition, EventCondition):
            return []
        conjuncts = condition.conjuncts(self.tree.types_of(type_name))
        if conjuncts is None:
            return []
        leading = leading_conditions(conjuncts)
        return [leading] if leading else None

    def on_event(self, routing: EventRouting) -> None:
        if not self.children:
            if not self.at_once:
                self.begin_nodes(routing)
            elif self.waiting is not None and self.awaited.on_event(routing):
                self.deliver(self._start(_BY_TIME), routing)
            return
        matches = () if self.ends is None else self.ends.on_event(routing)
        for node, match in matches:
            if not node.ended:
                self.deliver_terminating_event(node, routing)
                self._end(node, match, routing)
        if not matches:
            self.descend(routing)

    def begin_nodes(self, routing: EventRouting) -> None:
        if self.children or self.waiting is None or self.at_once:
            return
        for _, match in self.begins.on_event(routing)[:1]:
            self.deliver_match(self._start(match), match, routing)

    def _end(self, node: PartitionNode, match: ConditionMatch, routing: EventRouting | None = None) -> None:
        """End the node. The event of `routing` that ends it may start the next one; ``@now`` always starts one."""
        self.end(node, match.properties)
        if self.at_once:
            started = self._start(_BY_TIME)
            if routing is not None:
                self.deliver(started, routing)
            return
        self.wait()
        if routing is not None and isinstance(self.level.compiled.begins[0], EventCondition):
            self.begin_nodes(routing)

    def on_condition(self, owner: PartitionNode, match: ConditionMatch, routing: EventRouting) -> None:
        if owner is not self.waiting:
            self._end(owner, match)
        elif self.at_once:
            self._start(_BY_TIME)
        else:
            self.deliver_match(self._start(match), match, routing)

    def end_by_hand(self, node: PartitionNode) -> None:
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
        if self.level.compiled.also_now:
            self._initiate(_BY_TIME)
        if isinstance(self.begins, PatternWatch):  # a time that is due already waits for the next advance (recorded)
            for match in self.begins.at_once(self.waiting, self.tree.now):
                self._initiate(match)

    def counterpart(self, detached: DetachedNode) -> PartitionNode | None:
        node = super().counterpart(detached)
        if node is None or self.level.compiled.distinct is not None:
            return node
        # Serial numbers alone do not identify nodes of another tree.
        names = ("startTime", *self.level.compiled.begins[0].names)
        return node if all(node.properties.get(name) == detached.properties.get(name) for name in names) else None

    def adopt(self, node: PartitionNode, detached: DetachedNode) -> None:
        if self.level.compiled.distinct is None:
            self._serial = max(self._serial, detached.key)
            if detached.key in self.children:
                self._serial += 1
                detached.key = self._serial
        super().adopt(node, detached)

    def _initiate(self, match: ConditionMatch) -> PartitionNode | None:
        properties = self.properties(match)
        distinct = self.level.compiled.distinct
        if distinct is not None:
            key = distinct(None, PartitionNode(self, None, properties))
            return None if key in self.children else self.allocate(key, properties)
        self._serial += 1
        return self.allocate(self._serial, properties)

    def ignores(self, type_name: str, event: Any) -> bool:
        ends = self.ends
        settled = self.level.inner is None and (ends is None or ends.ignores(type_name, event))
        return settled and self.begins.ignores(type_name, event)

    def on_event(self, routing: EventRouting) -> None:
        matches = [] if self.ends is None else self.ends.on_event(routing)
        inner = self.level.inner
        before = list(self.children.values()) if inner is not None and inner.concerns(routing.type_name) else ()
        self.begin_nodes(routing)
        for node, match in matches:
            self.deliver_terminating_event(node, routing)
            self.end(node, match.properties)
        self.descend(routing, before)

    def begin_nodes(self, routing: EventRouting) -> None:
        matches = self.begins.on_event(routing)
        for _, match in matches:
            self.deliver_match(self._initiate(match), match, routing)
        if matches:
            self._wait_again()

    def _wait_again(self) -> None:
        """Watch for the next point in time. A pattern repeats by itself if it has ``every``."""
        if self.waiting is not None and isinstance(self.begins, TimeWatch):
            self.begins.add(self.waiting, self.tree.now)

    def on_condition(self, owner: PartitionNode, match: ConditionMatch, routing: EventRouting) -> None:
        if owner is not self.waiting:
            self.end(owner, match.properties)
            return
        self._wait_again()
        self.deliver_match(self._initiate(match), match, routing)
