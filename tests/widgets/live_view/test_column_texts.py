"""A word is found in numbers exactly where it is part of their texts."""

import sys
from random import Random
from typing import Any

import numpy as np
import pytest

from cepbook.widgets.live_view.column_texts import WIDTH, is_in_numbers, number_texts
from cepbook.widgets.live_view.value_columns import value_column
from tests.random_cases import seeds

EDGES: tuple[list[Any], ...] = (
    [0, 1, -1, 10, -10, 100, 2**63 - 1, -(2**63), 10**9, 10**9 - 1, -(10**9)],
    [0.0, -0.0, 0.5, -0.5, 0.001, -0.001, 1e-5, 1e12, 1e11 + 0.5, 1e300, float("nan"), float("inf"), -float("inf")],
    [0.1 + 0.2, 1 / 3, 123.456, 123.4567, 5.0, 50.05, -12.12],
    [1e-4, 0.00012345, 9.99999e-5, -1.5e-7, 5e-324, 1e9 - 2**-20, 1e9 + 0.0001, 1e15, 1e16, 2.0**53 + 2, 1.7976e308],
)


def number(draw: Random, kind: str) -> int | float:
    if kind == "whole":
        return draw.choice([-1, 1]) * draw.randrange(10 ** draw.randrange(1, 12))
    decimals = round(draw.gauss(0, 10 ** draw.randrange(1, 6)), draw.randrange(4))
    return decimals if kind == "decimals" or draw.random() < 0.3 else draw.gauss(0, 1) * 10.0 ** draw.randrange(-9, 18)


@pytest.mark.parametrize("seed", seeds(60))
def test_words_in_random_numbers(seed: int) -> None:
    draw = Random(seed)
    kind = draw.choice(["whole", "decimals", "any"])
    numbers = [number(draw, kind) for _ in range(50)]
    numbers += draw.choice([of for of in EDGES if isinstance(of[0], int) == (kind == "whole")])
    texts = number_texts(np.array(numbers))
    for _ in range(40):
        of = str(draw.choice(numbers))
        start = draw.randrange(len(of))
        word = of[start : draw.randrange(start + 1, len(of) + 1)]
        word = draw.choice(
            [word, word, f"0{word}", f"-{word}", f"{word}.", f".{word}", f"{word}0", "-0", "0", "00", "-."]
        )
        expected = [word in str(value) for value in numbers]
        assert texts.containing(word).tolist() == expected, word
        assert is_in_numbers(word) or not any(expected)


def test_numbers_are_searched_without_arrow_as_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(7)
    numbers = np.array([number(draw, "any") for _ in range(3_000)] + [of for edge in EDGES[1:] for of in edge])
    words = ["7", "12", "-3", ".5", "e", "e-0", "0.0001", "nan", "inf", "999"]
    searched = [number_texts(numbers).containing(word) for word in words]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for word, places in zip(words, searched, strict=True):
        expected = [word in text for text in map(str, numbers.tolist())]
        assert number_texts(numbers).containing(word).tolist() == places.tolist() == expected
        assert any(expected)


def test_a_word_is_never_found_across_two_texts() -> None:
    widest = [-1.2345678901234567e-308, -1.2345678901234567e-308]
    assert {len(str(number)) for number in widest} == {WIDTH}
    texts = number_texts(np.array(widest))
    for word, contained in (("308-1", False), ("e-308", True), (str(widest[0]), True), (f"{widest[0]}0", False)):
        assert texts.containing(word).tolist() == [contained, contained], word
    assert number_texts(np.array([12, 34])).containing("23").tolist() == [False, False]
    assert number_texts(np.zeros(0)).containing("2").tolist() == []


def test_a_column_of_texts_with_other_values_is_no_column_of_texts() -> None:
    for values in (["a", "b", 1, None], ["a", [1], "b"], [None, "a", True]):
        assert value_column(values).values() == values
    assert value_column([1.5, None, float("inf"), None]).values() == [1.5, None, float("inf"), None]
    nan = value_column([float("nan"), None, 2.0])
    assert nan.null.tolist() == [False, True, False]


def test_a_column_of_a_known_type_is_the_column_that_its_values_show() -> None:
    nan = float("nan")
    columns = {
        float: ([1.5, 2.0], [None, 1.5, nan], [nan], [None], []),
        int: ([3, 1, 0], [None, 3], [2**70, None], [2**63 - 1, -(2**63)], [None], []),
    }
    for kind, lists in columns.items():
        for values in lists:
            known, chosen = value_column(values, kind=kind), value_column(values)
            assert repr(known.values()) == repr(values)
            assert known.null.tolist() == [value is None for value in values] == chosen.null.tolist()
            for word in ("nan", "1", ".", "none", "-"):
                assert known.containing(word).tolist() == chosen.containing(word).tolist(), (values, word)


def test_a_word_that_is_no_section_of_a_number_is_not_searched_in_numbers() -> None:
    assert not any(map(is_in_numbers, ("2013-07-02", "07-02", "1.5.2", "e5", "12:30", "--", "x", "1 2")))
    assert all(map(is_in_numbers, ("-1.5", "e-05", "+16", "e", ".", "-", "an", "inf", "5e+")))
