"""State nodes of the operators followed-by, and, or, not, every and repeat (Esper reference, "Pattern Operators")."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from cepbook.engine.patterns.state_node import (
    BranchingNode,
    OperatorNode,
    PatternFunction,
    PatternMatch,
    PatternParent,
    PatternRun,
    PatternSpec,
    StateNode,
    UnaryStateNode,
    contains_event,
)
from cepbook.engine.state import created, initial


@dataclass(frozen=True, slots=True)
class FollowedBySpec(PatternSpec):
    """``a -> b``. `maxima` limits how many instances of each operand may run under one node."""

    operands: tuple[PatternSpec, ...]
    maxima: tuple[PatternFunction | None, ...]


class FollowedByNode(BranchingNode, spec=FollowedBySpec):
    """Each time a step becomes true, the next one starts with the match so far."""

    __slots__ = ("counts",)

    def __init__(self, matcher: PatternRun, parent: PatternParent, ordinal: int, spec: FollowedBySpec) -> None:
        super().__init__(matcher, parent, ordinal, spec)
        self.counts: dict[int, int] | None = {} if any(spec.maxima) else None

    def start(self, match: PatternMatch) -> None:
        self.begin = match
        self.alive = True
        self._start_step(0, match)

    def _start_step(self, ordinal: int, match: PatternMatch) -> None:
        child = self.spec.operands[ordinal].new(self.matcher, self, ordinal)
        self.children.add(child)
        if self.counts is not None:
            self.counts[ordinal] = self.counts.get(ordinal, 0) + 1
        child.start(match)

    def _leaves(self, child: StateNode) -> None:
        self.children.discard(child)
        if self.counts is not None:
            self.counts[child.ordinal] -= 1

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        if ended:
            self._leaves(child)
        following = child.ordinal + 1
        if following == len(self.spec.operands):
            done = not self.children
            self.alive = not done
            self.parent.on_true(self, match, done)
        elif (self.counts is None or self._may_start(following, match)) and (ended or self.matcher.has_room()):
            self._start_step(following, match)
        elif not self.children:
            self.fail()

    def _may_start(self, ordinal: int, match: PatternMatch) -> bool:
        maximum = self.spec.maxima[ordinal]
        if maximum is None or self.counts is None:
            return True
        allowed = self.matcher.call(maximum, match)
        return allowed is None or self.counts.get(ordinal, 0) < allowed

    def on_false(self, child: StateNode) -> None:
        if child not in self.children:
            return
        self._leaves(child)
        if not self.children:
            self.fail()


@dataclass(frozen=True, slots=True)
class AndSpec(PatternSpec):
    """``a and b``.

    `tags` are the positions in matches that each operand fills; `negated` marks operands that are a ``not``.

    Operands start in `order`: the nots first, since an event for both sides cancels (recorded: not_order_same_event).
    """

    operands: tuple[PatternSpec, ...]
    tags: tuple[tuple[int, ...], ...]
    negated: tuple[bool, ...]
    order: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        order = sorted(range(len(self.negated)), key=lambda ordinal: not self.negated[ordinal])
        object.__setattr__(self, "order", tuple(order))


class AndNode(OperatorNode, spec=AndSpec):
    """True when all operands have been true; a ``not`` is true from the beginning."""

    __slots__ = ("children", "matches")

    def __init__(self, matcher: PatternRun, parent: PatternParent, ordinal: int, spec: AndSpec) -> None:
        super().__init__(matcher, parent, ordinal, spec)
        self.children: list[StateNode | None] = [None] * len(spec.operands)
        self.matches: list[list[PatternMatch]] = [[] for _ in spec.operands]

    def start(self, match: PatternMatch) -> None:
        self.begin = match
        self.alive = True
        children = [operand.new(self.matcher, self, ordinal) for ordinal, operand in enumerate(self.spec.operands)]
        self.children = [*children]
        for ordinal in self.spec.order:
            if self.alive:
                children[ordinal].start(match)

    def stop(self) -> None:
        if not self.alive:
            return
        self.alive = False
        for matches in self.matches:
            if len(matches) > 1:
                self.matcher.size -= len(matches) - 1
        self.matches = [[] for _ in self.matches]
        children, self.children = self.children, [None] * len(self.children)
        for child in children:
            if child is not None:
                child.stop()

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        ordinal, negated = child.ordinal, self.spec.negated
        if ended:
            self.children[ordinal] = None
        for i, stored in enumerate(self.matches):
            if not stored and i != ordinal:  # another operand was not true yet
                self._keep(ordinal, match)
                return
        live = [i for i, node in enumerate(self.children) if node is not None and not negated[i]]
        if any(i != ordinal for i in live):  # another operand may become true again
            self._keep(ordinal, match)
        others = [matches if i != ordinal else [match] for i, matches in enumerate(self.matches)]
        done = not live
        combined = [self._combined(match, ordinal, node) for node in product(*others)]
        if done:
            self.stop()
        for result in combined:
            if self.alive or done:
                self.parent.on_true(self, result, done)

    def _keep(self, ordinal: int, match: PatternMatch) -> None:
        stored = self.matches[ordinal]
        if stored and not self.matcher.has_room():
            return
        if stored:
            self.matcher.size += 1
        stored.append(match)

    def _combined(self, match: PatternMatch, ordinal: int, stored: Sequence[PatternMatch]) -> PatternMatch:
        result = match.copy()
        for i, tags in enumerate(self.spec.tags):
            if i != ordinal:
                for tag in tags:
                    result[tag] = stored[i][tag]
        return result

    def on_false(self, child: StateNode) -> None:
        if self.children[child.ordinal] is child:
            self.children[child.ordinal] = None
            self.fail()

    def below(self) -> Iterable[StateNode]:
        return [child for child in self.children if child is not None and child.alive]

    def collected(self, child: StateNode) -> Mapping[int, Any]:
        events: dict[int, Any] = {}
        for ordinal, (tags, matches) in enumerate(zip(self.spec.tags, self.matches, strict=True)):
            for tag in tags if ordinal != child.ordinal else ():
                values = [match[tag] for match in matches if match[tag] is not None]
                if values:
                    events[tag] = values if len(values) > 1 else values[0]
        return events

    def discard(self, events: Collection[int]) -> None:
        for ordinal, matches in enumerate(self.matches):
            remaining = [match for match in matches if not contains_event(match, events)]
            self.matcher.size -= max(len(matches) - 1, 0) - max(len(remaining) - 1, 0)
            self.matches[ordinal] = remaining
            if matches and not remaining and self.children[ordinal] is None:
                self.fail()  # the operand will not become true again
                return
        StateNode.discard(self, events)


@dataclass(frozen=True, slots=True)
class OrSpec(PatternSpec):
    operands: tuple[PatternSpec, ...]


class OrNode(BranchingNode, spec=OrSpec):
    """True with each operand. The end of an operand that became true is the end of all.

    A schedule reports the end of its points after it was true with the last one. That ends the alternatives that are
    still waiting, and ``every`` starts once more (recorded: schedule_every_over_or_of_two_dates).
    """

    children: list[StateNode] = created(list)

    def start(self, match: PatternMatch) -> None:
        self.begin = match
        self.alive = True
        self.children = [operand.new(self.matcher, self, i) for i, operand in enumerate(self.spec.operands)]
        for child in list(self.children):
            if self.alive:
                child.start(match.copy())  # a copy, because a timer after `until` writes arrays into it

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        if ended:
            self.stop()
        self.parent.on_true(self, match, ended)

    def on_false(self, child: StateNode) -> None:
        if child in self.children:
            self.children.remove(child)
        if not self.children:
            self.fail()


@dataclass(frozen=True, slots=True)
class NotSpec(PatternSpec):
    operand: PatternSpec


class NotNode(UnaryStateNode, spec=NotSpec):
    """True as soon as it starts; false for good when its operand becomes true."""

    def start(self, match: PatternMatch) -> None:
        super().start(match)
        if self.alive:
            self.parent.on_true(self, match, False)

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        self.fail()

    def on_false(self, child: StateNode) -> None:
        self.child = None  # the node stays true


@dataclass(frozen=True, slots=True)
class EverySpec(PatternSpec):
    """``every a``, ``every-distinct(keys) a``.

    `respawns`: a new instance starts each time one becomes true; False over atoms that stay and over schedules.
    `restarts`: a new instance starts when one became false. `keys` returns the key of a match, `expiry` the time from
    which it is new again.
    """

    operand: PatternSpec
    respawns: bool = True
    restarts: bool = True
    keys: PatternFunction | None = None
    expiry: PatternFunction | None = None


class EveryNode(BranchingNode, spec=EverySpec):
    """Starts its operand again each time it became true or false.

    An operand that is true or false at once would do so without end. It is stopped without notice and not started
    again. ``every-distinct`` forgets its keys when an operand became false.
    """

    starting: StateNode | None = initial(None)
    at_once: bool = initial(False)  # True if `starting` became true
    seen: dict[Any, int | None] = created(dict)  # key -> time from which it is new again

    def start(self, match: PatternMatch) -> None:
        # Timers pass on the same list that they began with, and `until` writes into it. So the first start has a copy
        # (recorded: until_timer_stale_array).
        self.begin = match.copy()
        self.alive = True
        self._spawn(match)
        if not self.children:
            self.fail()

    def _spawn(self, match: PatternMatch) -> None:
        child = self.spec.operand.new(self.matcher, self, 0)
        self.children.add(child)
        before, self.starting = self.starting, child
        child.start(match)
        self.starting = before
        if self.at_once:
            self.at_once = False
            self.children.discard(child)
            child.stop()

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        if child is self.starting:
            self.at_once = True
            return
        if ended:
            self.children.discard(child)
        if self.spec.respawns and (ended or self.matcher.has_room()):
            self._spawn(self.begin)
        if self.alive and (self.spec.keys is None or self._is_new(self.spec.keys, match)):
            self.parent.on_true(self, match, False)

    def _is_new(self, keys: PatternFunction, match: PatternMatch) -> bool:
        key, now = self.matcher.call(keys, match), self.matcher.now
        if key is None:
            return False  # the expression failed
        seen, expiry = self.seen, self.spec.expiry
        if expiry is None:
            if key in seen:
                return False
            seen[key] = None
            return True
        free = seen.pop(key, None)
        if free is not None and free > now:
            seen[key] = free
            return False
        while seen and (oldest := next(iter(seen.values()))) is not None and oldest <= now:
            del seen[next(iter(seen))]
        seen[key] = self.matcher.call(expiry, match)
        return True

    def on_false(self, child: StateNode) -> None:
        if not self.alive:
            return
        self.children.discard(child)
        if child is self.starting:
            return
        self.seen.clear()
        if self.spec.restarts:
            self._spawn(self.begin)
        if not self.children:
            self.fail()


@dataclass(frozen=True, slots=True)
class RepeatSpec(PatternSpec):
    """``[low:high] a until b``.

    `bounds` returns (lowest, highest) number of matches, None for no limit. `tags` are the positions that become
    arrays.
    """

    operand: PatternSpec
    until: PatternSpec | None
    bounds: PatternFunction
    tags: tuple[int, ...]


class RepeatNode(OperatorNode, spec=RepeatSpec):
    """Collects matches of its operand in arrays, up to a number of them or until another expression becomes true.

    With an exact number, the node is true with the last match; otherwise only the other expression makes it true.
    `until` starts first: an event for both counts for it alone (recorded: until_event_matches_both).
    """

    arrays: dict[int, list[Any]] = created(dict)
    count: int = initial(0)
    low: int = initial(0)
    high: int | None = initial(None)
    child: StateNode | None = initial(None)
    until: StateNode | None = initial(None)
    starting: bool = initial(False)

    def start(self, match: PatternMatch) -> None:
        self.begin = match
        self.alive = True
        bounds = self.matcher.call(self.spec.bounds, match)
        if bounds is None:
            self.fail()
            return
        self.low, self.high = bounds
        if self.spec.until is not None:
            self.until = self.spec.until.new(self.matcher, self, 1)
            self.until.start(self.begin)
        self._start_operand()

    def _start_operand(self) -> None:
        """Start the operand. If it is true at once, start it again up to the highest number, if there is one."""
        while self.alive and not self._full:
            before = self.count
            self.child = self.spec.operand.new(self.matcher, self, 0)
            self.starting = True
            self.child.start(self.begin)
            self.starting = False
            if self.count == before or self.child is not None or self.high is None:
                return

    @property
    def _full(self) -> bool:
        return self.high is not None and self.count >= self.high

    def stop(self) -> None:
        self.alive = False
        children = self.until, self.child
        self.until = self.child = None
        for child in children:
            if child is not None:
                child.stop()

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        if child.ordinal == 1:
            if self.count >= self.low:  # too few matches: it fails (recorded: until_min, repeat_bound_expression)
                self._done(match)
            else:
                self.fail()
            return
        self.count += 1
        for tag in self.spec.tags:
            value = match[tag]
            if value is not None:
                self.arrays.setdefault(tag, []).extend(value if isinstance(value, list) else (value,))
        if ended:
            self.child = None
        if self._full:
            if self.child is not None:
                self.child.stop()
                self.child = None
            if self.until is None or self.low == self.high:
                self._done(match.copy())
        elif ended and not self.starting:
            self._start_operand()

    def _done(self, match: PatternMatch) -> None:
        for tag, values in self.arrays.items():
            match[tag] = values
        self.stop()
        self.parent.on_true(self, match, True)

    def on_false(self, child: StateNode) -> None:
        if child is self.until:
            self.until = None
        elif child is self.child:
            self.child = None
        else:
            return
        self.fail()

    def below(self) -> Iterable[StateNode]:
        return [child for child in (self.until, self.child) if child is not None]

    def collected(self, child: StateNode) -> Mapping[int, Any]:
        return self.arrays

    def discard(self, events: Collection[int]) -> None:
        if self.alive and any(contains_event(values, events) for values in self.arrays.values()):
            self.fail()
        else:
            StateNode.discard(self, events)
