"""Watching the conditions that begin and end nodes.

A watch is made per condition and branch. Its *owners* are the nodes that the condition ends, or the one waiting node of
a branch whose nodes it begins. Kinds of watches: a point in time, an event, a pattern, and ``@now``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from cepbook.engine.contexts import conditions
from cepbook.engine.contexts.event_routing import EventRouting
from cepbook.engine.contexts.tree_nodes import Branch, ConditionMatch, DetachedNode, Level, PartitionNode
from cepbook.engine.contexts.tree_partitions import TreePartitions
from cepbook.engine.patterns.matcher import AtomGroup, Matcher
from cepbook.engine.state import State, created, initial
from cepbook.engine.time.clock import NEVER

Satisfied = list[tuple[PartitionNode, ConditionMatch]]  # owners with the match of each
BEGINS, ENDS = 0, 1  # at one instant, nodes of a level begin before others end


class ConditionWatch(State):
    """The owners that wait for one condition."""

    branch: Branch
    rank: int
    condition: Any

    @property
    def tree(self) -> TreePartitions:
        return self.branch.tree

    @abstractmethod
    def add(self, owner: PartitionNode, now: int) -> None:
        """Watch the condition for `owner` from now on."""

    def resume(self, owner: PartitionNode, detached: DetachedNode) -> None:
        """Continue watching for a saved owner, whose timer and matcher keep their state."""
        self.arm(owner, detached.due)
        if owner.due < NEVER:
            owner.timer = self.tree.arm_again(owner.timer, (self, owner), detached.timer)
            self.tree.timed.arm(owner.timer, NEVER if detached.lost else detached.due)

    def sort(self, owners: Iterable[PartitionNode]) -> None:
        """Put the owners into this order."""
        return None

    def at_once(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        """Return the matches that exist already when watching begins."""
        return []

    def remove(self, owner: PartitionNode) -> None:
        self._disarm(owner)

    def ignores(self, type_name: str, event: Any) -> bool:
        """Return True if an event makes the condition true for no owner, False if `on_event` has to decide."""
        return False

    def on_event(self, routing: EventRouting, among: PartitionNode | None = None) -> Satisfied:
        """Return the owners for which an event makes the condition true; with `among`, test this owner only."""
        return []

    def on_timer(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        """Return the matches of a due timer."""
        return []

    def arm(self, owner: PartitionNode, due: int) -> None:
        """Let the timer of `owner` fire at `due`."""
        self._disarm(owner)
        if due < NEVER:
            owner.due = due
            owner.timer = self.tree.arm(self.branch.level.depth, self.rank, (self, owner), due)

    def _disarm(self, owner: PartitionNode) -> None:
        if owner.due < NEVER:
            owner.due = NEVER
            self.tree.disarm(owner.timer)


class TimeWatch(ConditionWatch):
    """Watches a point in time. If it ends nodes, their property endTime shows it."""

    condition: conditions.TimeCondition

    def ignores(self, type_name: str, event: Any) -> bool:
        return True

    def add(self, owner: PartitionNode, now: int) -> None:
        due = self.condition.due(owner, now)
        if due <= now and self.rank == ENDS:  # no node ends at the instant at which it began
            due = now + 1
        if self.rank == ENDS and self.branch.level.timed:
            owner.properties["endTime"] = due if due < NEVER else None
        self.arm(owner, due)

    def at_once(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        return [ConditionMatch({}, False)] if owner.due <= now else []

    def on_timer(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        return [ConditionMatch({}, False)]


class EventWatch(ConditionWatch):
    """Watches for an event. Owners are indexed by key if the filter has equalities with their properties."""

    condition: conditions.EventCondition
    owners: dict[PartitionNode, None] = created(dict)  # without key
    keyed: dict[Any, dict[PartitionNode, None]] = created(dict)

    def add(self, owner: PartitionNode, now: int) -> None:
        if self.condition.key is None:
            self.owners[owner] = None
            return
        key = self.condition.key[1](None, owner)
        if None not in key:  # null equals nothing
            owner.lookup = key
            self.keyed.setdefault(key, {})[owner] = None

    def resume(self, owner: PartitionNode, detached: DetachedNode) -> None:
        self.add(owner, self.tree.now)

    def sort(self, owners: Iterable[PartitionNode]) -> None:
        self.owners = {node: None for node in owners if node in self.owners}
        keyed: dict[Any, dict[PartitionNode, None]] = {}
        for node in owners if self.keyed else ():
            if node.lookup in self.keyed and node in self.keyed[node.lookup]:
                keyed.setdefault(node.lookup, {})[node] = None
        self.keyed = keyed

    def remove(self, owner: PartitionNode) -> None:
        if self.condition.key is None:
            self.owners.pop(owner, None)
            return
        owners = self.keyed.get(owner.lookup)
        if owners is not None:
            owners.pop(owner, None)
            if not owners:
                del self.keyed[owner.lookup]

    def ignores(self, type_name: str, event: Any) -> bool:
        condition = self.condition
        if type_name != condition.event_type and not self.branch.level.is_a(type_name, condition.event_type):
            return True
        if not condition.repeatable:
            return False
        test, key = condition.test, condition.key
        try:
            if key is not None:
                return not self.keyed or key[0](event, None) not in self.keyed
            for owner in self.owners:
                if test is None or test(event, owner):
                    return False
        except Exception:  # noqa: BLE001 - `on_event` fails as well and reports it
            return False
        return True

    def on_event(self, routing: EventRouting, among: PartitionNode | None = None) -> Satisfied:
        condition, event = self.condition, routing.event
        listed, type_name = condition.event_type, routing.type_name
        if type_name != listed and not self.branch.level.is_a(type_name, listed):
            return []
        owners: Iterable[PartitionNode] = self.owners
        if among is not None:
            owners = (among,)
        elif condition.key is not None:
            owners = self._owners_by_key(condition.key[0], event)
        test, passes = condition.test, self._passes
        satisfied = [owner for owner in owners if test is None or passes(test, event, owner)]
        if condition.unfold is not None:
            return [
                (owner, ConditionMatch(dict.fromkeys(condition.names, contained), True))
                for owner in satisfied
                for contained in self._contained(condition.unfold, event, owner)
            ]
        return [(owner, ConditionMatch(dict.fromkeys(condition.names, event), True)) for owner in satisfied]

    def _contained(self, unfold: conditions.ConditionValue, event: Any, owner: PartitionNode) -> list[Any]:
        """Return the contained events that make the condition true. The first one ends a node."""
        try:
            events: list[Any] = unfold(event, owner) or []
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.tree.failed(failure)
            return []
        return events if self.rank == BEGINS else events[:1]

    def _owners_by_key(self, key: conditions.ConditionValue, event: Any) -> Iterable[PartitionNode]:
        """Return the owners under an event's key; none if computing the key fails. The event may still begin nodes."""
        try:
            return self.keyed.get(key(event, None), ()) if self.keyed else ()
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.tree.failed(failure)
            return ()

    def _passes(self, test: conditions.ConditionTest, event: Any, owner: PartitionNode) -> bool:
        """Evaluate the test for one owner. A failure does not affect other owners."""
        try:
            return test(event, owner)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.tree.failed(failure)
            return False


