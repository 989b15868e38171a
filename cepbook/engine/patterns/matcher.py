"""A running pattern: the tree of its started sub-expressions, the atoms that wait, the timers, the matches found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from cepbook.engine.expressions.primitives import deep_copied
from cepbook.engine.patterns.atoms import AtomSpec, WaitingAtom, WaitingAtoms
from cepbook.engine.patterns.observers import WithinNode
from cepbook.engine.patterns.pattern_timers import PatternTimers
from cepbook.engine.patterns.state_node import (
    PatternMatch,
    PatternOwner,
    PatternRun,
    PatternSpec,
    StateNode,
    TimerNode,
    first_serial,
)
from cepbook.engine.subscriptions.filter_index import IndexCondition
from cepbook.engine.time.clock import NEVER
from cepbook.lang.plan import expressions as x

_serial = attrgetter("serial")
CompleteMatch = dict[str, Any]  # a whole match: all tags, in order, None where nothing matched


@dataclass(frozen=True, slots=True)
class AtomGroup:
    """The atoms of one event type. `select(e, P, now)` tells by bits which of them an event may satisfy.

    `chosen` has the numbers of the atoms for each such value. `pick(columns)` tells for many events which ones may
    satisfy any atom; None if they have to be asked one by one. Of `ways` it must go one for an atom to take it, as far
    as that can be told by simple conditions.
    """

    event_type: str
    select: Callable[[Any, Any, int], int]
    atoms: tuple[AtomSpec, ...]
    chosen: dict[int, tuple[int, ...]]
    pick: Callable[[Mapping[str, list[Any]]], list[Any]] | None
    ways: tuple[tuple[IndexCondition, ...], ...]
    ranged: bool = field(init=False)  # whether an atom has a range

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranged", any(atom.op is not None for atom in self.atoms))

    def numbers(self, bits: int) -> tuple[int, ...]:
        """The numbers of the atoms for a value that is not `chosen` yet."""
        found = self.chosen[bits] = tuple(a.number for i, a in enumerate(self.atoms) if bits >> i & 1)
        return found


@dataclass(frozen=True, slots=True)
class PatternProgram:
    """A compiled pattern. `tags` are those of its matches, in order; `groups` its atoms by event type."""

    root: PatternSpec
    tags: tuple[str, ...]
    atoms: tuple[AtomSpec, ...]
    groups: tuple[AtomGroup, ...]
    suppress_overlapping: bool
    discard_partials: bool
    conditions: Mapping[str, x.BoundExpr]  # what all events of a type must pass to be of use
    consumes: bool = field(init=False)  # whether atoms take events away from others

    def __post_init__(self) -> None:
        object.__setattr__(self, "consumes", any(atom.consume for atom in self.atoms))

    def condition(self, types: Sequence[str]) -> x.BoundExpr | None:
        """What an event which is of all `types` must pass to be of use; None if that is not one condition."""
        route = self.route(types)
        return self.conditions.get(route[0].event_type) if len(route) == 1 else None

    def route(self, types: Sequence[str]) -> tuple[AtomGroup, ...]:
        """The atoms that may take an event which is of all `types`: those of its own type first, then supertypes."""
        return tuple(group for name in types for group in self.groups if group.event_type == name)


class Matcher(PatternRun):
    """The state of a pattern in one statement, context partition or condition of a context.

    `due` is its next timer (`NEVER`: none), `size` the number of atoms and observers that wait and of matches that a
    side of ``and`` keeps, `ended` whether the pattern can match no more. `owner` is told of failures and of matches
    that are dropped; `armed` is for him, who may note there for when he has set an alarm.
    """

    __slots__ = ("armed", "ended", "found", "program", "root", "timers")

    def __init__(
        self,
        program: PatternProgram,
        owner: PatternOwner,
        *,
        partition: Any = None,
        limit: int = 1_000_000,
    ) -> None:
        super().__init__(owner, partition, limit)
        self.program = program
        self.atoms = [WaitingAtoms(spec) for spec in program.atoms]
        self.timers = PatternTimers()
        self.found: list[CompleteMatch] = []
        self.root: StateNode | None = None
        self.ended = False
        self.armed = NEVER

    # -------------------------------------------------------------- from outside
    def start(self, now: int) -> list[CompleteMatch]:
        """Begin to look for the pattern, afresh if it was running; the matches that there are at once."""
        self.stop()
        self.ended = False
        self.now = now
        self.root = self.program.root.new(self, self, 0)
        self.root.start([None] * len(self.program.tags))
        return self._matches()

    def stop(self) -> None:
        """Forget all partial matches."""
        if self.root is not None:
            self.root.stop()
            self.root = None
        self.timers.clear()
        self.ended = True

    def on_event(self, route: Sequence[AtomGroup], event: Any, now: int) -> list[CompleteMatch]:
        """The matches that `event` completes, in order. `route` is that of its type (`PatternProgram.route`)."""
        return self.fire(self.look(route, event, now), event)

    def look(self, route: Sequence[AtomGroup], event: Any, now: int, bits: int | None = None) -> list[WaitingAtom]:
        """The waiting atoms that `event` is for. Nothing changes. `bits`: what the one group of `route` selected."""
        self.now = now
        numbers = route[0].chosen.get(bits) if bits is not None else None
        if numbers is not None and len(numbers) == 1:  # the commonest: one atom may want it
            atoms = self.atoms[numbers[0]]
            hits = atoms.find(event, self) if atoms.index else []
        elif len(route) == 1:
            hits = self._satisfied(route[0], event, bits)
        else:
            hits = [waiter for group in route for waiter in self._satisfied(group, event, bits)]
        if len(hits) > 1 and self.program.consumes:
            highest = max(waiter.home.spec.consume for waiter in hits)
            hits = [waiter for waiter in hits if waiter.home.spec.consume == highest]
        return hits

    def fire(self, hits: list[WaitingAtom], event: Any) -> list[CompleteMatch]:
        """`event` makes atoms true, those that still wait when it is their turn; the matches that this completes."""
        for waiter in hits:
            if waiter.alive:
                waiter.fire(event)
        return self._matches() if self.found else []

    def advance(self, now: int) -> list[CompleteMatch]:
        """Fire the timers that are due, each once, by time and then start; the matches that this completes."""
        self.now = now
        while (due := self.timers.due) <= now:
            for timer in self.timers.first():
                if timer.serial and timer.due == due:  # no other one stopped it
                    self.disarm(timer)
                    timer.on_time()
        return self._matches() if self.found else []

    @property
    def due(self) -> int:
        """The time of the next timer."""
        return self.timers.due

    def lose(self, now: int) -> None:
        """The timers that are due are not run: what they would have done does not happen."""
        self.timers.lose(now)

    def partials(self, most: int | None = None) -> list[dict[str, Any]]:
        """What the pattern is waiting for, in order of start, the first `most`.

        Plain data: ``waiting_for`` (a piece of the pattern), ``since``, ``until`` (when it ends by itself, None: never)
        and ``events``, copies of what matched before it by tag.
        """
        leaves: list[tuple[int, int, StateNode, dict[str, Any]]] = []
        open_ = [] if self.root is None else [(self.root, NEVER)]
        while open_:
            node, until = open_.pop()
            if not node.alive:
                continue
            if isinstance(node, WithinNode):
                until = min(until, node.due)
            shown = node.waiting()
            if shown is not None:
                leaves.append((first_serial(node), until, node, shown))
            open_ += [(child, until) for child in node.below()]
        leaves.sort(key=lambda leaf: leaf[0])
        return [self._partial(*leaf[1:]) for leaf in leaves[:most]]

    def _partial(self, until: int, node: StateNode, shown: dict[str, Any]) -> dict[str, Any]:
        own = shown["until"]
        ends = until if own is None else min(until, own)
        tags = zip(self.program.tags, node.begin, strict=True)
        events = {tag: deep_copied(value) for tag, value in tags if value is not None}
        return {**shown, "until": None if ends >= NEVER else ends, "events": events}

    # -------------------------------------------------------------- events
    def _satisfied(self, group: AtomGroup, event: Any, bits: int | None) -> list[WaitingAtom]:
        """The waiters of a type that the event satisfies, in order of start; atoms with a range in order of bounds."""
        if bits is None:
            try:
                bits = group.select(event, self.partition, self.now)
            except Exception:  # noqa: BLE001 - reported below, if it is an atom that waits
                bits = self._select_each(group, event)
        if not bits:
            return []
        numbers = group.chosen.get(bits) or group.numbers(bits)
        if len(numbers) == 1:
            atoms = self.atoms[numbers[0]]
            return atoms.find(event, self) if atoms.index else []
        found: list[list[WaitingAtom]] = []
        for number in numbers:
            atoms = self.atoms[number]
            if atoms.index:
                waiters = atoms.find(event, self)
                if waiters:
                    found.append(waiters)
        if len(found) < 2:
            return found[0] if found else []
        merged: list[WaitingAtom] = []
        for waiters in found:
            merged += waiters
        merged.sort(key=_serial)
        if group.ranged:  # each atom keeps its places and its order
            rest = {id(waiters[0].home): iter(waiters) for waiters in found}
            merged = [next(rest[id(waiter.home)]) for waiter in merged]
        return merged

    def _select_each(self, group: AtomGroup, event: Any) -> int:
        """As `select`, where it fails: the other atoms still see the event."""
        bits = 0
        for i, spec in enumerate(group.atoms):
            if not self.atoms[spec.number].index:
                continue
            try:
                passes = spec.test is None or spec.test(event, None, self.partition, self.now)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self.owner.failed(failure)
            else:
                bits |= bool(passes) << i
        return bits

    # -------------------------------------------------------------- for sub-expressions
    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        """The whole pattern matched."""
        self.found.append(dict(zip(self.program.tags, match)))  # noqa: B905 - a place for each tag
        if ended:
            self.ended = True

    def on_false(self, child: StateNode) -> None:
        """The pattern cannot match any more."""
        self.ended = True

    def arm(self, timer: TimerNode, due: int) -> None:
        """Call `timer` at `due`."""
        self.serial += 1
        timer.serial, timer.due = self.serial, due
        if due < NEVER:
            self.timers.add(timer)

    def disarm(self, timer: TimerNode) -> None:
        """Do not call it."""
        if timer.serial:
            self.timers.drop(timer)
            timer.serial = 0

    # -------------------------------------------------------------- matches
    def _matches(self) -> list[CompleteMatch]:
        """The matches found since the last look; what the annotations of the pattern remove is removed."""
        found, self.found = self.found, []
        if not found:
            return found
        if self.program.discard_partials and self.root is not None:  # matches that are suppressed use up events, too
            self.root.discard(set().union(*map(_identities, found)))
        if self.program.suppress_overlapping and len(found) > 1:
            found = _without_overlaps(found)
        return found


def _identities(match: CompleteMatch) -> set[int]:
    """The identities of the events of a match."""
    found: set[int] = set()
    for value in match.values():
        if isinstance(value, list):
            found.update(map(id, value))
        elif value is not None:
            found.add(id(value))
    return found


def _without_overlaps(matches: list[CompleteMatch]) -> list[CompleteMatch]:
    """Of the matches that share an event the first."""
    kept: list[CompleteMatch] = []
    taken: set[int] = set()
    for match in matches:
        events = _identities(match)
        if not events & taken:
            kept.append(match)
            taken |= events
    return kept
