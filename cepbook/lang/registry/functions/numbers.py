"""Big numbers, ``BigInteger.valueOf(x)`` and ``d.abs()``, and the constants of Java's number types."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from cepbook.lang import types as t
from cepbook.lang.registry.functions.function_row import FunctionRow, always, first
from cepbook.lang.types import Type


@dataclass(frozen=True, slots=True)
class ConstantRow:
    """One constant, which is written as its name."""

    name: str
    type: Type
    value: int | float
    doc: str

    @property
    def example(self) -> str:
        return self.name


def _decimal(number: float) -> Decimal:
    """Java's BigDecimal.valueOf: the shortest digits of a double. Errors: ValueError for NaN and infinities."""
    if not math.isfinite(number):
        raise ValueError(f"{number} is no BigDecimal")
    return Decimal(repr(number))


def _absolute(number: int | Decimal) -> int | Decimal:
    return number.copy_abs() if isinstance(number, Decimal) else abs(number)  # without rounding


def _negated(number: int | Decimal) -> int | Decimal:
    return number.copy_negate() if isinstance(number, Decimal) else -number


NUMBERS = (
    FunctionRow(
        "BigInteger.valueOf",
        ("whole number",),
        always(t.BIGINTEGER),
        "a whole number without bounds",
        "BigInteger.valueOf(volume)",
        "{0}",
    ),
    FunctionRow(
        "BigDecimal.valueOf",
        ("number",),
        always(t.BIGDECIMAL),
        "a number as a decimal fraction without bounds",
        "BigDecimal.valueOf(price)",
        _decimal,
        fails=True,
    ),
    FunctionRow(
        "bignumber.abs", ("number",), first, "the absolute value", "BigDecimal.valueOf(-price).abs()", _absolute
    ),
    FunctionRow(
        "bignumber.negate", ("number",), first, "with the other sign", "BigInteger.valueOf(volume).negate()", _negated
    ),
    FunctionRow(
        "bignumber.signum",
        ("number",),
        always(t.INT),
        "-1, 0 or 1",
        "BigDecimal.valueOf(price).signum()",
        "(({0} > 0) - ({0} < 0))",
    ),
)


def _limits(name: str, type_: Type, smallest: float, largest: float) -> tuple[ConstantRow, ConstantRow]:
    least = "smallest positive" if isinstance(smallest, float) else "smallest"
    return (
        ConstantRow(f"{name}.MIN_VALUE", type_, smallest, f"the {least} {type_}"),
        ConstantRow(f"{name}.MAX_VALUE", type_, largest, f"the largest {type_}"),
    )


def _whole_limits(name: str, type_: Type) -> tuple[ConstantRow, ConstantRow]:
    half = 1 << (t.BITS[type_.name] - 1)
    return _limits(name, type_, -half, half - 1)


_ROWS = (
    ConstantRow("Math.PI", t.DOUBLE, math.pi, "half the circumference of a circle of radius 1"),
    ConstantRow("Math.E", t.DOUBLE, math.e, "the base of natural logarithms"),
    *_whole_limits("Byte", t.BYTE),
    *_whole_limits("Short", t.SHORT),
    *_whole_limits("Integer", t.INT),
    *_whole_limits("Long", t.LONG),
    *_limits("Float", t.FLOAT, 2.0**-149, 2.0**128 - 2.0**104),
    *_limits("Double", t.DOUBLE, 5e-324, 1.7976931348623157e308),
    ConstantRow("Double.POSITIVE_INFINITY", t.DOUBLE, math.inf, "more than every number"),
    ConstantRow("Double.NEGATIVE_INFINITY", t.DOUBLE, -math.inf, "less than every number"),
    ConstantRow("Double.NaN", t.DOUBLE, math.nan, "the result of 0.0 / 0"),
)
CONSTANTS = {row.name: row for row in _ROWS}
