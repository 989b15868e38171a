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


def test_values_of_several_kinds_have_an_order() -> None:
    rows = [{"v": value} for value in ("b", 2, [1], True, None, "a")]
    assert [row["v"] for row in Choice(by="v").first(rows, 9)] == [True, 2, "a", "b", [1], None]
