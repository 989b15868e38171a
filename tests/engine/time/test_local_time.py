"""`Config.time_zone` where time runs: periods of months and crontabs, over the changes of clocks of a zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cepbook.engine.config import Config
from cepbook.engine.runtime import Runtime
from cepbook.engine.time.calendar_periods import add_months, month_due, next_on_grid

ZONE = "Europe/Berlin"  # clocks go from 2:00 to 3:00 on March 31, 2024, and from 3:00 to 2:00 on October 27
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ms(text: str, zone: str = ZONE, fold: int = 0) -> int:
    local = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return (local - EPOCH) // timedelta(milliseconds=1)


def shown(time: int, zone: str = ZONE) -> str:
    return (EPOCH + timedelta(milliseconds=time)).astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %z")


def times(epl: str, start: str, until: str, *sent: str, config: Config | None = None) -> list[str]:
    """When `out` delivers; the clock stops wherever something is due."""
    runtime = Runtime(config or Config(time_zone=ZONE), start=ms(start))
    runtime.deploy("create schema T(x int); " + epl)
    found: list[str] = []
    runtime.statement("out").add_listener(lambda delta: found.append(shown(delta.time)))
    points = [(ms(each), True) for each in sent] + [(ms(until), False)]
    for point, event in points:
        while (due := runtime.next_due) is not None and due <= point:
            runtime.advance(due)
        runtime.advance(point)
        if event:
            runtime.send("T", {"x": 1})
    return found


PATTERN = "@name('out') select * from pattern [{}]"
CASES = {
    "a crontab of a pattern keeps the time of day": (
        PATTERN.format("every timer:at(30, 8, *, *, *)"),
        ("2024-03-30 00:00", "2024-04-01 12:00"),
        ["2024-03-30 08:30 +0100", "2024-03-31 08:30 +0200", "2024-04-01 08:30 +0200"],
    ),
    "a crontab with a zone of its own is read there": (
        PATTERN.format("every timer:at(30, 8, *, *, *, 0, 'UTC')"),
        ("2024-03-30 00:00", "2024-03-31 12:00"),
        ["2024-03-30 09:30 +0100", "2024-03-31 10:30 +0200"],
    ),
    "months of a pattern's timer": (
        PATTERN.format("every timer:interval(1 month)"),
        ("2024-02-29 08:00", "2024-05-01 00:00"),
        ["2024-03-29 08:00 +0100", "2024-04-29 08:00 +0200"],
    ),
    "months of a schedule, from a date without a zone": (
        PATTERN.format("timer:schedule(iso: 'R3/2024-02-15T07:00:00/P1M')"),
        ("2024-01-01 00:00", "2024-12-01 00:00"),
        ["2024-02-15 07:00 +0100", "2024-03-15 07:00 +0100", "2024-04-15 07:00 +0200"],
    ),
    "an output crontab": (
        "@name('out') select count(*) as c from T output snapshot at (0, 0, *, *, *)",
        ("2024-10-26 12:00", "2024-10-28 12:00"),
        ["2024-10-27 00:00 +0200", "2024-10-28 00:00 +0100"],
    ),
    "an output rate of months": (
        "@name('out') select count(*) as c from T output snapshot every 1 month",
        ("2024-03-01 06:00", "2024-06-01 00:00"),
        ["2024-04-01 06:00 +0200", "2024-05-01 06:00 +0200"],
    ),
    "a context of crontabs": (
        "create context Office start (0, 9, *, *, *) end (0, 17, *, *, *);"
        "@name('out') context Office select count(*) as c from T output snapshot when terminated",
        ("2024-03-30 00:00", "2024-04-01 00:00"),
        ["2024-03-30 17:00 +0100", "2024-03-31 17:00 +0200"],
    ),
    "a context that begins every month": (
        "create context Monthly initiated by pattern [every timer:interval(1 month)] terminated after 1 month;"
        "@name('out') context Monthly select count(*) as c from T output snapshot when terminated",
        ("2024-02-10 12:00", "2024-05-20 00:00"),
        ["2024-04-10 12:00 +0200", "2024-05-10 12:00 +0200"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_times_are_local(name: str) -> None:
    epl, (start, until), wanted = CASES[name]
    assert times(epl, start, until, start) == wanted


WINDOWS = {
    "time(1 month)": ["2024-03-01 08:00 +0100", "2024-04-01 08:00 +0200"],
    "time_batch(1 month)": ["2024-04-01 08:00 +0200"],
    "time_accum(1 month)": ["2024-03-01 08:00 +0100", "2024-04-01 08:00 +0200"],
    "session(1 month)": ["2024-04-01 08:00 +0200"],
}


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_of_months_are_local(window: str) -> None:
    found = times(
        f"@name('out') select irstream x from T#{window}", "2024-03-01 08:00", "2024-04-20 00:00", "2024-03-01 08:00"
    )
    assert found == WINDOWS[window]


@pytest.mark.parametrize("window", ["time_batch(1 day)", "time_length_batch(1 day, 9)"])
def test_batches_of_days_are_local(window: str) -> None:
    """The day in which clocks change has 23 hours."""
    found = times(f"@name('out') select x from T#{window}", "2024-03-30 12:00", "2024-04-01 00:00", "2024-03-30 12:00")
    assert found == ["2024-03-31 12:00 +0200"]


def test_an_interval_of_match_recognize_is_local() -> None:
    epl = (
        "@name('out') select * from T match_recognize (measures A.x as x pattern (A B*) interval 1 month"
        " define B as B.x = 2)"
    )
    assert times(epl, "2024-03-01 08:00", "2024-04-20 00:00", "2024-03-05 09:00") == ["2024-04-05 09:00 +0200"]


def test_without_a_zone_it_is_utc() -> None:
    epl = "@name('out') select count(*) as c from T output snapshot at (0, 0, *, *, *)"
    assert times(epl, "2024-03-30 12:00", "2024-04-01 00:00", "2024-03-30 12:00", config=Config()) == [
        "2024-03-31 01:00 +0100",
    ]


GAPS = [  # what clocks pass over counts on, of what they show twice the offset stays
    ("2024-02-29 02:30", 0, 1, "2024-03-29 02:30 +0100"),
    ("2024-01-31 02:30", 0, 2, "2024-03-31 03:30 +0200"),
    ("2024-09-27 02:30", 0, 1, "2024-10-27 02:30 +0200"),
    ("2024-11-27 02:30", 0, -1, "2024-10-27 02:30 +0100"),
    ("2024-10-27 02:30", 1, 1, "2024-11-27 02:30 +0100"),
    ("2023-12-31 23:30", 0, 2, "2024-02-29 23:30 +0100"),
]


@pytest.mark.parametrize(("start", "fold", "months", "end"), GAPS)
def test_months_over_changes_of_clocks(start: str, fold: int, months: int, end: str) -> None:
    assert shown(add_months(ms(start, fold=fold), months, 1000, ZONE)) == end


@pytest.mark.parametrize("zone", [ZONE, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"])
def test_months_are_those_of_datetime(zone: str) -> None:
    """Random instants and numbers of months: the local time of day stays, the day is clipped to the month's last."""
    draw = Random(zone)
    for _ in range(400):
        start, months = draw.randrange(ms("1995-01-01", "UTC"), ms("2035-01-01", "UTC")), draw.randrange(-30, 31)
        local = (EPOCH + timedelta(milliseconds=start)).astimezone(ZoneInfo(zone))
        year, month = divmod(local.year * 12 + local.month - 1 + months, 12)
        last = (datetime(year + month // 11, (month + 1) % 12 + 1, 1) - timedelta(days=1)).day
        naive = local.replace(year=year, month=month + 1, day=min(local.day, last), tzinfo=None, fold=0)
        allowed: set[Any] = {naive.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1)}
        found = EPOCH + timedelta(milliseconds=add_months(start, months, 1000, zone))
        assert found in allowed, (zone, local, months)
        due = month_due(start, abs(months) + 1, 0, 1000, zone)
        assert add_months(due, -abs(months) - 1, 1000, zone) >= start, "an event leaves when it is that old"
        point = next_on_grid(start, ms("2010-01-15 02:30", zone), 1, 0, 1000, zone)
        assert start < point <= start + 32 * 86_400_000
