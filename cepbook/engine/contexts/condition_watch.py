"""Who waits for a condition: the observers of one condition under one branch of the tree.

An owner is a node that the condition ends, or the stand-in of a branch that it begins nodes of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cepbook.engine.contexts.context_compiler import (
    CompiledCondition,
    ConditionTest,
    ConditionValue,
    EventCondition,
    NowCondition,
    PatternCondition,
    TimeCondition,
)
from cepbook.engine.contexts.tree_nodes import Branch, ConditionMatch, DetachedNode, PartitionNode
from cepbook.engine.patterns.matcher import AtomGroup, Matcher
from cepbook.engine.state import State
from cepbook.engine.time.clock import NEVER

if TYPE_CHECKING:
    from cepbook.engine.contexts.event_routing import EventRouting
    from cepbook.engine.contexts.tree_context import TreeContext

BEGINS, ENDS = 0, 1  # at one instant nodes of a level begin before others end


class ConditionWatch(State, ABC):
    """The owners that wait for one condition."""

    __slots__ = ("branch", "rank", "tree")

    def __init__(self, branch: Branch, rank: int) -> None:
        self.branch = branch
        self.tree: TreeContext = branch.tree
        self.rank = rank

    @abstractmethod
    def add(self, owner: PartitionNode, now: int) -> None:
        """Observe the condition for `owner` from now on."""

    def resume(self, owner: PartitionNode, held: DetachedNode) -> None:
        """Observe on for `owner`, who comes from elsewhere: what happened to the condition there counts."""
        self.tree.resume(self, owner, held)

    def sort(self, owners: Iterable[PartitionNode]) -> None:
        """This is the order of those who wait."""
        return None

    def at_once(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        """How often the condition is true already when it is observed."""
        return []

    def remove(self, owner: PartitionNode) -> None:
        """Observe it no more."""
        if owner.due < NEVER:
            self.tree.disarm(owner)

    def on_event(
        self, round_: EventRouting, among: PartitionNode | None = None
    ) -> list[tuple[PartitionNode, ConditionMatch]]:
        """For whom an event makes the condition true; `among`: look at this owner only."""
        return []

    def fired(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        """The timer of `owner` is due."""
        return []


class TimeWatch(ConditionWatch):
    """A point in time; it is known from the beginning when it ends nodes."""

    __slots__ = ("form",)

    def __init__(self, branch: Branch, rank: int, form: TimeCondition) -> None:
        super().__init__(branch, rank)
        self.form = form

    def add(self, owner: PartitionNode, now: int) -> None:
        due = self.form.due(owner, now)
        if due <= now and self.rank == ENDS:  # nothing ends at the instant at which it began
            due = now + 1
        if self.rank == ENDS and self.branch.level.timed:
            owner.properties["endTime"] = due if due < NEVER else None
        self.tree.arm(self, owner, due)

    def at_once(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        return [ConditionMatch({}, False)] if owner.due <= now else []

    def fired(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        return [ConditionMatch({}, False)]


class EventWatch(ConditionWatch):
    """An event. Owners are found by key if the filter has equalities with their properties."""

    __slots__ = ("form", "keyed", "owners")

    def __init__(self, branch: Branch, rank: int, form: EventCondition) -> None:
        super().__init__(branch, rank)
        self.form = form
        self.owners: dict[PartitionNode, None] = {}  # without key
        self.keyed: dict[Any, dict[PartitionNode, None]] = {}

    def add(self, owner: PartitionNode, now: int) -> None:
        if self.form.key is None:
            self.owners[owner] = None
            return
        key = self.form.key[1](None, owner)
        if None not in key:  # null equals nothing
            owner.found_by = key
            self.keyed.setdefault(key, {})[owner] = None

    def resume(self, owner: PartitionNode, held: DetachedNode) -> None:
        self.add(owner, self.tree.now)

    def sort(self, owners: Iterable[PartitionNode]) -> None:
        self.owners = {node: None for node in owners if node in self.owners}
        of_key: dict[Any, dict[PartitionNode, None]] = {}
        for node in owners if self.keyed else ():
            if node.found_by in self.keyed and node in self.keyed[node.found_by]:
                of_key.setdefault(node.found_by, {})[node] = None
        self.keyed = of_key

    def remove(self, owner: PartitionNode) -> None:
        if self.form.key is None:
            self.owners.pop(owner, None)
            return
        found = self.keyed.get(owner.found_by)
        if found is not None:
            found.pop(owner, None)
            if not found:
                del self.keyed[owner.found_by]

    def on_event(
        self, round_: EventRouting, among: PartitionNode | None = None
    ) -> list[tuple[PartitionNode, ConditionMatch]]:
        form, event = self.form, round_.event
        if round_.type_name != form.event_type and not self.branch.level.is_a(round_.type_name, form.event_type):
            return []
        owners: Iterable[PartitionNode] = self.owners
        if among is not None:
            owners = (among,)
        elif form.key is not None:
            owners = self._of_key(form.key[0], event)
        test, holds = form.test, self._holds
        met = [owner for owner in owners if test is None or holds(test, event, owner)]
        if form.unfold is not None:
            return [
                (owner, ConditionMatch(dict.fromkeys(form.names, each), True))
                for owner in met
                for each in self._within(form.unfold, event, owner)
            ]
        return [(owner, ConditionMatch(dict.fromkeys(form.names, event), True)) for owner in met]

    def _within(self, unfold: ConditionValue, event: Any, owner: PartitionNode) -> list[Any]:
        """The events within that the condition is about; the first of them ends a node."""
        try:
            found: list[Any] = unfold(event, owner) or []
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.tree.failed(failure)
            return []
        return found if self.rank == BEGINS else found[:1]

    def _of_key(self, key: ConditionValue, event: Any) -> Iterable[PartitionNode]:
        """The owners of an event's key; where it fails the event ends none, and may begin others."""
        try:
            return self.keyed.get(key(event, None), ()) if self.keyed else ()
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.tree.failed(failure)
            return ()

    def _holds(self, test: ConditionTest, event: Any, owner: PartitionNode) -> bool:
        """A test that fails for one owner says nothing of the others."""
        try:
            return test(event, owner)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.tree.failed(failure)
            return False


