"""Corners of the runtime: listeners that fail or drop statements, times out of range, one timer per window."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.time.clock import LAST_TIME
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import BindError, EventError, StatementError
from cepbook.lang.plan.catalog import FunctionType
from cepbook.lang.types import INT


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
        "  --> epl:1:22",
        "1 | @name('q') select x, cast('a' || cast(x, string), int) as y from T",
        "  |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
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
    runtime.advance(LAST_TIME)
    with pytest.raises(EventError, match="later than the last time"):
        runtime.advance(1 << 62)
    assert runtime.now == LAST_TIME


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


@pytest.mark.parametrize("batched", [False, True])
def test_an_event_that_no_statement_reads_opens_a_partition(batched: bool) -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema T(symbol string); create schema N(id string);"
        "create context C partition by symbol from T, id from N;"
        "@name('q') context C select context.key1 as k, count(*) as c from N"
    )
    if batched:
        batch = runtime.batch(["T"])
        assert batch.columns == {"T": ("symbol",)}
        batch.run([ColumnBatch("T", [1, 2, 3], {"symbol": ["A", "B", "A"]})])
        assert batch.reason is None
    else:
        for symbol in "ABA":
            runtime.send("T", {"symbol": symbol})
    assert [p["key1"] for p in runtime.partitions("C")] == ["A", "B"]
    assert runtime.iterate("q") == [{"k": "A", "c": 0}, {"k": "B", "c": 0}]


def test_a_context_over_a_derived_stream_that_nobody_reads_is_not_run_in_batches() -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema T(symbol string); create schema N(id string);"
        "insert into Out select symbol from T;"
        "create context C partition by symbol from Out, id from N;"
        "@name('q') context C select context.key1 as k, count(*) as c from N"
    )
    batch = runtime.batch(["T"])
    assert batch.reason == "context `C` takes partitions from the derived stream `Out`"
    batch.run([ColumnBatch("T", [1, 2], {"symbol": ["A", "B"]})])
    assert runtime.iterate("q") == [{"k": "A", "c": 0}, {"k": "B", "c": 0}]


def test_a_long_case_needs_no_nesting() -> None:
    branches = " ".join(f"when x = {i} then {i * i}" for i in range(300))
    runtime = _runtime(f"@name('q') select case {branches} else -1 end as y from T#lastevent")
    runtime.send("T", {"x": 299})
    assert runtime.iterate("q") == [{"y": 299 * 299}]


def test_filters_of_contexts_and_of_drop_may_call_functions() -> None:
    runtime = Runtime()
    runtime.register_function("twice", lambda v: v * 2, returns=INT)
    runtime.deploy(
        "create schema T(k string, x int);"
        "create context C partition by k from T(twice(x) > 4 and current_timestamp < 10);"
        "@name('c') context C select context.key1 as k, count(*) as n from T;"
        "@name('d') @Priority(2) @Drop select x from T(twice(x) > 8);"
        "@name('e') select x from T"
    )
    seen: list[Any] = []
    runtime.statement("e").add_listener(lambda delta: seen.append(delta.insert))
    for x in (1, 3, 5):
        runtime.send("T", {"k": "a", "x": x})
    assert runtime.iterate("c") == [{"k": "a", "n": 1}]  # the event that was dropped did not reach the context
    assert seen == [[{"x": 1}], [{"x": 3}]]


def test_a_context_whose_filter_cannot_run_leaves_nothing_behind() -> None:
    runtime = Runtime()
    runtime.deploy("create schema T(k string, x int)")
    runtime.catalog.functions["ghost"] = FunctionType(INT)  # known to the binder, but not to the engine
    with pytest.raises(BindError, match="no function `ghost` is registered"):
        runtime.deploy("create schema U(x int); create context C partition by k from T(ghost(x) > 4)")
    assert (list(runtime.deployments), list(runtime.contexts)) == (["deployment_1"], [])
    assert (list(runtime.catalog.event_types), list(runtime.catalog.contexts)) == (["T"], [])


def test_a_statement_that_drops_inside_a_context_drops_the_event_that_opens_a_partition() -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema T(k string, x int); create context C partition by k from T;"
        "@name('d') @Drop context C select x from T(x > 1);"
        "@name('e') @Priority(-1) select x from T"
    )
    seen: list[Any] = []
    runtime.statement("e").add_listener(lambda delta: seen.append(delta.insert))
    for key, x in (("a", 2), ("a", 3), ("b", 1), ("b", 2)):
        runtime.send("T", {"k": key, "x": x})
    assert seen == [[{"x": 1}]]


@pytest.mark.parametrize("priority", [0, 1, -1])
def test_an_event_reaches_its_own_partition_whatever_the_priority(priority: int) -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema T(k string, x int); create context C partition by k from T;"
        f"@name('q') @Priority({priority}) context C select context.key1 as key, k, sum(x) as total from T"
    )
    seen: list[Any] = []
    runtime.statement("q").add_listener(lambda delta: seen.extend(delta.insert or ()))
    for k, x in (("a", 1), ("b", 2), ("a", 4), ("b", 8), ("a", 16)):
        runtime.send("T", {"k": k, "x": x})
    assert [(row["key"], row["total"]) for row in seen] == [("a", 1), ("b", 2), ("a", 5), ("b", 10), ("a", 21)]
