"""Run-time failures: told with the place in the EPL, and no statement stops another."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.delivery.delta import Delta
from cepbook.engine.deploy.fire_and_forget import FireAndForgetQuery
from cepbook.engine.runtime import Config, Runtime
from cepbook.errors import BindError, EventError, StatementError, UsageError
from tests.engine.histories import Event, Recorder, slices

SCHEMA = "create schema E(k string, x int, y int);"


def boom(value: Any) -> Any:
    if value == 3:
        raise RuntimeError("three")
    return value


def runtime_with(*statements: str, config: Config = Config()) -> tuple[Runtime, list[tuple[str, Any]]]:
    """A runtime with the statements s0, s1, …, and the list in which their deliveries are noted."""
    runtime, seen = Runtime(config, functions={"boom": boom}), list[tuple[str, Any]]()
    runtime.deploy(SCHEMA)
    for number, text in enumerate(statements):
        name = f"s{number}"
        runtime.deploy(f"@name('{name}') {text}")
        runtime.statement(name).add_listener(lambda delta, name=name: seen.append((name, delta.insert)))
    return runtime, seen


@pytest.mark.parametrize("count", [1, 3, 12])
def test_a_failure_stops_no_other_statement(count: int) -> None:
    failing = ["select boom(x) as v from E"] + [f"select x from E(x != {100 + i})" for i in range(count - 1)]
    runtime, seen = runtime_with(*failing)
    failures: list[StatementError] = []
    runtime.add_error_listener(failures.append)
    for x in (1, 3, 5):
        runtime.send("E", {"k": "a", "x": x})
    assert [v for name, v in seen if name == "s0"] == [[{"v": 1}], [{"v": 5}]]
    for number in range(1, count):
        assert [v for name, v in seen if name == f"s{number}"] == [[{"x": 1}], [{"x": 3}], [{"x": 5}]]
    assert [f.statement for f in failures] == ["s0"] == [f.statement for f in runtime.errors]
    assert "three" in str(failures[0])


def test_a_failure_points_into_the_epl() -> None:
    text = "select x,\n       boom(x) as v\nfrom E"
    runtime, _ = runtime_with(text)
    runtime.add_error_listener(lambda error: None)
    runtime.send("E", {"x": 3})
    (error,) = runtime.errors
    assert error.span is not None
    whole = f"@name('s0') {text}"
    assert "boom(x)" in whole[error.span.start : error.span.end]


def test_without_a_listener_send_raises_after_everybody_saw_the_event() -> None:
    runtime, seen = runtime_with("select boom(x) as v from E", "select x from E")
    with pytest.raises(StatementError, match="s0"):
        runtime.send("E", {"x": 3})
    assert seen == [("s1", [{"x": 3}])]
    runtime.send("E", {"x": 4})
    assert seen[1:] == [("s0", [{"v": 4}]), ("s1", [{"x": 4}])]


def test_integer_division_by_zero_is_a_failure_of_its_statement() -> None:
    runtime, seen = runtime_with("select x / y as q from E", "select x from E", config=Config(integer_division=True))
    failures: list[StatementError] = []
    runtime.add_error_listener(failures.append)
    runtime.send("E", {"x": 7, "y": 0})
    runtime.send("E", {"x": -7, "y": 2})
    assert [v for name, v in seen if name == "s0"] == [[{"q": -3}]], "Java's int division truncates towards zero"
    assert [f.statement for f in failures] == ["s0"]
    assert len([1 for name, _ in seen if name == "s1"]) == 2


def test_a_value_of_a_wrong_type_is_a_failure_and_state_stays_usable() -> None:
    runtime, seen = runtime_with("select sum(x) as s from E", "select k from E")
    runtime.add_error_listener(lambda error: None)
    runtime.send("E", {"k": "a", "x": 1})
    runtime.send("E", {"k": "b", "x": "not a number"})
    runtime.send("E", {"k": "c", "x": 2})
    assert [v for name, v in seen if name == "s1"] == [[{"k": "a"}], [{"k": "b"}], [{"k": "c"}]]
    assert [v for name, v in seen if name == "s0"][-1] == [{"s": 3}]


def test_a_listener_that_fails_stops_neither_the_others_nor_the_engine() -> None:
    runtime, seen = runtime_with("select x from E", "select x + 1 as y from E#length(2)")
    failures: list[StatementError] = []
    runtime.add_error_listener(failures.append)

    def broken(delta: Delta) -> None:
        raise ValueError("listener")

    runtime.statement("s0").add_listener(broken)
    runtime.send("E", {"x": 1})
    runtime.send("E", {"x": 2})
    assert seen == [("s0", [{"x": 1}]), ("s1", [{"y": 2}]), ("s0", [{"x": 2}]), ("s1", [{"y": 3}])]
    assert [f.statement for f in failures] == ["s0", "s0"]


def test_failures_on_the_clock_are_reported_too() -> None:
    runtime, seen = runtime_with(
        "select rstream boom(x) as v from E#time(1 sec)", "select rstream x from E#time(1 sec)"
    )
    failures: list[StatementError] = []
    runtime.add_error_listener(failures.append)
    runtime.send("E", {"x": 3})
    runtime.advance(1000)
    assert seen == [("s1", [{"x": 3}])]
    assert [f.statement for f in failures] == ["s0"]


def test_failures_within_a_batch_are_reported_and_the_rest_goes_on() -> None:
    runtime, _ = runtime_with()
    runtime.deploy("@name('s') select boom(x) as v from E;@name('t') select count(*) as c from E")
    recorder = {name: Recorder() for name in ("s", "t")}
    for name, each in recorder.items():
        runtime.statement(name).add_sink(each)
    failures: list[StatementError] = []
    runtime.add_error_listener(failures.append)
    batch = runtime.batch(["E"])
    events = [Event(t, "E", {"k": "a", "x": x, "y": 0}) for t, x in enumerate((1, 3, 5))]
    batch.run(slices(events, 0, batch.columns))
    assert batch.reason is None
    assert [d[1] for d in recorder["s"].deltas] == [[{"v": ("int", 1)}], [{"v": ("int", 5)}]]
    assert [d[1] for d in recorder["t"].deltas] == [[{"c": ("int", i)}] for i in (1, 2, 3)]
    assert [f.statement for f in failures] == ["s"]


def test_failures_in_a_context_leave_other_partitions_alone() -> None:
    runtime, _ = runtime_with()
    runtime.deploy("create context P partition by k from E;@name('s') context P select boom(x) as v from E")
    seen: list[Any] = []
    runtime.statement("s").add_listener(lambda delta: seen.append(delta.insert))
    runtime.add_error_listener(lambda error: None)
    for k, x in (("a", 3), ("b", 1), ("a", 2)):
        runtime.send("E", {"k": k, "x": x})
    assert seen == [[{"v": 1}], [{"v": 2}]]
    assert [p["key1"] for p in runtime.partitions("P")] == ["a", "b"]


def test_unknown_type_is_refused_with_a_proposal() -> None:
    runtime, _ = runtime_with()
    runtime.deploy("create schema Trade(a int)")
    with pytest.raises(EventError, match=r"no event type `Trde`\n  hint: did you mean `Trade`\?$"):
        runtime.send("Trde", {})
    with pytest.raises(EventError, match="Nope"):
        runtime.sender("Nope")


@pytest.mark.histories
def test_insert_into_that_feeds_itself_for_ever_is_stopped() -> None:
    runtime, _ = runtime_with()
    runtime.deploy("@name('loop') insert into E select k, x, y from E")
    with pytest.raises(UsageError, match="feeds itself"):
        runtime.send("E", {"x": 1})
    runtime.undeploy("deployment_2")
    runtime.send("E", {"x": 1})


@pytest.mark.histories
def test_one_event_may_lead_to_very_many_derived_ones() -> None:
    """A batch that releases its rows into a chain is no loop."""
    count = 150_000
    runtime, _ = runtime_with()
    runtime.deploy(
        f"insert into A select x from E#length_batch({count});insert into B select x from A;"
        "@name('n') select count(*) as n from B"
    )
    send = runtime.sender("E")
    for x in range(count):
        send({"x": x})
    assert runtime.iterate("n") == [{"n": count}]


HALF_WAY = [
    f"select {selector} {keys}{value} as v{more} from E{window} {clauses}"
    for selector in ("istream", "irstream")
    for keys, clauses in (("", ""), ("k, ", "group by k"), ("k, ", "group by rollup(k)"), ("x, ", ""))
    for value, clauses in (("boom(sum(x))", clauses), ("sum(x)", f"where boom(x) >= 0 {clauses}"))
    for more in ("", ", max(x) as m, window(x) as w")
    for window in (
        "#length(2)",
        "#length_batch(2)",
        "#time(2)",
        "#time_batch(2)",
        "#groupwin(k)#length(2)",
        "#unique(k)",
    )
]


@pytest.mark.parametrize("statement", HALF_WAY)
def test_a_failure_within_a_change_leaves_no_trace_when_its_event_has_left(statement: str) -> None:
    def deliveries(function: Any) -> list[tuple[int, Any]]:
        runtime, seen = Runtime(functions={"boom": function}), list[tuple[int, Any]]()
        runtime.deploy(SCHEMA)
        runtime.deploy(f"@name('s') {statement}")
        runtime.add_error_listener(lambda error: None)
        runtime.statement("s").add_listener(lambda d: seen.append((d.time, (d.insert, d.remove))))
        for number, x in enumerate((3, 4, 5, 9, 6, 7, 10, 8, 12, 11)):
            runtime.send("E", {"k": "ab"[number % 2], "x": x}, at=number * 700)
        runtime.advance(20_000)
        return [each for each in seen if each[0] > 4500]

    expected = deliveries(lambda value: value)
    assert expected
    assert deliveries(boom) == expected


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("x" * 100_000), "ValueError: " + "x" * 600 + "… (100,000 characters) …" + "x" * 200),
        (Wordless(), "Wordless: (an exception without a readable message)"),
    ],
)
def test_messages_of_user_code_are_cut(error: Exception, told: str) -> None:
    def fail(value: object) -> None:
        raise error

    runtime = Runtime(Config())
    runtime.register_function("fail", fail)
    runtime.deploy("create schema E(a int); @name('s') select fail(a) as x from E")
    runtime.statement("s").add_listener(lambda delta: None)
    reported: list[StatementError] = []
    runtime.add_error_listener(reported.append)
    runtime.send("E", {"a": 1})
    assert told in str(reported[0]) and len(str(reported[0])) < 2000
    assert reported[0].cause is error


@pytest.mark.parametrize("times", [200, 3000])
def test_what_is_nested_too_deeply_is_refused_by_the_engine_itself(times: int) -> None:
    runtime = Runtime()
    runtime.deploy("create schema T(a int); create window W#keepall as T")
    deep = "Math.abs(" * times + "a" + ")" * times
    for refused in (runtime.deploy, runtime.compile, lambda epl: FireAndForgetQuery(runtime, epl).ask()):
        with pytest.raises(BindError, match="nested too deeply"):
            refused(f"select {deep} as x from W")
    assert list(runtime.statements) == ["W"]
