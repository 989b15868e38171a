"""Get, set, add and round fields of date-times.

A `Chronology` reads and makes the values. Clock units finer than a millisecond are kept, except by rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepbook.lang.java.dates.chronology import Chronology, WallTime
from cepbook.lang.java.dates.civil import date_of, days_of, in_us_week, month_length, us_week, us_weeks, weekday

# Units of time periods, from large to small, which is the order in which they may be written
MONTHS = {"year": 12, "month": 1}  # those without a fixed length, in months
MICROSECONDS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
ORDER = (*MONTHS, *MICROSECONDS)

# Names of fields, as in ``get('minute')``
FIELDS = {
    **dict.fromkeys(("msec", "millisecond", "milliseconds"), "msec"),
    **dict.fromkeys(("sec", "second", "seconds"), "second"),
    **dict.fromkeys(("min", "minute", "minutes"), "minute"),
    **dict.fromkeys(("hour", "hours"), "hour"),
    **dict.fromkeys(("day", "days"), "day"),
    **dict.fromkeys(("week", "weeks"), "week"),
    **dict.fromkeys(("month", "months"), "month"),
    **dict.fromkeys(("year", "years"), "year"),
}
_OF_DAY = {"hour": 3_600_000, "minute": 60_000, "second": 1000, "msec": 1}  # in milliseconds
_SIZES = {"hour": 24, "minute": 60, "second": 60, "msec": 1000}
_DAY_NAMES = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_LAST_YEAR = 292_278_994  # of Java's calendar


def get(value: Any, of: Chronology, field: str) -> Any:
    """Return a field: a value of `FIELDS`, or ``weekday``, ``yearday``, ``era``."""
    days, rest = of.wall(value)
    if field in _OF_DAY:
        return rest // (_OF_DAY[field] * (of.second // 1000)) % _SIZES[field]
    return _GETTERS[field](of, days)


def _year(of: Chronology, days: int) -> int:
    year = date_of(days, of.iso)[0]
    return year if year > 0 or of.iso else 1 - year


def _week(of: Chronology, days: int) -> int:
    year = date_of(days, of.iso)[0]
    return (days - days_of(year, 1, 1, True)) // 7 + 1 if of.iso else us_week(days, year)[1]


_GETTERS: dict[str, Callable[[Chronology, int], int | str]] = {
    "day": lambda of, days: date_of(days, of.iso)[2],
    "month": lambda of, days: date_of(days, of.iso)[1] - (not of.iso),
    "year": _year,
    "week": _week,
    "weekday": lambda of, days: _DAY_NAMES[weekday(days)] if of.iso else (weekday(days) + 1) % 7 + 1,
    "yearday": lambda of, days: days - days_of(date_of(days, of.iso)[0], 1, 1, of.iso) + 1,
    "era": lambda of, days: int(date_of(days, of.iso)[0] > 0),
}


def set_field(value: Any, of: Chronology, field: str, number: int | None) -> Any:
    """Set a field; null changes nothing. Raises ValueError for a number that `java.time` rejects."""
    if number is None:
        return value
    days, rest = _with(of, of.wall(value), field, number)
    return of.at(days, rest, value)


def _with(of: Chronology, wall: WallTime, field: str, number: int) -> WallTime:
    days, rest = wall
    if field in _OF_DAY:
        unit = _OF_DAY[field] * (of.second // 1000)
        if of.iso:
            _within(number, 0, _SIZES[field] - 1, field)
        more, rest = divmod(rest + (number - rest // unit % _SIZES[field]) * unit, of.day)
        return days + more, rest
    year, month, day = date_of(days, of.iso)
    if field == "week":
        if not of.iso:
            return in_us_week(year, number, days), rest
        _within(number, 1, 53, field)
        return days + 7 * (number - _week(of, days)), rest
    if field == "year":
        year = number if year > 0 or of.iso else 1 - number
    elif field == "month":
        month = number if of.iso else number + 1
    else:
        day = number
    return _date(of, year, month, day, field == "day"), rest


def _within(number: int, low: int, high: int, field: str) -> None:
    if not low <= number <= high:
        raise ValueError(f"the {field} {number} is not in {low} to {high}")


def _date(of: Chronology, year: int, month: int, day: int, exact: bool) -> int:
    if of.iso:
        _within(year, 1, 9999, "year")
        _within(month, 1, 12, "month")
        last = month_length(year, month, True)
        if exact:
            _within(day, 1, last, "day")
        day = min(day, last)
    return days_of(year, month, day, of.iso)


def with_date(value: Any, of: Chronology, year: int | None, month: int | None, day: int | None) -> Any:
    """Move `value` to another day; a null changes nothing."""
    if year is None or month is None or day is None:
        return value
    days = _date(of, year, month if of.iso else month + 1, day, True)
    return of.at(days, of.wall(value)[1], value)


def with_time(value: Any, of: Chronology, *parts: int | None) -> Any:
    """Set hour, minute, second and millisecond; null parts stay."""
    wall = of.wall(value)
    for field, number in zip(_OF_DAY, parts, strict=True):
        if number is not None:
            wall = _with(of, wall, field, number)
    return of.at(*wall, value)


def with_max(value: Any, of: Chronology, field: str) -> Any:
    """Set a field to its greatest number in `value`."""
    year, month, _ = date_of(of.wall(value)[0], of.iso)
    if field in _OF_DAY:
        number = _SIZES[field] - 1
    elif field == "day":
        number = month_length(year, month, of.iso)
    elif field == "week":
        number = 53 if of.iso else us_weeks(year)
    else:
        number = 11 + of.iso if field == "month" else _LAST_YEAR
    return set_field(value, of, field, number)


def with_min(value: Any, of: Chronology, field: str) -> Any:
    """Set a field to its smallest number."""
    return set_field(value, of, field, int(field not in _OF_DAY and (field != "month" or of.iso)))


def add(value: Any, of: Chronology, sign: int, units: tuple[str, ...], *amounts: float | None) -> Any:
    """Add a time period, `units` from large to small; null with any null. Fractions are cut, each by itself.

    The unit ``number`` is an amount without a unit, in milliseconds.
    """
    if None in amounts:
        return None
    for unit, amount in zip(units, amounts, strict=True):
        value = _added(value, of, unit, sign * _whole(amount))
    return value


def _whole(amount: float | None) -> int:
    """Convert to long as Java does."""
    if isinstance(amount, float) and not -_LARGEST < amount < _LARGEST:
        return 0 if amount != amount else _LARGEST if amount > 0 else -_LARGEST
    return int(amount or 0)


_LARGEST = (1 << 63) - 1


def _added(value: Any, of: Chronology, unit: str, amount: int) -> Any:
    if unit in _EXACT:
        units = _EXACT[unit] * abs(amount) * of.second // 1_000_000
        return of.later(value, units if amount > 0 else -units)
    days, rest = of.wall(value)
    return of.at(_moved(of, days, unit, amount), rest, value)


# Those that move the moment, not the date: in microseconds
_EXACT = {**{unit: n for unit, n in MICROSECONDS.items() if unit not in ("week", "day")}, "number": 1000}


def _moved(of: Chronology, days: int, unit: str, amount: int) -> int:
    """Add days, weeks, months or years; beyond the end of a month the last day."""
    if unit not in MONTHS:
        return days + amount * (7 if unit == "week" else 1)
    year, month, day = date_of(days, of.iso)
    years, month = divmod(month - 1 + amount * MONTHS[unit], 12)
    return days_of(year + years, month + 1, min(day, month_length(year + years, month + 1, of.iso)), of.iso)


_UNITS = {"second": 1000, "minute": 60_000, "hour": 3_600_000}  # in milliseconds


def floor(value: Any, of: Chronology, field: str) -> Any:
    """Return the start of the second … year that contains `value`."""
    days, rest = of.wall(value)
    if field in _DAYS:
        return _begin(of, _first_day(days, of, field), 0, value)
    unit = of.second // 1000 * _UNITS.get(field, 1)
    begin = of.later(value, -(rest % unit))  # by exact time, because clocks show one hour twice
    if of.wall(begin)[1] % unit:  # clocks were changed by a part of the unit
        return _begin(of, days, rest - rest % unit, value)
    return begin


def _begin(of: Chronology, days: int, rest: int, like: Any) -> Any:
    """Return this local time, or the moment at which clocks skip it."""
    begin = of.at(days, rest, like)
    if of.wall(begin) == (days, rest):
        return begin
    offset = of.zone_at(begin)[1]
    within, before = 0, of.day // of.second
    while before - within > 1:
        middle = (within + before) // 2
        same = of.zone_at(of.later(begin, -middle * of.second))[1] == offset
        within, before = (middle, before) if same else (within, middle)
    return of.later(begin, -within * of.second)


_DAYS = ("day", "month", "year")


def _first_day(days: int, of: Chronology, field: str) -> int:
    if field == "day":
        return days
    year, month, _ = date_of(days, of.iso)
    return days_of(year, month if field == "month" else 1, 1, of.iso)


def ceiling(value: Any, of: Chronology, field: str) -> Any:
    """Return the start of the next second … year, later than `value`; `value` itself for milliseconds."""
    if field == "msec":
        return floor(value, of, field)
    if field in _DAYS:
        return _begin(of, _moved(of, _first_day(of.wall(value)[0], of, field), field, 1), 0, value)
    begin = floor(_added(floor(value, of, field), of, field, 1), of, field)
    if of.moment(begin) > of.moment(value):
        return begin
    days, rest = of.wall(value)  # clocks were set back by a part of an hour
    unit = of.second // 1000 * _UNITS[field]
    return of.at(days, rest - rest % unit + unit, value)


def half(value: Any, of: Chronology, field: str) -> Any:
    """Return `floor` or `ceiling`, whichever is nearer by the next finer field alone."""
    return ceiling(value, of, field) if field != "msec" and _upper_half(value, of, field) else floor(value, of, field)


_FINER = {"second": "msec", "minute": "second", "hour": "minute", "day": "hour"}


def _upper_half(value: Any, of: Chronology, field: str) -> bool:
    finer = _FINER.get(field)
    if finer is not None:
        return bool(get(value, of, finer) > (_SIZES[finer] - 1) // 2)
    year, month, day = date_of(of.wall(value)[0], of.iso)
    if field == "year":
        return month - 1 > 5
    return day - 1 > (month_length(year, month, of.iso) - 1) // 2
