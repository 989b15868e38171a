"""Numbers as Java calculates and prints them, which EPL follows (recorded in the corpus, folder ``expressions``)."""

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
    """Wrap `value` to a signed integer of `bits` bits."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


_SINGLE = struct.Struct("f")


def to_float32(value: float) -> float:
    """Round `value` to a Java float (IEEE single precision)."""
    try:
        rounded: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return rounded


def shortest_float32(value: float) -> float:
    """Return the number with the fewest decimal digits that rounds to `value` as a float: what Java prints for it."""
    if math.isfinite(value):
        for digits in range(1, 10):
            candidate = float(f"{value:.{digits}g}")
            if to_float32(candidate) == value:
                return candidate
    return value


def integer_divide(a: int, b: int) -> int:
    """Divide as Java does, truncating towards zero. Raises ZeroDivisionError."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def integer_remainder(a: int, b: int) -> int:
    """Return the remainder of `integer_divide`, with the sign of `a`. Raises ZeroDivisionError."""
    return a - b * integer_divide(a, b)


def java_text(value: Any) -> str:
    """Format a value as Java's ``String.valueOf``, as in string concatenation; an event as ``{name=value, …}``."""
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
    """Format as Java's ``Double.toString``: plain from 0.001 to 10 million (exclusive), otherwise ``d.dddE±n``."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{Decimal(repr(value)):E}".partition("E")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
