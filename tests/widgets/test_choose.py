"""Which rows of a large table a page gets."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.widgets.choose import Choice

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
    choice = Choice.of(asked)
    found = choice.first(choice.found(ROWS, ["symbol"]), 3)
    assert [row["id"] for row in found] == expected


@pytest.mark.parametrize(
    "words", ["a", "1", "1.5", "e-05", "nan", "inf", "true", "none", "-2", "b a", "1 b", "x", "[1"]
)
def test_rows_are_found_by_each_of_their_values(words: str) -> None:
    values = ["Ab", "b1", 1, -2, 1.5, 1e-05, float("nan"), float("inf"), True, None, [1, "x"], 15]
    rows = [{"p": left, "q": right} for left in values for right in values]
    naive = [
        r for r in rows if all(any(w in str(v).lower() for v in r.values() if v is not None) for w in words.split())
    ]
    assert Choice.of({"filter": words}).found(rows, ["p", "q"]) == naive


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize(
    "values", [[3, 1.5, None, 2, 1.5, True], ["b", None, "a", "b"], [1.0, float("nan"), 0.5, 2], []]
)
def test_a_few_are_the_first_of_all_in_the_same_order(values: list[object], down: bool) -> None:
    rows = [{"place": place, "v": value} for place, value in enumerate(values)]
    choice = Choice(by="v", down=down)
    every = choice.first(rows, 100)
    assert len(every) == len(rows)
    assert all(choice.first(rows, few) == every[:few] for few in range(len(rows)))


def test_values_of_several_kinds_have_an_order() -> None:
    rows = [{"v": value} for value in ("b", 2, [1], True, None, "a")]
    assert [row["v"] for row in Choice(by="v").first(rows, 9)] == [True, 2, "a", "b", [1], None]
