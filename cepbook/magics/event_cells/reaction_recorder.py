"""Run the steps of a cell, record what they cause, and compare that with what the cell expects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cepbook.display import format_count
from cepbook.engine.delivery.delta import Delta
from cepbook.errors import CepbookError, StatementError
from cepbook.magics.event_cells.cell_checks import fitted_event
from cepbook.magics.shell.output import table
from cepbook.session import Workbench
from cepbook.session.io.event_validation import is_missing
from cepbook.testing.report import compared_lines
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
from cepbook.widgets.base.static_picture import StaticPicture


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


class ExpectationError(CepbookError):
    """A cell expected other reactions than those that came. `side_by_side` shows both."""


def side_by_side(results: Iterable[StepResult], what: str = "stimulus") -> StaticPicture:
    """Show expected and actual reactions; differing rows are marked and tinted."""
    rows, signs = [], []
    for result in results:
        lines = [*compared_lines(result)] or [("", "")]
        for number, (want, got) in enumerate(lines):
            differs = not result.agrees and want != got
            text = result.step.text.strip() if number == 0 else ""
            rows.append((text, "✗" if differs else "", *(cell.replace("  ", "\u00a0 ") for cell in (want, got))))
            signs.append("−" if differs else "")
    return table("", (what, "", "expected", "actual"), rows, signs=signs)


def expectation_error(
    results: Sequence[StepResult], noun: str = "stimulus", nouns: str = "stimuli"
) -> ExpectationError:
    """Return the error that names the lines with other reactions."""
    wrong = [result for result in results if not result.agrees]
    at = ", ".join(dict.fromkeys(str(result.step.line + 1) for result in wrong))  # the line of the magic is the first
    where = "lines" if "," in at else "line"
    return ExpectationError(f"{format_count(len(wrong), noun, nouns)} with other reactions than expected: {where} {at}")
