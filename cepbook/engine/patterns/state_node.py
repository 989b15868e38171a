"""State nodes: the running sub-expressions of a pattern.

A pattern is compiled to a tree of specs, which all its matchers share. Starting a spec after a match makes a
`StateNode`. The node notifies its parent when it becomes true, with the match so far and whether that was its end, and
when it becomes false, which is always its end: it has stopped by then. A node that is stopped from outside notifies
nobody.

A match is a list with one element per tag: the event, the list of events under a repeat, or None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from cepbook.engine.state import State, created, initial

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

    owner: PatternOwner
    partition: Any
    limit: int
    atoms: Sequence[Any] = initial(())
    now: int = initial(0)
    serial: int = initial(0)
    size: int = initial(0)

    def call(self, function: PatternFunction, match: PatternMatch, at: int | None = None) -> Any:
        """Return the value of an expression over the match, now or `at` another time.

        None also if it fails, which is reported.
        """
        try:
            return function(None, match, self.partition, self.now if at is None else at)
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
    """A running sub-expression.

    `ordinal` is its index among the operands of its parent, `begin` the match before it.
    """

    matcher: PatternRun
    parent: PatternParent
    ordinal: int
    alive: bool = initial(False)
    begin: PatternMatch = created(list)

    def __init_subclass__(cls, spec: type[PatternSpec] | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if spec is not None:
            spec.node_type = cls

    def start(self, match: PatternMatch) -> None:
        """Start after `match`. The node may become true or false at once."""
        raise NotImplementedError

    def stop(self) -> None:
        """Drop the node's state and everything below it, so that it is freed without the garbage collector.

        No effect if the node has stopped already.
        """
        raise NotImplementedError

    def below(self) -> Iterable[StateNode]:
        """Return the running sub-expressions directly below."""
        return ()

    def collected(self, child: StateNode) -> Mapping[int, Any]:
        """Return by tag position the events that matched beside `child`, one of those `below`, and it does not know: a
        list for finished repeats, and for an operand of ``and`` that was true several times.
        """
        return {}

    def waiting(self) -> dict[str, Any] | None:
        """Return for a leaf the text of its expression, the start and the end of its waiting; None for other nodes."""
        return None

    def fail(self) -> None:
        """Stop and notify the parent that the node can never become true."""
        self.stop()
        self.parent.on_false(self)

    def discard(self, events: Collection[int]) -> None:
        """Stop every partial match that contains an event with one of these identities."""
        if not self.alive:
            return
        if contains_event(self.begin, events):
            self.fail()
            return
        for child in sorted(self.below(), key=first_serial):  # runs are reproducible, sets have no order
            child.discard(events)


class PatternSpec:
    """A compiled sub-expression of the pattern. The class of its nodes names it: ``class AndNode(…, spec=AndSpec)``."""

    __slots__ = ()

    node_type: ClassVar[type[Any]]

    def new(self, matcher: PatternRun, parent: PatternParent, ordinal: int) -> StateNode:
        """Return a state node that is not started yet."""
        node: StateNode = self.node_type(matcher, parent, ordinal, self)
        return node


class OperatorNode(StateNode):
    """A node over other sub-expressions."""

    spec: Any


class BranchingNode(OperatorNode):
    """A node over several sub-expressions that run: `children`, a set or a list of them."""

    children: Any = created(set)

    def stop(self) -> None:
        self.alive = False
        children, self.children = self.children, type(self.children)()
        for child in children:
            child.stop()

    def below(self) -> Iterable[StateNode]:
        children: Iterable[StateNode] = self.children
        return children


class UnaryStateNode(OperatorNode):
    """A node over one sub-expression, which starts and stops with it. The child is None once it has ended."""

    __slots__ = ("child",)

    def __init__(self, matcher: PatternRun, parent: PatternParent, ordinal: int, spec: Any) -> None:
        super().__init__(matcher, parent, ordinal, spec)
        self.child: StateNode | None = spec.operand.new(matcher, self, 0)

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

    serial: int = initial(0)
    since: int = initial(0)


class TimerNode(NumberedNode):
    """A node that the matcher calls at the time `due`. `serial` is 0 while no time is set; `since` is its start."""

    spec: Any
    due: int = initial(0)

    def on_time(self) -> None:
        """Handle that the time `due` is reached."""
        raise NotImplementedError


def contains_event(match: PatternMatch, events: Collection[int]) -> bool:
    """Return whether the match contains an event with one of these identities."""
    for value in match:
        if isinstance(value, list):
            if any(id(event) in events for event in value):
                return True
        elif id(value) in events:
            return True
    return False


def first_serial(node: StateNode) -> int:
    """Return the serial of a leaf, or of the first leaf below another node."""
    serial = getattr(node, "serial", None)  # not set in a leaf that was never started
    if isinstance(serial, int):
        return serial
    return min((first_serial(child) for child in node.below()), default=0)
