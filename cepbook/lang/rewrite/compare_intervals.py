"""Rewrite relations of intervals to comparisons of their ends, so that indexes can be used.

``where a.before(b)`` becomes ``where a.end < b.start``. The rule applies to conditions that must be true, because a
comparison with null may be false where the relation is null, and to constant thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cepbook.lang import types as t
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.rewrite.fold_constants import fold_expr_node

# per relation: comparisons of (start, end) of one interval with (start, end) of the other
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
_Interval = tuple[x.BoundExpr, x.BoundExpr]  # start, end


def compare_intervals(node: nodes.PlanNode) -> nodes.PlanNode:
    """Rewrite the condition of a node that is a filter or a where-clause."""
    match node:
        case nodes.Selection(predicate=predicate):
            condition = _condition(predicate)
            return node if condition is predicate else replace(node, predicate=condition)
        case nodes.SourceNode(filter=x.BoundExpr() as former):
            condition = _condition(former)
            return node if condition is former else replace(node, filter=condition)
    return node


def _condition(e: x.BoundExpr) -> x.BoundExpr:
    """Rewrite the relations in the conjunction of a condition that must be true."""
    if isinstance(e, x.Logic) and e.op == "and":
        operands = tuple(_condition(operand) for operand in e.operands)
        return e if operands == e.operands else replace(e, operands=operands)
    name = e.name.removeprefix("datetime.") if isinstance(e, x.MethodCall) else ""
    if not isinstance(e, x.MethodCall) or name not in _COMPARISONS:
        return e
    one, other = _ends(e.receiver, e.args[0]), _ends(e.args[1], e.args[2])
    spans = [arg.value for arg in e.args[3:] if isinstance(arg, x.Const)]
    known = [span for span in spans if isinstance(span, int)]
    if one is None or other is None or len(known) < len(e.args) - 3:
        return e
    compares = [] if known and name in _FAR else [(one[i], op, other[j], 0) for i, op, j in _COMPARISONS[name]]
    if known:
        compares = [*_within(name, one, other, known), *(c for c in compares if c[1] != "=")]
    comparisons: list[x.BoundExpr] = [
        x.ComparisonExpr(t.BOOLEAN, op, left, _plus(right, span), span=e.span)
        for left, op, right, span in dict.fromkeys(compares)
    ]
    compared = {node for comparison in comparisons for node in x.walk(comparison)}
    for end in dict.fromkeys((*one, *other)):
        if end not in compared:  # of a relation all ends must be known
            comparisons.append(x.Is(t.BOOLEAN, end, x.Const(t.NULL, None), True, span=e.span))
    return comparisons[0] if len(comparisons) == 1 else x.Logic(t.BOOLEAN, "and", tuple(comparisons), span=e.span)


_FAR = ("before", "after")  # whose thresholds say how far apart, and replace the comparison
_Compared = tuple[x.BoundExpr, str, x.BoundExpr, int]  # left, operator, right, what is added to the right


def _within(name: str, one: _Interval, other: _Interval, spans: list[int]) -> Iterator[_Compared]:
    """Comparisons for the thresholds; equalities are replaced by them."""
    if name in _FAR:
        low, high = min(spans), max(spans) if len(spans) > 1 else None
        later, earlier = (other[0], one[1]) if name == "before" else (one[0], other[1])
        yield from _from_to(later, earlier, low, high)
    elif name in ("during", "includes"):
        inner, outer = (one, other) if name == "during" else (other, one)
        yield from _from_to(inner[0], outer[0], spans[0] if len(spans) > 1 else None, spans[1 if len(spans) > 1 else 0])
        yield from _from_to(outer[1], inner[1], spans[-2] if len(spans) > 1 else None, spans[-1])
    elif name in ("overlaps", "overlappedBy"):
        first, second = (one, other) if name == "overlaps" else (other, one)
        yield from _from_to(first[1], second[0], spans[0] if len(spans) > 1 else None, spans[-1])
    else:  # both ends of coincides have a threshold of their own if there are two
        equal = [(one[i], other[j]) for i, op, j in _COMPARISONS[name] if op == "="]
        for (left, right), span in zip(equal, (spans[0], spans[-1]), strict=False):
            yield from _from_to(left, right, -span, span)


def _from_to(left: x.BoundExpr, right: x.BoundExpr, low: int | None, high: int | None) -> Iterator[_Compared]:
    if low is not None:
        yield left, ">=", right, low
    if high is not None:
        yield left, "<=", right, high


def _plus(e: x.BoundExpr, span: int) -> x.BoundExpr:
    return fold_expr_node(x.Arith(t.LONG, "+", e, x.Const(t.LONG, span), span=e.span)) if span else e


def _ends(start: x.BoundExpr, length: x.BoundExpr) -> _Interval | None:
    """Return start and end of an interval, or None if it was moved."""
    if length == _POINT:
        return start, start
    if isinstance(length, x.Arith) and length.op == "-" and length.right == start:
        return start, length.left
    return None
