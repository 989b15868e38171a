"""Regular expressions against Python's, on patterns and texts that it can do, and in time on those that it cannot."""

from __future__ import annotations

import random
import re
import time

import pytest

from cepbook.lang.java.character_classes import UnknownCharacterClass
from cepbook.lang.java.regular_expressions import (
    MAX_BACKTRACKING_STEPS,
    PatternTooExpensive,
    RegularExpression,
    _Automaton,
    compile_regular_expression,
)


def pattern(chance: random.Random, depth: int) -> str:
    kind = chance.random()
    if depth == 0 or kind < 0.3:
        return chance.choice(["a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\D", "A", r"\s"])
    if kind < 0.5:
        return pattern(chance, depth - 1) + pattern(chance, depth - 1)
    if kind < 0.6:
        return f"({pattern(chance, depth - 1)}|{pattern(chance, depth - 1)})"
    if kind < 0.65:
        return chance.choice(["^", "$", r"\b", r"\B"]) + pattern(chance, depth - 1)
    if kind < 0.7:
        return f"(?i:{pattern(chance, depth - 1)})"
    return (
        f"({pattern(chance, depth - 1)}){chance.choice(['*', '+', '?', '{1,2}', '{2}', '*?', '+?', '{2,}', '{0,3}'])}"
    )


@pytest.mark.parametrize("seed", range(4))
def test_automata_accept_what_python_matches(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        text = pattern(chance, 4)
        try:
            found = RegularExpression(text)
        except re.error:  # such as repeated positions
            continue
        automaton = _Automaton(found._parsed, found._pattern)
        for _ in range(5):
            value = "".join(chance.choice("aabbcAB1 \n") for _ in range(chance.randrange(9)))
            if found._steps(len(value)) <= MAX_BACKTRACKING_STEPS:
                expected = re.fullmatch(text, value) is not None
                assert automaton.accepts(value) is expected, (text, value)
                assert found.matches(value) is expected


@pytest.mark.parametrize(
    ("text", "value", "matches"),
    [
        ("(a+)+b", "a" * 3000, False),
        ("(a+)+b", "a" * 3000 + "b", True),
        ("(a|aa)*c", "a" * 1000, False),
        ("(.*)*x", "a" * 2000, False),
        ("a?" * 40 + "a" * 40, "a" * 40, True),
        (".*a.*b.*c.*d.*e", "a" * 2000, False),
        ("((a*)*)*b", "a" * 500, False),
        (r"(\w+\s?)+!", "some words and then " * 40, False),
        ("a*(?:aa){400}b", "a" * 50_000, False),
    ],
)
def test_bad_patterns_end(text: str, value: str, matches: bool) -> None:
    before = time.process_time()
    assert RegularExpression(text).matches(value) is matches
    assert time.process_time() - before < 5, "they took centuries"


def test_what_no_automaton_can_do_is_an_error_where_it_would_take_too_long() -> None:
    found = RegularExpression(r"(?=a)(a+)+b")
    assert found.may_fail and not RegularExpression("(a+)+b").may_fail and not RegularExpression("a.*b").may_fail
    assert found.matches("aaab") and not found.matches("aaa")
    with pytest.raises(PatternTooExpensive, match="would take too long"):
        found.matches("a" * 40)
    with pytest.raises(PatternTooExpensive, match="too large"):
        RegularExpression("((a{1,100}){1,100}){1,100}b").matches("a" * 40)


def test_a_pattern_of_fixed_length_is_cheap_for_all_texts() -> None:
    assert not RegularExpression(r"(a|b)\1(?=c)c").may_fail


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"\p{Alpha}+", "abZ", "ä"),
        (r"\p{Upper}\p{Lower}*", "Abc", "abc"),
        (r"\P{Digit}+", "aä-", "1"),
        (r"[\p{Punct}x]+", "!/x~", "y"),
        (r"[^\p{Space}]+", "ab", "a b"),
        (r"\p{L}+", "aäЖ漢", "1"),
        (r"\pL\p{Nd}", "ж٣", "3a"),
        (r"[\P{Lu}]", "a", "Ä"),
        (r"\p{IsAlphabetic}\p{IsL}", "üb", "1b"),
        (r"\\p\{x\}", r"\p{x}", "x"),
        (r"a&&b", "a&&b", "ab"),
        (r"[a&]&&", "&&&", "&"),
        (r"(\p{XDigit}{2})+", "0aFF", "0g"),
    ],
)
def test_classes_of_java(pattern: str, yes: str, no: str) -> None:
    assert compile_regular_expression(pattern).matches(yes)
    assert not compile_regular_expression(pattern).matches(no)


@pytest.mark.parametrize("pattern", [r"\p{Nonsense}", "[a-z&&[^b]]", r"\p{Xx}", r"\pX"])
def test_classes_that_there_are_not_are_told(pattern: str) -> None:
    with pytest.raises(UnknownCharacterClass, match="in a regular expression"):
        compile_regular_expression(pattern)
