"""What statements that take part in activations (`engine.activation`) have in common: place, failures, timers."""

from __future__ import annotations

from typing import Any, Protocol

from cepbook.engine.activations.scheduler import ActivationOrder, ActivationScheduler
from cepbook.engine.statements.statement_timers import StatementTimers
from cepbook.engine.time.timers import NEVER, DueEntry


class ActivationOwner(Protocol):
    """The statement."""

    @property
    def order(self) -> ActivationOrder: ...

    @property
    def state(self) -> Any:
        """Its one state. What is in its second place says in ``due`` when it is run by the clock.

        It notes in ``armed`` for when there is a timer.
        """

    @property
    def now(self) -> int:
        """Engine time."""

    def failed(self, failure: Exception) -> None:
        """A failure at run time."""


class ActivationMember:
    """A statement's part in activations, but for what it does in one: `activate`."""

    def __init__(self, owner: ActivationOwner, timers: StatementTimers, activations: ActivationScheduler) -> None:
        self._owner = owner
        self._timers = timers
        self._activations = activations
        timers.run = self._due

    @property
    def order(self) -> ActivationOrder:
        """The place of the statement."""
        return self._owner.order

    def failed(self, failure: Exception) -> None:
        """A failure at run time."""
        self._owner.failed(failure)

    def activate(self, now: int) -> None:
        """Take what waits, and what is due at `now`; then `rest`."""
        raise NotImplementedError

    def rest(self, now: int) -> None:
        """Until when: what is due by now has a further activation, what is due later a timer."""
        held = self._owner.state[1]
        due: int = held.due
        if due <= self._owner.now:
            self._activations.wake(self, max(due, now))
        elif due != held.armed:
            held.armed = due
            self._timers.arm_view(due, self._owner.state)

    def _due(self, now: int, entries: list[DueEntry]) -> None:
        """The clock has come to or past what is due: each of these instants has an activation."""
        self._owner.state[1].armed = NEVER
        for due, _ in entries:
            self._activations.wake(self, due)
