"""Milliseconds, dates and periods."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from cepbook.errors import UsageError
from cepbook.session.io.time_conversion import (
    clock_text,
    parse_period,
    parse_time,
    period_units,
    to_clock_units,
    to_datetime,
)


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (1500, 1500),
        (-1, -1),
        (np.int32(7), 7),
        (datetime(1970, 1, 1, 0, 0, 1), 1000),
        (datetime(1970, 1, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1))), 1000),
        pytest.param(
            datetime(1969, 12, 31, 23, 59, 59, 999_900), -1, marks=pytest.mark.filterwarnings("ignore:times are cut")
        ),
        (date(1970, 1, 2), 86_400_000),
        ("1970-01-01T00:00:01.5", 1500),
        ("1970-01-01 00:00:01Z", 1000),
        ("2013-01-01T05:00:00-05:00", 1357034400000),
        (pd.Timestamp("1970-01-01 00:00:02"), 2000),
    ],
)
def test_to_ms(value: object, ms: int) -> None:
    assert to_clock_units(value) == ms


@pytest.mark.parametrize("value", [None, True, "soon", 1.5, pd.NaT, [1]])
def test_what_is_no_time(value: object) -> None:
    with pytest.raises(UsageError):
        to_clock_units(value)


def test_back_to_dates() -> None:
    assert to_datetime(1500) == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert to_datetime(10**18) is None
    assert (clock_text(0), clock_text(1), clock_text(10**18)) == (
        "00:00:00.000",
        "00:00:00.001",
        f"{10**18} ms",
    )


@pytest.mark.parametrize(
    ("text", "ms"),
    [("10 sec", 10_000), ("1 hour 30 minutes", 5_400_000), ("1.5 seconds", 1500), ("2 weeks", 1_209_600_000)],
)
def test_periods(text: str, ms: int) -> None:
    assert period_units(text) == ms
    assert period_units(timedelta(milliseconds=ms)) == ms


@pytest.mark.parametrize("text", ["", "10", "sec", "1 month", "1 sec and 2 min"])
def test_what_is_no_period(text: str) -> None:
    assert parse_period(text) is None
    with pytest.raises(UsageError, match="not a time period"):
        period_units(text)


@pytest.mark.parametrize("second", [1000, 1_000_000])
@pytest.mark.parametrize("time", [0, 1, -1, 745_284, -745_284, 86_399_999, -86_400_000, 200_000_123, 1_357_019_100_001])
def test_what_is_shown_can_be_written(time: int, second: int) -> None:
    for units in (time, time * (second // 1000)):
        assert parse_time(clock_text(units, second), second) == units


def test_times_since_the_beginning_are_read_without_all_of_it() -> None:
    assert (parse_time("00:05"), parse_time(" 2d 08:00 "), parse_time("-00:00:01.5")) == (300_000, 201_600_000, -1_500)
    assert parse_time("2013-01-01T10:17Z") == 1_357_035_420_000
    with pytest.raises(UsageError, match="'5:00' is not an ISO 8601"):
        parse_time("5:00")
