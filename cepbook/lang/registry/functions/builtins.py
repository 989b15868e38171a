"""Single-row functions of the language itself: ``coalesce``, ``min`` and ``max`` of values, ``typeof``, any/all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Context, Decimal

from cepbook.lang import types as t
from cepbook.lang.java.numbers import COMPARISONS, integer_divide, integer_remainder, to_float32, wrap
from cepbook.lang.registry.functions.function_row import FunctionRow, always, first, promoted
from cepbook.lang.types import Type

JAVA_NAMES = {
    "boolean": "Boolean",
    "byte": "Byte",
    "short": "Short",
    "int": "Integer",
    "long": "Long",
    "float": "Float",
    "double": "Double",
    "biginteger": "BigInteger",
    "bigdecimal": "BigDecimal",
    "string": "String",
    "char": "Character",
    "map": "Map",
    "timestamp": "Date",
    "calendar": "GregorianCalendar",
    "zoneddatetime": "ZonedDateTime",
    "localdatetime": "LocalDateTime",
    "localdate": "LocalDate",
    "localtime": "LocalTime",
}


def _quotient(a: int, b: int) -> int:
    """Java gives the smallest long for the smallest long divided by -1."""
    return wrap(integer_divide(a, b), 64)


def _typeof(value: object, declared: str | None) -> str | None:
    """The Java name of the type; `declared` is None if only the value tells."""
    if value is None:
        return None
    if declared is not None:
        return declared
    for kind, name in (
        (bool, "Boolean"),
        (int, "Integer"),
        (float, "Double"),
        (str, "String"),
        (Decimal, "BigDecimal"),
    ):
        if isinstance(value, kind):
            return name
    return "Map" if isinstance(value, dict) else type(value).__name__


def _flatten(options: tuple[object, ...]) -> Iterator[object]:
    for option in options:
        if isinstance(option, (list, tuple)):
            yield from option
        else:
            yield option


def _any(op: str, value: object, *options: object) -> bool | None:
    """True as soon as one comparison is, else null beside a null option; orders pass over null options."""
    values = list(_flatten(options))
    known = [option for option in values if option is not None]
    if value is None or not known:
        return None
    if any(COMPARISONS[op](value, option) for option in known):
        return True
    return None if len(known) < len(values) and op in ("=", "!=") else False


def _all(op: str, value: object, *options: object) -> bool | None:
    """False as soon as one comparison is, else null beside a null option."""
    values = list(_flatten(options))
    known = [option for option in values if option is not None]
    if value is None or not values:
        return None
    if not all(COMPARISONS[op](value, option) for option in known):
        return False
    return None if len(known) < len(values) else True


def _new_array(at_first: object, *sizes: int | None) -> list[object]:
    """An array of arrays … of `at_first`. Errors: ValueError for a size that is null or below 0."""
    size, *rest = sizes
    if size is None or size < 0:
        raise ValueError(f"an array cannot have {'null' if size is None else size} elements")
    return [_new_array(at_first, *rest) if rest else at_first for _ in range(size)]


def _primitive_array(elements: list[object]) -> list[object]:
    if None in elements:
        raise ValueError("an array of primitive values cannot have a null element")
    return elements


def _rounded_to(value: float | Decimal, digits: float | None = 0) -> float | Decimal | None:
    """`value` with so many digits behind the point, half away from zero, as its decimal digits are written."""
    if digits is None or (isinstance(value, float) and not math.isfinite(value)):
        return None if digits is None else value
    unit = Decimal(1).scaleb(-int(digits))
    exact = Decimal(str(value))
    exponent = exact.as_tuple().exponent
    if exact.adjusted() + digits > 300 or (isinstance(exponent, int) and unit.adjusted() <= exponent):
        return value
    rounded = exact.quantize(unit, ROUND_HALF_UP, Context(prec=400))
    return type(value)(rounded)


def _of_first(arguments: tuple[Type, ...]) -> Type:
    """Whole numbers and decimals as they are, others as double."""
    return arguments[0] if arguments[0] == t.BIGDECIMAL or t.is_integral(arguments[0]) else t.DOUBLE


GENERAL = (
    FunctionRow(
        "round",
        ("number", "integer"),
        _of_first,
        "rounded to so many digits behind the point (0 without a number), half away from zero",
        "round(price, 2)",
        _rounded_to,
        at_least=1,
    ),
    FunctionRow(
        "coalesce",
        ("any", "any"),
        first,
        "the first value that is not null",
        "coalesce(price, 0.0)",
        repeats=True,
        picks=True,
        nulls="skipped",
    ),
    FunctionRow(
        "max",
        ("number", "number"),
        promoted,
        "the largest of several values",
        "max(price, volume)",
        lambda *values: max(values),
        repeats=True,
        picks=True,
    ),
    FunctionRow(
        "min",
        ("number", "number"),
        promoted,
        "the smallest of several values",
        "min(price, volume)",
        lambda *values: min(values),
        repeats=True,
        picks=True,
    ),
    FunctionRow(
        "typeof",
        ("any", "any"),
        always(t.STRING),
        "Java name of the value's type, null for null",
        "typeof(price)",
        _typeof,
        at_least=1,
        implicit_arguments=1,
        nulls="handled",
    ),
    FunctionRow(
        "exists",
        ("any", "any"),
        always(t.BOOLEAN),
        "whether a dynamic property exists",
        "exists(discount?)",
        lambda target, name: isinstance(target, dict) and name in target,
        at_least=1,
        nulls="handled",
    ),
    FunctionRow(
        "event_identity_equals",
        ("any", "any"),
        always(t.BOOLEAN),
        "whether both are the same event, not only equal ones; null for null",
        "event_identity_equals(Tick, prev(1, Tick))",
        "({0} is {1})",
    ),
    FunctionRow(
        "event.equals",
        ("any", "any"),
        always(t.BOOLEAN),
        "whether both events have equal properties; null for no event",
        "last(*).equals(maxby(price))",
        lambda event, other: None if event is None else event == other,
        nulls="handled",
    ),
    FunctionRow(
        "new array",
        ("any", "integer"),
        first,
        "an array of a size, of several dimensions, of zeros or nulls",
        "new int[3]",
        _new_array,
        repeats=True,
        fails=True,
        nulls="handled",
    ),
    FunctionRow("new map", (), always(t.MAP), "a map without entries", "new java.util.HashMap()", dict),
    FunctionRow(
        "primitive array",
        ("any",),
        first,
        "an array of numbers or booleans of a primitive type, none of which may be null",
        "new double[] {price, volume}",
        _primitive_array,
        fails=True,
        nulls="handled",
    ),
    FunctionRow(
        "array of one",
        ("any",),
        lambda arguments: t.array_of(arguments[0]),
        "an event as an array of one; stands implicitly before a method of arrays",
        "maxby(price).countOf()",
        "[{0}]",
    ),
    FunctionRow(
        "single precision",
        ("number",),
        always(t.FLOAT),
        "a number as a float holds it; stands implicitly where a float meets a double",
        "volume = 1.5f",
        to_float32,
    ),
    FunctionRow(
        "whole division",
        ("integer", "integer"),
        always(t.LONG),
        "the quotient of whole numbers, truncated, where a dialect divides them so",
        "volume / 2",
        _quotient,
        fails="by zero",
        epl="cast({0} / {1}, long)",
    ),
    FunctionRow(
        "whole remainder",
        ("integer", "integer"),
        always(t.LONG),
        "what a whole division leaves, where a dialect takes a division by zero for a failure",
        "volume % 2",
        integer_remainder,
        fails="by zero",
        epl="{0} % {1}",
    ),
    FunctionRow(
        "quantified any",
        ("string", "any", "any"),
        always(t.BOOLEAN),
        "comparison with any of several values or array elements",
        "price > any (1, 2)",
        _any,
        repeats=True,
        nulls="handled",
    ),
    FunctionRow(
        "quantified all",
        ("string", "any", "any"),
        always(t.BOOLEAN),
        "comparison with all of several values or array elements",
        "price > all (1, 2)",
        _all,
        repeats=True,
        nulls="handled",
    ),
)
