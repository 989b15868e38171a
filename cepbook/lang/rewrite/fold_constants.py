"""Evaluates what is constant: ``price > 2 * 50`` becomes ``price > 100``, ``x and true`` becomes ``x``."""

from __future__ import annotations

from cepbook.lang.plan.nodes import StatementPlan
from cepbook.lang.plan.traversal import map_expressions
from cepbook.lang.rewrite.expressions import fold_expr


def fold_constants(statement: StatementPlan) -> StatementPlan:
    """`statement` with constant parts of expressions evaluated; conversions of text stay for run time."""
    return map_expressions(statement, fold_expr)