class PatternWatch(ConditionWatch):
    """A match of a pattern: every owner has a matcher of its own.

    Those that an event may be of use to are found by the keys of its atoms, if all of them have one.
    """

    __slots__ = ("form", "keyed", "owners", "serial")

    def __init__(self, branch: Branch, rank: int, form: PatternCondition) -> None:
        super().__init__(branch, rank)
        self.form = form
        self.owners: dict[PartitionNode, int] = {}  # in order of age
        self.keyed: dict[
            tuple[str, int], dict[Any, dict[PartitionNode, None]]
        ] = {}  # by event type and number of the key
        self.serial = 0

    def add(self, owner: PartitionNode, now: int) -> None:
        owner.matcher = self.tree.matcher(self.form.program, owner)
        owner.matcher.found = owner.matcher.start(now)  # what matches at once waits for the next instant
        self._enlist(owner)
        self._arm(owner)

    def resume(self, owner: PartitionNode, held: DetachedNode) -> None:
        owner.matcher = held.matcher
        self._enlist(owner)
        super().resume(owner, held)

    def sort(self, owners: Iterable[PartitionNode]) -> None:
        self.owners = {node: number for number, node in enumerate(owners, 1) if node in self.owners}
        self.serial = max(self.owners.values(), default=0)

    def _enlist(self, owner: PartitionNode) -> None:
        """Find `owner` by the keys of the pattern."""
        self.serial += 1
        self.owners[owner] = self.serial
        owner.found_by = []
        for event_type, keys in self.form.keys.items():
            for number, (_, of_node) in enumerate(keys):
                key = of_node(None, owner)
                if None not in key:  # null equals nothing
                    table = self.keyed.setdefault((event_type, number), {})
                    table.setdefault(key, {})[owner] = None
                    owner.found_by.append((table, key))

    def remove(self, owner: PartitionNode) -> None:
        super().remove(owner)
        self.owners.pop(owner, None)
        for table, key in owner.found_by or ():
            table[key].pop(owner, None)
            if not table[key]:
                del table[key]
        owner.found_by = None
        if owner.matcher is not None:
            owner.matcher.stop()
            owner.matcher = None

    def _useful(self, route: Sequence[AtomGroup], event: Any) -> list[PartitionNode]:
        """The owners that an event may be of use to, by age."""
        keys = self.form.keys
        if any(group.event_type not in keys for group in route):
            return list(self.owners)
        found: dict[PartitionNode, None] = {}
        for group in route:
            for number, (of_event, _) in enumerate(keys[group.event_type]):
                table = self.keyed.get((group.event_type, number))
                if table:
                    try:
                        found.update(table.get(of_event(event, None), {}))
                    except Exception:  # noqa: BLE001 - the matchers will fail likewise, and report it
                        return list(self.owners)
        return sorted(found, key=self.owners.__getitem__)

    def _arm(self, owner: PartitionNode) -> None:
        matcher: Matcher = owner.matcher
        due = self.tree.now if matcher.found else matcher.due
        if due != owner.due:
            self.tree.arm(self, owner, due)

    def on_event(
        self, round_: EventRouting, among: PartitionNode | None = None
    ) -> list[tuple[PartitionNode, ConditionMatch]]:
        route = self.form.program.route(self.tree.types_of(round_.type_name))
        if not route:
            return []
        found: list[tuple[PartitionNode, ConditionMatch]] = []
        for owner in self._useful(route, round_.event) if among is None else [among]:
            matches = owner.matcher.on_event(route, round_.event, self.tree.now)
            found += [(owner, self._match(match)) for match in matches]
            self._arm(owner)
        return found

    def at_once(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        return self.fired(owner, now) if owner.due <= now else []

    def fired(self, owner: PartitionNode, now: int) -> list[ConditionMatch]:
        found = [self._match(match) for match in owner.matcher.advance(now)]
        self._arm(owner)
        return found

    def _match(self, match: dict[str, Any]) -> ConditionMatch:
        form = self.form
        replay: list[tuple[str, Any]] = []
        for tag, event_type in form.replay:
            value = match[tag]
            events = value if isinstance(value, list) else [value]
            replay += [(event_type, each) for each in events if each is not None]
        if form.alias is None:
            return ConditionMatch(match, False, tuple(replay))
        matched = {tag: value for tag, value in match.items() if value is not None}
        return ConditionMatch({form.alias: matched}, False, tuple(replay))


class NowWatch(ConditionWatch):
    """``@now``: nothing to wait for."""

    __slots__ = ()

    def add(self, owner: PartitionNode, now: int) -> None:
        return None

    def resume(self, owner: PartitionNode, held: DetachedNode) -> None:
        return None


def watch_condition(branch: Branch, form: CompiledCondition | None, rank: int) -> ConditionWatch | None:
    """The observer of a condition."""
    match form:
        case EventCondition():
            return EventWatch(branch, rank, form)
        case TimeCondition():
            return TimeWatch(branch, rank, form)
        case PatternCondition():
            return PatternWatch(branch, rank, form)
        case NowCondition():
            return NowWatch(branch, rank)
    return None