class PatternWatch(ConditionWatch):
    """Watches for a match of a pattern; every owner has its own matcher.

    If all atoms have keys, only the owners under the keys of an event are tried.
    """

    condition: conditions.PatternCondition
    owners: dict[PartitionNode, int] = created(dict)  # with a serial number, ascending by age
    keyed: dict[tuple[str, int], dict[Any, dict[PartitionNode, None]]] = created(dict)  # by event type, key number
    serial: int = initial(0)

    def add(self, owner: PartitionNode, now: int) -> None:
        owner.matcher = Matcher(self.condition.program, self.tree, partition=owner, limit=self.tree.pattern_limit)
        owner.matcher.completed = owner.matcher.start(now)  # an immediate match waits for the next instant
        self._index(owner)
        self._arm(owner)

    def resume(self, owner: PartitionNode, detached: DetachedNode) -> None:
        owner.matcher = detached.matcher
        self._index(owner)
        super().resume(owner, detached)

    def sort(self, owners: Iterable[PartitionNode]) -> None:
        self.owners = {node: number for number, node in enumerate(owners, 1) if node in self.owners}
        self.serial = max(self.owners.values(), default=0)

    def _index(self, owner: PartitionNode) -> None:
        self.serial += 1
        self.owners[owner] = self.serial
        owner.lookup = []
        for event_type, keys in self.condition.keys.items():
            for number, (_, node_key) in enumerate(keys):
                key = node_key(None, owner)
                if None not in key:  # null equals nothing
                    table = self.keyed.setdefault((event_type, number), {})
                    table.setdefault(key, {})[owner] = None
                    owner.lookup.append((table, key))

    def remove(self, owner: PartitionNode) -> None:
        super().remove(owner)
        self.owners.pop(owner, None)
        for table, key in owner.lookup or ():
            table[key].pop(owner, None)
            if not table[key]:
                del table[key]
        owner.lookup = None
        if owner.matcher is not None:
            owner.matcher.stop()
            owner.matcher = None

    def _candidates(self, route: Sequence[AtomGroup], event: Any) -> list[PartitionNode]:
        """Return the owners whose matcher may react to an event, oldest first."""
        keys = self.condition.keys
        if any(group.event_type not in keys for group in route):
            return list(self.owners)
        owners: dict[PartitionNode, None] = {}
        for group in route:
            for number, (event_key, _) in enumerate(keys[group.event_type]):
                table = self.keyed.get((group.event_type, number))
                if table:
                    try:
                        owners.update(table.get(event_key(event, None), {}))
                    except Exception:  # noqa: BLE001 - the matchers fail as well and report it
                        return list(self.owners)
        return sorted(owners, key=self.owners.__getitem__)

    def _arm(self, owner: PartitionNode) -> None:
        matcher: Matcher = owner.matcher
        due = self.tree.now if matcher.completed else matcher.due
        if due != owner.due:
            self.arm(owner, due)

    def on_event(self, routing: EventRouting, among: PartitionNode | None = None) -> Satisfied:
        route = self.condition.program.route(self.tree.types_of(routing.type_name))
        if not route:
            return []
        satisfied: Satisfied = []
        for owner in self._candidates(route, routing.event) if among is None else [among]:
            matches = owner.matcher.on_event(route, routing.event, self.tree.now)
            satisfied += [(owner, self._match(match)) for match in matches]
            self._arm(owner)
        return satisfied

    def at_once(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        return self.on_timer(owner, now) if owner.due <= now else []

    def on_timer(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        matches = [self._match(match) for match in owner.matcher.advance(now)]
        self._arm(owner)
        return matches

    def _match(self, match: dict[str, Any]) -> ConditionMatch:
        condition = self.condition
        replay: list[tuple[str, Any]] = []
        for tag, event_type in condition.replay:
            value = match[tag]
            events = value if isinstance(value, list) else [value]
            replay += [(event_type, event) for event in events if event is not None]
        if condition.alias is None:
            return ConditionMatch(match, False, tuple(replay))
        matched = {tag: value for tag, value in match.items() if value is not None}
        return ConditionMatch({condition.alias: matched}, False, tuple(replay))


class NowWatch(ConditionWatch):
    """``@now``: there is nothing to watch."""

    def ignores(self, type_name: str, event: Any) -> bool:
        return True

    def add(self, owner: PartitionNode, now: int) -> None:
        return None

    def resume(self, owner: PartitionNode, detached: DetachedNode) -> None:
        return None


def watch_condition(branch: Branch, condition: conditions.CompiledCondition | None, rank: int) -> ConditionWatch | None:
    """Return the watch for a condition of `branch`; None if there is no condition."""
    match condition:
        case conditions.EventCondition():
            return EventWatch(branch, rank, condition)
        case conditions.TimeCondition():
            return TimeWatch(branch, rank, condition)
        case conditions.PatternCondition():
            return PatternWatch(branch, rank, condition)
        case conditions.NowCondition():
            return NowWatch(branch, rank, condition)
    return None


class EndingBranch(Branch):
    """A branch whose nodes end by the condition `ends`, if the level has one."""

    __slots__ = ("ends",)

    def __init__(self, level: Level, parent: PartitionNode | None) -> None:
        super().__init__(level, parent)
        self.ends = watch_condition(self, level.compiled.ends, ENDS)

    def watch_end(self, node: PartitionNode) -> None:
        if self.ends is not None:
            self.ends.add(node, self.tree.now)

    def unwatch_end(self, node: PartitionNode) -> None:
        if self.ends is not None:
            self.ends.remove(node)

    def resume_end(self, node: PartitionNode, detached: DetachedNode, out_of_order: bool) -> None:
        if self.ends is not None:
            self.ends.resume(node, detached)
            if out_of_order:
                self.ends.sort(self.children.values())
