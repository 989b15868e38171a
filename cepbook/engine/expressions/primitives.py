"""Functions that generated code calls: EPL semantics that differ from Python's operators (see also `lang.java`)."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

from cepbook.lang.java.numbers import integer_divide as integer_divide
from cepbook.lang.java.numbers import java_text as java_text
from cepbook.lang.java.numbers import shortest_float32
from cepbook.lang.java.numbers import to_float32 as to_float32
from cepbook.lang.java.numbers import wrap as wrap
from cepbook.lang.java.regular_expressions import RegularExpression, compile_regular_expression
from cepbook.lang.types import BITS, DATES, DATETIMES, Type


class TypedEvent(dict[str, Any]):
    """An event with the name of its own type, for ``typeof`` of a stream. An event is the dict that the caller sent,
    which does not contain its type. If a statement reads the type, the runtime passes this copy on.
    """

    __slots__ = ("type",)

    def __init__(self, type_name: str, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self.type = type_name


def event_type(event: Any, declared: str) -> str | None:
    """Return the type of an event, `declared` if the event was not sent as a `TypedEvent`; None for no event."""
    if event is None:
        return None
    return event.type if isinstance(event, TypedEvent) else declared


def as_boolean(value: Any) -> bool | None:
    """Return a value that a condition reads. Errors: TypeError if the value is neither a boolean nor null."""
    if value is None or value is True or value is False:
        return value
    raise TypeError(f"the condition is {value!r}, which is no boolean")


def deep_copied(value: Any) -> Any:
    """Return a copy of `value` for user code: lists and dicts are copied at every level, so state cannot change."""
    if isinstance(value, dict):
        return {name: deep_copied(element) for name, element in value.items()}
    if isinstance(value, list):
        return [deep_copied(element) for element in value]
    return value


def float_display(value: Any) -> Any:
    """Return a float as the number that Java prints (``1.1``, not ``1.100000023841858``); null stays null."""
    return shortest_float32(value) if isinstance(value, float) else value


def divide_by_zero(a: float) -> float:
    """Return ``a / 0`` in floating point: ±Infinity, or NaN for 0/0."""
    if a != a or a == 0:
        return math.nan
    return math.inf if a > 0 else -math.inf


def remainder(a: float, b: float) -> float:
    """Return Java's ``a % b``: it has the sign of the dividend, and is NaN for a floating zero."""
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b) if b and not math.isinf(a) else math.nan
    return a - b * integer_divide(a, b)


_FOLDED: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def arithmetic_chain(operators: str, operands: Sequence[Any], bits: int | None, rounds: bool) -> Any:
    """Return ``a + b - c …``, with `operators` between the operands, from left to right; null if any is null. Integers
    have `bits` (None: unlimited). With `rounds` each step is rounded to single precision.
    """
    if None in operands:
        return None
    result = operands[0]
    for op, operand in zip(operators, operands[1:], strict=True):
        result = _FOLDED[op](result, operand)
        if rounds:
            result = to_float32(result)
        elif bits is not None and not -1 << 63 <= result < 1 << 63:
            result = wrap(result, bits)
    return result if bits is None else wrap(result, bits)


def and3(*operands: bool | None) -> bool | None:
    """Return the three-valued conjunction of evaluated operands."""
    if any(x is False for x in operands):
        return False
    return None if any(x is None for x in operands) else True


def or3(*operands: bool | None) -> bool | None:
    """Return the three-valued disjunction of evaluated operands."""
    if any(x is True for x in operands):
        return True
    return None if any(x is None for x in operands) else False


@lru_cache(maxsize=512)
def like_pattern(pattern: str, escape: str) -> RegularExpression:
    """Compile a SQL ``like`` pattern: ``%`` is any run, ``_`` any character, `escape` takes the next one literally."""
    out: list[str] = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == escape and position + 1 < len(pattern):
            position += 1
            out.append(re.escape(pattern[position]))
        else:
            out.append({"%": ".*", "_": "."}.get(char) or re.escape(char))
        position += 1
    return RegularExpression("".join(out), re.DOTALL)


def like(value: Any, pattern: Any, escape: Any) -> bool | None:
    """Return ``value like pattern escape e``. Numbers match by their text."""
    if value is None or pattern is None:
        return None
    return like_pattern(str(pattern), escape).matches(java_text(value))


def regexp(value: Any, pattern: Any) -> bool | None:
    """Return ``value regexp pattern``. The whole text must match."""
    if value is None or pattern is None:
        return None
    return compile_regular_expression(str(pattern)).matches(java_text(value))


def regexp_may_fail(pattern: object) -> bool:
    """Return whether `regexp` may raise for some texts. `pattern` is None if it is unknown until run time."""
    return not isinstance(pattern, str) or compile_regular_expression(pattern).may_fail


