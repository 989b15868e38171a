"""Evaluates what is constant: ``price > 2 * 50`` becomes ``price > 100``, ``x and true`` becomes ``x``."""

from __future__ import annotations

from cepbook.lang.plan import StatementPlan
from cepbook.lang.rewrite.expressions import fold
from cepbook.lang.trees import mapped


def fold_constants(statement: StatementPlan) -> StatementPlan:
    """`statement` with constant parts of expressions evaluated; conversions of text stay for run time."""
    return mapped(statement, fold)
