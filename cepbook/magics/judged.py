"""Whether reactions are those that a cell states, and how the difference is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.errors import CepbookError
from cepbook.magics.scenario_cell import Part
from cepbook.shown import counted
from cepbook.testing.report import failure_report
from cepbook.testing.runner import Result, StepResult, same_reactions
from cepbook.testing.scenario import Case
from cepbook.testing.trace import Delivery, Rows


class ExpectationError(CepbookError):
    """Reactions that the cell states did not come, or others did. Shows both side by side."""


def compared(parts: Sequence[Part]) -> frozenset[str] | None:
    """The statements whose deliveries are compared; None when the cell expects nothing."""
    expected = [reaction for part in parts for reaction in part.step.reactions]
    if not expected:
        return None
    return frozenset(r.statement for r in expected if isinstance(r, Delivery))


def judged(result: StepResult, checked: frozenset[str]) -> StepResult:
    """The result with the reactions that count, and whether they are the expected ones.

    A reading that nothing is stated about is only shown.
    """
    expects_rows = any(isinstance(r, Rows) for r in result.step.reactions)
    actual = tuple(
        r for r in result.actual
        if (r.statement in checked if isinstance(r, Delivery) else expects_rows or not isinstance(r, Rows))
    )  # fmt: skip
    expected = tuple(r for r in result.step.reactions if not isinstance(r, Delivery) or r.insert or r.remove)
    return replace(result, actual=actual, agrees=same_reactions(expected, actual, unordered=False))


def differences(results: Sequence[StepResult], origin: str, noun: str = "stimulus", nouns: str = "stimuli") -> str:
    """How many of the results differ, and the first of them, expected and actual reactions side by side."""
    case = Case(origin, 1, 1, "", (), None, None, (), ())
    report = failure_report(Result(case, "rows", tuple(results), (), (), None), origin)
    what = counted(sum(not result.agrees for result in results), noun, nouns)
    _, _, below = report.partition("\n")  # the report's own head names a file and an engine
    return f"{what} with other reactions than expected\n{below}"
