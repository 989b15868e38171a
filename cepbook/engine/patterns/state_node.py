"""What all started sub-expressions have in common.

A pattern is a tree of specs, the same for all matchers. Starting a spec after a match makes a `StateNode`, which tells
its parent when it becomes true (with the match so far, and whether that was its end) or false (which is always its end;
it has stopped by then). Who stops a sub-expression from outside hears nothing of it.

A match is a list with a place for each tag: the event, under a repeat the list of events, or None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from cepbook.engine.state import State

PatternMatch = list[Any]
# f(event, match, context partition, now)
PatternFunction = Callable[[Any, Any, Any, int], Any]


class PatternOwner(ABC):
    """The statement or context that a running pattern belongs to."""

    @abstractmethod
    def failed(self, failure: Exception) -> None:
        """Report that an expression of the pattern failed."""

    @abstractmethod
    def partials_limit_reached(self) -> None:
        """Handle that a matcher has dropped a partial match because of the limit."""


class PatternParent(State):
    """The receiver of a sub-expression's results: another node, or the whole pattern."""

    __slots__ = ()

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        """Handle that `child` became true. With `ended` it has stopped."""
        raise NotImplementedError

    def on_false(self, child: StateNode) -> None:
        """Handle that `child` has stopped and can never become true. No effect for a child that was removed."""
        raise NotImplementedError


class PatternRun(PatternParent):
    """The running pattern as its nodes see it.

    `serial` is the number of the latest start of a leaf. `size` is the number of waiting leaves and stored matches, of
    which there may be `limit`. `atoms` are the waiting atoms by number, `partition` is the context partition.
    """

    __slots__ = ("atoms", "limit", "now", "owner", "partition", "serial", "size")

    def __init__(self, owner: PatternOwner, partition: Any, limit: int) -> None:
        self.owner = owner
        self.partition = partition
        self.limit = limit
        self.atoms: Sequence[Any] = ()
        self.now = self.serial = self.size = 0

    def call(self, function: PatternFunction, match: PatternMatch) -> Any:
        """Return the value of an expression over the match; None also if it fails, which is reported."""
        try:
            return function(None, match, self.partition, self.now)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.owner.failed(failure)
            return None

    def call_at(self, function: PatternFunction, match: PatternMatch, now: int) -> Any:
        """As `call`, at another time than the present."""
        try:
            return function(None, match, self.partition, now)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.owner.failed(failure)
            return None

    def has_room(self) -> bool:
        """Return whether one more partial match may be open; if not, notify the owner."""
        if self.size < self.limit:
            return True
        self.owner.partials_limit_reached()
        return False

    def arm(self, timer: TimerNode, due: int) -> None:
        """Call `timer` at `due`."""
        raise NotImplementedError

    def disarm(self, timer: TimerNode) -> None:
        """Cancel the call."""
        raise NotImplementedError


class StateNode(PatternParent):
    """A running sub-expression. `place` is its index among the operands of its parent, `begin` the match before it."""

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


class PatternSpec(ABC):
    """A compiled sub-expression of the pattern."""

    __slots__ = ()

    @abstractmethod
    def new(self, matcher: PatternRun, parent: PatternParent, place: int) -> StateNode:
        """Return a state node that is not started yet."""


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


class NumberedNode(StateNode):
    """A node with the number and the time of its start."""

    __slots__ = ("serial", "since")

    serial: int
    since: int


class TimerNode(NumberedNode):
    """A node that the matcher calls at the time `due`. `serial` is 0 while no time is set; `since` is its start."""

    __slots__ = ("due",)

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
    serial = getattr(node, "serial", None)  # not set in a leaf that was never started
    if isinstance(serial, int):
        return serial
    return min((first_serial(child) for child in node.below()), default=0)
