"""Buffered input: statements that run in activations (see `engine.time.activations`) and keep their input until then.

A *lot* is the ordered group of items that flows together: the events that arrive together, or all rows that a statement
made in one activation. The input of a statement is buffered, input by input, until its activation, which processes all
of it as one delta.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, ScopeFactory
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.statements.statement_timers import StatementTimers
from cepbook.engine.statements.store_access import StoreAccess
from cepbook.engine.time.activations import ActivationMember, ActivationScheduler


def activation_scope(scope_in: ScopeFactory, source: SourceWriter) -> CodeScope:
    """Return a scope in which sums are exact for the window, so that an infinity that has left is gone."""
    return scope_in(source).at(compensated_sums=True)


class BufferedInput(ActivationMember):
    """The input of a statement between two activations."""

    PASSING = ("_waiting",)

    def __init__(
        self, owner: StoreAccess, program: StatementProgram, timers: StatementTimers, activations: ActivationScheduler
    ) -> None:
        super().__init__(owner, timers, timers.arm_view, activations)
        self._program = program
        self._inputs = range(len(program.steps.scans))
        self._waiting: list[list[Any]] = [[] for _ in self._inputs]

    def taker(self, types: tuple[str, ...]) -> Callable[[Any, Any], object] | None:
        """Return a function that buffers an event of all `types`, or None if no input reads it."""
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

    def start(self, *, restoring: bool) -> None:
        """Receive rows that statements insert into the types of the inputs that read lots."""
        scans = enumerate(self._program.steps.scans)
        self._activations.read(self, [(scan.source.event_type, n) for n, scan in scans if scan.source.lot])

    def stop(self) -> None:
        """Stop receiving rows."""
        self._activations.leave(self)

    def put(self, number: int, rows: list[Any]) -> None:
        self._waiting[number] += rows
        self._activations.wake(self)

    def activate(self, now: int) -> None:
        """Apply all buffered events and due expiries as one delta and deliver the result."""
        program, state = self._program, self._owner.state
        buffers, self._waiting = self._waiting, [[] for _ in self._inputs]
        view = state.view
        joined = bool(program.steps.inputs)
        try:
            items = [self._items(buffers[n], n, view.states[n] if joined else state, now) for n in self._inputs]
            change = view.take_lots(items, now) if joined else view.take(items[0], now)
            if change is not None:
                program.functions.moved(state, change, now)
        finally:
            self.rest(now)

    def _items(self, events: list[Any], number: int, state: StatementState, now: int) -> list[Any]:
        make, items = self._program.functions.item_of[number], []
        for event in events:
            try:
                item = make(event, state, now)
            except Exception as failure:  # noqa: BLE001 - told; the others of the lot go on
                self._owner.failed(failure)
                continue
            if item is not None:
                items.append(item)
        return items
