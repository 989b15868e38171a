"""Periods of months with days and hours, in all places that take one: first the months are added, then the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from random import Random
from zoneinfo import ZoneInfo

import pytest

from cepbook.engine.config import Config
from cepbook.engine.runtime import Runtime
from tests.random_cases import seeds

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York")
YEAR = timedelta(days=400)
Step = Callable[[datetime], datetime]


def later(time: datetime, months: int, rest: timedelta, zone: str) -> datetime:
    """The local time of day stays while months are added; the day is at most the last one of the month."""
    local = time.astimezone(ZoneInfo(zone))
    year, month = divmod(local.year * 12 + local.month - 1 + months, 12)
    following = datetime(year + month // 11, (month + 1) % 12 + 1, 1)
    day = min(local.day, (following - timedelta(days=1)).day)
    return local.replace(year=year, month=month + 1, day=day).astimezone(UTC) + rest


def chain(time: datetime, step: Step) -> Iterator[datetime]:
    while True:
        time = step(time)
        yield time


def millis(time: datetime) -> int:
    return (time - EPOCH) // timedelta(milliseconds=1)


FROM_START = {  # statements without events: number of times, or 0 for any
    "pattern [every timer:interval({words})]": 0,
    "pattern [every timer:schedule(iso: 'R3/{iso}')]": 3,
    "pattern [timer:interval({words}) -> timer:interval({words})]": 2,
}
FROM_EVENT = {
    "A output snapshot every {words}": 0,
    "A output every {words}": 1,
    "A#time_batch({words})": 1,
    "pattern [every a=A -> timer:interval({words})]": 1,
    "A match_recognize (measures X.n as n pattern (X Y*) interval {words} define Y as Y.n = 0)": 1,
}


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(60))
def test_months_are_added_before_days(seed: int) -> None:
    draw = Random(seed)
    months, days, hours = draw.choice((1, 2, 5, 13)), draw.choice((0, 1, 10)), draw.choice((0, 3))
    words, iso = f"{months} months", f"P{months}M"
    words += f" {days} days" * (days > 0) + f" {hours} hours" * (hours > 0)
    iso += f"{days}D" * (days > 0) + f"T{hours}H" * (hours > 0)
    zone = draw.choice(ZONES)
    source, number = draw.choice([*FROM_START.items(), *FROM_EVENT.items()])
    start = datetime(2023, 1, 1, 12, tzinfo=UTC) + timedelta(days=draw.randrange(800))
    event = start + timedelta(days=draw.randrange(4))
    selected = "*" if "match_recognize" in source else "count(*) as n" if "snapshot" in source else "1 as one"
    runtime = Runtime(Config(time_zone=zone), start=millis(start))
    runtime.deploy(f"create schema A(n int); @name('q') select {selected} from {source.format(words=words, iso=iso)}")
    times: list[int] = []
    runtime.statement("q").add_listener(lambda delta: times.extend([delta.time] * bool(delta.insert)))
    runtime.advance(millis(event), stepping=True)
    if source in FROM_EVENT:
        runtime.send("A", {"n": 1})
    while (due := runtime.next_due) is not None and due <= millis(start + YEAR):
        runtime.advance(due)

    points = chain(
        event if source in FROM_EVENT else start,
        lambda time: later(time, months, timedelta(days=days, hours=hours), zone),
    )
    expected = list(takewhile(lambda time: time <= start + YEAR, islice(points, number or None)))
    if source.startswith("pattern [timer"):
        expected = expected[1:]  # the first interval only begins the second one
    assert times == [millis(time) for time in expected], (source, words, zone, start)


@pytest.mark.parametrize("rate", ["output snapshot every", "output first every"])
def test_an_output_rate_of_a_month_and_a_day(rate: str) -> None:
    """A month and a day after January 30 is March 1: the last day of February, and a day."""
    runtime = Runtime(start=millis(datetime(2023, 1, 30, tzinfo=UTC)))
    runtime.deploy(f"create schema A(n int); @name('q') select count(*) as n from A {rate} 1 month 1 day")
    rows: list[tuple[int, int]] = []
    runtime.statement("q").add_listener(lambda delta: rows.extend((delta.time, r["n"]) for r in delta.insert or ()))
    for day in range(40):
        runtime.advance(millis(datetime(2023, 1, 30, tzinfo=UTC) + timedelta(days=day)), stepping=True)
        runtime.send("A", {"n": day})
    march = millis(datetime(2023, 3, 1, tzinfo=UTC))
    assert rows[-1] == (march, 30 if "snapshot" in rate else 31)
