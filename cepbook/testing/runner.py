"""Runs a case on an engine and reports where the reactions differ from the expected ones.

`run` executes every step even after a difference, so that a result shows the whole difference and a recorder can
rewrite all of it. It stops early only if nothing sensible can follow: a module that does not deploy, a refusal of the
engine, a defect of the engine.

Comparison of reactions:

  - Deliveries are compared in order across all statements of one stimulus. Each is atomic: its insert rows, then its
    remove rows. With the tag ``unordered``, the rows of one delivery or reading are compared as multisets.
  - Deliveries without rows count only with the tag ``forced``.
  - Failures are compared as a set: ``! runtime`` and ``! error`` match any failure, ``! name`` that statement's.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

from cepbook.errors import CepbookError, CompileError, Refusal, StatementError
from cepbook.lang.java.numbers import java_text
from cepbook.testing.engine import Engine, OpenEngine
from cepbook.testing.scenario import ConfigFence, InvalidFence, ModuleFence, QueryFence, ScenarioCase, TraceFence
from cepbook.testing.trace import (
    Advance,
    Deployed,
    Failure,
    GetVariable,
    Iterate,
    Partitions,
    Reaction,
    ReadRows,
    ReplaceTable,
    RunQuery,
    Send,
    SetVariable,
    StatementDelivery,
    Stimulus,
    Together,
    TraceStep,
    Undeploy,
)
from cepbook.testing.values import Row, coerce_row, same_rows

NOT_SUPPORTED_YET = "not-supported-yet"
EVERY_STATEMENT = "*"

_STATEMENT_NAME = re.compile(
    r"""@name\s*\(\s*(?:value\s*=\s*)?(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<bare>\w+))""", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step. `added` marks reactions to a deployment for which there is no ``deployed`` line.

    `can_record` is false for such reactions if no trace follows.
    """

    step: TraceStep
    actual: tuple[Reaction, ...]
    agrees: bool
    added: bool = False
    can_record: bool = True


@dataclass(frozen=True, slots=True)
class InvalidResult:
    """The result of text that must be refused.

    `diagnostic` is the message to the user; None if the text was accepted.

    `problem` explains why the text counts as accepted although an exception was raised. With `refused`, the engine does
    not support the text yet, which proves nothing.
    """

    fence: InvalidFence
    diagnostic: str | None
    problem: str = ""
    refused: bool = False

    @property
    def agrees(self) -> bool:
        if self.refused:
            return True
        recorded = self.fence.error
        return self.diagnostic is not None and (recorded is None or recorded.text.rstrip() == self.diagnostic)


class Outcome(Enum):
    """The outcome of a case, regardless of declarations in the file."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_COVERED = "not covered"


@dataclass(frozen=True, slots=True)
class BrokenRun:
    """The reason that a run stopped: a module that does not deploy, or a defect of the engine (with its traceback)."""

    line: int
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One run of one case on one engine. `refusals` are the engine's reasons for not covering the case."""

    case: ScenarioCase
    engine: str
    steps: tuple[StepResult, ...]
    invalid: tuple[InvalidResult, ...]
    refusals: tuple[str, ...]
    broken: BrokenRun | None

    @property
    def outcome(self) -> Outcome:
        agrees = all(step.agrees for step in self.steps) and all(tried.agrees for tried in self.invalid)
        if self.broken is not None or not agrees:
            return Outcome.FAILED
        return Outcome.NOT_COVERED if self.refusals else Outcome.PASSED

    @property
    def disagreement(self) -> str | None:
        """The contradiction between the engine and the case's ``refuses:`` line, or the lack of one; None if they
        agree.
        """
        declared = self.case.refusal_of(self.engine)
        if declared is None and self.outcome is Outcome.NOT_COVERED:
            return (
                f"the {self.engine} engine refuses this case: {self.refusals[0]}\n"
                f"if that is meant, say so in the case: refuses: {self.engine} — {first_line(self.refusals[0])}"
            )
        if declared is not None and not self.refusals:
            how = "passes" if self.outcome is Outcome.PASSED else "runs"
            return (
                f"line {declared.line} says that the {self.engine} engine refuses this case, but it {how}: "
                "remove the 'refuses' line"
            )
        return None


