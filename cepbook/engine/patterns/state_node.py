"""What all started sub-expressions have in common.

A pattern is a tree of specs, the same for all matchers. Starting a spec after a match makes a `StateNode`, which tells
its parent when it becomes true (with the match so far, and whether that was its end) or false (which is always its end;
it has stopped by then). Who stops a sub-expression from outside hears nothing of it.

A match is a list with a place for each tag: the event, under a repeat the list of events, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

from cepbook.engine.state import State

PatternMatch = list[Any]
# f(event, match, context partition, now)
PatternFunction = Callable[[Any, Any, Any, int], Any]


class PatternOwner(Protocol):
    """Who has a pattern that runs."""

    def failed(self, failure: Exception) -> None:
        """An expression of the pattern failed."""

    def partials_limit_reached(self) -> None:
        """The limit of open partial matches made a matcher drop one."""


class PatternRun(Protocol):
    """The pattern that runs, as its started sub-expressions see it.

    `serial` is the number of the latest start of a leaf, `size` how many leaves wait and how many matches are kept.
    """

    now: int
    serial: int
    size: int

    @property
    def owner(self) -> PatternOwner: ...

    @property
    def partition(self) -> Any:
        """The context partition."""

    @property
    def atoms(self) -> Sequence[Any]:
        """What waits, by the number of the atom."""

    def call(self, function: PatternFunction, match: PatternMatch) -> Any:
        """The value of an expression over the match; None also if it fails, which is reported."""

    def call_at(self, function: PatternFunction, match: PatternMatch, now: int) -> Any:
        """`call` at another time than the present."""

    def room(self) -> bool:
        """Whether one more partial match may be open."""

    def arm(self, timer: TimerNode, due: int) -> None:
        """Call `timer` at `due`."""

    def disarm(self, timer: TimerNode) -> None:
        """Do not call it."""


class PatternParent(Protocol):
    """Who is told of a sub-expression."""

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        """`child` became true; with `ended` it has stopped."""

    def on_false(self, child: StateNode) -> None:
        """`child` has stopped and can never become true; nothing new of a child that is there no more."""


class StateNode(State):
    """A started sub-expression. `place` is its number among the operands of its parent, `begin` the match before it."""

    __slots__ = ("alive", "begin", "matcher", "parent", "place")

    def __init__(self, matcher: PatternRun, parent: PatternParent, place: int) -> None:
        self.matcher = matcher
        self.parent = parent
        self.place = place
        self.alive = False
        self.begin: PatternMatch = []

    def start(self, match: PatternMatch) -> None:
        """Begin to look, after `match`; may become true or false at once."""
        raise NotImplementedError

    def stop(self) -> None:
        """Forget everything, also what is below (or it would take the collector of cycles to free it).

        Does nothing when it has stopped already.
        """
        raise NotImplementedError

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        raise NotImplementedError

    def on_false(self, child: StateNode) -> None:
        raise NotImplementedError

    def below(self) -> Iterable[StateNode]:
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
        if contains_event(self.begin, events):
            self.fail()
            return
        for child in in_start_order(self.below()):
            child.discard(events)


class PatternSpec(Protocol):
    """A sub-expression of the pattern, compiled."""

    def new(self, matcher: PatternRun, parent: PatternParent, place: int) -> StateNode:
        """An instance, not started yet."""


class UnaryStateNode(StateNode):
    """A node over one sub-expression, which starts and stops with it; the child is None once it has ended."""

    __slots__ = ("child",)

    def __init__(self, operand: PatternSpec, matcher: PatternRun, parent: PatternParent, place: int) -> None:
        super().__init__(matcher, parent, place)
        self.child: StateNode | None = operand.new(matcher, self, 0)

    def start(self, match: PatternMatch) -> None:
        self.begin = match
        self.alive = True
        if self.child is not None:
            self.child.start(match)

    def stop(self) -> None:
        self.alive = False
        child, self.child = self.child, None
        if child is not None:
            child.stop()

    def below(self) -> Iterable[StateNode]:
        return () if self.child is None else (self.child,)


class TimerNode(StateNode):
    """What the matcher's clock calls. `serial` is 0 while no time is set; `since` is its start, `due` the time set."""

    __slots__ = ("due", "serial", "since")

    def __init__(self, matcher: PatternRun, parent: PatternParent, place: int) -> None:
        super().__init__(matcher, parent, place)
        self.serial = 0
        self.since = self.due = 0

    def on_time(self) -> None:
        """The time has come."""
        raise NotImplementedError


def contains_event(match: PatternMatch, events: Collection[int]) -> bool:
    """Whether the match has one of `events` (identities) in it."""
    for value in match:
        if isinstance(value, list):
            if any(id(event) in events for event in value):
                return True
        elif id(value) in events:
            return True
    return False


def in_start_order(children: Iterable[StateNode]) -> list[StateNode]:
    """The order of their first leaf's start, so that runs are the same each time; sets have none."""
    return sorted(children, key=first_serial)


def first_serial(node: StateNode) -> int:
    """The serial of a leaf, of anything else that of the first leaf below it."""
    serial = getattr(node, "serial", None)
    if isinstance(serial, int):
        return serial
    return min((first_serial(child) for child in node.below()), default=0)
