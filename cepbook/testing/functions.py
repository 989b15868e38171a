"""The two functions that cases may call without declaring them: ``computeHash`` and ``concatStr``.

Both work on the text that Java gives a value, so that cases can be compared with an implementation on the JVM.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def compute_hash(value: Any) -> int:
    """Java's ``String.hashCode`` of the value's text, ``& 0x7fffffff``."""
    code = 0
    encoded = java_text(value).encode("utf-16-be")
    for at in range(0, len(encoded), 2):
        code = (31 * code + int.from_bytes(encoded[at : at + 2], "big")) & 0xFFFFFFFF
    return code & 0x7FFFFFFF


def concat_str(left: Any, right: Any) -> str:
    """The texts of both values, one after the other."""
    return java_text(left) + java_text(right)


def java_text(value: Any) -> str:
    """The text of a value as Java's ``String.valueOf`` gives it; an event reads ``{name=value, …}``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}={java_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(java_text, value)) + "]"
    return str(value)


def _double_text(value: float) -> str:
    """``Double.toString``: plain from 0.001 up to 10 million, otherwise ``d.dddE±n``."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, exponent = _scientific(value)
    return f"{mantissa}E{exponent}"


def _scientific(value: float) -> tuple[str, int]:
    sign = "-" if value < 0 else ""
    text = repr(abs(value))
    number, _, power = text.partition("e")
    whole, _, fraction = number.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(digits)
    exponent = int(power or 0) + len(whole) - 1 - leading_zeros
    digits = digits.rstrip("0") or "0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}", exponent