AfterStep = Callable[[StepResult], object]


def first_line(text: str) -> str:
    """Return the first line of a message, which may be followed by a source excerpt."""
    return text.split("\n", 1)[0]


def run(
    case: ScenarioCase, open_engine: OpenEngine, engine: str = "rows", after_step: AfterStep | None = None
) -> CaseResult:
    """Run `case` on a fresh engine; `engine` is its name in ``refuses:`` lines.

    `after_step` is called with the result of each step, while the engine is in the state that the step leads to.

    Some recordings were made with priorities, others without, which affects the order of statements. A recorded case
    that does not say is run both ways if needed, and the closer result is returned. Never raises for an error of the
    case or the engine; the result reports it.
    """
    result = _Run(case, engine, open_engine, after_step=after_step).result()
    configs = (fence for fence in case.fences if isinstance(fence, ConfigFence))
    is_set = any(setting.key == "prioritized" for config in configs for setting in config.settings)
    if case.oracle is None or is_set or result.broken is not None or result.outcome is not Outcome.FAILED:
        return result
    without = _Run(case, engine, open_engine, {"prioritized": False}, after_step).result()
    return max(result, without, key=lambda candidate: sum(step.agrees for step in candidate.steps))


class _Stop(Exception):
    """Ends a run early, after the reason was stored."""


