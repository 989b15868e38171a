"""The points in time of crontabs, in EPL's own forms."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cepbook.engine.time.clock import NEVER
from cepbook.engine.time.crontab import CrontabSchedule
from cepbook.lang.bind import Options, bind
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.syntax.reader.parser import parse_epl


def crontab(text: str, *, microseconds: bool = False) -> nodes.CrontabSpec:
    epl = f"create variable int V = 0; create schema E(a int); select a from E output at {text}"
    statement = bind(parse_epl(epl), Catalog(), epl, (), Options(microseconds=microseconds)).statements[-1]
    assert isinstance(statement, nodes.SelectStatement) and statement.output is not None
    assert statement.output.crontab is not None
    return statement.output.crontab


def points(text: str, start: str, count: int) -> list[str]:
    """The first `count` points of a constant crontab after `start`, in UTC."""
    schedule = CrontabSchedule(crontab(text), 1000)
    numbers = tuple(e.value for e in schedule.operands if isinstance(e, x.Const) and isinstance(e.value, int))
    now, found = millis(start), []
    for _ in range(count):
        now = schedule.next_time(now, numbers)
        found.append(datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S"))
    return found


def millis(time: str) -> int:
    return int(datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("(*/5, *, *, *, *)", "2024-03-04 09:00:00", ["2024-03-04 09:05:00", "2024-03-04 09:10:00"]),
        ("([0, 20:22, 50], 9, *, *, *)", "2024-03-04 09:20:30", ["2024-03-04 09:21:00", "2024-03-04 09:22:00"]),
        ("(*, *, *, *, *, [10, 40])", "2024-03-04 09:00:10", ["2024-03-04 09:00:40", "2024-03-04 09:01:10"]),
        ("(0, 8, *, *, 0)", "2024-03-04 00:00:00", ["2024-03-10 08:00:00", "2024-03-17 08:00:00"]),
        ("(0, 8, *, *, 1:5)", "2024-03-08 09:00:00", ["2024-03-11 08:00:00", "2024-03-12 08:00:00"]),
        ("(0, 0, last, *, *)", "2024-02-01 00:00:00", ["2024-02-29 00:00:00", "2024-03-31 00:00:00"]),
        ("(0, 0, *, *, last)", "2024-03-04 00:00:00", ["2024-03-09 00:00:00", "2024-03-16 00:00:00"]),
        ("(0, 0, *, *, 5 last)", "2024-03-04 00:00:00", ["2024-03-29 00:00:00", "2024-04-26 00:00:00"]),
        # the 10th: a Saturday, a Sunday, a Wednesday
        ("(0, 0, 10 weekday, *, *)", "2024-02-01 00:00:00", ["2024-02-09 00:00:00", "2024-03-11 00:00:00"]),
        # months that end on a Sunday, a Tuesday and a Friday
        (
            "(30, 6, lastweekday, *, *)",
            "2024-03-29 06:30:00",
            ["2024-04-30 06:30:00", "2024-05-31 06:30:00", "2024-06-28 06:30:00"],
        ),
        ("(*/30, 9, lastweekday, 2, *)", "2024-02-29 09:00:00", ["2025-02-28 09:00:00", "2026-02-27 09:00:00"]),
        # of such a day only the first matching time
        ("(*/30, 9:10, last, *, *)", "2024-02-29 08:59:00", ["2024-02-29 09:00:00", "2024-03-31 09:00:00"]),
        ("(*/30, 9:10, last, *, *)", "2024-02-29 09:10:00", ["2024-03-31 09:00:00", "2024-04-30 09:00:00"]),
        ("(*, *, *, *, last)", "2024-03-09 12:00:00", ["2024-03-16 00:00:00", "2024-03-23 00:00:00"]),
        ("(*, 3, *, *, 0 last, */20)", "2024-03-01 00:00:00", ["2024-03-31 03:00:00", "2024-04-28 03:00:00"]),
        ("(*, 3, 10 weekday, *, *, 0, 'Europe/Berlin')", "2024-03-01 00:00:00", ["2024-03-11 02:00:00"]),
        ("(0, 0, 29, 2, *)", "2024-03-01 00:00:00", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        ("(0, 0, 31, *, *)", "2024-03-31 00:00:00", ["2024-05-31 00:00:00", "2024-07-31 00:00:00"]),
        ("(0, 0, */10, *, *)", "2024-03-01 00:00:00", ["2024-03-10 00:00:00", "2024-03-20 00:00:00"]),
        ("(0, 0, 1, */5, *)", "2024-03-01 00:00:00", ["2024-05-01 00:00:00", "2024-10-01 00:00:00"]),
        ("(0, 9, *, *, *, 0, 'GMT+5')", "2024-03-04 08:00:00", ["2024-03-05 04:00:00"]),
        ("(0, 9, *, *, *, 0, 'GMT-3:30')", "2024-03-04 08:00:00", ["2024-03-04 12:30:00"]),
        ("(0, 9, *, *, *, 0, 'Europe/Berlin')", "2024-03-30 09:00:00", ["2024-03-31 07:00:00"]),
    ],
)
def test_points(text: str, start: str, expected: list[str]) -> None:
    assert points(text, start, len(expected)) == expected


def test_what_now_has_beyond_full_seconds_stays() -> None:
    start = millis("2024-03-04 08:00:10") + 200
    schedule = CrontabSchedule(crontab("(*/5, *, *, *, *)"), 1000)
    assert schedule.next_time(start, (5, 0)) == millis("2024-03-04 08:05:00") + 200
    assert schedule.next_time(millis("2024-03-04 08:05:00") - 1, (5, 0)) == millis("2024-03-04 08:05:00") + 999


def test_a_clock_of_microseconds() -> None:
    start = millis("2024-03-04 08:00:10") * 1000 + 7
    schedule = CrontabSchedule(crontab("(*, *, *, *, *, */15)"), 1_000_000)
    assert schedule.next_time(start, (15,)) == millis("2024-03-04 08:00:15") * 1000 + 7


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("(*, *, *, *, *, *, null, 200)", 10_100, 10_200),
        ("(*, *, *, *, *, *, null, 200)", 10_200, 11_200),
        ("(*, *, *, *, *, *, null, [100:102, 500])", 10_101, 10_102),
        ("(*, *, *, *, *, *, null, [100:102, 500])", 10_102, 10_500),
        ("(*, *, *, *, *, 30, null, */250)", 10_000, 30_000),
        ("(*, *, *, *, *, 30, null, */250)", 30_000, 30_250),
        ("(*, *, *, *, *, 30, null, */250)", 30_750, 90_000),
        ("(0, *, *, *, *, 0, 'GMT+1', *)", 999, 3_600_000),
        ("(0, *, *, *, *, 0, 'GMT+1', *)", 3_600_005, 3_600_006),
    ],
)
def test_milliseconds(text: str, now: int, expected: int) -> None:
    schedule = CrontabSchedule(crontab(text), 1000)
    numbers = tuple(e.value for e in schedule.operands if isinstance(e, x.Const) and isinstance(e.value, int))
    assert schedule.next_time(now, numbers) == expected


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("(*, *, *, *, *, *, null, 200)", 100_007, 200_007),
        ("(*, *, *, *, *, *, null, 200, 5)", 100_007, 200_005),
        ("(*, *, *, *, *, *, null, 200, [5, 9])", 200_005, 200_009),
        ("(*, *, *, *, *, *, null, [200, 300], [5, 9])", 200_009, 300_005),
        ("(*, *, *, *, *, *, null, 200, [5, 9])", 200_009, 1_200_005),
    ],
)
def test_microseconds(text: str, now: int, expected: int) -> None:
    schedule = CrontabSchedule(crontab(text, microseconds=True), 1_000_000)
    numbers = tuple(e.value for e in schedule.operands if isinstance(e, x.Const) and isinstance(e.value, int))
    assert schedule.next_time(now, numbers) == expected


def test_variables_are_read_at_each_look() -> None:
    schedule = CrontabSchedule(crontab("(V, *, *, *, *)"), 1000)
    assert isinstance(schedule.operands[0], x.VariableRead)
    assert schedule.next_time(0, (5, 0)) == 300_000
    assert schedule.next_time(300_000, (7, 0)) == 420_000


@pytest.mark.parametrize("text", ["(0, 0, 31, 2, *)", "(0, 0, */40, *, *)", "(0, 0, [*/40, */50], *, *)"])
def test_what_never_comes(text: str) -> None:
    schedule = CrontabSchedule(crontab(text), 1000)
    numbers = tuple(e.value for e in schedule.operands if isinstance(e, x.Const) and isinstance(e.value, int))
    assert schedule.next_time(0, numbers) == NEVER


def test_beyond_the_calendar() -> None:
    schedule = CrontabSchedule(crontab("(*, *, *, *, *)"), 1000)
    assert schedule.next_time(1 << 60, (0,)) == NEVER


@pytest.mark.parametrize(
    ("text", "numbers", "message"),
    [
        ("(V, *, *, *, *)", (60, 0), "the minutes of a crontab are 0 to 59, found 60"),
        ("(V, *, *, *, *)", (None, 0), "the minutes of a crontab are 0 to 59, found null"),
        ("(0:V, *, *, *, *)", (0, 77, 0), "the minutes of a crontab are 0 to 59, found 0, 77"),
        ("(*/V, *, *, *, *)", (0, 0), "a frequency is above 0, found 0"),
        ("(*, 8:V, *, *, *)", (8, 5, 0), "the range 8:5 of a crontab runs backwards"),
    ],
)
def test_wrong_values_of_variables(text: str, numbers: tuple[int | None, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CrontabSchedule(crontab(text), 1000).next_time(0, numbers)
