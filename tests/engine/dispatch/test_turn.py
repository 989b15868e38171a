"""A round goes on whatever user code does: who fails is named, everybody else delivers, what is due stays due."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.errors import StatementError, UsageError
from tests.engine.invariants import invariant_violations


def boom(*_: object) -> None:
    raise ZeroDivisionError("boom")


def hear(runtime: Runtime, name: str) -> list[Any]:
    told: list[Any] = []
    runtime.statement(name).add_listener(told.append)
    return told


@pytest.mark.parametrize("also", ["", "@name('p') select a.x as x from pattern[every a=E];"])
def test_a_listener_that_fails_silences_nobody(also: str) -> None:
    runtime = Runtime()
    runtime.deploy("create schema E(x int);" + also)
    runtime.deploy("@name('a') select x from E; @name('b') select x from E; @name('c') insert into F select x from E;")
    runtime.deploy("@name('d') select x from F")
    runtime.statement("a").add_listener(boom)
    told = {name: hear(runtime, name) for name in "abcd"}
    for number in (1, 2, 3):
        with pytest.raises(StatementError, match="a listener of statement `a` failed on an event: ZeroDivisionError"):
            runtime.send("E", {"x": number})
        assert {name: len(deltas) for name, deltas in told.items()} == dict.fromkeys("abcd", number)
        assert invariant_violations(runtime) == []


def test_an_error_listener_that_fails_is_raised_and_keeps_nothing_from_others() -> None:
    runtime = Runtime(functions={"boom": boom})
    runtime.deploy("create schema E(x int); @name('a') select boom(x) as y from E; @name('b') select x from E")
    runtime.add_error_listener(boom)
    told = hear(runtime, "b")
    hear(runtime, "a")
    for number in (1, 2):
        with pytest.raises(ZeroDivisionError):
            runtime.send("E", {"x": number})
        assert len(told) == number
    assert not runtime.turn.broken


def test_a_timer_that_fails_outside_generated_code_stops_no_other() -> None:
    runtime = Runtime()
    runtime.deploy("create schema E(k object)")
    runtime.deploy("@name('bad') select k from E output every 1 sec order by k")
    runtime.deploy("@name('good') select k from E output every 1 sec")
    runtime.deploy("@name('ticks') select 1 as n from pattern[every timer:interval(1 sec)]")
    told = {name: hear(runtime, name) for name in ("bad", "good", "ticks")}
    for key in ({}, {"a": 1}):
        runtime.send("E", {"k": key})
    with pytest.raises(StatementError, match=r"`bad`.*TypeError"):
        runtime.advance(1000)
    for key in (2, 1):
        runtime.send("E", {"k": key})
    runtime.advance(2000)
    assert {name: len(deltas) for name, deltas in told.items()} == {"bad": 1, "good": 2, "ticks": 2}
    assert [row["k"] for row in told["bad"][0].insert] == [1, 2]


class Exit(SystemExit):
    """As if the process was to end."""


def leave(*_: object) -> None:
    raise Exit


@pytest.mark.parametrize("also", ["", "@name('p') select a.x as x from pattern[every a=E];"])
def test_what_breaks_a_round_off_is_told_from_then_on(also: str) -> None:
    runtime = Runtime()
    runtime.deploy("create schema E(x int);" + also)
    runtime.deploy("@name('a') select x from E; @name('b') select x from E")
    runtime.statement("a").add_listener(leave)
    send = runtime.sender("E")
    with pytest.raises(Exit):
        runtime.send("E", {"x": 1})
    batch = runtime.batch(["E"])
    for work in (
        lambda: runtime.send("E", {"x": 2}),
        lambda: runtime.send("E", {"x": 2}, 1000),
        lambda: send({"x": 2}),
        lambda: runtime.advance(1000),
        lambda: runtime.deploy("select x from E"),
        lambda: runtime.undeploy(next(iter(runtime.deployments))),
    ):
        with pytest.raises(UsageError, match="interrupted in the middle of an event"):
            work()
    assert batch is not None
    assert runtime.iterate("a") == []


def test_a_deployment_that_is_interrupted_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime()
    runtime.deploy("create schema E(x int); create context C partition by x from E", deployment_id="one")
    runtime.deploy("@name('a') context C select x from E#time(1 sec)", deployment_id="two")
    runtime.send("E", {"x": 1})
    start, calls = RunningStatement.start, []

    def interrupted(self: RunningStatement, *args: Any) -> None:
        start(self, *args)
        calls.append(self.name)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunningStatement, "start", interrupted)
    epl = """create schema X(y int);
    @name('b') context C select x from E#time(2 sec);
    @name('c') insert into X select x as y from E"""
    with pytest.raises(KeyboardInterrupt):
        runtime.deploy(epl)
    assert list(runtime.statements) == ["a"]
    assert "X" not in runtime.catalog.event_types
    assert invariant_violations(runtime) == []
    calls.clear()
    with pytest.raises(KeyboardInterrupt):  # a redeployment is finished
        runtime.redeploy("one", "create schema E(x int, z int); create context C partition by x from E")
        runtime.redeploy("two", "@name('a') context C select x as q from E#time(1 sec)")
    assert list(runtime.deployments) == ["one", "two"]
    assert invariant_violations(runtime) == []
    told = hear(runtime, "a")
    runtime.send("E", {"x": 1})
    assert len(told) == 1


@pytest.mark.histories
def test_cycles_of_deploying_and_dropping_leave_nothing_behind() -> None:
    runtime = Runtime()
    runtime.deploy("create schema E(x int); @name('day') select rstream x from E#time(1 day)")
    runtime.send("E", {"x": 1})
    for _ in range(60):
        made = runtime.deploy("@name('p') select a.x as x from pattern[every a=E -> timer:interval(2 days)]")
        runtime.send("E", {"x": 1})
        runtime.undeploy(made.id)
    del made
    gc.collect()
    kept = [s.name for s in gc.get_objects() if isinstance(s, RunningStatement) and s._services is runtime.services]
    assert kept == ["day"]
