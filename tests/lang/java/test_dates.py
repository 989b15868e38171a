"""Dates against `datetime` and `zoneinfo`: random moments, zones, and the hours in which clocks change."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from cepbook.lang.java.dates import civil, fields
from cepbook.lang.java.dates.chronology import (
    Chronology,
    EpochChronology,
    InstantChronology,
    LocalChronology,
    ZonedChronology,
    in_zone,
)
from cepbook.lang.java.dates.date_formatter import format_date
from cepbook.lang.java.dates.date_parser import DateFormat, DateParseError

ZONES = (
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Australia/Lord_Howe",  # half an hour of summer time
    "America/Sao_Paulo",  # clocks went forward at midnight
    "America/Toronto",  # clocks went forward over a midnight
    "Pacific/Apia",  # a day was left out
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600_000


def moments(chance: random.Random, zone: str, count: int) -> list[int]:
    """Milliseconds: of any year since 1900, and near the times at which the clocks of `zone` change."""
    found = [chance.randrange(-2_200_000_000_000, 4_000_000_000_000) for _ in range(count)]
    for moment in found[: count // 2]:
        change = transition(moment, zone)
        if change is not None:
            found.append(change + chance.randrange(-3 * HOUR, 3 * HOUR))
    return found


def transition(start: int, zone: str) -> int | None:
    """The first change of clocks in the year behind `start`."""
    at = start
    step = 20 * 24 * HOUR
    for _ in range(18):
        if shown(at, zone).utcoffset() != shown(at + step, zone).utcoffset():
            low, high = at, at + step
            while high - low > 1000:
                middle = (low + high) // 2
                low, high = (
                    (middle, high) if shown(middle, zone).utcoffset() == shown(at, zone).utcoffset() else (low, middle)
                )
            return high // 1000 * 1000
        at += step
    return None


def shown(moment: int, zone: str) -> datetime:
    return (EPOCH + timedelta(milliseconds=moment)).astimezone(ZoneInfo(zone))


def millis(local: datetime) -> int:
    return (local - EPOCH) // timedelta(milliseconds=1)


@pytest.mark.parametrize("zone", ZONES)
def test_fields_are_those_of_datetime(zone: str) -> None:
    of = EpochChronology(1000, zone=zone)
    for moment in moments(random.Random(1), zone, 300):
        local = shown(moment, zone)
        found = [fields.get(moment, of, name) for name in ("year", "month", "day", "hour", "minute", "second", "msec")]
        parts = [local.year, local.month - 1, local.day, local.hour, local.minute, local.second]
        assert found == [*parts, local.microsecond // 1000], local
        assert fields.get(moment, of, "weekday") == local.isoweekday() % 7 + 1
        assert fields.get(moment, of, "yearday") == local.timetuple().tm_yday
        saturday = local.date() + timedelta(days=6 - local.isoweekday() % 7)
        week = (saturday.timetuple().tm_yday - 1) // 7 + 1
        assert fields.get(moment, of, "week") == week, "the week of 1 January is the first one"


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("seed", range(2))
def test_floors_hold_the_moment_and_are_where_clocks_say(zone: str, seed: int) -> None:
    of = EpochChronology(1000, zone=zone)
    for moment in moments(random.Random(seed), zone, 150):
        for field in ("second", "minute", "hour", "day", "month", "year"):
            low, high = fields.floor(moment, of, field), fields.ceiling(moment, of, field)
            assert low <= moment < high, (shown(moment, zone), field)
            assert fields.half(moment, of, field) in (low, high)
            assert fields.floor(low, of, field) == low, "a floor is its own floor"
            assert fields.floor(high, of, field) == high
            if shown(low, zone).utcoffset() == shown(low - 1, zone).utcoffset():
                local = shown(low, zone)
                assert (local.second, local.microsecond) == (0, 0) or field == "second"
                assert local.hour == 0 or field in ("second", "minute", "hour")


@pytest.mark.parametrize(
    ("zone", "moment", "field", "begin"),
    [
        ("America/Toronto", datetime(1919, 3, 31, 0, 45), "day", datetime(1919, 3, 31, 0, 30)),  # from 23:30
        ("America/Toronto", datetime(1919, 3, 31, 19), "day", datetime(1919, 3, 31, 0, 30)),
        ("America/Sao_Paulo", datetime(1914, 1, 1, 0, 6, 40), "minute", datetime(1914, 1, 1, 0, 6, 28)),
        ("America/Sao_Paulo", datetime(1914, 1, 1, 0, 40), "hour", datetime(1914, 1, 1, 0, 6, 28)),  # from midnight
    ],
)
def test_a_begin_that_clocks_pass_over_is_where_they_go_on(
    zone: str, moment: datetime, field: str, begin: datetime
) -> None:
    of = EpochChronology(1000, zone=zone)
    found = fields.floor(millis(moment.replace(tzinfo=ZoneInfo(zone))), of, field)
    assert shown(found, zone).replace(tzinfo=None) == begin
    if field == "day":
        assert fields.ceiling(found - HOUR, of, field) == found


@pytest.mark.parametrize("zone", ZONES)
def test_exact_units_are_exact_and_days_keep_the_time_of_day(zone: str) -> None:
    chance = random.Random(3)
    of = EpochChronology(1000, zone=zone)
    for moment in moments(chance, zone, 200):
        amount = chance.randrange(-400, 400)
        assert fields.add(moment, of, 1, ("hour",), amount) == moment + amount * HOUR
        assert fields.add(moment, of, -1, ("number",), amount) == moment - amount
        moved = fields.add(moment, of, 1, ("day",), amount)
        wanted = shown(moment, zone).replace(tzinfo=None) + timedelta(days=amount)
        choices = {millis(wanted.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)) for fold in (0, 1)}
        assert moved in choices, (shown(moment, zone), amount)
        found = shown(moved, zone)
        if len(choices) == 2 and found.replace(tzinfo=None) == wanted:  # shown twice
            own = shown(moment, zone).utcoffset()
            offsets = {shown(choice, zone).utcoffset() for choice in choices}
            assert found.utcoffset() == own or own not in offsets
        if len(choices) == 2 and found.replace(tzinfo=None) != wanted:  # passed over
            assert found.replace(tzinfo=None) > wanted


@pytest.mark.parametrize("seed", range(3))
def test_months_clip_to_the_last_day_and_go_there_and_back(seed: int) -> None:
    chance = random.Random(seed)
    of = EpochChronology(1000)
    for moment in moments(chance, "UTC", 200):
        months = chance.randrange(-300, 300)
        local, moved = shown(moment, "UTC"), shown(fields.add(moment, of, 1, ("month",), months), "UTC")
        years, month = divmod(local.month - 1 + months, 12)
        last = (date(local.year + years + month // 11, (month + 1) % 12 + 1, 1) - timedelta(days=1)).day
        wanted = (local.year + years, month + 1, min(local.day, last), local.time())
        assert (moved.year, moved.month, moved.day, moved.time()) == wanted
        if local.day <= 28:
            assert fields.add(fields.add(moment, of, 1, ("month",), months), of, -1, ("month",), months) == moment


@pytest.mark.parametrize("seed", range(3))
def test_setting_a_field_is_getting_it(seed: int) -> None:
    chance = random.Random(seed)
    ranges = {"msec": (0, 999), "second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 28), "month": (0, 11)}
    for zone in ZONES:
        for of in (EpochChronology(1000, zone=zone), InstantChronology(zone=zone), ZonedChronology()):
            for moment in moments(chance, zone, 30):
                value = moment if isinstance(of, EpochChronology) else in_zone(moment * 1000, ZoneInfo(zone))
                for field, (low, high) in ranges.items():
                    number = chance.randint(low, high)
                    if field == "month":
                        value = fields.set_field(value, of, "day", 1)
                    changed = fields.set_field(value, of, field, number)
                    if fields.get(changed, of, field) != number:  # a time that the clocks of the zone pass over
                        days, rest = of.wall(value)
                        assert of.wall(of.at(days, rest, value)) == (days, rest)
                        assert gap_near(changed, of, zone)


def gap_near(value: object, of: Chronology, zone: str) -> bool:
    moment = of.instant(value)
    ahead = [shown(moment + hours * HOUR, zone).utcoffset() for hours in (-26, 0, 26)]
    return len(set(ahead)) > 1


def test_days_of_the_reformed_calendar_and_of_the_one_before() -> None:
    for days in range(-160_000, 60_000, 7):
        for iso in (True, False):
            assert civil.days_of(*civil.date_of(days, iso), iso) == days
    assert civil.date_of(-141_427) == (1582, 10, 15)
    assert civil.date_of(-141_428) == (1582, 10, 4)
    for day in (date(1, 1, 1), date(1582, 10, 4), date(9999, 12, 31), date(2024, 2, 29)):
        assert civil.date_of(day.toordinal() - 719_163, True) == (day.year, day.month, day.day)


def test_moments_of_far_years_have_offsets_too() -> None:
    of = EpochChronology(1000, zone="Europe/Berlin")
    for moment in (-(1 << 63), -(10**16), 10**15, 10**17, (1 << 63) - 1):
        floor = fields.floor(moment // 4, of, "day")
        assert 0 <= moment // 4 - floor <= 25 * HOUR
        assert isinstance(format_date(moment, of, "G yyyy-MM-dd HH:mm:ss z"), str)
        assert -(1 << 63) <= fields.ceiling(moment, of, "year") < 1 << 63


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "pattern", ["yyyy-MM-dd HH:mm:ss.SSS Z", "EEE, d MMM yyyy hh:mm:ss.SSS a Z", "yyyyMMddHHmmssSSSZ"]
)
def test_what_is_written_is_read(zone: str, pattern: str) -> None:
    of = EpochChronology(1000, zone=zone)
    form = DateFormat("long", zone)
    for moment in moments(random.Random(5), zone, 100):
        if shown(moment, zone).utcoffset().total_seconds() % 60 == 0:  # type: ignore[union-attr]
            text = format_date(moment, of, pattern)
            assert form.read(text, pattern) == moment, text


@pytest.mark.parametrize("zone", ZONES)
def test_iso_texts_are_those_of_datetime(zone: str) -> None:
    for moment in moments(random.Random(6), zone, 100):
        local = shown(moment, zone)
        if local.utcoffset().total_seconds() % 60 == 0:  # type: ignore[union-attr]
            assert DateFormat("long").read(local.isoformat(), "iso") == moment
            naive = local.replace(tzinfo=None)
            assert DateFormat("localdatetime").read(naive.isoformat(), "iso") == naive
            assert format_date(naive, LocalChronology(iso=True), "uuuu-MM-dd'T'HH:mm:ss.SSSSSS") == naive.isoformat(
                timespec="microseconds"
            )
            zoned = DateFormat("zoneddatetime").read(f"{local.isoformat()}[{zone}]", "iso")
            assert (millis(zoned), zoned.utcoffset()) == (moment, local.utcoffset()), "the offset tells which of two"


@pytest.mark.parametrize(
    ("target", "pattern", "text"),
    [
        ("date", "yyyy-MM-dd", "2024-xx-01"),
        ("date", "yyyy-MM-dd", ""),
        ("date", "d MMM yyyy", "1 Foo 2024"),
        ("localdate", "yyyy-MM-dd", "2024-02-32"),
        ("localdate", "yyyy-MM-dd", "2024-13-01"),
        ("localdate", "yyyy-MM-dd", "2024-02-01 "),
        ("localdatetime", "yyyy-MM-dd HH:mm", "2024-02-01 24:00"),
        ("localtime", "HH:mm", "10:60"),
        ("zoneddatetime", "yyyy-MM-dd HH:mm", "2024-02-01 10:00"),
        ("zoneddatetime", "iso", "2024-02-01T10:00[Nowhere/Town]"),
        ("long", "iso", "2024-02-30"),
        ("long", "iso", "yesterday"),
    ],
)
def test_unreadable(target: str, pattern: str, text: str) -> None:
    with pytest.raises(DateParseError, match="is no date of the form"):
        DateFormat(target).read(text, pattern)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_texts_and_patterns_are_read_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    letters = "yMdHhmsSaEzZXDwGuVO'[]-:/ 0T"
    for _ in range(300):
        pattern = "".join(chance.choice(letters) * chance.randint(1, 4) for _ in range(chance.randint(1, 6)))
        text = "".join(chance.choice("0123456789-:/ TZAPMUC[]+.MarFeb") for _ in range(chance.randint(0, 20)))
        for target in ("long", "date", "calendar", "localdatetime", "zoneddatetime", "localdate", "localtime"):
            try:
                DateFormat(target).read(text, pattern)
            except ValueError:
                pass
        for value, of in ((1709547630456, EpochChronology(1000)), (datetime(2024, 3, 4), LocalChronology(iso=True))):
            try:
                assert isinstance(format_date(value, of, pattern), str)
            except ValueError:
                pass
