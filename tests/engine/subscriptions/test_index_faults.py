"""The filter index is whole after an exception at any line, and a failure of user code is that of each rule alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.subscriptions import filter_index, intervals
from cepbook.engine.subscriptions.filter_index import FilterIndex, Subscription

SCHEMA = "create schema E(g int, x double, k string)"
FILES = {filter_index.__file__, intervals.__file__}
RULES = [
    *(f"select * from E(g = {i})" for i in range(6)),
    *(f"select * from E(x between {i} and {i + 2})" for i in range(6)),
    "select * from E(g in (1, 2, 3), x > 1)",
    "select * from E",
    "@Drop select * from E(g = 1, x > 5)",
]
EVENTS = [{"g": g, "x": float(x), "k": "a"} for g in range(-1, 6) for x in range(0, 9, 2)]


def interrupt_at(line: int) -> Callable[[FrameType, str, Any], Any]:
    """A trace function that interrupts at the `line`-th line that the index runs."""
    remaining = line

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal remaining
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            remaining -= 1
            if remaining == 0:
                raise KeyboardInterrupt
        return trace

    return trace


def interrupted(line: int, act: Callable[[], object]) -> bool:
    former = sys.gettrace()
    sys.settrace(interrupt_at(line))
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(former)
    return False


def subscriptions() -> list[Subscription]:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    for rule in RULES:
        runtime.deploy(rule)
    return [each for statement in runtime.statements.values() for each in statement.subscribers("E")]


def handlers(index: FilterIndex, event: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    index.root.match(event, found)
    return sorted(order for order, _ in found)


@pytest.mark.parametrize("build", [True, False], ids=["built", "not built"])
@pytest.mark.parametrize("number", [0, 7, 12, 13, 14])
@pytest.mark.parametrize("act", ["add", "remove"])
def test_an_interruption_at_any_line_leaves_the_subscription_in_or_out(act: str, number: int, build: bool) -> None:
    every = subscriptions()
    subject = every[number]
    others = [each for each in every if each is not subject]
    outcomes = set()
    for line in range(1, 10_000):
        index = FilterIndex(others if act == "add" else every)
        if build:
            assert not index.root.empty
        change = index.add if act == "add" else index.remove
        stopped = interrupted(line, lambda change=change: change(subject))
        present = subject in index.subscriptions()
        outcomes.add(present)
        expected = FilterIndex(every if present else others)
        assert len(index) == len(expected)
        assert all(handlers(index, event) == handlers(expected, event) for event in EVENTS), line
        assert index._dropping >= {id(each) for each in index.subscriptions() if each.drops}
        (index.remove if present else index.add)(subject)
        assert len(index) == len(others) + (not present)
        if not stopped:
            break
    assert outcomes == {True, False}


class Failing:
    """A value of a user's class, which fails when it is compared."""

    def __init__(self, *, hashes: bool) -> None:
        self.hashes = hashes

    def __hash__(self) -> int:
        if not self.hashes:
            raise ZeroDivisionError("hash")
        return 7

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError("eq")

    def __lt__(self, other: object) -> NoReturn:
        raise ZeroDivisionError("lt")

    __gt__ = __le__ = __ge__ = __lt__


class Text(str):
    """A text that differs from others by its own rule."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()


def outcome(rules: list[str], event: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The rules that fail and those that deliver."""
    runtime, failed, called = Runtime(), list[str](), list[str]()
    runtime.add_error_listener(lambda error: failed.append(error.statement))
    runtime.deploy(SCHEMA)
    for rule in rules:
        name = f"s{RULES_OF_VALUES.index(rule)}"
        runtime.deploy(f"@name('{name}') {rule}")
        runtime.statement(name).add_listener(lambda delta, name=name: called.append(name))
    runtime.send("E", event)
    return failed, called


RULES_OF_VALUES = [
    *(f"select g from E(k = '{letter}')" for letter in "abcdef"),
    *(f"select g from E(x between {i} and {i + 2})" for i in range(6)),
    *(f"select g from E(g = {i})" for i in range(6)),
    "select g from E",
]


@pytest.mark.parametrize("rules", [RULES_OF_VALUES, RULES_OF_VALUES[:6]], ids=["tree", "table"])
@pytest.mark.parametrize(
    "event",
    [
        {"g": 2, "x": 1.0, "k": Failing(hashes=True)},
        {"g": 2, "x": 1.0, "k": Failing(hashes=False)},
        {"g": 2, "x": Failing(hashes=True), "k": "a"},
        {"g": Failing(hashes=True), "x": 1.0, "k": "b"},
        {"g": 2, "x": 1.0, "k": Text("B")},
    ],
)
def test_a_value_that_fails_does_so_in_the_rules_that_compare_it(rules: list[str], event: dict[str, Any]) -> None:
    alone = [outcome([rule], event) for rule in rules]
    expected = [name for failed, _ in alone for name in failed], [name for _, called in alone for name in called]
    assert outcome(rules, event) == expected
    assert expected[0] or expected[1]


def test_unfiltered_rules_enter_and_leave_the_index_in_steps_of_their_own() -> None:
    """Each took as many steps as there were rules: 4,000 of them took three seconds."""
    (plain,) = [each for each in subscriptions() if each.filter is None]
    several = [Subscription((0, number), None, plain.checked, plain.matched) for number in range(4_000)]
    index = FilterIndex([])
    assert index.root.empty
    start = time.process_time()
    for each in several:
        index.add(each)
    assert len(index.root.leaves) == len(several)
    for each in several:
        index.remove(each)
    assert index.root.empty
    assert time.process_time() - start < 1
