"""What all started sub-expressions have in common.

A pattern is a tree of specs, the same for all matchers. Starting a spec after a match makes a `Started`, which tells
its parent when it becomes true (with the match so far, and whether that was its end) or false (which is always its end;
it has stopped by then). Who stops a sub-expression from outside hears nothing of it.

A match is a list with a place for each tag: the event, under a repeat the list of events, or None.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from cepbook.engine.state import State

if TYPE_CHECKING:
    from cepbook.engine.patterns.matcher import Matcher

Match = list[Any]


class Parent(Protocol):
    """Who is told of a sub-expression."""

    def on_true(self, child: Started, match: Match, ended: bool) -> None:
        """`child` became true; with `ended` it has stopped."""

    def on_false(self, child: Started) -> None:
        """`child` has stopped and can never become true; nothing new of a child that is there no more."""


class Started(State):
    """A started sub-expression. `place` is its number among the operands of its parent, `begin` the match before it."""

    __slots__ = ("alive", "begin", "matcher", "parent", "place")

    def __init__(self, matcher: Matcher, parent: Parent, place: int) -> None:
        self.matcher = matcher
        self.parent = parent
        self.place = place
        self.alive = False
        self.begin: Match = []

    def start(self, match: Match) -> None:
        """Begin to look, after `match`; may become true or false at once."""
        raise NotImplementedError

    def stop(self) -> None:
        """Forget everything, also what is below (or it would take the collector of cycles to free it).

        Does nothing when it has stopped already.
        """
        raise NotImplementedError

    def on_true(self, child: Started, match: Match, ended: bool) -> None:
        raise NotImplementedError

    def on_false(self, child: Started) -> None:
        raise NotImplementedError

    def below(self) -> Iterable[Started]:
        """The started sub-expressions directly below."""
        return ()

    def waiting(self) -> dict[str, Any] | None:
        """For leaves: what it waits for, since when, until when."""
        return None

    def fail(self) -> None:
        """Stop and tell the parent that it cannot become true."""
        self.stop()
        self.parent.on_false(self)

    def discard(self, events: Collection[int]) -> None:
        """Remove what holds an event with one of these identities."""
        if not self.alive:
            return
        if holds(self.begin, events):
            self.fail()
            return
        for child in in_order(self.below()):
            child.discard(events)


class Spec(Protocol):
    """A sub-expression of the pattern, compiled."""

    def new(self, matcher: Matcher, parent: Parent, place: int) -> Started:
        """An instance, not started yet."""


class OneOperand(Started):
    """A node over one sub-expression, which starts and stops with it; the child is None once it has ended."""

    __slots__ = ("child",)

    def __init__(self, operand: Spec, matcher: Matcher, parent: Parent, place: int) -> None:
        super().__init__(matcher, parent, place)
        self.child: Started | None = operand.new(matcher, self, 0)

    def start(self, match: Match) -> None:
        self.begin = match
        self.alive = True
        if self.child is not None:
            self.child.start(match)

    def stop(self) -> None:
        self.alive = False
        child, self.child = self.child, None
        if child is not None:
            child.stop()

    def below(self) -> Iterable[Started]:
        return () if self.child is None else (self.child,)


def holds(match: Match, events: Collection[int]) -> bool:
    """Whether the match has one of `events` (identities) in it."""
    for value in match:
        if isinstance(value, list):
            if any(id(event) in events for event in value):
                return True
        elif id(value) in events:
            return True
    return False


def in_order(children: Iterable[Started]) -> list[Started]:
    """The order of their first leaf's start, so that runs are the same each time; sets have none."""
    return sorted(children, key=first_serial)


def first_serial(node: Started) -> int:
    """The serial of a leaf, of anything else that of the first leaf below it."""
    serial = getattr(node, "serial", None)
    if isinstance(serial, int):
        return serial
    return min((first_serial(child) for child in node.below()), default=0)
