"""Checks that Python values fit EPL types, and converts them to the plain values that the engine holds.

Rules for everything that enters through the workbench:

- ``None``, ``NaN``, ``NaT`` and ``pandas.NA`` are null. A missing property is null.
- ``int`` fits byte to long within their range (Esper reference, "Event Representations"), float, double and the big
  types; ``float`` fits float and double only; ``bool`` is no number. A float has single precision, as in Java: ``1.1``
  becomes 1.100000023841858.
- ``datetime``, ``date`` and ``timedelta`` for a long become clock units (`second` per second); naive times are of the
  workbench's zone. A property that is a time takes texts of dates, too.
- ``datetime`` fits timestamp (``date``), calendar and zoneddatetime; localdatetime takes one without a zone, localdate
  a ``date``, localtime a ``time``. Each may be ISO 8601 text, as in JSON.
- numpy scalars and arrays become plain Python values; tuples become lists.
- A value of a subclass of these (a ``StrEnum``) becomes one of the class itself, in lists and dicts, too.

Values are nested `MAX_DEPTH` levels deep at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd

from cepbook.argument_checks import describe_value, short_repr
from cepbook.engine.expressions.plain_values import EXACT, MAX_DEPTH, TOO_DEEP, NestedTooDeep, plain_value
from cepbook.errors import CepbookError, EventError, UsageError, exception_text, hint_line
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.java.numbers import to_float32
from cepbook.lang.java.sizes import MAX_DIGITS, MAX_INTEGER
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import BIGDECIMAL, BIGINTEGER, BITS, CALENDAR, TIMESTAMP, ZONEDDATETIME, Type
from cepbook.session.io.text_files import FLOATS_OF_SINKS, field_value
from cepbook.session.io.time_conversion import timedelta_units, to_clock_units

EventTypes = Mapping[str, EventType]
Converter = Callable[[Any], Any]


class TypeMismatch(Exception):
    """A value that does not fit. The message starts with a verb and completes "property `x` …"."""


class TooDeep(TypeMismatch):
    """A value that is nested too deep."""

    def __init__(self) -> None:
        super().__init__(TOO_DEEP)


def is_missing(value: object) -> bool:
    """Return True if `value` stands for null: None, NaN, NaT or pandas.NA."""
    if value is None or value is pd.NA:
        return True
    return isinstance(value, float | datetime | timedelta | np.floating | np.datetime64) and value != value


def _integer(low: int, high: int, name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeMismatch(f"is {name}, not {describe_value(value)}")
    if not low <= value <= high:
        raise TypeMismatch(f"is {name}, and {short_repr(value)} is outside {low} … {high}")
    return value


def _long(second: int, zone: str, value: Any) -> int:
    if isinstance(value, datetime | date):
        return to_clock_units(value, second, zone)
    if isinstance(value, timedelta):
        return timedelta_units(value, second)
    return _integer(-(2**63), 2**63 - 1, "long", value)


def _time(second: int, zone: str, value: Any) -> int:
    if not isinstance(value, str):
        return _long(second, zone, value)
    try:
        return to_clock_units(value, second, zone)
    except UsageError as error:
        raise TypeMismatch(f"is a time, and {error}") from None


def _floating(name: str, value: Any) -> float | None:
    if type(value) is str and value in FLOATS_OF_SINKS:
        return FLOATS_OF_SINKS[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeMismatch(f"is {name}, not {describe_value(value)}")
    try:
        return float(value)
    except OverflowError:
        raise TypeMismatch(f"is {name}, and {describe_value(value)} is too large for it") from None


def _single(value: Any) -> float | None:
    number = _floating("float", value)
    return None if number is None else to_float32(number)


def _biginteger(value: Any) -> int:
    value = _number_of_text(value, BIGINTEGER)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeMismatch(f"is biginteger, not {describe_value(value)}")
    if abs(value) >= MAX_INTEGER:
        raise TypeMismatch(f"is biginteger, and has more than {MAX_DIGITS:,} digits")
    return value


def _number_of_text(value: Any, of: Type) -> Any:
    """Return the number of a text: JSON has no other form for all digits, and sinks write this one."""
    number = field_value(value, of) if isinstance(value, str) else value
    return value if number is None else number


def _bigdecimal(value: Any) -> Decimal:
    value = _number_of_text(value, BIGDECIMAL)
    if isinstance(value, Decimal):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeMismatch(f"is bigdecimal, not {describe_value(value)}")
    return Decimal(repr(value))


def _exactly(kind: type, name: str, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeMismatch(f"is {name}, not {describe_value(value)}")
    return value


def _char(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1:
        raise TypeMismatch(f"is char (one character), not {describe_value(value)}")
    return value


def _read(name: str, value: Any) -> Any:
    if isinstance(value, str):
        try:
            return ISO_PARSERS[name](value.strip())
        except ValueError:
            raise TypeMismatch(
                f"is {name}, and {short_repr(value)} is not written as in `{iso_example(name)}`"
            ) from None
    return value.to_pydatetime(warn=False) if isinstance(value, pd.Timestamp) else value


def iso_example(name: str) -> str:
    """Return an example of how values of a date or time type are written."""
    return _WRITTEN.get(name, "2024-01-02T10:30:00")


def _moment(name: str, zone: str, value: Any) -> datetime:
    moment: datetime = _exactly(datetime, name, _read(name, value))
    if moment.tzinfo is not None:
        return moment
    local = moment.replace(tzinfo=zone_of(zone))
    return local.astimezone(UTC) if name == TIMESTAMP.name else local


def _local(kind: type, name: str, value: Any) -> Any:
    local = _exactly(kind, name, _read(name, value))
    if type(local) is not kind or getattr(local, "tzinfo", None) is not None:
        raise TypeMismatch(f"is {name}, not {describe_value(value)}")
    return local


def _mapping(value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeMismatch(f"is map, not {describe_value(value)}")
    return dict(value)


def _array(element: Converter, name: str, value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise TypeMismatch(f"is {name}, not {describe_value(value)}")
    return [element(one) for one in value]


def _anything(value: Any) -> Any:
    return value


_SCALARS: dict[str, Converter] = {
    **{name: partial(_integer, -(2 ** (b - 1)), 2 ** (b - 1) - 1, name) for name, b in BITS.items() if name != "long"},
    "float": _single,
    "double": partial(_floating, "double"),
    "biginteger": _biginteger,
    "bigdecimal": _bigdecimal,
    "boolean": partial(_exactly, bool, "boolean"),
    "string": partial(_exactly, str, "string"),
    "char": _char,
    "localdatetime": partial(_local, datetime, "localdatetime"),
    "localdate": partial(_local, date, "localdate"),
    "localtime": partial(_local, time, "localtime"),
    "map": _mapping,
}

# How texts of dates and times are read, by type, and how they are written where that differs.
ISO_PARSERS: dict[str, Callable[[str], date | time]] = {
    **{type_.name: datetime.fromisoformat for type_ in (TIMESTAMP, CALENDAR, ZONEDDATETIME)},
    "localdatetime": datetime.fromisoformat,
    "localdate": date.fromisoformat,
    "localtime": time.fromisoformat,
}
_WRITTEN = {"localdate": "2024-01-02", "localtime": "10:30:00", "zoneddatetime": "2024-01-02T10:30:00+01:00"}

# Values of exactly these classes need no conversion (a float may still be NaN, an int out of range).
_PLAIN: dict[str, type] = {"string": str, "boolean": bool, "double": float, **dict.fromkeys(BITS, int)}


def value_converter(
    of: Type, types: EventTypes, second: int = 1000, zone: str = "UTC", *, timed: bool = False, depth: int = 0
) -> Converter:
    """Return the function that converts a value to type `of`, or raises `TypeMismatch`.

    Dates without a zone are of `zone`. A long that is `timed` may be the text of a date. `depth` is that of the event.
    """
    convert: Converter
    if of.of is not None:
        convert = partial(_array, value_converter(of.of, types, second, zone, depth=depth), str(of))
    elif of.event is not None:
        convert = _nested(of.event, types, second, zone, depth + 1)
    elif of.name == "long":
        convert = partial(_time if timed else _long, second, zone)
    elif of in (TIMESTAMP, CALENDAR, ZONEDDATETIME):
        convert = partial(_moment, of.name, zone)
    else:
        convert = _SCALARS.get(of.name, _anything)

    def nullable(value: Any) -> Any:
        try:
            plain = value if type(value) in EXACT or of.event is not None else plain_value(value)
            if is_missing(plain):
                return None
            return convert(plain.item() if isinstance(plain, np.generic) else plain)
        except NestedTooDeep:
            raise TooDeep from None
        except (TypeMismatch, CepbookError):
            raise
        except Exception as error:
            raise TypeMismatch(f"cannot be read: {exception_text(error)}") from error

    return nullable


def _nested(name: str, types: EventTypes, second: int, zone: str, depth: int) -> Converter:
    """Return the conversion of events of the type `name`, which may be defined or replaced later."""
    latest: tuple[EventType, Converter] | None = None

    def convert(value: Any) -> dict[str, Any]:
        nonlocal latest
        if depth > MAX_DEPTH:
            raise TooDeep
        event_type = types.get(name)
        if event_type is None:
            return _mapping(plain_value(value, depth))
        if latest is None or latest[0] is not event_type:
            latest = event_type, EventValidator(event_type, types, second=second, zone=zone, depth=depth)
        try:
            event: dict[str, Any] = latest[1](value)
            return event
        except EventError as error:
            raise TypeMismatch(f"is an event of type `{name}`: {error}") from None

    return convert


def as_mapping(event: object) -> Mapping[str, Any] | None:
    """Return a mapping, dataclass instance or named tuple as name -> value; None for anything else."""
    if isinstance(event, Mapping):
        return event
    if isinstance(event, tuple) and hasattr(event, "_asdict"):
        return dict(event._asdict())
    if is_dataclass(event) and not isinstance(event, type):
        return {f.name: _plain(getattr(event, f.name)) for f in fields(event)}
    return None


def _plain(value: Any) -> Any:
    return as_mapping(value) if is_dataclass(value) and not isinstance(value, type) else value


class EventValidator:
    """Checks events of one event type. A call returns a new dict that the engine may keep.

    The dict has all properties in declaration order; missing ones are null. `also` names keys that are allowed without
    being properties, such as the time of a replayed event. Times may be texts of dates.
    """

    def __init__(
        self,
        event_type: EventType,
        types: EventTypes,
        also: Iterable[str] = (),
        *,
        second: int = 1000,
        zone: str = "UTC",
        depth: int = 0,
    ) -> None:
        self._type = event_type
        self._nested = depth > 0
        timed = event_type.timed.union(also)
        self._convert = {
            name: value_converter(of, types, second, zone, timed=name in timed, depth=depth)
            for name, of in event_type.properties.items()
        }
        self._plain = {name: _PLAIN.get(of.name, NoneType) for name, of in event_type.properties.items()}
        self._most_bits = {name: BITS.get(of.name, 0) - 1 for name, of in event_type.properties.items()}
        self._empty: dict[str, Any] = dict.fromkeys(event_type.properties)
        self._also = frozenset(also) - set(event_type.properties)

    def __call__(self, event: object) -> dict[str, Any]:
        """Return the event as a plain dict. Raises EventError with the type and the property."""
        try:
            return self._checked(event)
        except (CepbookError, TooDeep):
            raise
        except Exception as error:
            fact = f"an event of type `{self._type.name}` cannot be read: {exception_text(error)}"
            raise EventError(fact) from error

    def _checked(self, event: object) -> dict[str, Any]:
        properties = event if type(event) is dict else as_mapping(event)
        if properties is None:
            raise EventError(
                f"an event of type `{self._type.name}` is a dict or a dataclass, not {describe_value(event)}"
            )
        ignore_extra = properties is not event  # objects may have more attributes than the event type has properties
        result = self._empty.copy()
        plain, most_bits = self._plain, self._most_bits
        bits: Converter = int.bit_length
        for name, value in properties.items():
            kind = plain.get(name)
            if kind is None:
                if not ignore_extra and name not in self._also:
                    raise self._unknown(str(name))
            elif type(value) is not kind or value != value or (kind is int and bits(value) > most_bits[name]):
                result[name] = self._converted(name, value)  # rare: another class, NaN, out of range
            else:
                result[name] = value
        return result

    def _converted(self, name: str, value: Any) -> Any:
        try:
            return self._convert[name](value)
        except TypeMismatch as mismatch:
            if self._nested and isinstance(mismatch, TooDeep):
                raise  # the property that holds the whole value is named
            raise EventError(f"property `{name}` of event type `{self._type.name}` {mismatch}") from None

    def _unknown(self, name: str) -> EventError:
        hint = hint_line(name, self._type.properties)
        return EventError(f"event type `{self._type.name}` has no property `{name}`{hint}")


def find_type(name: str, types: EventTypes) -> EventType:
    """Return the event type. Raises EventError with the nearest known name."""
    try:
        event_type = types.get(name)
    except TypeError:  # a list or the like
        event_type = None
    if event_type is None and not isinstance(name, str):
        raise UsageError(f"an event type is given by its name, not by {describe_value(name)}")
    if event_type is None:
        known = "" if types else "\n  hint: define one with `create schema` or Workbench.define"
        raise EventError(f"there is no event type `{name}`{hint_line(name, types) or known}")
    return event_type
