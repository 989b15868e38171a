"""Whether reactions are those that a cell states, and how the difference is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cepbook.errors import CepbookError
from cepbook.magics.scenario_cell import Part
from cepbook.magics.show import table
from cepbook.shown import counted
from cepbook.testing.report import compared_lines
from cepbook.testing.runner import StepResult, same_reactions
from cepbook.testing.trace import Delivery, Rows
from cepbook.widgets.render import Frozen


class ExpectationError(CepbookError):
    """Reactions that the cell states did not come, or others did. `side_by_side` shows both."""


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


def side_by_side(results: Iterable[StepResult], what: str = "stimulus") -> Frozen:
    """Each of `results` with what was expected and what came; a row that differs is marked and tinted."""
    rows, signs = [], []
    for result in results:
        lines = [*compared_lines(result)] or [("", "")]
        for number, (want, got) in enumerate(lines):
            differs = not result.agrees and want != got
            text = result.step.text.strip() if number == 0 else ""
            rows.append((text, "✗" if differs else "", *(each.replace("  ", "\u00a0 ") for each in (want, got))))
            signs.append("−" if differs else "")
    return table("", (what, "", "expected", "actual"), rows, signs=signs)


def different(results: Sequence[StepResult], noun: str = "stimulus", nouns: str = "stimuli") -> ExpectationError:
    """The error that names the lines of the cell at which there were other reactions: a table shows them."""
    wrong = [result for result in results if not result.agrees]
    at = ", ".join(dict.fromkeys(str(result.step.line + 1) for result in wrong))  # the line of the magic is the first
    where = "lines" if "," in at else "line"
    return ExpectationError(f"{counted(len(wrong), noun, nouns)} with other reactions than expected: {where} {at}")
