"""Values for functions written in Python, as their annotations say, and their results, as values of declared types.

The engine counts time in units of its clock, and a function annotated with `datetime` or `timedelta` gets and returns
dates and spans. A number and a `timestamp` become dates in the time zone of the workbench; a `localdatetime` has no
zone. A date without a zone that is returned is of the zone of the workbench.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from cepbook.argument_checks import short_repr
from cepbook.engine.expressions.plain_values import plain_value
from cepbook.engine.expressions.primitives import to_float32
from cepbook.lang.java.dates.chronology import in_zone
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.types import BITS, CALENDAR, LOCALDATE, LOCALDATETIME, LOCALTIME, TIMESTAMP, ZONEDDATETIME, Type

_KINDS: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "string": (str,),
    "char": (str,),
    "map": (dict,),
    "event": (dict,),
    "struct": (dict,),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Argument = Callable[[Any], Any]


def as_declared_type(value: Any, to: Type, second: int = 1000, zone: str = "UTC") -> Any:
    """Return the result of a function as a plain value of type `to`; values of numpy become those of Python, and
    dates and spans become units of the clock where `to` is long.

    Errors: TypeError for a value of another type, NestedTooDeep.
    """
    value = plain_value(value)
    if value is None:
        return None
    if type(value).__module__ == "numpy":
        value = (value.astype(f"{value.dtype.kind}8[us]") if value.dtype.kind in "mM" else value).tolist()
    if to.of is not None and isinstance(value, (list, tuple)):
        return [as_declared_type(element, to.of, second, zone) for element in value]
    number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    name = to.name
    if name == "object":
        return value
    if number and name in ("double", "float"):
        return float(value) if name == "double" else to_float32(float(value))
    if number and isinstance(value, int):
        bits = BITS.get(name)
        if name == "biginteger" or (bits is not None and -1 << (bits - 1) <= value < 1 << (bits - 1)):
            return value
    if number and name == "bigdecimal":
        return _decimal(value)
    if isinstance(value, _KINDS.get(name, ())):
        return value
    dated = _dated(value, to, second, zone)
    if dated is not None or value is None or value != value:  # NaT is a datetime and differs from itself
        return dated
    raise TypeError(f"the function returned {short_repr(value)}, which is no {to}")


def _dated(value: Any, to: Type, second: int, zone: str) -> Any:
    """Return a date, time or span as a value of type `to`; None if it is none."""
    if value is None or value != value:
        return None
    step = timedelta(microseconds=1_000_000 // second)
    if isinstance(value, timedelta):
        return value // step if to.name == "long" else None
    if isinstance(value, datetime):
        local = datetime.combine(value.date(), value.timetz())  # without the class of pandas
        aware = local if local.tzinfo is not None else local.replace(tzinfo=zone_of(zone))
        if to.name == "long":
            return (aware - _EPOCH) // step
        if to == TIMESTAMP:
            return aware.astimezone(UTC)
        if to in (CALENDAR, ZONEDDATETIME):
            return aware
        return local if to == LOCALDATETIME and local.tzinfo is None else None
    if isinstance(value, date):
        if to.name == "long":
            return (datetime(value.year, value.month, value.day, tzinfo=zone_of(zone)) - _EPOCH) // step
        return value if to == LOCALDATE else None
    return value if isinstance(value, time) and value.tzinfo is None and to == LOCALTIME else None


def as_annotated(code: Callable[..., Any], second: int, zone: str) -> Callable[..., Any]:
    """Return a function, or a class with `enter` and `leave`, that is passed values as `code` annotates them.

    `code` itself if its annotations name no date and no span.
    """
    if inspect.isclass(code):
        arguments, rest = _arguments(getattr(code, "enter", None), second, zone, bound=True)
        methods = {name: getattr(code, name) for name in ("enter", "leave") if hasattr(code, name)}
        if not any(arguments):
            return code
        own = {name: _method(method, arguments, rest) for name, method in methods.items()}
        return types.new_class(code.__name__, (code,), {}, lambda namespace: namespace.update(own))
    arguments, rest = _arguments(code, second, zone)
    return partial(_call, code, arguments, rest) if any(arguments) or rest is not None else code


def _method(method: Callable[..., Any], arguments: Sequence[Argument | None], rest: Argument | None) -> Any:
    def converted(self: Any, *values: Any) -> Any:
        return _call(partial(method, self), arguments, rest, *values)

    return converted


def _call(
    code: Callable[..., Any], arguments: Sequence[Argument | None], rest: Argument | None, *values: Any, **named: Any
) -> Any:
    padded = (*arguments, *(rest,) * (len(values) - len(arguments)))
    converted = (
        value if convert is None or value is None else convert(value)
        for convert, value in zip(padded, values, strict=False)
    )
    return code(*converted, **named)


def _arguments(
    code: Any, second: int, zone: str, *, bound: bool = False
) -> tuple[list[Argument | None], Argument | None]:
    """Return the conversions of the positional parameters, and of further arguments."""
    try:
        hints = typing.get_type_hints(code)
        parameters = list(inspect.signature(code).parameters.values())[bound:]
    except (NameError, SyntaxError, TypeError, ValueError):  # a function in C has no signature
        return [], None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((_argument(hints.get(p.name), second, zone) for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    return [_argument(hints.get(p.name), second, zone) for p in positional], rest


def _argument(kind: Any, second: int, zone: str) -> Argument | None:
    """Return the conversion of a value of the engine for a parameter annotated with `kind`; None if it needs none."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        real = [arg for arg in args if arg is not type(None)]
        return _argument(real[0], second, zone) if len(real) == 1 else None
    if origin in (list, tuple, Sequence) and args:
        element = _argument(args[0], second, zone)
        return None if element is None else partial(_each, element)
    if isinstance(kind, type) and issubclass(kind, timedelta):
        return partial(_span, kind, 1_000_000 // second)
    if isinstance(kind, type) and issubclass(kind, date):
        return partial(_date, kind, 1_000_000 // second, zone)
    return _decimal if kind is Decimal else None


def _each(convert: Argument, values: Sequence[Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]


def _span(kind: Any, micros: int, value: Any) -> Any:
    span = value if isinstance(value, timedelta) else timedelta(microseconds=value * micros)
    return span if kind is timedelta else kind(span)


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(repr(value))


def _date(kind: Any, micros: int, zone: str, value: Any) -> Any:
    if isinstance(value, int):
        value = in_zone(value * micros, zone_of(zone))
    elif isinstance(value, datetime):
        value = value.astimezone(zone_of(zone)) if value.tzinfo is UTC else value
    elif kind is not date:
        value = datetime(value.year, value.month, value.day, tzinfo=zone_of(zone))
    if kind is date:
        return value.date() if isinstance(value, datetime) else value
    return value if kind is datetime else kind(value)
