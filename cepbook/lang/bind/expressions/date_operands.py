"""Dates beside operators: compared with a text in ISO 8601, ordered, and subtracted.

``t > '2024-03-01 10:00'`` compares a `timestamp` with a moment, and ``b.t - a.t`` is a duration: a long in clock units.
A text without a zone is in the time zone of the module.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, tzinfo

from cepbook.lang import types as t
from cepbook.lang.bind.expressions.date_methods import to_clock_time
from cepbook.lang.bind.scope import ERROR, Scope
from cepbook.lang.java.date_text import parse_local_time, parse_zoned_datetime
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.plan import expressions as x
from cepbook.lang.types import Type

_EXAMPLES = {t.LOCALDATE: "'2024-03-01'", t.LOCALTIME: "'10:20:30'"}


def read_dates(*operands: x.BoundExpr, scope: Scope) -> tuple[x.BoundExpr, ...]:
    """Return the operands with constant texts as dates, if there is a date among them. Reports other texts."""
    of = next((operand.type for operand in operands if operand.type in t.DATES), None)
    return operands if of is None else tuple(_read(operand, of, scope) for operand in operands)


def _read(operand: x.BoundExpr, of: Type, scope: Scope) -> x.BoundExpr:
    if operand.type != t.STRING or not isinstance(operand, x.Const) or operand.value is None:
        return operand
    try:
        return x.Const(of, _READERS[of](str(operand.value).strip(), scope), span=operand.span)
    except ValueError:
        example = _EXAMPLES.get(of, "'2024-03-01' or '2024-03-01T10:20:30'")
        scope.mismatch(f"{operand.value!r} is not the text of a {of}", operand.span, f"write {example}")


def _moment(text: str, scope: Scope) -> datetime:
    return _in(zone_of("UTC"), text, scope)


def _calendar(text: str, scope: Scope) -> datetime:
    return _in(None, text, scope)


def _in(zone: tzinfo | None, text: str, scope: Scope) -> datetime:
    parsed = parse_zoned_datetime(text) if "[" in text else datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=zone_of(scope.module.options.time_zone))
    return parsed if zone is None else parsed.astimezone(zone)


def _local(text: str, scope: Scope) -> datetime:
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is not None:
        raise ValueError(text)
    return parsed


_READERS: dict[Type, Callable[[str, Scope], date | time]] = {
    t.TIMESTAMP: _moment,
    t.CALENDAR: _calendar,
    t.ZONEDDATETIME: _calendar,
    t.LOCALDATETIME: _local,
    t.LOCALDATE: lambda text, scope: date.fromisoformat(text),
    t.LOCALTIME: lambda text, scope: parse_local_time(text),
}


def bind_distance(left: x.BoundExpr, right: x.BoundExpr, scope: Scope) -> x.BoundExpr | None:
    """Return ``left - right`` of two date-times as a duration; None if they are not two date-times of one kind."""
    left, right = read_dates(left, right, scope=scope)
    kinds = {left.type, right.type}
    if kinds in ({t.LONG, t.TIMESTAMP}, {t.LONG, t.CALENDAR}, {t.LONG, t.ZONEDDATETIME}):  # a long is a moment, too
        return x.Arith(t.LONG, "-", to_clock_time(left, scope), to_clock_time(right, scope))
    if ERROR in kinds or not kinds <= set(t.DATETIMES) or (t.LOCALDATETIME in kinds and len(kinds) > 1):
        return None
    return x.Arith(t.LONG, "-", to_clock_time(left, scope), to_clock_time(right, scope))