class _Run:
    """One run: the engine, the reactions since the last stimulus, and the results so far."""

    def __init__(
        self,
        case: ScenarioCase,
        engine_name: str,
        open_engine: OpenEngine,
        options: Mapping[str, Any] | None = None,
        after_step: AfterStep | None = None,
    ) -> None:
        self.after_step = after_step
        self.case = case
        self.options = options or {}
        self.engine_name = engine_name
        self.open_engine = open_engine
        self.engine: Engine
        self.listen: list[str] | str | None = None
        self.noted: list[Reaction] = []
        self.unplaced: list[Reaction] = []
        self.line = case.line
        self.steps: list[StepResult] = []
        self.invalid: list[InvalidResult] = []
        self.refusals: list[str] = []
        self.broken: BrokenRun | None = None

    def result(self) -> CaseResult:
        try:
            self._start()
            for fence in self.case.fences:
                self.line = fence.line
                self._act(fence)
            self._place_reactions_to_deployment(None)
        except _Stop:
            pass
        except Exception as error:  # noqa: BLE001 - a defect of the engine is a result, reported with its traceback
            self.broken = BrokenRun(self.line, f"{type(error).__name__}: {error}", traceback.format_exc())
        results = tuple(self.steps), tuple(self.invalid), tuple(self.refusals)
        return CaseResult(self.case, self.engine_name, *results, self.broken)

    def _start(self) -> None:
        start, options, variables = 0, dict[str, Any](), list[str]()
        options.update(self.options)
        for setting in (s for f in self.case.fences if isinstance(f, ConfigFence) for s in f.settings):
            match setting.key:
                case "start":
                    start = setting.value
                case "listen":
                    self.listen = setting.value
                case "variable":
                    variables.append(_create_variable(str(setting.subject), setting.value))
                case key if setting.subject is not None:
                    options.setdefault(key, {})[setting.subject] = setting.value
                case key:
                    options[key] = setting.value
        try:
            self.engine = self.open_engine(start, options)
        except Refusal as refusal:
            self._refuse(refusal.reason)
        except CepbookError as error:
            self._break(str(error))
        self.engine.on_failure(self._note_error)
        if variables:
            self._deploy(";\n".join(variables), "variables")

    def _act(self, fence: ConfigFence | ModuleFence | QueryFence | TraceFence | InvalidFence) -> None:
        match fence:
            case ModuleFence(epl, deployment_id):
                self._deploy(epl, deployment_id)
            case QueryFence():
                self._deploy_query(fence)
            case TraceFence():
                self._place_reactions_to_deployment(fence)
                for step in fence.steps:
                    self.line = step.line
                    self._run_step(step)
            case InvalidFence():
                self.invalid.append(self._try_invalid(fence))

    def _deploy(self, epl: str, deployment_id: str) -> None:
        try:
            names = self.engine.deploy(epl, deployment_id)
        except CepbookError as error:
            self._stop_for(error)
        named = {f["single"] or f["double"] or f["bare"] for f in _STATEMENT_NAME.finditer(epl)}
        for name in names:
            if self.listen == EVERY_STATEMENT or name in (named if self.listen is None else self.listen):
                self.engine.listen(name, self._note_delivery)
        self.unplaced += self._take_noted()

    def _deploy_query(self, fence: QueryFence) -> None:
        try:
            self.engine.deploy_query(fence.dialect, fence.name, fence.text)
        except CepbookError as error:
            self._stop_for(error)
        if self.listen is None or self.listen == EVERY_STATEMENT or fence.name in self.listen:
            self.engine.listen(fence.name, self._note_delivery)
        self.unplaced += self._take_noted()

    def _stop_for(self, error: CepbookError) -> NoReturn:
        """End the run: as a refusal if `error` is one, otherwise as broken."""
        reason = refusal_reason(error)
        if reason is not None:
            self._refuse(reason)
        self._break(str(error))

    def _refuse(self, reason: str) -> NoReturn:
        self.refusals.append(reason)
        raise _Stop

    def _break(self, message: str) -> NoReturn:
        self.broken = BrokenRun(self.line, message)
        raise _Stop

    def _place_reactions_to_deployment(self, trace: TraceFence | None) -> None:
        """Compare deliveries during a deployment with a ``deployed`` step; without one they are a difference."""
        if trace is not None and trace.steps and isinstance(trace.steps[0].stimulus, Deployed):
            return
        reactions, self.unplaced = self._without_empty(self.unplaced), []
        if reactions:
            line = self.line if trace is None else trace.line
            step = TraceStep(Deployed(), (), "deployed", line, line)
            self.steps.append(StepResult(step, reactions, agrees=False, added=True, can_record=trace is not None))

    def _run_step(self, step: TraceStep) -> None:
        try:
            rows = self._stimulate(step.stimulus)
            if rows is not None:
                self.noted.append(ReadRows(tuple(_snapshot(row) for row in rows)))
        except CepbookError as error:
            reason = refusal_reason(error)
            if reason is not None:
                self._refuse(reason)
            self._note_error(error)
        actual = self._without_empty(self._take_noted())
        expected = self._without_empty(step.reactions)
        agrees = same_reactions(expected, actual, unordered="unordered" in self.case.tags)
        self.steps.append(StepResult(step, actual, agrees))
        if self.after_step is not None:
            self.after_step(self.steps[-1])

    def _stimulate(self, stimulus: Stimulus) -> Iterable[Row] | None:
        match stimulus:
            case Send(event_type):
                self.engine.send(event_type, self._event(stimulus))
            case Advance(time, stepping):
                self.engine.advance(time, stepping=stepping)
            case Iterate(statement):
                return self.engine.iterate(statement)
            case Partitions(context):
                return self.engine.partitions(context)
            case RunQuery(epl):
                return self.engine.query(epl)
            case GetVariable(name):
                return [{"value": self.engine.get_variable(name)}]
            case SetVariable(name, value):
                self.engine.set_variable(name, value)
            case Undeploy(deployment_id):
                self.engine.undeploy(deployment_id)
            case Together(events):
                self.engine.send_together([(event.event_type, self._event(event)) for event in events])
            case ReplaceTable(name, rows):
                self.engine.replace_table(name, rows)
            case Deployed():
                self.noted, self.unplaced = self.unplaced, []
        return None

    def _event(self, send: Send) -> dict[str, Any]:
        types = self.engine.properties(send.event_type)
        return dict(send.event) if types is None else coerce_row(send.event, types, self.engine.properties)

    def _try_invalid(self, fence: InvalidFence) -> InvalidResult:
        try:
            if fence.query:
                self.engine.query(fence.text)
            elif fence.dialect == "epl":
                self.engine.deploy(fence.text, "invalid")
                self.engine.undeploy("invalid")
            else:
                self.engine.deploy_query(fence.dialect, "invalid", fence.text)
        except CepbookError as error:
            reason = refusal_reason(error)
            if reason is not None:
                self.refusals.append(reason)
                return InvalidResult(fence, str(error), refused=True)
            if isinstance(error, CompileError):
                return InvalidResult(fence, "\n".join(line.rstrip() for line in str(error).splitlines()))
            return InvalidResult(fence, None, f"no diagnostic, but {type(error).__name__}: {error}")
        finally:
            self.noted.clear()
        return InvalidResult(fence, None)

    def _note_delivery(self, statement: str, insert: Sequence[Row], remove: Sequence[Row]) -> None:
        self.noted.append(StatementDelivery(statement, tuple(map(_snapshot, insert)), tuple(map(_snapshot, remove))))

    def _note_error(self, error: CepbookError) -> None:
        what = error.statement if isinstance(error, StatementError) else "runtime"
        failure = Failure(what, str(error))
        if failure not in self.noted:  # an error may be both announced and raised
            self.noted.append(failure)

    def _take_noted(self) -> list[Reaction]:
        taken, self.noted = self.noted, []
        return taken

    def _without_empty(self, reactions: Sequence[Reaction]) -> tuple[Reaction, ...]:
        """Return the reactions without empty deliveries, unless the case is about them."""
        if "forced" in self.case.tags:
            return tuple(reactions)
        return tuple(r for r in reactions if not isinstance(r, StatementDelivery) or r.insert or r.remove)


