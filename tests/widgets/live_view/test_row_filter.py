"""Which rows of a large table a page gets."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from cepbook.widgets.live_view.row_filter import RowFilter, SheetColumns
from tests.widgets.fakes import FakeSheet

ROWS: list[dict[str, Any]] = [
    {"id": 0, "symbol": "ACME", "events": 3},
    {"id": 1, "symbol": "bolt", "events": None},
    {"id": 2, "symbol": "acid", "events": 7},
    {"id": 3, "symbol": None, "events": float("nan")},
]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, [0, 1, 2]),
        ({"filter": "AC"}, [0, 2]),
        ({"by": "events"}, [0, 2, 3]),
        ({"by": "events", "down": True}, [3, 2, 0]),
        ({"by": "symbol", "down": True}, [1, 2, 0]),
        ({"by": "symbol"}, [0, 2, 1]),
        ({"by": "nothing"}, [0, 1, 2]),
        ({"by": 5, "down": "yes", "filter": ["a"]}, [0, 1, 2]),
    ],
)
def test_the_rows_that_were_asked_for(asked: dict[str, Any], expected: list[int]) -> None:
    choice = RowFilter.of(asked)
    columns = SheetColumns(FakeSheet(ROWS))
    assert list(choice.first(columns, choice.found(columns, ["symbol"]).places, 3)) == expected


@pytest.mark.parametrize(
    "words", ["a", "1", "1.5", "e-05", "nan", "inf", "true", "none", "-2", "b a", "1 b", "x", "[1", "-0", "0.0"]
)
def test_rows_are_found_by_each_of_their_values(words: str) -> None:
    values = ["Ab", "b1", 1, -2, 1.5, 1e-05, float("nan"), float("inf"), True, None, [1, "x"], 15, 0.0, -0.0]
    rows = [{"p": left, "q": right} for left in values for right in values]
    for chosen in (rows, rows[:1] * 700 + rows, [r for r in rows if type(r["p"]) is float and type(r["q"]) is str] * 9):
        naive = [
            place
            for place, row in enumerate(chosen)
            if all(any(w in str(v).lower() for v in row.values() if v is not None) for w in words.split())
        ]
        assert list(RowFilter.of({"filter": words}).found(SheetColumns(FakeSheet(chosen)), ["p", "q"]).places) == naive


MANY = random.Random(3).choices([3, 1.5, None, 2, True, float("nan"), "b", "a", [2], [10], -(2**70), 1e300], k=4_000)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        [3, 1.5, None, 2, 1.5, True],
        ["b", None, "a", "b"],
        [1.0, float("nan"), 0.5, 2],
        [],
        MANY,
        [each for each in MANY if isinstance(each, str)],
        [each if isinstance(each, float) else None for each in MANY],
        [each for each in MANY if type(each) is float and each == each],
        [7] * 3_000,
        [place % 16 for place in range(3_000)],
    ],
)
def test_a_few_are_the_first_of_all_in_the_same_order(values: list[object], down: bool) -> None:
    """Numbers, none of them, texts, all else as text; of equal ones the first comes first; null is last both ways."""

    def rank(place: int) -> tuple[int, object]:
        value = values[place]
        if isinstance(value, int | float):
            return (0, value) if value == value else (1, 0)
        return (2, value) if isinstance(value, str) else (3, str(value))

    there = [place for place, value in enumerate(values) if value is not None]
    naive = sorted(there, key=rank, reverse=down) + [p for p, value in enumerate(values) if value is None]
    columns, choice = SheetColumns(FakeSheet([{"v": value} for value in values])), RowFilter(by="v", down=down)
    for most in (0, 1, 3, 40, 700, len(values)):
        assert list(choice.first(columns, np.arange(len(values)), most)) == naive[:most]
    few = np.arange(0, len(values), 3)
    assert list(choice.first(columns, few, 50)) == [place for place in naive if place in few][:50]
