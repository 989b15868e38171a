"""How Java calculates and prints numbers, which EPL takes over (recorded in the corpus, folder ``expressions``)."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from datetime import date, time
from decimal import Decimal
from typing import Any

from cepbook.lang.java.date_text import date_text

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def wrap(value: int, bits: int) -> int:
    """`value` as a signed integer of `bits` bits."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


_SINGLE = struct.Struct("f")


def to_float32(value: float) -> float:
    """`value` rounded to a Java float (IEEE single): what a property of type float holds."""
    try:
        rounded: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return rounded


def shortest_float32(value: float) -> float:
    """The number of fewest decimal digits that `single` rounds to `value`: what Java prints for a float."""
    if math.isfinite(value):
        for digits in range(1, 10):
            found = float(f"{value:.{digits}g}")
            if to_float32(found) == value:
                return found
    return value


def integer_divide(a: int, b: int) -> int:
    """Java's integer division: truncates towards zero. Division by zero raises ZeroDivisionError."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def integer_remainder(a: int, b: int) -> int:
    """What `integer_divide` leaves, of the sign of `a`. Errors: ZeroDivisionError."""
    return a - b * integer_divide(a, b)


def java_text(value: Any) -> str:
    """Java's ``String.valueOf``, as in string concatenation; an event reads ``{name=value, …}``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(java_text(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}={java_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, date | time):
        return date_text(value)
    return "null" if value is None else str(value)


def double_text(value: float) -> str:
    """Java's ``Double.toString``: plain from 0.001 up to 10 million (exclusive), otherwise ``d.dddE±n``."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{Decimal(repr(value)):E}".partition("E")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
