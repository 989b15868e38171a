"""A failure at a timer is reported and stops nothing: other partitions, later timers and the next event go on."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.time.timers import OwnerTimers
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import StatementError
from tests.engine.invariants import invariant_violations
from tests.engine.sinks import Deltas

SCHEMA = "create schema E(k string, i int)"
CONTEXT = "create context C partition by k from E; "


def fragile(value: Any) -> Any:
    """Fails for 13."""
    if value == 13:
        raise RuntimeError("unlucky")
    return value


def deployed(epl: str) -> tuple[Runtime, list[tuple[int, list[Any]]], list[StatementError]]:
    runtime = Runtime(functions={"f": fragile})
    runtime.deploy(SCHEMA)
    runtime.deploy(epl)
    deltas: list[tuple[int, list[Any]]] = []
    errors: list[StatementError] = []
    runtime.add_error_listener(errors.append)
    runtime.statement("s").add_listener(lambda d: deltas.append((d.time, [row["i"] for row in d.insert or ()])))
    return runtime, deltas, errors


PARTITIONED = [
    "context C select rstream f(i) as i from E#time(5 sec)",
    "context C select rstream f(i) as i, prior(1, i) as p from E#time(5 sec)",
    "context C select rstream f(i) as i from E#time(5 sec) output all every 1 events",
]


@pytest.mark.parametrize("epl", PARTITIONED)
def test_the_other_partition_delivers_at_the_same_instant(epl: str) -> None:
    runtime, deltas, errors = deployed(f"{CONTEXT}@name('s') {epl}")
    runtime.send("E", {"k": "a", "i": 13})
    runtime.send("E", {"k": "b", "i": 2})
    runtime.send("E", {"k": "b", "i": 3}, at=1000)
    for t in (5000, 6000):
        runtime.advance(t)
    assert deltas == [(5000, [2]), (6000, [3])]
    assert len(errors) == 1
    assert [each["retained"] for each in runtime.state("s")] == [0, 0]


WHOLE = [
    ("select rstream f(i) as i from E#time(5 sec)", [(6000, [2]), (12_000, [4])]),
    ("select rstream f(i) as i, prior(1, i) as p from E#time(5 sec)", [(6000, [2]), (12_000, [4])]),
    ("select f(i) as i from E#time_batch(5 sec)", [(10_000, [4])]),
    ("select f(i) as i, prior(1, i) as p from E#time_batch(5 sec)", [(10_000, [4])]),
    ("select f(i) as i from E#groupwin(k)#time_batch(5 sec)", [(6000, [2]), (10_000, [4])]),
]


@pytest.mark.parametrize(("epl", "expected"), WHOLE)
def test_later_timers_run_on(epl: str, expected: list[tuple[int, list[int]]]) -> None:
    runtime, deltas, errors = deployed(f"@name('s') {epl}")
    runtime.send("E", {"k": "a", "i": 13})
    runtime.send("E", {"k": "b", "i": 2}, at=1000)
    for t in (5000, 6000):
        runtime.advance(t)
    runtime.send("E", {"k": "a", "i": 4}, at=7000)
    for t in (10_000, 12_000, 15_000):
        runtime.advance(t)
    assert deltas == expected
    assert len(errors) == 1


@pytest.mark.parametrize("epl", [epl for epl, _ in WHOLE])
def test_a_replay_takes_the_event_at_whose_time_a_timer_fails(epl: str) -> None:
    def history() -> list[tuple[int, str, int]]:
        return [(0, "a", 13), (1000, "b", 2), (6000, "a", 4), (12_000, "b", 5), (30_000, "a", 6)]

    sent, deltas, errors = deployed(f"@name('s') {epl}")
    for t, k, i in history():
        sent.send("E", {"k": k, "i": i}, at=t)
    replayed = Runtime(functions={"f": fragile})
    replayed.deploy(SCHEMA)
    replayed.deploy(f"@name('s') {epl}")
    raised: list[StatementError] = []
    replayed.add_error_listener(raised.append)
    sink = Deltas()
    replayed.statement("s").add_sink(sink)
    batch = replayed.batch(["E"])
    assert batch.reason is None
    times, keys, numbers = (list(column) for column in zip(*history(), strict=True))
    given = {"k": keys, "i": numbers}
    batch.run([ColumnBatch("E", times, {name: given[name] for name in batch.columns["E"]})])
    assert [(time, [row["i"] for row in insert or ()]) for time, insert, _ in sink] == deltas
    assert len(raised) == len(errors)
    assert [each["retained"] for each in replayed.state("s")] == [each["retained"] for each in sent.state("s")]


def test_an_event_is_processed_though_a_timer_before_it_fails() -> None:
    runtime = Runtime(functions={"f": fragile})
    runtime.deploy(SCHEMA)
    runtime.deploy("@name('s') select rstream f(i) as i from E#time(5 sec); @name('u') select i from E")
    seen: list[int] = []
    runtime.statement("s").add_listener(lambda d: None)
    runtime.statement("u").add_listener(lambda d: seen.extend(row["i"] for row in d.insert))
    runtime.send("E", {"k": "a", "i": 13})
    with pytest.raises(StatementError, match="unlucky"):
        runtime.send("E", {"k": "a", "i": 1}, at=6000)
    runtime.send("E", {"k": "a", "i": 2}, at=7000)
    assert seen == [13, 1, 2]


def test_events_sent_one_by_one_go_on_behind_a_failure() -> None:
    runtime = Runtime(functions={"f": fragile})
    runtime.deploy(SCHEMA)
    runtime.deploy("@name('s') select f(i) as i from E")
    seen: list[int] = []
    runtime.statement("s").add_listener(lambda d: seen.extend(row["i"] for row in d.insert))
    batch = runtime.batch(["E"])
    assert batch.reason is not None
    columns = {"k": ["a"] * 3, "i": [1, 13, 3]}
    with pytest.raises(StatementError, match="unlucky"):
        batch.run([ColumnBatch("E", [1, 2, 3], {name: columns[name] for name in batch.columns["E"]})])
    assert seen == [1, 3]
    assert runtime.now == 3


@pytest.mark.parametrize("value", ["newest_event.i", "i"])
def test_a_failing_condition_counts_as_false(value: str) -> None:
    epl = f"@name('s') select k, sum(i) as i from E#expr(f({value}) > 0 and current_count <= 2) group by k"
    runtime, _, errors = deployed(epl)
    for number in (1, 2, 13, 4, 5, 6, 7):
        runtime.send("E", {"k": str(number), "i": number})
    assert errors
    assert all("unlucky" in str(error) for error in errors)
    assert [each["retained"] for each in runtime.state("s")] == [2]
    assert [row["i"] for row in runtime.iterate("s")] == [6, 7]


def test_a_rate_that_becomes_null_does_not_stop_the_clock() -> None:
    runtime, deltas, errors = deployed(
        "create variable int v = 1; @name('s') select i from E#length(3) output every v seconds"
    )
    runtime.send("E", {"k": "a", "i": 1})
    runtime.set_variable("v", None)
    runtime.advance(5000, stepping=True)
    assert deltas == []
    assert len(errors) == 1
    runtime.set_variable("v", 2)
    runtime.send("E", {"k": "a", "i": 2})
    runtime.advance(10_000, stepping=True)
    assert (6000, [1, 2]) in deltas


def test_the_clock_knows_what_is_due_though_the_end_of_a_partition_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy("create context C initiated by E(i > 0) as e terminated by E(i = 0)")
    runtime.deploy("@name('s') context C select count(*) as i from E output every 1 sec")
    deltas = Deltas()
    runtime.statement("s").add_sink(deltas)
    runtime.send("E", {"i": 1})
    runtime.advance(500)
    runtime.send("E", {"i": 2})
    moved = OwnerTimers._moved

    def failing(self: OwnerTimers) -> None:
        monkeypatch.setattr(OwnerTimers, "_moved", moved)
        raise RuntimeError("unlucky")

    monkeypatch.setattr(OwnerTimers, "_moved", failing)
    with pytest.raises(StatementError, match="unlucky"):
        runtime.send("E", {"i": 0})
    assert invariant_violations(runtime) == []
    runtime.send("E", {"i": 1})
    runtime.advance(1500)
    assert deltas[-1].time == 1500


def test_an_input_of_a_join_in_a_partition_may_fail() -> None:
    runtime = Runtime()
    runtime.deploy("create schema A(k string, n long); create schema B(k string, x int)")
    runtime.deploy(
        "create context C partition by k from A, k from B; @name('s') context C select irstream n, x"
        " from A#time_order(n, 5 sec) as a, B#time(1 sec) as b output last every 2 sec"
    )
    errors: list[StatementError] = []
    deltas = Deltas()
    runtime.add_error_listener(errors.append)
    runtime.statement("s").add_sink(deltas)
    runtime.send("B", {"k": "a", "x": 1})
    runtime.send("A", {"k": "a", "n": 0})
    runtime.send("A", {"k": "a", "n": None})
    assert [str(error.cause) for error in errors] == ["the timestamp of `time_order` is null"]
    assert invariant_violations(runtime) == []
    runtime.advance(2000)
    assert len(deltas) == 1


def test_a_partition_in_which_a_statement_cannot_begin() -> None:
    """It is not allocated, the statement is told of, and statements of no context see the event."""
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(
        "create context C partition by i from E; @name('s') context C select count(*) as c from E#length(context.key1);"
        "@name('t') select i from E"
    )
    errors: list[StatementError] = []
    deltas = Deltas()
    runtime.add_error_listener(errors.append)
    runtime.statement("t").add_sink(deltas)
    runtime.send("E", {"k": "a", "i": 0})
    assert [error.statement for error in errors] == ["s"]
    assert runtime.partitions("C") == []
    runtime.send("E", {"k": "a", "i": 1})
    assert len(errors) == 1 and len(runtime.partitions("C")) == 1 and len(deltas) == 2
    assert invariant_violations(runtime) == []
