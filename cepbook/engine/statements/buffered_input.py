"""Lots: how a statement takes part in activations (`engine.activation`).

A lot is the ordered group of items that flows together: the events that arrive together, or all rows that a statement
made in one activation. What comes in for a statement waits, input by input, until its activation, in which all of it is
one change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, ScopeFactory
from cepbook.engine.statements.statement_timers import StatementTimers
from cepbook.engine.statements.store_access import StoreAccess
from cepbook.engine.time.activations import ActivationMember, ActivationScheduler


def activation_scope(scope_in: ScopeFactory, source: SourceWriter) -> CodeScope:
    """A scope in which sums are those of what a window holds, whatever it held before (an infinity, say)."""
    return scope_in(source).at(compensated_sums=True)


class BufferedInput(ActivationMember):
    """What comes in for a statement between two activations."""

    PASSING = ("_waiting",)

    def __init__(
        self,
        owner: StoreAccess,
        program: StatementProgram,
        timers: StatementTimers,
        activations: ActivationScheduler,
    ) -> None:
        super().__init__(owner, timers, timers.arm_view, activations)
        self._program = program
        self._inputs = range(len(program.steps.scans))
        self._waiting: list[list[Any]] = [[] for _ in self._inputs]

    def taker(self, types: tuple[str, ...]) -> Callable[[Any, Any], object] | None:
        """What takes an event that is of all `types`; None if no input reads it."""
        scans = self._program.steps.scans
        numbers = [n for n, scan in enumerate(scans) if scan.source.event_type in types and not scan.source.lot]
        if not numbers:
            return None

        def take(event: Any, _state: Any) -> bool:
            for number in numbers:
                self._waiting[number].append(event)
            self._activations.wake(self)
            return True

        return take

    def start(self) -> None:
        """From now on it takes what statements insert into the types that it reads in lots."""
        scans = enumerate(self._program.steps.scans)
        self._activations.read(self, [(scan.source.event_type, n) for n, scan in scans if scan.source.lot])

    def stop(self) -> None:
        """It takes nothing more."""
        self._activations.leave(self)

    def put(self, number: int, rows: list[Any]) -> None:
        """Rows that a statement inserted in this activation, for an input."""
        self._waiting[number] += rows
        self._activations.wake(self)

    def activate(self, now: int) -> None:
        """Take what waits and what is due as one change, and deliver what that makes."""
        program, state = self._program, self._owner.state
        lots, self._waiting = self._waiting, [[] for _ in self._inputs]
        view = state[1]
        joined = bool(program.steps.inputs)
        try:
            items = [self._items(lots[n], n, view.states[n] if joined else state, now) for n in self._inputs]
            change = view.take_lots(items, now) if joined else view.take(items[0], now)
            if change is not None:
                program["moved"](state, change, now)
        finally:
            self.rest(now)

    def _items(self, events: list[Any], number: int, state: Any, now: int) -> list[Any]:
        make, found = self._program[f"item{number}"], []
        for event in events:
            try:
                item = make(event, state, now)
            except Exception as failure:  # noqa: BLE001 - told; the others of the lot go on
                self._owner.failed(failure)
                continue
            if item is not None:
                found.append(item)
        return found
