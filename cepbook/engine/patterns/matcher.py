"""Matchers: the state of one running pattern, with its state nodes, waiting atoms, timers and completed matches."""

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
from cepbook.engine.time.clock import NEVER, Clock
from cepbook.engine.vectorized.chain_form import ChainForm
from cepbook.lang.plan import expressions as x

_serial = attrgetter("serial")
_negated = attrgetter("home.spec.negated")
TakeSelected = Callable[[Any, Any, "int | None"], object]
CompleteMatch = dict[str, Any]  # all tags in order; None for a tag without an event


@dataclass(frozen=True, slots=True)
class AtomGroup:
    """The atoms of one event type. ``select(e, P, now)`` returns by bits which of them an event may satisfy.

    `chosen` maps such a value to the numbers of the atoms. ``pick(columns)`` returns for many events which of them may
    satisfy any atom; None if they must be tested one by one. An event can only be taken if it satisfies one of the
    `alternatives`, each a conjunction of simple conditions. ``entry(known, clock, take)`` returns the function that a
    statement calls with an event and its state (if that is not `known`); it calls ``take(event, state, bits)``.
    """

    event_type: str
    select: Callable[[Any, Any, int], int]
    atoms: tuple[AtomSpec, ...]
    chosen: dict[int, tuple[int, ...]]
    pick: Callable[[Mapping[str, list[Any]]], list[Any]] | None
    alternatives: tuple[tuple[IndexCondition, ...], ...]
    entry: Callable[[Any, Clock, TakeSelected], Callable[..., object]] | None = None
    ranged: bool = field(init=False)  # whether an atom has a range

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranged", any(atom.op is not None for atom in self.atoms))

    def numbers(self, bits: int) -> tuple[int, ...]:
        """Return the numbers of the atoms for bits that are not in `chosen` yet."""
        numbers = self.chosen[bits] = tuple(a.number for i, a in enumerate(self.atoms) if bits >> i & 1)
        return numbers


Route = Sequence[AtomGroup]  # the atoms that may take an event


@dataclass(frozen=True, slots=True)
class PatternProgram:
    """A compiled pattern. `tags` are those of its matches, in order; `groups` are its atoms by event type.

    `conditions` maps an event type to the condition that all its events must pass to have an effect. `chain` returns
    the form in which arrays follow its partial matches, or the reason why they cannot.
    """

    root: PatternSpec
    tags: tuple[str, ...]
    atoms: tuple[AtomSpec, ...]
    groups: tuple[AtomGroup, ...]
    suppress_overlapping: bool
    discard_partials: bool
    conditions: Mapping[str, x.BoundExpr]
    chain: Callable[[], ChainForm | str]
    consumes: bool = field(init=False)  # whether an atom takes events away from others (@consume)

    def __post_init__(self) -> None:
        object.__setattr__(self, "consumes", any(atom.consume for atom in self.atoms))

    def condition(self, types: Sequence[str]) -> x.BoundExpr | None:
        """Return the condition that an event, which is of all `types`, must pass to have an effect; None if it is not a
        single one.
        """
        route = self.route(types)
        return self.conditions.get(route[0].event_type) if len(route) == 1 else None

    def route(self, types: Sequence[str]) -> tuple[AtomGroup, ...]:
        """Return the atoms that may take an event which is of all `types`: those of its own type first, then of
        supertypes.
        """
        return tuple(group for name in types for group in self.groups if group.event_type == name)


