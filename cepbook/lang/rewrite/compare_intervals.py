"""Writes relations of intervals as comparisons of their ends, which indexes know: ``where a.overlaps(b)``.

Only in conditions that must be true, because comparisons with a null may be false where the relation is null; and only
without thresholds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cepbook.lang import expr as x
from cepbook.lang import plan
from cepbook.lang import types as t

# of each relation: comparisons of the (start, end) of the one with those of the other
_COMPARISONS: Mapping[str, tuple[tuple[int, str, int], ...]] = {
    "before": ((1, "<", 0),),
    "after": ((0, ">", 1),),
    "coincides": ((0, "=", 0), (1, "=", 1)),
    "during": ((0, ">", 0), (1, "<", 1)),
    "includes": ((0, "<", 0), (1, ">", 1)),
    "finishes": ((1, "=", 1), (0, ">", 0)),
    "finishedBy": ((1, "=", 1), (0, "<", 0)),
    "meets": ((1, "=", 0),),
    "metBy": ((0, "=", 1),),
    "overlaps": ((1, ">", 0), (0, "<", 0), (1, "<", 1)),
    "overlappedBy": ((0, "<", 1), (0, ">", 0), (1, ">", 1)),
    "starts": ((0, "=", 0), (1, "<", 1)),
    "startedBy": ((0, "=", 0), (1, ">", 1)),
}
_POINT = x.Const(t.LONG, 0)
_INPUT = (plan.Projection, plan.Having, plan.Aggregation, plan.Windowed, plan.Derived)


def compare_intervals(statement: plan.StatementPlan) -> plan.StatementPlan:
    """`statement` with comparisons in its filters and where-clauses, also those of subqueries."""
    if statement.subqueries:
        inner = tuple(replace(each, root=_node(each.root)) for each in statement.subqueries)
        statement = replace(statement, subqueries=inner)
    if isinstance(statement, plan.SelectStatement):
        return replace(statement, root=_node(statement.root))
    return statement


def _node(node: Any) -> Any:
    """A node of the chain and what is below."""
    if isinstance(node, plan.Selection):
        return replace(node, predicate=_condition(node.predicate), input=_node(node.input))
    if isinstance(node, plan.Join):
        return replace(node, inputs=tuple(replace(each, stream=_node(each.stream)) for each in node.inputs))
    if isinstance(node, plan.Source):
        return node if node.filter is None else replace(node, filter=_condition(node.filter))
    return replace(node, input=_node(node.input)) if isinstance(node, _INPUT) else node


def _condition(e: x.Expr) -> x.Expr:
    """A condition that must be true, with the relations in its conjunction as comparisons."""
    if isinstance(e, x.Logic) and e.op == "and":
        operands = tuple(_condition(operand) for operand in e.operands)
        return e if operands == e.operands else replace(e, operands=operands)
    if not isinstance(e, x.MethodCall) or len(e.args) != 3 or not e.name.startswith("datetime."):
        return e
    comparisons = _COMPARISONS.get(e.name.removeprefix("datetime."))
    one, other = _ends(e.receiver, e.args[0]), _ends(e.args[1], e.args[2])
    if comparisons is None or one is None or other is None:
        return e
    compares = (x.Compare(t.BOOLEAN, op, one[i], other[j], span=e.span) for i, op, j in comparisons)
    found: list[x.Expr] = list(dict.fromkeys(compares))
    compared = {part for each in found for part in x.children(each)}
    for end in dict.fromkeys((*one, *other)):
        if end not in compared:  # of a relation all ends must be known
            found.append(x.Is(t.BOOLEAN, end, x.Const(t.NULL, None), True, span=e.span))
    return found[0] if len(found) == 1 else x.Logic(t.BOOLEAN, "and", tuple(found), span=e.span)


def _ends(start: x.Expr, length: x.Expr) -> tuple[x.Expr, x.Expr] | None:
    """Start and end of an interval; None where it was moved."""
    if length == _POINT:
        return start, start
    if isinstance(length, x.Arith) and length.op == "-" and length.right == start:
        return start, length.left
    return None
