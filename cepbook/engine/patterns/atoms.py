"""Atoms: the leaves of a pattern that wait for an event of a type that passes a filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cepbook.engine.patterns.atom_index import AtomIndex, new_index
from cepbook.engine.patterns.state_node import (
    NumberedNode,
    PatternFunction,
    PatternMatch,
    PatternParent,
    PatternRun,
    PatternSpec,
)
from cepbook.engine.state import State, StateMarker
from cepbook.lang.explain.expressions import show_expr
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import pattern as p

_NOWHERE = StateMarker.NOWHERE


def expression_text(e: x.BoundExpr) -> str:
    """Return an expression of a pattern as a user would write it."""
    return show_expr(e).replace(f"[{p.MATCH_STREAM}].", "")


def atom_text(atom: p.Atom) -> str:
    """Return the atom as a user would write it."""
    tag = "" if atom.tag is None else f"{atom.tag}="
    conditions = ", ".join(expression_text(conjunct) for conjunct in x.conjuncts(atom.filter))
    condition = f"({conditions})" if conditions else ""
    brackets = "".join(f"[{show_expr(step.path)}]" for step in atom.contained)
    return f"{tag}{atom.event_type}{condition}{brackets}"


@dataclass(frozen=True, slots=True)
class AtomSpec(PatternSpec):
    """A compiled atom. `position` is the index of its tag in matches. An atom that `stays` is directly under ``every``
    and goes on waiting after a match. A `negated` atom is below a ``not``.

    The filter is the conjunction of up to four parts: `test(event)`; `event_key(event) == match_key(match)`; the
    comparison `op` of `event_bound(event)` and `match_bound(match)`; `rest(event, match)`. The functions of a part that
    the filter lacks are None. A key or bound whose value is None matches nothing. `unfold` returns the contained
    events, which become the value of the tag.
    """

    number: int
    node: p.Atom
    position: int | None
    consume: int
    stays: bool
    negated: bool
    test: PatternFunction | None
    event_key: PatternFunction | None
    match_key: PatternFunction | None
    event_bound: PatternFunction | None
    match_bound: PatternFunction | None
    op: str | None
    rest: PatternFunction | None
    unfold: PatternFunction | None = None

    @property
    def text(self) -> str:
        """The atom as a user would write it."""
        return atom_text(self.node)

    def new(self, matcher: PatternRun, parent: PatternParent, ordinal: int) -> WaitingAtom:
        return WaitingAtom(matcher, matcher.atoms[self.number], parent, ordinal)


class WaitingAtoms(State):
    """The index of the waiting instances of one atom in one matcher.

    The index itself does not refer to the matcher, so that both are freed without the garbage collector.
    """

    __slots__ = ("index", "spec")

    def __init__(self, spec: AtomSpec) -> None:
        self.spec = spec
        self.index: AtomIndex[WaitingAtom] = new_index(spec.match_key is not None, spec.op)

    def find(self, event: Any, matcher: PatternRun) -> list[WaitingAtom]:
        """Return the instances that an event satisfies. The event has passed `test`."""
        spec = self.spec
        key = bound = None
        try:
            if spec.event_key is not None:
                key = spec.event_key(event, None, matcher.partition, matcher.now)
                if key is None:
                    return []
            if spec.event_bound is not None:
                bound = spec.event_bound(event, None, matcher.partition, matcher.now)
                if bound is None:
                    return []
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            matcher.owner.failed(failure)
            return []
        waiting = self.index.find(key, bound)
        if waiting and spec.unfold is not None and not self.tag_value(event, matcher):
            return []
        return waiting if spec.rest is None else [atom for atom in waiting if self._passes(spec.rest, event, atom)]

    def tag_value(self, event: Any, matcher: PatternRun) -> Any:
        """Return the value of the tag: the event, or the events that it contains."""
        unfold = self.spec.unfold
        if unfold is None:
            return event
        try:
            return unfold(event, None, matcher.partition, matcher.now)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            matcher.owner.failed(failure)
            return None

    def _passes(self, rest: PatternFunction, event: Any, waiter: WaitingAtom) -> bool:
        matcher = waiter.matcher
        try:
            return bool(rest(event, waiter.begin, matcher.partition, matcher.now))
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            matcher.owner.failed(failure)
            return False

    def enter(self, waiter: WaitingAtom) -> None:
        """Add an instance under its key. If the key is null or cannot be computed, no event will ever find the
        instance.
        """
        spec, matcher = self.spec, waiter.matcher
        key = bound = None
        if spec.match_key is None and spec.match_bound is None:
            waiter.key, waiter.bound = key, bound
            self.index.add(waiter, key, bound)
            return
        waiter.key, waiter.bound = _NOWHERE, None
        try:
            if spec.match_key is not None:
                key = spec.match_key(None, waiter.begin, matcher.partition, matcher.now)
                if key is None:
                    return
            if spec.match_bound is not None:
                bound = spec.match_bound(None, waiter.begin, matcher.partition, matcher.now)
                if bound is None:
                    return
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            matcher.owner.failed(failure)
            return
        waiter.key, waiter.bound = key, bound
        self.index.add(waiter, key, bound)

    def leave(self, waiter: WaitingAtom) -> None:
        if waiter.key is not _NOWHERE:
            self.index.remove(waiter, waiter.key, waiter.bound)


class WaitingAtom(NumberedNode):
    """An atom that waits. `serial` orders the starts, `since` is the time of the start."""

    __slots__ = ("bound", "home", "key")

    key: Any
    bound: Any

    def __init__(self, matcher: PatternRun, home: WaitingAtoms, parent: PatternParent, ordinal: int) -> None:
        self.matcher = matcher
        self.parent = parent
        self.ordinal = ordinal
        self.alive = False
        self.home = home

    def start(self, match: PatternMatch) -> None:
        matcher = self.matcher
        self.begin = match
        self.alive = True
        self.since = matcher.now
        matcher.serial += 1
        self.serial = matcher.serial
        matcher.size += 1
        self.home.enter(self)

    def stop(self) -> None:
        if self.alive:
            self.alive = False
            self.matcher.size -= 1
            self.home.leave(self)

    def fire(self, event: Any) -> None:
        """Handle an event that satisfies the atom."""
        spec = self.home.spec
        match = self.begin.copy()
        if spec.position is not None:
            match[spec.position] = event if spec.unfold is None else self.home.tag_value(event, self.matcher)
        if spec.stays:
            self.parent.on_true(self, match, False)
            return
        self.stop()
        self.parent.on_true(self, match, True)

    def waiting(self) -> dict[str, Any]:
        return {"waiting_for": self.home.spec.text, "since": self.since, "until": None}
