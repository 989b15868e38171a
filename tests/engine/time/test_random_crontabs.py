"""Random crontabs against a walk over the days of the calendar, and over the minutes and seconds of a day."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from cepbook.engine.time.crontab import CrontabSchedule
from cepbook.lang.plan import expressions as x
from tests.engine.time.test_crontab import crontab
from tests.random_cases import seeds

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ("UTC", "Asia/Kolkata", "America/New_York")
DayTest = Callable[[date], bool]


class Field(NamedTuple):
    text: str
    numbers: list[int]


class Crontab(NamedTuple):
    text: str
    minutes: list[int]
    hours: list[int]
    months: list[int]
    seconds: list[int]
    day: DayTest
    once: bool  # only the first time of a day counts
    zone: ZoneInfo


def field(draw: Random, low: int, high: int) -> Field:
    kind = draw.choice(("star", "number", "range", "one", "step", "list"))
    first, last = sorted((draw.randint(low, high), draw.randint(low, high)))
    step = draw.choice((2, 3, 5, 7, 12))
    match kind:
        case "number":
            return Field(str(first), [first])
        case "range":
            return Field(f"{first}:{last}", [*range(first, last + 1)])
        case "one":
            return Field(f"{first}:{first}", [first])
        case "step":
            return Field(f"*/{step}", [n for n in range(low, high + 1) if n % step == 0])
        case "list":
            other = draw.randint(low, high)
            return Field(f"[{other}, {first}:{last}]", sorted({other, *range(first, last + 1)}))
    return Field("*", [*range(low, high + 1)])


def weekday(day: date) -> int:
    """Sunday is 0."""
    return day.isoweekday() % 7


def last_of_month(day: date) -> date:
    return day.replace(day=monthrange(day.year, day.month)[1])


def nearest_workday(day: date) -> date:
    """The working day next to `day`, in the same month."""
    near = [day + timedelta(shift) for shift in (0, 1, -1, 2, -2)] if weekday(day) == 0 else []
    near = near or [day + timedelta(shift) for shift in (0, -1, 1, 2, -2)]
    return next(other for other in near if weekday(other) in range(1, 6) and other.month == day.month)


def days(draw: Random) -> tuple[str, str, DayTest, bool]:
    """The fields of days and weekdays, their test, and whether a day counts once."""
    number = draw.randint(1, 28)
    of_month, of_week = field(draw, 1, 31), field(draw, 0, 6)
    return draw.choice(
        (
            (of_month.text, "*", lambda day: day.day in of_month.numbers, False),
            ("*", of_week.text, lambda day: weekday(day) in of_week.numbers, False),
            ("last", "*", lambda day: day == last_of_month(day), True),
            (
                "*",
                f"{number % 7} last",
                lambda day: weekday(day) == number % 7 and day.day > last_of_month(day).day - 7,
                True,
            ),
            (f"{number} weekday", "*", lambda day: day == nearest_workday(day.replace(day=number)), True),
            ("lastweekday", "*", lambda day: day == nearest_workday(last_of_month(day)), True),
        )
    )


def drawn(draw: Random) -> Crontab:
    minutes, hours, months = field(draw, 0, 59), field(draw, 0, 23), field(draw, 1, 12)
    months = months if draw.random() < 0.4 else Field("*", [*range(1, 13)])
    seconds = field(draw, 0, 59) if draw.random() < 0.3 else Field("0", [0])
    of_month, of_week, test, once = days(draw)
    zone = draw.choice(ZONES)
    texts = (minutes.text, hours.text, of_month, months.text, of_week, seconds.text, f"'{zone}'")
    return Crontab(
        f"({', '.join(texts)})",
        *(part.numbers for part in (minutes, hours, months, seconds)),
        test,
        once,
        ZoneInfo(zone),
    )


def points(crontab: Crontab, start: datetime) -> Iterator[datetime]:
    """The points after `start`, where no clocks change."""
    local = start.astimezone(crontab.zone)
    for number in range(366 * 9):
        day = local.date() + timedelta(number)
        if day.month in crontab.months and crontab.day(day):
            times = (
                datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=crontab.zone)
                for hour in crontab.hours
                for minute in crontab.minutes
                for second in crontab.seconds
            )
            yield from (time for time in islice(times, 1 if crontab.once else None) if time > local)


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(100))
def test_points_of_a_crontab(seed: int) -> None:
    draw = Random(seed)
    case = drawn(draw)
    # far from the changes of clocks: what happens there is in test_local_time
    start = datetime(draw.randint(2020, 2027), draw.choice((1, 5, 7, 12)), draw.randint(1, 28), tzinfo=UTC)
    start += timedelta(seconds=draw.randrange(86_400))
    schedule = CrontabSchedule(crontab(case.text), 1000)
    numbers = tuple(e.value for e in schedule.operands if isinstance(e, x.Const) and isinstance(e.value, int))
    fraction, now = draw.choice((0, 250)), start
    for point in islice(points(case, start), 4):
        if point.utcoffset() != (point - timedelta(hours=5)).astimezone(case.zone).utcoffset():
            break
        milli = (now - EPOCH) // timedelta(milliseconds=1) + fraction
        assert schedule.next_time(milli, numbers) == (point - EPOCH) // timedelta(milliseconds=1) + fraction, case.text
        now = point


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(30, 8:8, *, *, *)", "2024-03-05 08:30"),
        ("(15:15, *, *, *, *)", "2024-03-04 10:15"),
        ("(0, 0, [7, 20:20], *, *)", "2024-03-07 00:00"),
        ("(0, 0, *, 6:6, *)", "2024-06-01 00:00"),
        ("(0, 0, *, *, 3:3)", "2024-03-06 00:00"),
        ("(0, 10, *, *, *, 40:40)", "2024-03-04 10:00:40"),
    ],
)
def test_a_range_may_be_one_number(text: str, expected: str) -> None:
    schedule = CrontabSchedule(crontab(text), 1000)
    numbers = tuple(e.value for e in schedule.operands if isinstance(e, x.Const) and isinstance(e.value, int))
    start, due = (datetime.fromisoformat(time).replace(tzinfo=UTC) for time in ("2024-03-04 09:20:30", expected))
    assert schedule.next_time((start - EPOCH) // timedelta(milliseconds=1), numbers) == due.timestamp() * 1000
