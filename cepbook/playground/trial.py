"""A trial: a module and a scenario run on a fresh engine, step by step.

The scenario is written like a cell of ``%%scenario``: events and times in the notation of `testing.cell_reader`, with
the expected reactions indented below. If its first line sets a date, the clock starts there. Reactions are compared if
the scenario expects any; those of statements that it does not mention, and that have no ``@name``, are only displayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cepbook.display import DATE_THRESHOLD_MS
from cepbook.engine.delivery.delta import Row
from cepbook.errors import CepbookError, CompileError, Diagnostic, Span, UsageError
from cepbook.lang.syntax.source_text import EPL
from cepbook.playground.module_cells import ModuleCell, fences, module_cells
from cepbook.playground.recording_engine import RecordingEngine
from cepbook.playground.retained_state import RetainedContents, retained_state, variable_values
from cepbook.session.history.rerun_provenance import DeliveredRow
from cepbook.testing.cell_reader import CellStep, parse_cell
from cepbook.testing.engines import RowsEngine
from cepbook.testing.report import compared_statements, evaluate_step
from cepbook.testing.runner import EVERY_STATEMENT, CaseResult, StepResult, run
from cepbook.testing.scenario import ConfigFence, ConfigSetting, ScenarioCase, TraceFence
from cepbook.testing.trace import Advance

MOST_STEPS = 2_000  # whose retained rows are read; later steps have reactions only


@dataclass(frozen=True, slots=True)
class Problem:
    """A diagnostic of the module or, if not `in_module`, of the scenario; its span refers to the whole text."""

    diagnostic: Diagnostic
    text: str
    in_module: bool


@dataclass(frozen=True, slots=True)
class TrialStep:
    """A step with its reactions, the clock behind it, and what was retained then."""

    result: StepResult
    span: Span | None
    now: int
    state: tuple[RetainedContents, ...]
    variables: tuple[tuple[str, str], ...]
    agrees: bool | None


@dataclass(slots=True)
class Trial:
    """The run of a module and a scenario. `engine` is in the state behind the last step; None if nothing ran."""

    module: str
    scenario: str
    problems: tuple[Problem, ...] = ()
    steps: list[TrialStep] = field(default_factory=list)
    engine: RecordingEngine | None = None
    failure: str = ""

    def delivered_row(self, statement: str, delivery: int, index: int) -> DeliveredRow:
        """Return row `index` (insert rows first) of a delivery, counted from 0 among those of `statement` with rows.

        Raises UsageError if there is no such row.
        """
        if self.engine is None or statement not in self.engine.feeds:
            raise UsageError(f"`{statement}` has delivered nothing")
        deliveries = [d for d in self.engine.feeds[statement].snapshot() if d.insert or d.remove]
        if not 0 <= delivery < len(deliveries):
            raise UsageError(f"`{statement}` has no delivery {delivery}")
        chosen = deliveries[delivery]
        rows: list[tuple[bool, int, Row]] = [(True, place, row) for place, row in enumerate(chosen.insert or ())]
        rows += [(False, place, row) for place, row in enumerate(chosen.remove or ())]
        if not 0 <= index < len(rows):
            raise UsageError(f"delivery {delivery} of `{statement}` has no row {index}")
        insert, place, row = rows[index]
        return DeliveredRow(chosen.number, chosen.time, insert, place, row)


def check_module(module: str, start: int = 0) -> tuple[tuple[Problem, ...], RowsEngine]:
    """Return the problems of a module, and an engine with the cells above the first one. Its clock is at `start`."""
    engine = RowsEngine(start, {})
    return tuple(_problems(module, engine)), engine


def _problems(module: str, engine: RowsEngine) -> Iterator[Problem]:
    cells, wrong = module_cells(module)
    if wrong:
        yield from (Problem(d, d.render(module, "module", 1), True) for d in wrong)
        return
    for cell, fence in zip(cells, fences(cells), strict=True):
        try:
            if cell.dialect == EPL:
                engine.deploy(cell.text, f"{fence.line}")
            else:
                engine.deploy_query(cell.dialect, cell.name, cell.text)
        except CompileError as error:
            begin = cell.start
            shifted = (replace(d, span=Span(d.span.start + begin, d.span.end + begin)) for d in error.diagnostics)
            yield from (Problem(d, d.render(module, "module", 1), True) for d in shifted)
            return
        except CepbookError as error:
            yield _whole_cell(cell, module, error)
            return


def _whole_cell(cell: ModuleCell, module: str, error: CepbookError) -> Problem:
    message, _, hint = str(error).partition("\n  hint: ")
    end = module.find("\n", cell.start)
    span = Span(cell.start, len(module) if end < 0 else end)
    diagnostic = Diagnostic("usage", message, span, hint or None)
    return Problem(diagnostic, diagnostic.render(module, "module", 1), True)


def run_trial(module: str, scenario: str) -> Trial:
    """Run a module and a scenario. Whatever is wrong with them is a part of the result, not an exception."""
    trial = Trial(module, scenario, check_module(module)[0])
    cell_steps, wrong = parse_cell(scenario, 0)
    trial.problems += tuple(Problem(d, d.render(scenario, "scenario", 1), False) for d in wrong)
    if trial.problems:
        return trial
    case = scenario_case(module, cell_steps)
    compared = compared_statements(cell_steps)

    def open_engine(start: int, options: Any) -> RecordingEngine:
        trial.engine = RecordingEngine(start, options)
        return trial.engine

    spans = {cell_step.step.line: cell_step.span for cell_step in cell_steps}
    result = run(case, open_engine, after_step=partial(_add_step, trial, spans, compared))
    trial.failure = _failure(result)
    return trial


def scenario_case(module: str, cell_steps: Sequence[CellStep]) -> ScenarioCase:
    """Return the module and the steps of a scenario as a case of a scenario file."""
    cells, _ = module_cells(module)
    settings = [ConfigSetting("listen", None, EVERY_STATEMENT, 0)]
    first = cell_steps[0].step.stimulus if cell_steps else None
    if isinstance(first, Advance) and first.time >= DATE_THRESHOLD_MS:
        settings.append(ConfigSetting("start", None, first.time, 0))
    trace = TraceFence(tuple(cell_step.step for cell_step in cell_steps), 0, 0)
    return ScenarioCase(
        name="playground",
        line=0,
        last_line=0,
        prose="",
        tags=(),
        oracle=None,
        evidence=None,
        refuses=(),
        fences=(ConfigFence(tuple(settings), 0), *fences(cells), trace),
    )


def _add_step(trial: Trial, spans: dict[int, Span], compared: frozenset[str] | None, result: StepResult) -> None:
    engine = trial.engine
    assert engine is not None  # a step runs on an engine
    runtime = engine.runtime
    reads_state = len(trial.steps) < MOST_STEPS
    state = tuple(retained_state(runtime)) if reads_state else ()
    variables = tuple(variable_values(runtime)) if reads_state else ()
    agrees = None if compared is None else evaluate_step(result, compared).agrees
    trial.steps.append(TrialStep(result, spans.get(result.step.line), runtime.now, state, variables, agrees))


def _failure(result: CaseResult) -> str:
    if result.broken is not None:
        return result.broken.message
    return result.refusals[0] if result.refusals else ""
