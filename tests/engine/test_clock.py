"""The clock: an input. What is due fires once per advance, in the order of statements."""

from __future__ import annotations

import pytest

from cepbook.engine.clock import NEVER, Clock, Timed
from cepbook.engine.runtime import Runtime
from tests.engine.histories import Recorder


def clock_with(*names: str) -> tuple[Clock, dict[str, Timed], list[tuple[str, int]]]:
    fired: list[tuple[str, int]] = []
    timed = {
        name: Timed((0, place), lambda now, name=name: fired.append((name, now)))  # type: ignore[misc]
        for place, name in enumerate(names)
    }
    return Clock(0), timed, fired


def test_due_ones_come_in_delivery_order_whatever_is_due_first() -> None:
    clock, timed, _ = clock_with("a", "b", "c")
    clock.arm(timed["c"], 10)
    clock.arm(timed["a"], 30)
    clock.arm(timed["b"], 20)
    assert clock.due == 10
    assert clock.take_due(25) == [timed["b"], timed["c"]]
    assert clock.due == 30
    assert clock.take_due(29) == []
    assert clock.take_due(30) == [timed["a"]]
    assert clock.due >= NEVER


def test_an_earlier_timer_replaces_a_later_one_and_not_the_reverse() -> None:
    clock, timed, _ = clock_with("a")
    clock.arm(timed["a"], 20)
    clock.arm(timed["a"], 10)
    clock.arm(timed["a"], 15)
    assert (clock.due, timed["a"].due) == (10, 10)
    assert clock.take_due(10) == [timed["a"]]
    assert clock.take_due(100) == [], "the timer that was replaced is stale"


def test_disarmed_ones_do_not_fire() -> None:
    clock, timed, _ = clock_with("a", "b")
    clock.arm(timed["a"], 5)
    clock.arm(timed["b"], 7)
    clock.disarm(timed["a"])
    clock.settle()
    assert clock.due == 7
    assert clock.take_due(10) == [timed["b"]]


@pytest.fixture
def runtime() -> Runtime:
    runtime = Runtime(start=100)
    runtime.deploy("create schema E(x int)")
    return runtime


def recorded(runtime: Runtime, name: str) -> Recorder:
    recorder = Recorder()
    runtime.statement(name).add_sink(recorder)
    return recorder


def test_a_jump_fires_once_and_stepping_at_every_due_time(runtime: Runtime) -> None:
    runtime.deploy("@name('s') select rstream x from E#time(1 sec)")
    recorder = recorded(runtime, "s")
    for gap, x in ((0, 1), (300, 2), (300, 3)):
        runtime.advance(runtime.now + gap)
        runtime.send("E", {"x": x})
    assert runtime.next_due == 1100
    runtime.advance(1500, stepping=True)
    assert [time for time, _, _ in recorder.deltas] == [1100, 1400]
    runtime.advance(9000)
    assert [time for time, _, _ in recorder.deltas] == [1100, 1400, 9000]
    assert (runtime.next_due, runtime.now) == (None, 9000)


def test_going_back_fires_nothing_and_windows_stay_first_in_first_out(runtime: Runtime) -> None:
    runtime.deploy("@name('s') select rstream x from E#time(1 sec)")
    recorder = recorded(runtime, "s")
    runtime.advance(2000)
    runtime.send("E", {"x": 1})
    runtime.advance(500)
    assert (runtime.now, recorder.deltas) == (500, [])
    runtime.advance(2999)
    assert recorder.deltas == []
    runtime.advance(3000)
    assert [insert for _, insert, _ in recorder.deltas] == [[{"x": ("int", 1)}]]


def test_send_with_a_time_advances_first_and_never_back(runtime: Runtime) -> None:
    runtime.deploy("@name('s') select irstream x from E#time(1 sec)")
    recorder = recorded(runtime, "s")
    runtime.send("E", {"x": 1}, at=1000)
    runtime.send("E", {"x": 2}, at=2000)
    runtime.send("E", {"x": 3}, at=1500)
    assert runtime.now == 2000
    assert [(time, insert is not None, remove is not None) for time, insert, remove in recorder.deltas] == [
        (1000, True, False),
        (2000, False, True),
        (2000, True, False),
        (2000, True, False),
    ]


def test_sender_with_a_time_property_does_the_same(runtime: Runtime) -> None:
    runtime.deploy("create schema F(x int, at long);@name('s') select irstream x from F#time(1 sec)")
    recorder = recorded(runtime, "s")
    send = runtime.sender("F", time="at")
    for at in (1000, 2000, 1500):
        send({"x": 1, "at": at})
    assert runtime.now == 2000
    assert [time for time, _, _ in recorder.deltas] == [1000, 2000, 2000, 2000]


def test_statements_of_one_instant_fire_in_order_of_their_creation(runtime: Runtime) -> None:
    order: list[str] = []
    for name, seconds in (("a", 3), ("b", 1), ("c", 2)):
        runtime.deploy(f"@name('{name}') select rstream x from E#time({seconds} sec)")
        runtime.statement(name).add_listener(lambda delta, name=name: order.append(name))
    runtime.send("E", {"x": 1})
    runtime.advance(10_000)
    assert order == ["a", "b", "c"]


def test_statements_whose_timers_begin_with_them_can_be_deployed_at_one_time() -> None:
    runtime = Runtime()
    runtime.deploy("create schema Tick(symbol string)")
    names = ("first", "second", "third")
    told: list[str] = []
    for name in names:
        epl = f"@name('{name}') select count(*) as n from Tick#time_batch(2 sec, 'START_EAGER')"
        runtime.deploy(epl).statements[0].add_listener(lambda delta, name=name: told.append(name))  # type: ignore[misc]
    runtime.advance(2_000)
    assert told == list(names)


def test_timers_of_the_same_order_and_time_do_not_meet() -> None:
    clock = Clock(0)
    one, other = (Timed((0, 1), lambda now: None) for _ in range(2))
    clock.arm(one, 10)
    clock.disarm(one)
    clock.arm(other, 20)
    clock.arm(other, 10)
    assert clock.take_due(10) == [other]
