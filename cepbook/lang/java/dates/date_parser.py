"""Parse texts as dates, by date patterns or as ISO 8601: ``cast(text, date, dateformat: …)``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Any

from cepbook.lang.java.date_text import DAYS, MONTHS
from cepbook.lang.java.dates.chronology import EpochChronology, in_zone
from cepbook.lang.java.dates.civil import days_of, in_us_week, month_length
from cepbook.lang.java.dates.date_pattern import (
    OptionalSection,
    PatternElement,
    PatternElements,
    PatternLetter,
    parse_date_pattern,
)
from cepbook.lang.java.dates.time_zone import offset_of_local, zone_of

ISO_FORMAT = "iso"
_FIRST_OF_TWO_DIGITS = 1946  # years of two digits are the hundred from here on


class DateParseError(ValueError):
    """The text is not a date of the requested form."""


@dataclass(slots=True)
class ParsedFields:
    """The fields of a text by pattern letter; `zone` is the zone named in the text."""

    fields: dict[str, int] = field(default_factory=dict)
    zone: tzinfo | None = None


@dataclass(frozen=True, slots=True)
class DateFormat:
    """Parses texts to values of one type. `zone` applies to texts without a zone, `second` to `EpochChronology`."""

    target: str  # long, date, calendar, localdatetime, zoneddatetime, localdate, localtime
    zone: str = "UTC"
    second: int = 1000

    @property
    def iso(self) -> bool:
        """True if patterns are those of `java.time`."""
        return self.target not in ("long", "date", "calendar")

    def check(self, pattern: str) -> None:
        """Raise DatePatternError if `pattern` is malformed."""
        if pattern.lower() != ISO_FORMAT:
            parse_date_pattern(pattern, self.iso)

    def read(self, text: str, pattern: str) -> Any:
        """Parse `text`. Raises DatePatternError, DateParseError."""
        try:
            if pattern.lower() == ISO_FORMAT:
                parsed = _iso_fields(text)
            else:
                parts = parse_date_pattern(pattern, self.iso)
                parsed = ParsedFields()
                end = _read(parts, (), text, 0, parsed, self.iso)
                if self.iso and end != len(text):
                    raise DateParseError
            return self._local(parsed) if self.iso else self._moment(parsed)
        except (DateParseError, OverflowError):
            excerpt = text if len(text) <= 60 else text[:57] + "..."
            raise DateParseError(f"'{excerpt}' is no date of the form '{pattern}'") from None

    def _moment(self, found: ParsedFields) -> Any:
        """Excess of a field carries into the next field."""
        f = found.fields
        year = f.get("y", 1970)
        if f.get("G", 1) == 0:
            year = 1 - year
        if "D" in f and "d" not in f:
            days = days_of(year, 1, 1) + f["D"] - 1
        elif "w" in f and not ("M" in f or "d" in f):
            days = in_us_week(f.get("Y", year), f["w"], f.get("E", 6) - 3)
        else:
            days = days_of(year, f.get("M", 1), f.get("d", 1))
        hour = f["H"] if "H" in f else f.get("h", 0) + 12 * f.get("a", 0)
        local = ((days * 24 + hour) * 60 + f.get("m", 0)) * 60 + f.get("s", 0)
        zone = found.zone or zone_of(self.zone)
        millis = (local - offset_of_local(zone, local, 1, 0)) * 1000 + f.get("S", 0)
        if self.target == "long":
            return EpochChronology(self.second).later(0, millis * (self.second // 1000))
        return in_zone(millis * 1000, zone if self.target == "calendar" else UTC)

    def _local(self, found: ParsedFields) -> date | time | datetime:
        f = found.fields
        if self.target == "localtime":
            return _clock(f)
        day = _day(f)
        if self.target == "localdate":
            return day
        local = datetime.combine(day, _clock(f))
        if self.target == "localdatetime":
            return local
        if found.zone is None:
            raise DateParseError
        seconds = (local - datetime(1970, 1, 1)) // timedelta(seconds=1)
        ahead = offset_of_local(found.zone, seconds, 1, f.get("ahead", 0), earlier=True)
        return in_zone((seconds - ahead) * 1_000_000 + local.microsecond, found.zone)


def _clock(f: dict[str, int]) -> time:
    hour = f["H"] if "H" in f else f["h"] + 12 * f["a"] if "h" in f and "a" in f else -1
    minute, second, nano = f.get("m", 0), f.get("s", 0), f.get("n", 0)
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        raise DateParseError
    return time(hour, minute, second, nano // 1000)


def _day(f: dict[str, int]) -> date:
    """A day beyond its month, up to the 31st, becomes the last day."""
    year = f.get("y", 0) if f.get("G", 1) else 1 - f.get("y", 0)
    if not 1 <= year <= 9999:
        raise DateParseError
    if "D" in f and "d" not in f:
        if not 1 <= f["D"] <= 366:
            raise DateParseError
        return date.fromordinal(date(year, 1, 1).toordinal() + f["D"] - 1)
    month, day = f.get("M", 0), f.get("d", 0)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise DateParseError
    return date(year, month, min(day, month_length(year, month, True)))


_ISO = re.compile(
    r"(?:(\d{4})-(\d\d)-(\d\d))?(?:T?(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?(Z|[+-]\d\d(?::?\d\d)?)?(?:\[([\w/+-]+)\])?"
)


def _iso_fields(text: str) -> ParsedFields:
    match = _ISO.fullmatch(text.strip())
    if match is None or (match[1] is None and match[4] is None):
        raise DateParseError
    fields: dict[str, int] = {}
    for letter, group in zip("yMdHms", match.groups(), strict=False):
        if group is not None:
            fields[letter] = int(group)
    if "M" in fields and not (1 <= fields["M"] <= 12 and 1 <= fields["d"] <= month_length(fields["y"], fields["M"])):
        raise DateParseError
    if fields.get("H", 0) > 24 or fields.get("m", 0) > 59 or fields.get("s", 0) > 59:
        raise DateParseError
    if match[7] is not None:
        fields["n"] = int(match[7].ljust(9, "0"))
        fields["S"] = fields["n"] // 1_000_000
    zone: tzinfo | None = None if match[8] is None else _offset(match[8])
    if zone is not None:
        fields["ahead"] = (zone.utcoffset(None) or timedelta()) // timedelta(seconds=1)
    if match[9] is not None:
        zone = _named(match[9])
    return ParsedFields(fields, zone)


def _offset(text: str) -> timezone:
    if text == "Z":
        return UTC
    hours, minutes = int(text[1:3]), int(text[3:].lstrip(":") or 0)
    if hours > 18 or minutes > 59:
        raise DateParseError
    ahead = timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1)
    return timezone(ahead) if ahead else UTC


def _named(name: str) -> tzinfo:
    try:
        return zone_of(name)
    except ValueError:
        raise DateParseError from None


def _read(parts: PatternElements, after: PatternElements, text: str, at: int, found: ParsedFields, iso: bool) -> int:
    """Read `parts`, followed by `after`; return the position behind them."""
    for position, element in enumerate(parts):
        following = (*parts[position + 1 :], *after)
        if isinstance(element, str):
            if not text.startswith(element, at):
                raise DateParseError
            at += len(element)
        elif isinstance(element, OptionalSection):
            at = _read_optional(element, following, text, at, found, iso)
        else:
            at = _read_field(element, following, text, at, found, iso)
    return at


def _read_optional(
    part: OptionalSection, after: PatternElements, text: str, at: int, found: ParsedFields, iso: bool
) -> int:
    tried = ParsedFields(dict(found.fields), found.zone)
    try:
        end = _read(part.parts, after, text, at, tried, iso)
    except DateParseError:
        return at
    found.fields, found.zone = tried.fields, tried.zone
    return end


def _read_field(part: PatternLetter, after: PatternElements, text: str, at: int, found: ParsedFields, iso: bool) -> int:
    special = _SPECIAL.get(part.letter)
    if special is not None and not part.numeric:
        return special(part, text, at, found)
    low, high = _widths(part, after, text, at, iso)
    while not iso and at < len(text) and text[at] in " \t":  # blanks before a number do not count,
        at, high = at + 1, high - 1  # but to its width
    digits = _digits(text, at, high)
    if digits < max(low, 1):
        raise DateParseError
    number = int(text[at : at + digits])
    letter, value = _meaning(part, number, digits, text[at : at + digits], iso)
    found.fields[letter] = value
    return at + digits


def _digits(text: str, at: int, most: int) -> int:
    count = 0
    while count < most and text[at + count : at + count + 1].isdigit() and text[at + count].isascii():
        count += 1
    return count


def _widths(part: PatternLetter, after: PatternElements, text: str, at: int, iso: bool) -> tuple[int, int]:
    """Return the least and the greatest number of digits; a number before another one has as many as letters."""
    adjacent: list[int] = []
    for element in after:
        if not isinstance(element, PatternLetter) or not element.numeric:
            break
        adjacent.append(element.count)
    if not iso:
        follows = bool(after) and isinstance(after[0], PatternLetter)
        return 1, part.count if follows else 18
    if part.letter in "Sn" or part.count == 2 or (part.letter == "D" and part.count == 3):
        return part.count, part.count
    if adjacent and all(width > 1 for width in adjacent):
        rest = _digits(text, at, 40) - sum(adjacent)
        return (part.count, part.count) if part.count > 2 else (1, min(max(rest, 1), 18))
    return (part.count, part.count) if part.letter in "yuY" and part.count > 2 else (1, 18)


def _meaning(part: PatternLetter, number: int, digits: int, text: str, iso: bool) -> tuple[str, int]:
    letter = part.letter
    if letter in "yuY" and (iso or letter != "u"):
        if part.count == 2 and digits == 2 and iso:
            number += 2000
        elif part.count <= 2 and digits == 2 and not iso:
            number = _FIRST_OF_TWO_DIGITS + (number - _FIRST_OF_TWO_DIGITS) % 100
        return ("Y" if letter == "Y" else "y"), number
    if letter in "hK" or letter in "Hk":
        size = 12 if letter in "hK" else 24
        if letter in "hk" and number == size:
            number = 0
        elif iso and not 0 <= number <= size - (letter in "KH"):
            raise DateParseError
        return ("h" if size == 12 else "H"), number
    if letter == "S":
        return ("n", int(text.ljust(9, "0")[:9])) if iso else ("S", number)
    if letter in "ec" or (letter == "u" and not iso):
        return "E", (number + 5) % 7 if iso else (number - 1) % 7
    return {"L": "M"}.get(letter, letter), number


def _word(words: tuple[tuple[str, int], ...], text: str, at: int) -> tuple[int, int]:
    """Return the number of the longest word that matches here in any case, and the position behind it."""
    matches = [(len(word), number) for word, number in words if text[at : at + len(word)].lower() == word.lower()]
    if not matches:
        raise DateParseError
    length, number = max(matches)
    return number, at + length


def _numbered(names: list[str], first: int) -> tuple[tuple[str, int], ...]:
    return tuple((word, i + first) for i, name in enumerate(names) for word in (name, name[:3]))


def _worded(letter: str, words: tuple[tuple[str, int], ...]) -> Callable[[PatternLetter, str, int, ParsedFields], int]:
    def read(part: PatternLetter, text: str, at: int, found: ParsedFields) -> int:
        found.fields[letter], end = _word(words, text, at)
        return end

    return read


_ZONE = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d\d?):?(\d\d)?|(Z)(?![A-Za-z])|([A-Za-z][\w/+-]*)")
_AMERICAN = {
    "EST": "-05:00", "EDT": "-04:00", "CST": "-06:00", "CDT": "-05:00",
    "MST": "-07:00", "MDT": "-06:00", "PST": "-08:00", "PDT": "-07:00",
}  # fmt: skip


def _read_zone(part: PatternLetter, text: str, at: int, found: ParsedFields) -> int:
    zone = _ZONE.match(text, at)
    if zone is None or (part.letter in "xX" and zone[5]):
        raise DateParseError
    if zone[1] is not None:
        found.zone = _offset(f"{zone[1]}{int(zone[2]):02}{zone[3] or ''}")
    elif zone[4] is not None:
        found.zone = UTC
    else:
        known = _AMERICAN.get(zone[5].upper())
        found.zone = _named(zone[5]) if known is None else _offset(known)
    found.fields["ahead"] = (found.zone.utcoffset(None) or timedelta()) // timedelta(seconds=1) if zone[1] else 0
    return zone.end()


_SPECIAL: dict[str, Callable[[PatternLetter, str, int, ParsedFields], int]] = {
    "G": _worded("G", (("AD", 1), ("BC", 0), ("Anno Domini", 1), ("Before Christ", 0))),
    "M": _worded("M", _numbered(MONTHS, 1)),
    "L": _worded("M", _numbered(MONTHS, 1)),
    "E": _worded("E", _numbered(DAYS, 0)),
    "a": _worded("a", (("AM", 0), ("PM", 1))),
    **dict.fromkeys("zZXxOV", _read_zone),
}

__all__ = ["ISO_FORMAT", "DateFormat", "PatternElement", "DateParseError"]
