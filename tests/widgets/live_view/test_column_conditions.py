"""Conditions on columns: each sort of condition on each sort of values, beside a naive reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from cepbook.display import format_time
from cepbook.errors import UsageError
from cepbook.widgets.live_view.column_conditions import column_test
from cepbook.widgets.live_view.value_columns import value_column

DAY = 86_400_000
JULY = int(datetime(2013, 7, 1, tzinfo=UTC).timestamp() * 1000)
TIMES = [None, *(JULY + hours * 3_600_000 + 30_000 + extra for hours in range(-30, 60, 5) for extra in (0, 250))]
CLOCKS = [None, 0, 59_999, 60_000, 125_250, DAY + 61_000]
NUMBERS = [None, -3, 0, 5, 10, 15, 20, 21, 100, 101]
FLOATS = [None, -0.5, 0.0, 10.0, 15.25, 20.0, 100.0, 1e300, math.nan, math.inf]
LARGE = [None, 2**80, 9_007_199_254_740_993, 10, 15, -(2**70)]
MIXED = [None, 10, 15.5, "15", "Rome", True, [1, "x"], {"a": 1}]
TEXTS = [None, "Rome", "rome", "ROME 2", "Bonn", "", "rock and roll", "10", "null"]
TRUTHS = [None, True, False]

Naive = Callable[[Any], bool]
NUMERIC: dict[str, Naive] = {
    "> 10": lambda v: v > 10,
    ">10": lambda v: v > 10,
    "<= 15": lambda v: v <= 15,
    "= 15": lambda v: v == 15,
    "15": lambda v: v == 15,
    "!= 15": lambda v: v != 15,
    "<> 15": lambda v: v != 15,
    "10 .. 20": lambda v: 10 <= v <= 20,
    "10..20": lambda v: 10 <= v <= 20,
    "between 10 and 20": lambda v: 10 <= v <= 20,
    "10 ..": lambda v: v >= 10,
    ".. 10": lambda v: v <= 10,
    "> 5 and < 100": lambda v: 5 < v < 100,
    "< 0 or > 100": lambda v: v < 0 or v > 100,
    "not 15": lambda v: v != 15,
    "not null": lambda v: True,
    "is not null and > 10": lambda v: v > 10,
}
OF_TEXTS: dict[str, Naive] = {
    "rom": lambda v: "rom" in v.lower(),
    "ROME": lambda v: "rome" in v.lower(),
    "= Rome": lambda v: v == "Rome",
    "'Rome'": lambda v: v == "Rome",
    '"rock and roll"': lambda v: v == "rock and roll",
    "!= 'Rome'": lambda v: v != "Rome",
    "rome or bonn": lambda v: "rome" in v.lower() or "bonn" in v.lower(),
    "rome and 2": lambda v: "rome" in v.lower() and "2" in v,
    "not rome": lambda v: "rome" not in v.lower(),
    "> 'M'": lambda v: v > "M",
    "'null'": lambda v: v == "null",
    "= ''": lambda v: v == "",
}
OF_TIMES: dict[str, Naive] = {
    "2013-07-01": lambda v: JULY <= v < JULY + DAY,
    "2013-07": lambda v: v >= JULY,
    "= 2013-07-01 05": lambda v: JULY + 5 * 3_600_000 <= v < JULY + 6 * 3_600_000,
    "2013-06-30 .. 2013-07-01": lambda v: JULY - DAY <= v < JULY + DAY,
    "> 2013-07-01": lambda v: v > JULY,
    "< 2013-07-01 00:00:30.250": lambda v: v < JULY + 30_250,
    "2013-07-01 00:00:30.250": lambda v: v == JULY + 30_250,
    "!= 2013-07-01": lambda v: not JULY <= v < JULY + DAY,
    "2013-07-01T05:00 ..": lambda v: v >= JULY + 5 * 3_600_000,
    str(JULY + 30_000): lambda v: v == JULY + 30_000,
    ":30.250": lambda v: ":30.250" in format_time(v),
    "05:00": lambda v: "05:00" in format_time(v),
    "01 05:0": lambda v: "01 05:0" in format_time(v),
}
OF_CLOCKS: dict[str, Naive] = {
    "00:01": lambda v: 60_000 <= v < 120_000,
    "> 00:01:00": lambda v: v > 60_000,
    "1d 00:01:01": lambda v: v == DAY + 61_000,
    "00:02:05.25": lambda v: v == 125_250,
    ".. 00:01": lambda v: v < 120_000,
}
SWEEP = [
    (name, values, text, naive)
    for name, values, conditions in (
        ("numbers", NUMBERS, NUMERIC),
        ("floats", FLOATS, NUMERIC),
        ("large", LARGE, NUMERIC),
        ("texts", TEXTS, OF_TEXTS),
        ("times", TIMES, OF_TIMES),
        ("clocks", CLOCKS, OF_CLOCKS),
    )
    for text, naive in conditions.items()
]


@pytest.mark.parametrize(
    ("name", "values", "text", "naive"), SWEEP, ids=[f"{name} {text}" for name, _, text, _ in SWEEP]
)
def test_conditions(name: str, values: list[Any], text: str, naive: Naive) -> None:
    expected = [value is not None and naive(value) for value in values]
    column = value_column(values, timed=name in ("times", "clocks"))
    assert column_test(text)(column).tolist() == expected
    half = len(values) // 2
    grown = value_column(values[:half], timed=column.timed).extended(values[half:])  # as a stream grows
    assert column_test(text)(grown).tolist() == expected
    assert repr(grown.values()) == repr(values)


def test_the_sweep_is_large() -> None:
    assert len(SWEEP) >= 80


@pytest.mark.parametrize("values", [NUMBERS, FLOATS, LARGE, MIXED, TEXTS, TIMES, TRUTHS, [None], []])
def test_null_passes_null_alone(values: list[Any]) -> None:
    column = value_column(values)
    assert column_test("null")(column).tolist() == [value is None for value in values]
    assert column_test("not null")(column).tolist() == [value is not None for value in values]
    assert column.values() == values or math.nan in values


def test_truth_values_and_mixed_ones() -> None:
    assert column_test("true")(value_column(TRUTHS)).tolist() == [False, True, False]
    assert column_test("!= true")(value_column(TRUTHS)).tolist() == [False, False, True]
    assert column_test("= 15")(value_column(MIXED)).tolist() == [v == "15" for v in MIXED]
    assert column_test("x")(value_column(MIXED)).tolist() == [v == [1, "x"] for v in MIXED]
    assert column_test("> 2013-07-01")(
        value_column([datetime(2013, 7, 1, 1), None, datetime(2013, 6, 1, tzinfo=UTC)])
    ).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("text", "values", "timed"),
    [
        ("> abc", NUMBERS, False),
        ("abc", NUMBERS, False),
        ("10 .. x", FLOATS, False),
        ("maybe", TRUTHS, False),
        ("> yesterday", TIMES, True),
        ("> 10:00", TIMES, True),
        ("> 2013-13", TIMES, True),
        ("> 2013-07-01 25:00", TIMES, True),
        (">", NUMBERS, False),
        ("and", NUMBERS, False),
        ("10 or", NUMBERS, False),
        ("between 10", NUMBERS, False),
        ("> 10 < 20", NUMBERS, False),
        ("'a' 'b'", TEXTS, False),
    ],
)
def test_senseless_conditions_are_refused(text: str, values: list[Any], timed: bool) -> None:
    with pytest.raises(UsageError, match="`"):
        column_test(text)(value_column(values, timed=timed))
