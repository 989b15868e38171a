"""State nodes of observers of time and of guards (Esper reference, "Pattern Guards", "Timer-interval", "Timer-at",
"Schedule").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cepbook.engine.patterns.state_node import (
    PatternFunction,
    PatternMatch,
    PatternSpec,
    StateNode,
    TimerNode,
    UnaryStateNode,
)
from cepbook.engine.state import initial
from cepbook.engine.time.clock import NEVER
from cepbook.engine.time.crontab import CrontabSchedule as Crontab


class ObserverNode(TimerNode):
    """A leaf that waits for a time. While it waits, it counts as a partial match."""

    def stop(self) -> None:
        if self.alive:
            self.alive = False
            self.matcher.size -= 1
            self.matcher.disarm(self)


@dataclass(frozen=True, slots=True)
class ObserverSpec(PatternSpec):
    """``timer:interval``, ``timer:at``. `due` returns the time: at or before now for at once, NEVER for never."""

    text: str
    due: PatternFunction


class TimePointObserver(ObserverNode, spec=ObserverSpec):
    """True once, at a time that is computed at its start."""

    def start(self, match: PatternMatch) -> None:
        matcher = self.matcher
        self.begin = match
        self.since = matcher.now
        due = matcher.call(self.spec.due, match)
        if due is None:
            self.parent.on_false(self)
        elif due <= matcher.now:
            self.parent.on_true(self, match, True)
        else:
            self.alive = True
            matcher.size += 1
            matcher.arm(self, due)

    def on_time(self) -> None:
        self.stop()
        self.parent.on_true(self, self.begin, True)

    def waiting(self) -> dict[str, Any]:
        return {"waiting_for": self.spec.text, "since": self.since, "until": self.due if self.due < NEVER else None}


@dataclass(frozen=True, slots=True)
class ScheduleSpec(PatternSpec):
    """``timer:schedule``.

    `points` returns (date or None, repetitions or None for unlimited); `after` the next point.

    `fixed_period`: all points have the same distance, without months. `repeats`: true at each point, as at the top of a
    pattern and directly under ``every``; otherwise at the first only. `delayed`: the date itself is no point.
    """

    text: str
    points: PatternFunction
    after: PatternFunction | None  # (previous point, None, partition, now): the time one period later
    fixed_period: bool
    repeats: bool
    delayed: bool


class ScheduleObserver(ObserverNode, spec=ScheduleSpec):
    """True at each of its points in time, which lie on a grid. Points that passed before the start count as well."""

    left: int | None = initial(None)
    point: int = initial(0)

    def start(self, match: PatternMatch) -> None:
        self.begin = match
        self.since = self.matcher.now
        points = self.matcher.call(self.spec.points, match)
        if points is None:
            self.parent.on_false(self)
            return
        date, repetitions = points
        self.left = None if repetitions is None or repetitions < 0 else repetitions
        self.alive = True
        self.matcher.size += 1
        self.point = self.since if date is None else date
        if ((date is None or self.spec.delayed) and not self._step()) or not self._arm():
            self.fail()

    def _step(self) -> bool:
        """Go to the next point. Return False if there is none."""
        after = self.spec.after
        point = None if after is None else self.matcher.call(after, self.begin, self.point)
        if point is None or point <= self.point:
            return False
        self.point = point
        return True

    def _arm(self) -> bool:
        """Wait for the next point later than now. Return False if there is none."""
        now = self.matcher.now
        while self.left is None or self.left > 0:
            if self.point > now:
                self.matcher.arm(self, self.point)
                return True
            before = self.point
            if self.left is not None:
                self.left -= 1
            if not self._step():
                return False
            if self.spec.fixed_period:
                self._skip(now, self.point - before)
        return False

    def _skip(self, now: int, distance: int) -> None:
        """Skip all passed points but the last in one step. Years in steps of a second would take long."""
        passed = max((now - self.point) // distance, 0)
        if self.left is not None:
            passed = min(passed, self.left)
            self.left -= passed
        self.point += passed * distance

    def on_time(self) -> None:
        if self.left is not None:
            self.left -= 1
        more = self._step() and self._arm()
        if more and self.spec.repeats:
            self.parent.on_true(self, self.begin, False)
            return
        self.stop()
        self.parent.on_true(self, self.begin, True)
        if not more:
            self.parent.on_false(self)

    def waiting(self) -> dict[str, Any]:
        return {"waiting_for": self.spec.text, "since": self.since, "until": self.due}


@dataclass(frozen=True, slots=True)
class WithinSpec(PatternSpec):
    """``timer:within``, ``timer:withinmax``. `due` returns the end, `most` the number of matches that may pass."""

    operand: PatternSpec
    due: PatternFunction
    most: PatternFunction | None


class WithinNode(TimerNode, spec=WithinSpec):
    """Ends its operand at a time computed from the start (exclusive: at that time it is too late), or with its last
    match.
    """

    child: StateNode | None = initial(None)
    left: int | None = initial(None)

    def start(self, match: PatternMatch) -> None:
        matcher = self.matcher
        self.begin = match
        self.since = matcher.now
        due = matcher.call(self.spec.due, match)
        if self.spec.most is not None:
            self.left = matcher.call(self.spec.most, match)
        if due is None or due <= matcher.now or (self.left is None and self.spec.most is not None):
            self.parent.on_false(self)
            return
        self.alive = True
        matcher.arm(self, due)
        self.child = self.spec.operand.new(matcher, self, 0)
        self.child.start(match)

    def on_time(self) -> None:
        self.fail()

    def stop(self) -> None:
        if self.alive:
            self.alive = False
            self.matcher.disarm(self)
            child, self.child = self.child, None
            if child is not None:
                child.stop()

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        if self.left == 0:
            self.fail()
            return
        if self.left is not None:
            self.left -= 1
            ended = ended or self.left <= 0
        if ended:
            self.stop()
        self.parent.on_true(self, match, ended)

    def on_false(self, child: StateNode) -> None:
        if self.alive:
            self.fail()

    def below(self) -> Iterable[StateNode]:
        return () if self.child is None else (self.child,)


@dataclass(frozen=True, slots=True)
class WhileSpec(PatternSpec):
    operand: PatternSpec
    condition: PatternFunction


class WhileNode(UnaryStateNode, spec=WhileSpec):
    """Passes matches on while the condition holds. The first other match ends the node."""

    def on_true(self, child: StateNode, match: PatternMatch, ended: bool) -> None:
        if self.matcher.call(self.spec.condition, match):
            if ended:
                self.stop()
            self.parent.on_true(self, match, ended)
        else:
            self.fail()

    def on_false(self, child: StateNode) -> None:
        if self.alive:
            self.fail()


@dataclass(slots=True)
class CrontabTime:
    """The next time of a crontab. `operands` returns the numbers in it. Errors: ValueError as `engine.time.crontab`."""

    schedule: Crontab
    operands: PatternFunction

    def __call__(self, event: None, match: PatternMatch, partition: Any, now: int) -> int:
        return self.schedule.next_time(now, self.operands(event, match, partition, now))