class Matcher(PatternRun):
    """The state of a pattern in one statement, context partition or condition of a context.

    `due` is the time of the next timer (`NEVER` if none). `size` counts waiting atoms and observers, and matches stored
    by a side of ``and``. `ended`: the pattern can match no more. The owner receives failures, and may note in `armed`
    for when it has set a timer.
    """

    __slots__ = ("armed", "completed", "ended", "program", "root", "timers")

    def __init__(
        self, program: PatternProgram, owner: PatternOwner, *, partition: Any = None, limit: int = 10**6
    ) -> None:
        super().__init__(owner, partition, limit)
        self.program = program
        self.atoms = [WaitingAtoms(spec) for spec in program.atoms]
        self.timers = PatternTimers()
        self.completed: list[CompleteMatch] = []
        self.root: StateNode | None = None
        self.ended = False
        self.armed = NEVER

    def start(self, now: int) -> list[CompleteMatch]:
        """Start the pattern, again if it was running, and return its immediate matches."""
        self.stop()
        self.ended = False
        self.now = now
        self.root = self.program.root.new(self, self, 0)
        self.root.start([None] * len(self.program.tags))
        return self._matches()

    def stop(self) -> None:
        if self.root is not None:
            self.root.stop()
            self.root = None
        self.timers.clear()
        self.ended = True

    def on_event(self, route: Route, event: Any, now: int) -> list[CompleteMatch]:
        """Return the matches that `event` completes, in order. `route` is that of its type (`PatternProgram.route`)."""
        return self.fire(self.candidates(route, event, now), event)

    def candidates(self, route: Route, event: Any, now: int, bits: int | None = None) -> list[WaitingAtom]:
        """Return the waiting atoms that `event` satisfies, without a change. `bits` is the result of the one group in
        `route`.
        """
        self.now = now
        numbers = route[0].chosen.get(bits) if bits is not None else None
        if numbers is not None and len(numbers) == 1:  # most often, one atom may take the event
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
        """Let `event` satisfy the atoms in `hits` that still wait at their turn; return the completed matches."""
        for waiter in hits:
            if waiter.alive:
                waiter.fire(event)
        return self._matches() if self.completed else []

    def advance(self, now: int) -> list[CompleteMatch]:
        """Fire the due timers, each once, by time and order of start; return the completed matches."""
        self.now = now
        while (due := self.timers.due) <= now:
            for timer in self.timers.first():
                if timer.serial and timer.due == due:  # no other timer stopped it
                    self.disarm(timer)
                    timer.on_time()
        return self._matches() if self.completed else []

    @property
    def due(self) -> int:
        return self.timers.due

    def skip_due(self, now: int) -> None:
        self.timers.skip_due(now)

    def partials(self, most: int | None = None) -> list[dict[str, Any]]:
        """Return plain data about the partial matches in order of start, at most `most`.

        Each has ``waiting_for`` (text of a sub-expression), ``since``, ``until`` (the time at which it ends by itself;
        None if never) and ``events``, copies of the events matched before, by tag (a list as in `StateNode.collected`).
        """
        leaves: list[tuple[int, int, Mapping[int, Any], StateNode, dict[str, Any]]] = []
        open_: list[tuple[StateNode, int, Mapping[int, Any]]]
        open_ = [] if self.root is None else [(self.root, NEVER, {})]
        while open_:
            node, until, collected = open_.pop()
            if not node.alive:
                continue
            if isinstance(node, WithinNode):
                until = min(until, node.due)
            description = node.waiting()
            if description is not None:
                leaves.append((first_serial(node), until, collected, node, description))
            open_ += [(child, until, _added(collected, node.collected(child))) for child in node.below()]
        leaves.sort(key=lambda leaf: leaf[0])
        return [self._partial(*leaf[1:]) for leaf in leaves[:most]]

    def _partial(
        self, until: int, collected: Mapping[int, Any], node: StateNode, description: dict[str, Any]
    ) -> dict[str, Any]:
        own = description["until"]
        ends = until if own is None else min(until, own)
        events = {}
        for position, (tag, value) in enumerate(zip(self.program.tags, node.begin, strict=True)):
            if value is None:  # else the conditions of the present repeat read it: an event, not an array
                value = collected.get(position) or None
            if value is not None:
                events[tag] = deep_copied(value)
        return {**description, "until": None if ends >= NEVER else ends, "events": events}

    def _satisfied(self, group: AtomGroup, event: Any, bits: int | None) -> list[WaitingAtom]:
        """Return the waiting atoms of a type that the event satisfies, by start; those with a range by bound, after
        those below a ``not``.
        """
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
        by_atom: list[list[WaitingAtom]] = []
        for number in numbers:
            atoms = self.atoms[number]
            if atoms.index:
                waiters = atoms.find(event, self)
                if waiters:
                    by_atom.append(waiters)
        if len(by_atom) < 2:
            return by_atom[0] if by_atom else []
        merged: list[WaitingAtom] = []
        for waiters in by_atom:
            merged += waiters
        merged.sort(key=_serial)
        if group.ranged:  # each atom keeps its positions and its order; those below a `not` cancel what comes later
            rest = {id(waiters[0].home): iter(waiters) for waiters in by_atom}
            merged = [next(rest[id(waiter.home)]) for waiter in merged]
            merged.sort(key=_negated, reverse=True)
        return merged

    def _select_each(self, group: AtomGroup, event: Any) -> int:
        """Evaluate `select` one atom at a time after a failure, so that other atoms still see the event."""
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

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        """Store a match of the whole pattern."""
        self.completed.append(dict(zip(self.program.tags, match)))  # noqa: B905 - one value per tag
        if ended:
            self.ended = True

    def on_false(self, child: StateNode) -> None:
        """Note that the pattern cannot match any more."""
        self.ended = True

    def arm(self, timer: TimerNode, due: int) -> None:
        self.serial += 1
        timer.serial, timer.due = self.serial, due
        if due < NEVER:
            self.timers.add(timer)

    def disarm(self, timer: TimerNode) -> None:
        if timer.serial:
            self.timers.drop(timer)
            timer.serial = 0

    def _matches(self) -> list[CompleteMatch]:
        """Return the matches completed since the last call, without those that the pattern's annotations remove."""
        matches, self.completed = self.completed, []
        if not matches:
            return matches
        if self.program.discard_partials and self.root is not None:  # suppressed matches use up events as well
            self.root.discard(set().union(*map(_identities, matches)))
        if self.program.suppress_overlapping and len(matches) > 1:
            matches = _without_overlaps(matches)
        return matches


def _added(collected: Mapping[int, Any], more: Mapping[int, Any]) -> Mapping[int, Any]:
    """Return the events by tag position with `more` of them; a list goes on from that of a repeat further outside."""
    added = {tag: collected.get(tag, []) + value if isinstance(value, list) else value for tag, value in more.items()}
    return {**collected, **added} if added else collected


def _identities(match: CompleteMatch) -> set[int]:
    identities: set[int] = set()
    for value in match.values():
        if isinstance(value, list):
            identities.update(map(id, value))
        elif value is not None:
            identities.add(id(value))
    return identities


def _without_overlaps(matches: list[CompleteMatch]) -> list[CompleteMatch]:
    """Return the matches that share no event with an earlier one."""
    remaining: list[CompleteMatch] = []
    used: set[int] = set()
    for match in matches:
        events = _identities(match)
        if not events & used:
            remaining.append(match)
            used |= events
    return remaining
