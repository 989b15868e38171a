"""Rewrite plans to simpler plans with the same meaning, in one walk from the leaves to the root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cepbook.lang.plan.nodes import ModulePlan, SelectStatement, StatementPlan
from cepbook.lang.plan.plan_node import PlanNode
from cepbook.lang.plan.traversal import transform
from cepbook.lang.rewrite.compare_intervals import compare_intervals
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.rewrite.simplify_conditions import drop_tautology, push_filters

Rule = Callable[[PlanNode], PlanNode]  # of a node below which everything is rewritten, and whose constants are folded
RULES: tuple[Rule, ...] = (drop_tautology, compare_intervals)


def _rewrite_node(node: PlanNode) -> PlanNode:
    for rule in RULES:
        node = rule(node)
    return node


def rewrite_statement(statement: StatementPlan) -> StatementPlan:
    """Fold constants, apply all rules in the order of `RULES`, and push filters down. A plan that was built by a
    template has been rewritten.
    """
    if isinstance(statement, SelectStatement) and statement.template is not None:
        return statement
    return push_filters(transform(statement, _rewrite_node, fold_expr))


def rewrite(module: ModulePlan) -> ModulePlan:
    """Rewrite every statement of `module`."""
    statements = tuple([rewrite_statement(statement) for statement in module.statements])
    same = all(new is old for new, old in zip(statements, module.statements, strict=True))
    return module if same else replace(module, statements=statements)


__all__ = ["RULES", "rewrite", "rewrite_statement"]
