"""Run the steps of a cell and record what they cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cepbook.engine.delivery.delta import Delta
from cepbook.errors import StatementError
from cepbook.magics.event_cells.cell_checks import fitted_event
from cepbook.session import Workbench
from cepbook.session.io.event_validation import is_missing
from cepbook.testing.runner import StepResult
from cepbook.testing.trace import (
    Advance,
    Failure,
    GetVariable,
    Iterate,
    Partitions,
    Reaction,
    ReadRows,
    RunQuery,
    Send,
    SetVariable,
    StatementDelivery,
    TraceStep,
)


@dataclass(frozen=True, slots=True)
class RecordedReaction:
    """A reaction, the clock when it came, and the line of its stimulus in the cell."""

    reaction: Reaction
    time: int
    line: int


class ReactionRecorder:
    """Runs steps and notes the deliveries of the statements `only`, in the order in which they are made.

    None: of all selects, and of the named ones that create or set variables.
    """

    def __init__(self, workbench: Workbench, only: Sequence[str] | None) -> None:
        runtime = workbench.runtime
        self.workbench = workbench
        self.caused: list[RecordedReaction] = []
        self.errors: list[StatementError] = []
        self._line = 0
        observed = [name for name, s in runtime.statements.items() if s.kind == "select" or s.plan.named]
        self._names = observed if only is None else list(only)
        self._end: list[Callable[[], None]] = []

    def __enter__(self) -> ReactionRecorder:
        self._end = [self.workbench.on(name, self._tap(name)) for name in self._names]
        self.workbench.runtime.add_error_listener(self._failed)
        return self

    def __exit__(self, *_: object) -> None:
        for end in self._end:
            end()
        self.workbench.runtime.remove_error_listener(self._failed)

    def _tap(self, name: str) -> Callable[[Delta], None]:
        def deliver(delta: Delta) -> None:
            insert, remove = (tuple(map(dict, rows or ())) for rows in (delta.insert, delta.remove))
            if insert or remove:
                self._note(StatementDelivery(name, insert, remove))

        return deliver

    def _failed(self, error: StatementError) -> None:
        self.errors.append(error)
        self._note(Failure(error.statement, str(error)))

    def _note(self, reaction: Reaction) -> None:
        self.caused.append(RecordedReaction(reaction, self.workbench.runtime.now, self._line))

    def run(self, step: TraceStep) -> StepResult:
        """Run one step and return its reactions. Errors that no check could foresee pass through."""
        first = len(self.caused)
        self._line = step.line
        stimulus = step.stimulus
        runtime = self.workbench.runtime
        match stimulus:
            case Send(name):
                event = fitted_event(stimulus, self.workbench)
                with suppress(StatementError):  # noted by `_failed`; the event has reached all statements
                    self.workbench.send(name, event)
            case Advance(time, stepping):
                with suppress(StatementError):
                    self.workbench.advance(time, stepping=stepping)
            case Iterate(name):
                self._note(ReadRows(tuple(map(dict, runtime.iterate(name)))))
            case Partitions(name):
                partitions = runtime.partitions(name)
                self._note(ReadRows(tuple({k: v for k, v in p.items() if k != "statements"} for p in partitions)))
            case GetVariable(name):
                self._note(ReadRows(({"value": self.workbench.get(name)},)))
            case SetVariable(name, value):
                with suppress(StatementError):
                    self.workbench.set(name, value)
            case RunQuery(epl):
                self._note(ReadRows(_rows_of(self.workbench.query(epl))))
        return StepResult(step, tuple(c.reaction for c in self.caused[first:]), agrees=True)


def _rows_of(frame: Any) -> tuple[dict[str, Any], ...]:
    records = frame.astype(object).to_dict("records")
    return tuple({str(name): None if is_missing(value) else value for name, value in row.items()} for row in records)