def in_list(value: Any, options: Sequence[Any]) -> bool | None:
    """Return ``value in (…)``; null if undecided. Elements of arrays and keys of maps are options."""
    if value is None:
        return None
    undecided = False
    for option in options:
        if option is None:
            undecided = True
        elif isinstance(option, (list, dict, tuple)):
            if value in option:
                return True
            undecided = undecided or None in option
        elif value == option:
            return True
    return None if undecided else False


def in_range(value: Any, low: Any, high: Any, include_low: bool, include_high: bool) -> bool:
    """Return ``value in [low:high)``; false if any is null."""
    if value is None or low is None or high is None:
        return False
    return bool((low < value or (include_low and low == value)) and (value < high or (include_high and value == high)))


def element(target: Any, index: Any) -> Any:
    """Return ``target[index]`` of an array or map; null if absent or out of range."""
    if target is None or index is None:
        return None
    if isinstance(target, dict):
        return target.get(index)
    if isinstance(target, (str, bytes)) or not hasattr(target, "__getitem__") or not isinstance(index, int):
        return None  # a dynamic property turned out to be something else
    return target[index] if 0 <= index < len(target) else None


def member(target: Any, name: str) -> Any:
    """Return ``target.name`` of a nested event; null if the target is null or has no such property."""
    if isinstance(target, dict):
        return target.get(name)
    attribute = None if name.startswith("_") else getattr(target, name, None)
    return None if callable(attribute) else attribute


def convert(value: Any, to: Type) -> Any:
    """Return ``cast(value, to)``: parse strings, truncate floats towards zero, wrap integers; null stays null. Errors:
    ValueError if a string is no number of that type, TypeError if there is no such conversion.
    """
    if value is None:
        return None
    name = to.name
    if name == "string":
        return java_text(value)
    if name == "byte" and isinstance(value, str):
        return wrap(_decoded(value), 8)
    if name in BITS:
        return _saturated(value, BITS[name]) if isinstance(value, float) else wrap(_whole(value), BITS[name])
    if name == "biginteger":
        return _whole(value)
    if name == "double":
        return _real(value)
    if name == "float":
        return to_float32(_real(value))
    if name == "bigdecimal":
        return value if isinstance(value, Decimal) else Decimal(str(value))
    if name == "boolean":
        return value.strip().lower() == "true" if isinstance(value, str) else bool(value)
    if name == "char" and isinstance(value, str):
        return value[:1] or None
    if to.fields is not None:
        return {column: convert(value[column], type_) for column, type_ in to.fields}
    if to.of is not None and to.of.fields is not None:
        return [convert(element, to.of) for element in value]
    return value


def convert_unknown(value: Any, to: Type) -> Any:
    """Return ``cast`` of a value whose type is unknown until run time: null if it does not fit. Text is not parsed."""
    if isinstance(value, (dict, list)) or (isinstance(value, str) and to.name not in ("string", "char")):
        return None
    dated = isinstance(value, (date, time)) and to.name not in ("string", "object")
    if (dated or to in DATES) and not isinstance(value, _PYTHON_TYPES.get(to.name, ())):
        return None
    return convert(value, to)


def _saturated(value: float, bits: int) -> int:
    """Return a float as a Java integer: truncated, limited to the range of int or long, then cut to `bits`."""
    if value != value:
        return 0
    limit = 1 << (max(32, bits) - 1)
    whole = limit - 1 if value >= limit else -limit if value < -limit else int(value)
    return wrap(whole, bits)


def _decoded(text: str) -> int:
    match = _DECODED.fullmatch(text.strip())
    if match is None:
        return _whole(text)
    sign, hexadecimal, octal = match.groups()
    number = int(hexadecimal, 16) if hexadecimal else int(octal, 8)
    return -number if sign == "-" else number


_DECODED = re.compile(r"([+-]?)(?:(?:0[xX]|#)([0-9a-fA-F]+)|0([0-7]+))")


def _whole(value: Any) -> int:
    try:
        return int(value.strip()) if isinstance(value, str) else int(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a whole number") from None


def _real(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "string": (str,),
    "char": (str,),
    "double": (float,),
    "float": (float,),
    "bigdecimal": (Decimal,),
    **dict.fromkeys((type_.name for type_ in DATETIMES), (datetime,)),
    "localdate": (date,),
    "localtime": (time,),
}


def is_instance(value: Any, declared: Type, types: Sequence[Type]) -> bool:
    """Return ``instanceof``, by the declared type where the value alone cannot tell int from long."""
    if value is None:
        return False
    for type_ in types:
        if type_.name == "object" or type_ == declared:
            return True
        if declared.name == "object":
            accepted = _PYTHON_TYPES.get(type_.name, (int,))
            if isinstance(value, accepted) and not (isinstance(value, bool) and bool not in accepted):
                return True
    return False
