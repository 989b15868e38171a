"""Compare the reactions that a cell expects with those that came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepbook.display import format_count
from cepbook.errors import CepbookError
from cepbook.magics.shell.output import table
from cepbook.testing.report import compared_lines
from cepbook.testing.runner import StepResult
from cepbook.widgets.base.static_picture import StaticPicture


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
