"""Arithmetic as Python text, with the results of Java: integers wrap around, division by zero is infinite."""

from __future__ import annotations

from cepbook.engine.expressions import primitives
from cepbook.engine.expressions.code_scope import CodeScope, bound_name, null_checked, unless_null, value
from cepbook.lang.java.sizes import bounded_integer
from cepbook.lang.plan import expressions as x
from cepbook.lang.types import BITS, is_integral


def arithmetic_code(scope: CodeScope, e: x.Arith) -> str:
    """Return the code of ``a + b`` and the other operators of two numbers; null if an operand is null."""
    operators, operands = _chain(e)
    if len(operators) > _LONG:
        folded = f"{bound_name(scope, primitives.arithmetic_chain)}({scope.source.const(operators, 'ops')}, "
        bits = BITS.get(e.type.name)
        return f"{folded}({', '.join(value(scope, o) for o in operands)}), {bits}, {e.type.name == 'float'})"
    codes, checks = null_checked(scope, e.left, e.right)
    if e.type.name == "bigdecimal":
        to_decimal = f"{bound_name(scope, primitives.convert)}({{}}, {scope.source.const(e.type, 'type')})"
        codes = [
            c if side.type.name in ("bigdecimal", *BITS) else to_decimal.format(c)
            for c, side in zip(codes, (e.left, e.right), strict=True)
        ]
    return unless_null(checks, _arithmetic(scope, e, codes[0], codes[1]))


_BIG = ("bigdecimal", "biginteger")
_LONG = 16  # operators; Python's parser limits the nesting of a longer chain


def _chain(e: x.Arith) -> tuple[str, list[x.BoundExpr]]:
    operators: list[str] = []
    operands: list[x.BoundExpr] = []
    node: x.BoundExpr = e
    while isinstance(node, x.Arith) and node.op in "+-*" and node.type == e.type and e.type.name not in _BIG:
        operators.append(node.op)
        operands.append(node.right)
        node = node.left
    return "".join(reversed(operators)), [node, *reversed(operands)]


def _arithmetic(scope: CodeScope, e: x.Arith, a: str, b: str) -> str:
    if e.op == "/":
        return _division(scope, e, a, b)
    if e.op == "%":
        both = is_integral(e.left.type) and is_integral(e.right.type)
        call = f"{bound_name(scope, primitives.remainder)}({a}, {b})"
        if both:
            return f"({call} if {b} else None)"
        return call if not scope.division_by_zero_null else f"({call} if {b} else None)"
    code = f"({a} {e.op} {b})"
    if e.type.name in BITS and e.op in "+-*":
        bits = BITS[e.type.name]
        temporary, half = scope.source.temporary(), 1 << (bits - 1)
        wrap = bound_name(scope, primitives.wrap)
        return f"({temporary} if -{half} <= ({temporary} := {a} {e.op} {b}) < {half} else {wrap}({temporary}, {bits}))"
    if e.type.name == "biginteger" and e.op in "+-*":
        return f"{bound_name(scope, bounded_integer)}({a} {e.op} {b})"
    if e.type.name == "float":
        return f"{bound_name(scope, primitives.to_float32)}{code}"
    return code


def _division(scope: CodeScope, e: x.Arith, a: str, b: str) -> str:
    if scope.integer_division and is_integral(e.left.type) and is_integral(e.right.type):
        call = f"{bound_name(scope, primitives.integer_divide)}({a}, {b})"
        if e.type.name in BITS:  # the smallest value by -1 is the one quotient that does not fit
            call = f"{bound_name(scope, primitives.wrap)}({call}, {BITS[e.type.name]})"
        return f"({call} if {b} else None)" if scope.division_by_zero_null else call
    if e.type.name in ("double", "float"):  # both are floating before, as in Java
        a, b = (f"float({c})" if of.type.name in ("long", "biginteger") else c for c, of in ((a, e.left), (b, e.right)))
    if e.right.constant:
        return f"({a} / {b})"
    if e.type.name == "bigdecimal" or scope.division_by_zero_null:
        return f"({a} / {b} if {b} else None)"
    return f"({a} / {b} if {b} else {bound_name(scope, primitives.divide_by_zero)}({a}))"


def negation_code(scope: CodeScope, e: x.Negate) -> str:
    (operand,), checks = null_checked(scope, e.operand)
    if e.type.name in BITS:  # the smallest value has no opposite
        smallest = -1 << (BITS[e.type.name] - 1)
        return unless_null(checks, f"({operand} if {operand} == {smallest} else -{operand})")
    return unless_null(checks, f"(-{operand})")
