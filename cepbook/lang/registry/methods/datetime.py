"""Date-time methods and relations of intervals: ``t.plus(1 day)``, ``t.getHourOfDay()``, ``a.before(b)``.

Esper reference, chapter "EPL Reference: Date-Time Methods". Behind the receiver the function of a row gets how values
of its type are read (`dates.chronology`). Relations get whole numbers only: the start and the length of the interval,
then those of the other one, then thresholds, all in units of the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepbook.lang import types as t
from cepbook.lang.java.dates import date_formatter, fields
from cepbook.lang.java.dates import interval_relations as intervals
from cepbook.lang.java.dates.chronology import Chronology, in_zone
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.registry.methods.method_row import (
    CallTypes,
    MethodParameter,
    MethodRow,
    MethodSignature,
    ReceiverKind,
    ResultRule,
    always,
    same,
)
from cepbook.lang.types import Type

_DATE: tuple[ReceiverKind, ...] = ("date",)
_FIELD = MethodParameter("field", "field")
_FLAG = MethodParameter("flag", "boolean")
_PERIOD = MethodParameter("duration", "period")
_MOMENT = MethodParameter("moment", "moment")
_OTHER = MethodParameter("moment", "interval")
_SPAN = MethodParameter("threshold", "span")


def _forms(*forms: tuple[MethodParameter, ...]) -> tuple[MethodSignature, ...]:
    return tuple(MethodSignature(parameters, _DATE) for parameters in forms)


def _numbers(*names: str) -> tuple[MethodParameter, ...]:
    return tuple(MethodParameter(name, "whole") for name in names)


def _row(
    name: str, forms: tuple[MethodSignature, ...], result: ResultRule, doc: str, given: str, py: Callable[..., object]
) -> MethodRow:
    return MethodRow(f"datetime.{name}", forms, result, doc, f"current_timestamp.{name}({given})", py)


def _getter(name: str, field: str, doc: str) -> MethodRow:
    def get(value: Any, of: Chronology) -> Any:
        return fields.get(value, of, field)

    return _row(name, _forms(()), _weekday_type if field == "weekday" else always(t.INT), doc, "", get)


def _weekday_type(given: CallTypes) -> Type:
    return t.STRING if given.receiver in (t.LOCALDATETIME, t.ZONEDDATETIME) else t.INT


_GETTERS = (
    _getter("getMillisOfSecond", "msec", "milliseconds, 0 to 999"),
    _getter("getSecondOfMinute", "second", "seconds, 0 to 59"),
    _getter("getMinuteOfHour", "minute", "minutes, 0 to 59"),
    _getter("getHourOfDay", "hour", "hours, 0 to 23"),
    _getter("getDayOfWeek", "weekday", "1 for Sunday to 7 for Saturday; for local and zoned date-times the name"),
    _getter("getDayOfMonth", "day", "day of the month, from 1"),
    _getter("getDayOfYear", "yearday", "day of the year, from 1"),
    _getter("getEra", "era", "1 since the year 1, before 0"),
    _getter("getMonthOfYear", "month", "0 for January to 11; 1 to 12 of a local or zoned date-time"),
    _getter("getWeekyear", "week", "week of the year: from Sunday to Saturday, the first has 1 January"),
    _getter("getYear", "year", "the year"),
)


_UTC = zone_of("UTC")


def _to_calendar(value: Any, of: Chronology) -> Any:
    zone = of.zone_at(value)[0]
    return in_zone(of.instant(value) * 1000, zone if zone is not None else zone_of(of.zone))


def _plus(value: Any, of: Chronology, units: tuple[str, ...], *amounts: float | None) -> Any:
    return fields.add(value, of, 1, units, *amounts)


def _minus(value: Any, of: Chronology, units: tuple[str, ...], *amounts: float | None) -> Any:
    return fields.add(value, of, -1, units, *amounts)


def _format(value: Any, of: Chronology, *pattern: str | None) -> str | None:
    return None if None in pattern else date_formatter.format_date(value, of, *pattern)


_OPERATIONS = (
    _row("plus", _forms((_PERIOD,)), same, "later by a period or milliseconds; months by the calendar", "1 day", _plus),
    _row("minus", _forms((_PERIOD,)), same, "earlier by a time period or milliseconds", "1 month", _minus),
    _row(
        "get",
        _forms((_FIELD,)),
        always(t.INT),
        "a field: msec, sec, min, hour, day, week, month or year",
        "'day'",
        fields.get,
    ),
    _row(
        "set",
        _forms((_FIELD, *_numbers("value"))),
        same,
        "with another value of a field; one that is too large runs on into the next field",
        "'hour', 0",
        fields.set_field,
    ),
    _row(
        "withDate",
        _forms(_numbers("year", "month", "day")),
        same,
        "the same time on another day, January being 0 (1 for local and zoned date-times)",
        "2024, 0, 31",
        fields.with_date,
    ),
    _row(
        "withTime",
        _forms(_numbers("hour", "minute", "second", "millisecond")),
        same,
        "the same day at another time; a null part stays",
        "9, 0, 0, 0",
        fields.with_time,
    ),
    _row(
        "withMax", _forms((_FIELD,)), same, "with the greatest value that a field has there", "'day'", fields.with_max
    ),
    _row("withMin", _forms((_FIELD,)), same, "with the smallest value of a field", "'month'", fields.with_min),
    _row("roundFloor", _forms((_FIELD,)), same, "the begin of its second … year", "'hour'", fields.floor),
    _row("roundCeiling", _forms((_FIELD,)), same, "the begin of the next second … year", "'hour'", fields.ceiling),
    _row("roundHalf", _forms((_FIELD,)), same, "the nearer begin of a second … year", "'hour'", fields.half),
    _row(
        "toDate",
        _forms(()),
        always(t.TIMESTAMP),
        "as a date",
        "",
        lambda value, of: in_zone(of.instant(value) * 1000, _UTC),
    ),
    _row("toCalendar", _forms(()), always(t.CALENDAR), "as a calendar of its time zone", "", _to_calendar),
    _row(
        "toMillisec", _forms(()), always(t.LONG), "milliseconds since 1970 UTC", "", lambda value, of: of.instant(value)
    ),
    _row(
        "format",
        _forms((), (MethodParameter("pattern", "pattern"),)),
        always(t.STRING),
        "as text, by a pattern of Java such as yyyy-MM-dd HH:mm:ss",
        "'yyyy-MM-dd'",
        _format,
    ),
)


def _between(value: int, low: int | None, high: int | None, *flags: bool | None) -> bool | None:
    if low is None or high is None or None in flags:
        return None
    return intervals.between(value, low, high, *flags)


def _related(relation: intervals.IntervalRelation) -> Callable[..., bool | None]:
    def related(
        start: int, length: int | None, other: int | None, other_length: int | None, *thresholds: float | None
    ) -> bool | None:
        if length is None or other is None or other_length is None or None in thresholds:
            return None
        return relation(start, start + length, other, other + other_length, *map(int, thresholds))  # type: ignore[arg-type]

    return related


def _relation(name: str, spans: tuple[int, ...], doc: str, relation: intervals.IntervalRelation) -> MethodRow:
    forms = _forms(*((_OTHER, *(_SPAN,) * count) for count in spans))
    return _row(name, forms, always(t.BOOLEAN), doc, "10L", _related(relation))


_RELATIONS = (
    _row(
        "between",
        _forms((_MOMENT, _MOMENT), (_MOMENT, _MOMENT, _FLAG, _FLAG)),
        always(t.BOOLEAN),
        "from one moment to another, in either order; flags tell whether the ends count, and then low comes first",
        "0L, 10L",
        _between,
    ),
    _relation(
        "before", (0, 1, 2), "ends before the other starts; thresholds: that far at least, at most", intervals.before
    ),
    _relation(
        "after", (0, 1, 2), "starts after the other ends; thresholds: that far at least, at most", intervals.after
    ),
    _relation(
        "coincides", (0, 1, 2), "both start and both end together, up to a threshold or two", intervals.coincides
    ),
    _relation(
        "during", (0, 1, 2, 4), "starts after the other and ends before it; thresholds limit how far", intervals.during
    ),
    _relation("includes", (0, 1, 2, 4), "starts before the other and ends after it", intervals.includes),
    _relation("finishes", (0, 1), "both end together, up to a threshold, it starts later", intervals.finishes),
    _relation("finishedBy", (0, 1), "both end together, up to a threshold, it starts earlier", intervals.finished_by),
    _relation("meets", (0, 1), "ends when the other starts, up to a threshold", intervals.meets),
    _relation("metBy", (0, 1), "starts when the other ends, up to a threshold", intervals.met_by),
    _relation(
        "overlaps", (0, 1, 2), "starts before the other and ends in it; thresholds: for how long", intervals.overlaps
    ),
    _relation("overlappedBy", (0, 1, 2), "starts in the other and ends after it", intervals.overlapped_by),
    _relation("starts", (0, 1), "both start together, up to a threshold, it ends earlier", intervals.starts),
    _relation("startedBy", (0, 1), "both start together, up to a threshold, it ends later", intervals.started_by),
)
# Relations whose thresholds are distances in either direction, and so not negative
DISTANCE_RELATIONS = frozenset("coincides finishes finishedBy meets metBy starts startedBy".split())
INTERVAL_RELATIONS = frozenset(row.name for row in _RELATIONS)

DATETIME = (*_GETTERS, *_OPERATIONS, *_RELATIONS)
