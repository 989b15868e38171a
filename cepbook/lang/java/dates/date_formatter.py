"""Format dates as text by date patterns, in English."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from cepbook.lang.java.date_text import DAYS, MONTHS, local_text
from cepbook.lang.java.dates.chronology import Chronology
from cepbook.lang.java.dates.civil import date_of, days_of, us_week, weekday
from cepbook.lang.java.dates.date_pattern import OptionalSection, PatternElements, PatternLetter, parse_date_pattern
from cepbook.lang.java.dates.time_zone import moment_at


@dataclass(frozen=True, slots=True)
class WallClockFields:
    """Local day and nanoseconds since midnight, in `zone` (None: no zone), which is `ahead` seconds of UTC."""

    days: int
    nanos: int
    zone: tzinfo | None
    ahead: int
    iso: bool

    @property
    def date(self) -> tuple[int, int, int]:
        return date_of(self.days, self.iso)

    @property
    def hour(self) -> int:
        return self.nanos // 3_600_000_000_000


def format_date(value: Any, of: Chronology, pattern: str | None = None) -> str:
    """Format `value` by `pattern`; without one in Java's short form, or as ISO 8601 for `java.time`.

    Raises DatePatternError, and ValueError if the value lacks a field of the pattern.
    """
    if pattern is None:
        if of.iso:
            return _iso(value)
        pattern = "M/d/yy, h:mm a"
    days, rest = of.wall(value)
    zone, ahead = of.zone_at(value)
    wall = WallClockFields(days, rest * (1_000_000_000 // of.second), zone, ahead, of.iso)
    return _text(parse_date_pattern(pattern, of.iso), wall)


def _iso(value: datetime) -> str:
    text = local_text(value)
    return text[:16] + ":00" + text[16:] if text[16:17] != ":" else text


def _text(parts: PatternElements, wall: WallClockFields) -> str:
    text = ""
    for element in parts:
        if isinstance(element, str):
            text += element
        elif isinstance(element, PatternLetter):
            text += _LETTERS[element.letter](wall, element.count)
        else:
            text += _optional(element, wall)
    return text


def _optional(part: OptionalSection, wall: WallClockFields) -> str:
    try:
        return _text(part.parts, wall)
    except ValueError:
        return ""


def _number(value: int, count: int) -> str:
    return f"-{-value:0{count}}" if value < 0 else f"{value:0{count}}"


def _year(year: int, count: int, iso: bool) -> str:
    if count == 2:
        return f"{year % 100:02}"
    text = _number(year, count)
    return f"+{text}" if iso and count > 3 and year > 0 and len(text) > count else text


def _name(names: list[str], index: int, count: int) -> str:
    return names[index][: {4: None, 5: 1}.get(count, 3)]


def _era(wall: WallClockFields, count: int) -> str:
    ours = wall.date[0] > 0
    if wall.iso and count > 3:
        return ("A" if ours else "B") if count == 5 else "Anno Domini" if ours else "Before Christ"
    return "AD" if ours else "BC"


def _month(wall: WallClockFields, count: int) -> str:
    month = wall.date[1]
    return _number(month, count) if count < 3 else _name(MONTHS, month - 1, count if wall.iso else min(count, 4))


def _day_name(wall: WallClockFields, count: int) -> str:
    return _name(DAYS, weekday(wall.days), count if wall.iso else min(count, 4))


def _us_weekday(wall: WallClockFields, count: int) -> str:
    return _number((weekday(wall.days) + 1) % 7 + 1, count) if count < 3 else _day_name(wall, count)


def _u(wall: WallClockFields, count: int) -> str:
    if wall.iso:
        return _year(wall.date[0], count, True)
    return _number(weekday(wall.days) + 1, count)


def _quarter(wall: WallClockFields, count: int) -> str:
    quarter = (wall.date[1] + 2) // 3
    if count < 3:
        return _number(quarter, count)
    return f"Q{quarter}" if count == 3 else f"{quarter}{('st', 'nd', 'rd', 'th')[quarter - 1]} quarter"


def _week_of_month(wall: WallClockFields, count: int) -> str:
    year, month, day = wall.date
    first = days_of(year, month, 1, wall.iso)
    return _number((day - 1 + (first + 4) % 7) // 7 + 1, count)


def _fraction(wall: WallClockFields, count: int) -> str:
    if wall.iso:
        return f"{wall.nanos % 1_000_000_000:09}".ljust(count, "0")[:count]
    return _number(wall.nanos // 1_000_000 % 1000, count)


def _hour(low: int, size: int) -> Callable[[WallClockFields, int], str]:
    return lambda wall, count: _number((wall.hour - low) % size + low, count)


def _part(unit: int, size: int) -> Callable[[WallClockFields, int], str]:
    return lambda wall, count: _number(wall.nanos // unit % size, count)


def _ahead(wall: WallClockFields, colon: bool, short: bool = False) -> str:
    if wall.zone is None:
        raise ValueError("a local date-time has no time zone to show")
    minutes = abs(wall.ahead) // 60
    text = f"{'-' if wall.ahead < 0 else '+'}{minutes // 60:02}"
    return text if short and not minutes % 60 else f"{text}{':' if colon else ''}{minutes % 60:02}"


def _offset(zero: str) -> Callable[[WallClockFields, int], str]:
    def text(wall: WallClockFields, count: int) -> str:
        if wall.zone is not None and not wall.ahead and zero:
            return zero
        if count == 1 and not wall.iso:
            return _ahead(wall, False)[:3]
        return _ahead(wall, count in (3, 5), count == 1)

    return text


def _gmt(wall: WallClockFields, count: int) -> str:
    """``GMT-05:00``, in its short form ``GMT-5``."""
    long = _ahead(wall, True)
    if not wall.ahead:
        return "GMT"
    short = long[0] + long[1:].removeprefix("0").removesuffix(":00")
    return f"GMT{long if count == 4 else short}"


def _big_z(wall: WallClockFields, count: int) -> str:
    if wall.iso and count == 4:
        return _gmt(wall, 4)
    if wall.iso and count == 5:
        return _offset("Z")(wall, 5)
    return _ahead(wall, False)


def _zone_id(wall: WallClockFields, count: int) -> str:
    ahead = _ahead(wall, True)
    return str(getattr(wall.zone, "key", None) or ("Z" if not wall.ahead else ahead))


def _zone_name(wall: WallClockFields, count: int) -> str:
    ahead = _ahead(wall, True)
    assert wall.zone is not None
    seconds = wall.days * 86_400 + wall.nanos // 1_000_000_000 - wall.ahead
    try:
        name = moment_at(wall.zone, seconds).tzname()
    except (ValueError, OverflowError, OSError):
        name = None
    if name == "UTC":
        return "Coordinated Universal Time" if count > 3 else "UTC"
    return name if name is not None and name.isalpha() else f"GMT{ahead}"


_LETTERS: dict[str, Callable[[WallClockFields, int], str]] = {
    "G": _era,
    "y": lambda wall, count: _year(year if (year := wall.date[0]) > 0 else 1 - year, count, wall.iso),
    "Y": lambda wall, count: _year(us_week(wall.days, wall.date[0])[0], count, wall.iso),
    "u": _u,
    "M": _month,
    "L": _month,
    "w": lambda wall, count: _number(us_week(wall.days, wall.date[0])[1], count),
    "W": _week_of_month,
    "D": lambda wall, count: _number(wall.days - days_of(wall.date[0], 1, 1, wall.iso) + 1, count),
    "d": lambda wall, count: _number(wall.date[2], count),
    "F": lambda wall, count: _number((wall.date[2] - 1) // 7 + 1, count),
    "E": _day_name,
    "e": _us_weekday,
    "c": _us_weekday,
    "Q": _quarter,
    "q": _quarter,
    "a": lambda wall, count: "AM" if wall.hour < 12 else "PM",
    "H": _hour(0, 24),
    "k": _hour(1, 24),
    "K": _hour(0, 12),
    "h": _hour(1, 12),
    "m": _part(60_000_000_000, 60),
    "s": _part(1_000_000_000, 60),
    "S": _fraction,
    "A": _part(1_000_000, 86_400_000),
    "n": _part(1, 1_000_000_000),
    "N": _part(1, 86_400_000_000_000),
    "V": _zone_id,
    "z": _zone_name,
    "O": _gmt,
    "X": _offset("Z"),
    "x": _offset(""),
    "Z": _big_z,
}
