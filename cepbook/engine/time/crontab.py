"""Due times of crontabs (`plan.crontab`), computed with croniter.

- The next due time is strictly later than now. Without a field for milliseconds it keeps the part of now beyond full
  seconds (recorded: crontab_seconds_from_millisecond).
- A frequency `*/n` means the multiples of n, also for days and months.
- For a day that is not given by number (`last`, `5 last`, `10 weekday`, `lastweekday`) only the first matching time of
  that day counts (recorded: crontab_last_day_fires_once).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter

from cepbook.engine.time.clock import NEVER
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.nodes import CRON_FIELDS, CronField, CrontabSpec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"GMT([+-])(\d{1,2}):?(\d{2})?")
_LAST_DAYS = "26-31"  # the last weekday of a month is one of its last three days
_DAYS, _WEEKDAYS, _SECONDS = 2, 4, 5
_ONCE = frozenset(("last", "nth_last", "weekday", "lastweekday"))
_SATURDAY = 6


class CrontabSchedule:
    """The due times of one crontab.

    `operands` are its number expressions, in the order in which `next_time` expects their values. `second` is the
    length of a second in clock units.
    """

    def __init__(self, crontab: CrontabSpec, second: int) -> None:
        self.operands: tuple[BoundExpr, ...] = tuple(e for field in crontab.fields for e in _operands(field))
        self._crontab = crontab
        self._second = second
        self._zone = _zone(crontab.zone)
        self._once = any(crontab.fields[position].kind in _ONCE for position in (_DAYS, _WEEKDAYS))
        self._read: tuple[int | None, ...] | None = None
        self._texts: list[str] = []

    def next_time(self, now: int, numbers: tuple[int | None, ...]) -> int:
        """Return the first due time after `now`, or `NEVER`. Errors: ValueError for a null or invalid number."""
        if numbers != self._read:
            self._texts = _texts(self._crontab, iter(numbers))
            self._read = numbers
        if "" in self._texts:
            return NEVER
        full, rest = divmod(now, self._second)
        try:
            if len(self._texts) == _SECONDS + 1:
                return self._after(full) * self._second + rest
            beyond = rest % (self._second // 1000)
            later = self._fraction_after(rest, beyond)
            if later is not None and self._after(full - 1) == full:
                return full * self._second + later
            first = self._fraction_after(-1, beyond)
            return NEVER if first is None else self._after(full) * self._second + first
        except (OverflowError, CroniterBadDateError):
            return NEVER

    def _after(self, full: int) -> int:
        match = self._next((_EPOCH + timedelta(seconds=full)).astimezone(self._zone))
        if self._once:
            midnight = match.replace(hour=0, minute=0, second=0)
            if self._next(midnight - timedelta(seconds=1)) < match:
                match = self._next(midnight + timedelta(days=1, seconds=-1))
        return int((match - _EPOCH).total_seconds())

    def _next(self, start: datetime) -> datetime:
        last_weekday = self._crontab.fields[_DAYS].kind == "lastweekday"
        return self._on_last_weekday(start) if last_weekday else _next(self._texts[: _SECONDS + 1], start)

    def _fraction_after(self, rest: int, beyond: int) -> int | None:
        """Return the next matching fraction of a second; without a field of microseconds these stay `beyond`."""
        unit = self._second // 1000
        ranges = [_members(text) for text in self._texts[_SECONDS + 1 :]]
        within = ranges[1] if len(ranges) > 1 else [beyond]
        for milli in ranges[0]:
            if (milli + 1) * unit > rest:
                fraction = next((milli * unit + micro for micro in within if milli * unit + micro > rest), None)
                if fraction is not None:
                    return fraction
        return None

    def _on_last_weekday(self, start: datetime) -> datetime:
        minutes, hours, _, months, _, seconds = self._texts[: _SECONDS + 1]
        midnight = start.replace(hour=0, minute=0, second=0)
        for day in _days(["0", "0", _LAST_DAYS, months, "1-5", "0"], midnight - timedelta(seconds=1)):
            if (day + timedelta(days=1 if day.weekday() < 4 else 3)).month != day.month:
                after = max(start, day - timedelta(seconds=1))
                match = _next([minutes, hours, str(day.day), str(day.month), "*", seconds], after)
                if match.date() == day.date():
                    return match
        raise OverflowError


def _days(texts: list[str], start: datetime) -> Iterator[datetime]:
    while True:
        start = croniter(" ".join(texts), start, day_or=False).get_next(datetime)
        yield start


def _next(texts: list[str], start: datetime) -> datetime:
    match: datetime = croniter(" ".join(texts), start).get_next(datetime)
    return match


def _members(text: str) -> list[int]:
    numbers: set[int] = set()
    for item in text.split(","):
        low, _, high = item.partition("-")
        numbers.update(range(1000) if item == "*" else range(int(low), int(high or low) + 1))
    return sorted(numbers)


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is None:
        return ZoneInfo(name)
    sign, hours, minutes = offset.groups()
    shift = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(-shift if sign == "-" else shift)


def _operands(field: CronField) -> Iterator[BoundExpr]:
    yield from field.operands
    for item in field.parts:
        yield from _operands(item)


def _texts(crontab: CrontabSpec, numbers: Iterator[int | None]) -> list[str]:
    return [_text(field, position, numbers) for position, field in enumerate(crontab.fields)]


def _text(field: CronField, position: int, numbers: Iterator[int | None]) -> str:
    name, low, high = CRON_FIELDS[position]
    if field.kind == "list":
        texts = [_text(item, position, numbers) for item in field.parts]
        return ",".join(item for item in texts if item)
    operands = [next(numbers) for _ in field.operands]
    least, most = (1, 1 << 31) if field.kind == "step" else (low, high)
    values = [n for n in operands if n is not None and least <= n <= most]
    if len(values) < len(operands):
        wrong = ", ".join("null" if n is None else str(n) for n in operands)
        fact = "a frequency is above 0" if field.kind == "step" else f"the {name} of a crontab are {low} to {high}"
        raise ValueError(f"{fact}, found {wrong}")
    match field.kind:
        case "star":
            return "*"
        case "range":
            if values[0] > values[1]:
                raise ValueError(f"the range {values[0]}:{values[1]} of a crontab runs backwards")
            # croniter reads a range of one number as all numbers
            return f"{values[0]}-{values[1]}" if values[0] < values[1] else str(values[0])
        case "step":
            return ",".join(str(n) for n in range(low, high + 1) if n % values[0] == 0)
        case "last":
            return "L" if position == _DAYS else str(_SATURDAY)
        case "nth_last":
            return f"L{values[0]}"
        case "weekday":
            return f"{values[0]}W"
        case "lastweekday":
            return _LAST_DAYS
    return str(values[0])
