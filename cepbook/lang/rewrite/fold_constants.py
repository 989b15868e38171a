"""Evaluate constant expressions.

``price > 2 * 50`` becomes ``price > 100``, ``x and true`` becomes ``x``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from cepbook.lang import types as t
from cepbook.lang.java.numbers import COMPARISONS, integer_divide, wrap
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.traversal import rebuild_expr
from cepbook.lang.types import Type


def _wrap(value: int, type_: Type) -> int:
    """Wrap `value` to an integer of `type_`; a biginteger has no bounds."""
    bits = t.BITS.get(type_.name)
    return value if bits is None else wrap(value, bits)


def fold_expr(e: x.BoundExpr) -> x.BoundExpr:
    """Fold all constant parts of `e`; conversions of text stay for run time."""
    return rebuild_expr(e, fold_expr_node)


def fold_expr_node(e: x.BoundExpr) -> x.BoundExpr:
    """Fold one node whose operands are folded."""
    rule = _RULES.get(type(e))
    return e if rule is None else rule(e)


def _const(e: x.BoundExpr, value: object) -> x.Const:
    return x.Const(e.type, value, span=e.span)


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


def _arith(e: x.BoundExpr) -> x.BoundExpr:
    assert isinstance(e, x.Arith)
    left, right = e.left, e.right
    if not (isinstance(left, x.Const) and isinstance(right, x.Const)):
        return e
    a: Any = left.value
    b: Any = right.value
    if a is None or b is None:
        return _const(e, None)
    if e.op in ("/", "%"):
        return _divide(e, a, b)
    try:
        value = _ARITHMETIC[e.op](a, b)
    except OverflowError:
        return e
    if isinstance(value, int) and not isinstance(value, bool):
        return _const(e, _wrap(value, e.type) if t.is_integral(e.type) else float(value))
    return _const(e, value)


def _divide(e: x.Arith, a: Any, b: Any) -> x.BoundExpr:
    """Division by zero stays in the plan: its result depends on the engine's configuration."""
    if b == 0 or any(isinstance(v, float) and v - v != 0 for v in (a, b)):
        return e
    if t.is_integral(e.type):
        quotient = integer_divide(a, b)
        return _const(e, _wrap(quotient if e.op == "/" else a - b * quotient, e.type))
    if e.op == "/":
        return _const(e, a / b)
    remainder = abs(a) % abs(b)
    return _const(e, -remainder if a < 0 else remainder)


def _negate(e: x.BoundExpr) -> x.BoundExpr:
    assert isinstance(e, x.Negate)
    if not isinstance(e.operand, x.Const):
        return e
    value: Any = e.operand.value
    if value is None:
        return _const(e, None)
    return _const(e, _wrap(-value, e.type) if isinstance(value, int) else -value)


def _compare(e: x.BoundExpr) -> x.BoundExpr:
    assert isinstance(e, x.ComparisonExpr)
    if isinstance(e.left, x.Const) and isinstance(e.right, x.Const):
        if e.left.value is None or e.right.value is None:
            return _const(e, None)
        return _const(e, COMPARISONS[e.op](e.left.value, e.right.value))
    return e


def _is(e: x.BoundExpr) -> x.BoundExpr:
    assert isinstance(e, x.Is)
    if isinstance(e.left, x.Const) and isinstance(e.right, x.Const):
        return _const(e, (e.left.value == e.right.value) != e.negated)
    return e


def _logic(e: x.BoundExpr) -> x.BoundExpr:
    """Flatten, drop neutral constants, and stop at a deciding one."""
    assert isinstance(e, x.Logic)
    deciding = e.op == "or"
    operands: list[x.BoundExpr] = []
    for operand in e.operands:
        if isinstance(operand, x.Logic) and operand.op == e.op:
            operands.extend(operand.operands)
        elif isinstance(operand, x.Const) and operand.value is deciding:
            return _const(e, deciding)
        elif not (isinstance(operand, x.Const) and operand.value is (not deciding)):
            operands.append(operand)
    if not operands:
        return _const(e, not deciding)
    if len(operands) == 1 and not (deciding and isinstance(operands[0], x.RangeTest)):
        return operands[0]
    # a range that stands in an `or` stays there: a join accepts its bounds in either order then, and only then
    return e if tuple(operands) == e.operands else replace(e, operands=tuple(operands))


def _not(e: x.BoundExpr) -> x.BoundExpr:
    assert isinstance(e, x.LogicalNot)
    if isinstance(e.operand, x.Const):
        return _const(e, None if e.operand.value is None else not e.operand.value)
    return e.operand.operand if isinstance(e.operand, x.LogicalNot) else e


def _concat(e: x.BoundExpr) -> x.BoundExpr:
    assert isinstance(e, x.Concat)
    values = [o.value for o in e.operands if isinstance(o, x.Const)]
    if len(values) < len(e.operands):
        return e
    if None in values:
        return _const(e, None)
    return _const(e, "".join(v for v in values if isinstance(v, str)))


def _case(e: x.BoundExpr) -> x.BoundExpr:
    assert isinstance(e, x.CaseWhen)
    branches: list[tuple[x.BoundExpr, x.BoundExpr]] = []
    for condition, value in e.branches:
        if isinstance(condition, x.Const):
            if condition.value is True:
                return value if not branches else replace(e, branches=tuple(branches), default=value)
            continue
        branches.append((condition, value))
    if not branches:
        return e.default if e.default is not None else _const(e, None)
    return e if len(branches) == len(e.branches) else replace(e, branches=tuple(branches))


def _convert(e: x.BoundExpr) -> x.BoundExpr:
    """Numeric conversions of constants; text is left to the engine, whose errors point at the statement."""
    assert isinstance(e, x.Convert)
    if not isinstance(e.operand, x.Const):
        return e
    value = e.operand.value
    if value is None:
        return _const(e, None)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return e
    if e.type == t.DOUBLE:
        return _const(e, float(value))
    if e.type == t.BIGDECIMAL:
        return _const(e, Decimal(repr(value)))
    if t.is_integral(e.type) and isinstance(value, int):
        return _const(e, _wrap(value, e.type))
    if e.type in (t.INT, t.LONG) and isinstance(value, float) and value == value:
        half = 1 << (t.BITS[e.type.name] - 1)
        return _const(e, max(-half, min(half - 1, int(max(-1e30, min(1e30, value))))))
    return e


_RULES: dict[type, Callable[[x.BoundExpr], x.BoundExpr]] = {
    x.Arith: _arith,
    x.Negate: _negate,
    x.ComparisonExpr: _compare,
    x.Is: _is,
    x.Logic: _logic,
    x.LogicalNot: _not,
    x.Concat: _concat,
    x.CaseWhen: _case,
    x.Convert: _convert,
}