def refusal_reason(error: CepbookError) -> str | None:
    """Return the reason if `error` only reports missing support; None for any other error."""
    if isinstance(error, Refusal):
        return error.reason
    diagnostics = error.diagnostics if isinstance(error, CompileError) else ()
    if diagnostics and all(diagnostic.code == NOT_SUPPORTED_YET for diagnostic in diagnostics):
        return diagnostics[0].message
    return None


def same_reactions(expected: Sequence[Reaction], actual: Sequence[Reaction], *, unordered: bool) -> bool:
    """Return whether an engine's reactions match the expected ones; see the module docstring."""
    expected_rows = [r for r in expected if not isinstance(r, Failure)]
    actual_rows = [r for r in actual if not isinstance(r, Failure)]
    return (
        len(expected_rows) == len(actual_rows)
        and all(_same_reaction(e, a, unordered) for e, a in zip(expected_rows, actual_rows, strict=True))
        and _same_failures(list(_failures(expected)), list(_failures(actual)))
    )


def _failures(reactions: Iterable[Reaction]) -> Iterator[str]:
    return (reaction.what for reaction in reactions if isinstance(reaction, Failure))


def _same_failures(expected: Sequence[str], actual: Sequence[str]) -> bool:
    if bool(expected) != bool(actual):
        return False
    if "runtime" in expected or "error" in expected:
        return True
    return set(expected) == set(actual)


def _same_reaction(expected: Reaction, actual: Reaction, unordered: bool) -> bool:
    match expected, actual:
        case ReadRows(expected_rows), ReadRows(actual_rows):
            return same_rows(expected_rows, actual_rows, unordered=unordered)
        case StatementDelivery(), StatementDelivery():
            return (
                expected.statement == actual.statement
                and same_rows(expected.insert, actual.insert, unordered=unordered)
                and same_rows(expected.remove, actual.remove, unordered=unordered)
            )
    return False


def _snapshot(row: Row) -> dict[str, Any]:
    """Return a copy that is independent of the engine's rows, with keys of maps as Java prints them."""
    return {name if isinstance(name, str) else java_text(name): _copied(value) for name, value in row.items()}


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _snapshot(value)
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def _create_variable(name: str, declared: Mapping[str, Any]) -> str:
    constant = "constant " if declared.get("constant") else ""
    value = "" if declared.get("value") is None else f" = {_literal(declared['value'])}"
    return f"create {constant}variable {declared['type']} {name}{value}"


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return "{" + ", ".join(map(_literal, value)) + "}"
    return json.dumps(value)
