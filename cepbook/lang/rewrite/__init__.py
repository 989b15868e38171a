"""Rewrite plans to simpler plans with the same meaning. A rule is a function of one statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cepbook.lang.plan.nodes import ModulePlan, StatementPlan
from cepbook.lang.rewrite.compare_intervals import compare_intervals
from cepbook.lang.rewrite.fold_constants import fold_constants
from cepbook.lang.rewrite.simplify_conditions import drop_tautologies, push_filters

Rule = Callable[[StatementPlan], StatementPlan]
RULES: tuple[Rule, ...] = (fold_constants, drop_tautologies, compare_intervals, push_filters)


def rewrite_statement(statement: StatementPlan) -> StatementPlan:
    """Apply all rules in the order of `RULES`."""
    for rule in RULES:
        statement = rule(statement)
    return statement


def rewrite(module: ModulePlan) -> ModulePlan:
    """Rewrite every statement of `module`."""
    statements = tuple([rewrite_statement(statement) for statement in module.statements])
    same = all(new is old for new, old in zip(statements, module.statements, strict=True))
    return module if same else replace(module, statements=statements)


__all__ = ["RULES", "rewrite", "rewrite_statement"]
