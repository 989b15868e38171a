"""Comparison of the reactions that a cell expects with those that came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.testing.cell_reader import CellStep
from cepbook.testing.runner import StepResult, same_reactions
from cepbook.testing.trace import ReadRows, StatementDelivery


def compared_statements(parts: Sequence[CellStep]) -> frozenset[str] | None:
    """Return the statements whose deliveries are compared, or None if the cell expects nothing."""
    expected = [reaction for step in parts for reaction in step.step.reactions]
    if not expected:
        return None
    return frozenset(r.statement for r in expected if isinstance(r, StatementDelivery))


def evaluate_step(result: StepResult, checked: frozenset[str]) -> StepResult:
    """Return the result with the reactions that count and whether they agree.

    A reading without expectations is only shown.
    """
    expects_rows = any(isinstance(r, ReadRows) for r in result.step.reactions)
    actual = tuple(
        r for r in result.actual
        if (r.statement in checked if isinstance(r, StatementDelivery) else expects_rows or not isinstance(r, ReadRows))
    )  # fmt: skip
    expected = tuple(r for r in result.step.reactions if not isinstance(r, StatementDelivery) or r.insert or r.remove)
    return replace(result, actual=actual, agrees=same_reactions(expected, actual, unordered=False))
