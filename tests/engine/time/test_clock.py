"""The clock: an input. What is due fires once per advance, in the order of statements."""

from __future__ import annotations

import gc
import weakref
from random import Random

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.time.clock import NEVER, Clock
from cepbook.engine.time.timers import DueQueue, OwnerTimers
from tests.engine.histories import Recorder


def told(failure: Exception) -> None:
    raise failure


def clock_with(*names: str, by_time: bool = False) -> tuple[Clock, dict[str, OwnerTimers]]:
    clock = Clock(0, (lambda order: order) if by_time else None)
    timers = {name: OwnerTimers((0, place), lambda now, entries: None, told) for place, name in enumerate(names)}
    for each in timers.values():
        each.attach(clock)
    return clock, timers


def due(clock: Clock, t: int) -> list[tuple[OwnerTimers, list[tuple[int, object]]]]:
    return clock.pop_due(t)


def test_due_ones_come_in_delivery_order_whatever_is_due_first() -> None:
    clock, timers = clock_with("a", "b", "c")
    timers["c"].arm("w", 10)
    timers["a"].arm("w", 30)
    timers["b"].arm("w", 20)
    assert clock.due == 10
    assert due(clock, 25) == [(timers["b"], [(20, "w")]), (timers["c"], [(10, "w")])]
    assert clock.due == 30
    assert due(clock, 29) == []
    assert due(clock, 30) == [(timers["a"], [(30, "w")])]
    assert clock.due >= NEVER


def test_the_timers_of_one_owner_come_by_time() -> None:
    clock, timers = clock_with("a", "b")
    timers["a"].arm("late", 20)
    timers["a"].arm("early", 10)
    timers["b"].arm("w", 15)
    assert due(clock, 20) == [(timers["a"], [(10, "early"), (20, "late")]), (timers["b"], [(15, "w")])]


def test_one_that_leads_stands_at_its_time_between_the_others() -> None:
    clock, timers = clock_with("a", "b", by_time=True)
    context = OwnerTimers((0, -1), lambda now, entries: None, told, leads=True)
    context.attach(clock)
    context.arm("end", 15)
    for name, time in (("a", 20), ("b", 10), ("b", 15)):
        timers[name].arm(time, time)
    assert due(clock, 20) == [
        (timers["b"], [(10, 10)]),
        (context, [(15, "end")]),
        (timers["a"], [(20, 20)]),
        (timers["b"], [(15, 15)]),
    ]


def test_one_that_leads_has_its_own_place_where_owners_come_by_their_order() -> None:
    clock, timers = clock_with("a", "b")
    context = OwnerTimers((0, -1), lambda now, entries: None, told, leads=True)
    context.attach(clock)
    context.arm("end", 15)
    timers["a"].arm("w", 10)
    assert due(clock, 20) == [(context, [(15, "end")]), (timers["a"], [(10, "w")])]


def test_a_path_is_due_at_one_time() -> None:
    clock, timers = clock_with("a")
    a = timers["a"]
    a.arm("w", 20)
    a.arm("w", 10)
    assert (clock.due, a.due, a.at("w")) == (10, 10, 10)
    a.arm("w", 15)
    assert (clock.due, a.due, a.at("w")) == (15, 15, 15)
    assert due(clock, 15) == [(a, [(15, "w")])]
    assert due(clock, 100) == [], "the timer that was replaced is stale"


def test_disarmed_ones_do_not_fire() -> None:
    clock, timers = clock_with("a", "b")
    timers["a"].arm("w", 5)
    timers["b"].arm("w", 7)
    timers["a"].arm("w", NEVER)
    assert clock.due == 7
    assert due(clock, 10) == [(timers["b"], [(7, "w")])]


def test_owners_that_leave_leave_nothing_behind() -> None:
    clock, timers = clock_with("a")
    timers["a"].arm("w", 1000)
    for order in range(1, 1500):
        gone = OwnerTimers((order, 0), lambda now, entries: None, told)
        gone.attach(clock)
        gone.arm("w", 2000)
        gone.detach()
    assert len(clock._heap) < 200
    assert (clock.due, len(clock)) == (1000, 1)


def test_queues_against_a_table() -> None:
    random = Random(3)
    queue: DueQueue[int] = DueQueue()
    table: dict[int, int] = {}
    for _ in range(5000):
        path, time = random.randrange(20), random.randrange(100)
        if random.random() < 0.1:
            expected = sorted((when, each) for each, when in table.items() if when <= time)
            assert queue.upto(time) == expected
            assert queue.take(time) == expected
            table = {each: when for each, when in table.items() if when > time}
        elif random.random() < 0.3:
            queue.arm(path, NEVER)
            table.pop(path, None)
        else:
            queue.arm(path, time)
            table[path] = time
        assert queue.due == min(table.values(), default=NEVER)
        assert (len(queue), queue.at(path)) == (len(table), table.get(path, NEVER))


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


def test_dropped_statements_are_not_kept_by_timers_that_are_still_ahead(runtime: Runtime) -> None:
    runtime.deploy("@name('first') select rstream x from E#time(1 day)")
    found = []
    for number in range(100):
        deployed = runtime.deploy(f"@name('s{number}') select rstream x from E#time(2 days)")
        found.append(weakref.ref(deployed.statements[0]))
        runtime.send("E", {"x": 1})
        runtime.undeploy(deployed.id)
    del deployed
    gc.collect()
    assert [dropped() for dropped in found] == [None] * 100


def test_stepping_ends_where_something_is_due_at_each_advance() -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema E(x int);create context C initiated after 0 sec terminated after 3 sec;"
        "@name('s') context C select x from E;@name('t') select 1 as x from pattern [every timer:interval(1 sec)]"
    )
    runtime.advance(2500, stepping=True)
    assert runtime.now == 2500
    assert [partition["startTime"] for partition in runtime.partitions("C")] == [0, 1000, 2000, 2500]
