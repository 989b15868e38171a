"""Corners of the runtime: listeners that fail or drop statements, times out of range, one timer per window."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.clock import LAST
from cepbook.engine.runtime import Runtime
from cepbook.errors import EventError, StatementError


def _runtime(*modules: str) -> Runtime:
    runtime = Runtime()
    runtime.deploy("create schema T(x int)")
    for number, epl in enumerate(modules):
        runtime.deploy(epl, deployment_id=f"d{number}")
    return runtime


def test_a_failing_listener_is_named_as_such_and_the_statement_goes_on() -> None:
    runtime = _runtime("@name('q') select x from T#length(2)")
    runtime.statement("q").add_listener(lambda delta: 1 / 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(StatementError, match="a listener of statement `q` failed on an event: ZeroDivisionError"):
        runtime.send("T", {"x": 1})
    assert runtime.iterate("q") == [{"x": 1}]


def test_a_failing_expression_is_shown_where_it_stands() -> None:
    runtime = _runtime("@name('q') select x, cast('a' || cast(x, string), int) as y from T")
    runtime.statement("q").add_listener(lambda delta: None)
    with pytest.raises(StatementError, match="statement `q` failed on an event: ValueError") as caught:
        runtime.send("T", {"x": 1})
    assert caught.value.span is not None
    assert str(caught.value).splitlines()[1:] == [
        "  --> epl:1:1",
        "1 | @name('q') select x, cast('a' || cast(x, string), int) as y from T",
        "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]


def test_a_listener_may_drop_a_statement_that_has_yet_to_see_the_event() -> None:
    runtime = _runtime("@name('a') select x from T", "@name('b') select x from T#length(3)")
    seen: list[Any] = []
    runtime.statement("b").add_listener(seen.append)
    runtime.statement("a").add_listener(lambda delta: "b" in runtime.statements and runtime.undeploy("d1"))  # type: ignore[arg-type, func-returns-value, return-value]
    runtime.send("T", {"x": 1})
    runtime.send("T", {"x": 2})
    assert seen == []
    assert list(runtime.statements) == ["a"]


def test_the_clock_ends_before_never() -> None:
    runtime = _runtime("select x from T#length(3)")
    runtime.advance(LAST)
    with pytest.raises(EventError, match="beyond the last time"):
        runtime.advance(1 << 62)
    assert runtime.now == LAST


def test_the_one_timer_of_a_window_shows_and_goes() -> None:
    runtime = _runtime("@name('q') select irstream x from T#time(10 msec)")
    assert runtime.next_due is None
    runtime.send("T", {"x": 1}, 5)
    runtime.send("T", {"x": 2}, 8)
    assert runtime.next_due == 15
    assert runtime.state("q") == [{"partition": None, "retained": 2, "groups": None, "next_timer": 15}]
    runtime.advance(15)
    assert runtime.next_due == 18
    runtime.advance(100)
    assert runtime.next_due is None
    assert runtime.iterate("q") == []
