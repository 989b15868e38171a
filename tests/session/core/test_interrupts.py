"""Ctrl-C: what is under way is finished, long loops stop at a place where nothing is lost, and it is heard soon."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pandas as pd
import pytest

from cepbook.engine.contexts.partition_listeners import PartitionNotice
from cepbook.errors import Interrupted, UsageError
from cepbook.session import Workbench

pytestmark = pytest.mark.histories

SOON = 0.3  # seconds of the processor: other work on the machine delays nothing then


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def interrupted(
    work: Callable[[], object], *, after: float = 0.1, times: int = 1, apart: float = 0.02
) -> tuple[KeyboardInterrupt, float]:
    """What came of Ctrl-C, `times` in a row, and how many seconds of the processor the work went on after the first."""
    sent: list[float] = []

    def press() -> None:
        time.sleep(after)
        sent.append(time.process_time())
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(apart)

    finger = threading.Thread(target=press)
    finger.start()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            work()
        heard = time.process_time()
    finally:
        finger.join()
    return caught.value, heard - sent[0]


@pytest.fixture
def cep() -> Workbench:
    cep = Workbench()
    cep.run("create schema E(x int); create schema Loop(x int)")
    return cep


def press(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_event_under_way_is_seen_by_everybody(cep: Workbench) -> None:
    cep.run("@name('one') select x from E; @name('two') select x from E; @name('three') select sum(x) as s from E")
    cep.on("one", press)
    with pytest.raises(KeyboardInterrupt):
        cep.send("E", x=1)
    assert [len(cep.changes(name)) for name in ("one", "two", "three")] == [1, 1, 1]
    with pytest.raises(KeyboardInterrupt):
        cep.send("E", x=1)
    assert len(cep.changes("three")) == 2


def test_derived_events_follow_before_it_is_heard(cep: Workbench) -> None:
    cep.run("@name('one') insert into Loop select x from E; @name('two') select x from Loop")
    cep.on("one", press)
    with pytest.raises(KeyboardInterrupt):
        cep.send("E", x=1)
    assert len(cep.changes("two")) == 1


def test_an_advance_under_way_runs_all_timers(cep: Workbench) -> None:
    cep.run("@name('a') select 1 as n from pattern[every timer:interval(1 sec)]")
    cep.run("@name('b') select count(*) as n from E output snapshot every 1 sec")
    cep.send("E", x=1)
    cep.on("a", press)
    for second in (1, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            cep.advance(second * 1000)
        assert cep.clock.ms == second * 1000
        assert [len(cep.changes(name)) for name in ("a", "b")] == [second, second]


def test_stepping_stops_between_two_steps(cep: Workbench) -> None:
    cep.run("@name('a') select 1 as n from pattern[every timer:interval(1 msec)]")
    failure, seconds = interrupted(lambda: cep.advance(by="365 days", stepping=True))
    assert isinstance(failure, Interrupted)
    assert seconds < SOON
    stopped, count = cep.clock.ms, cep.feed("a").deliveries
    assert count == stopped
    cep.advance(by="1 sec", stepping=True)
    assert cep.feed("a").deliveries == count + 1000


def test_an_insert_into_without_end_is_given_up_and_told(cep: Workbench) -> None:
    cep.run("@name('loop') insert into Loop select x from Loop; @name('in') insert into Loop select x from E")
    failure, seconds = interrupted(lambda: cep.send("E", x=1))
    assert seconds < SOON
    assert "derived events of one event were dropped" in str(failure)
    assert "derived events" in str(cep.errors[-1])
    cep.drop("loop")
    cep.send("E", x=2)


def events(*times: int) -> pd.DataFrame:
    return pd.DataFrame({"x": range(len(times)), "at": times})


def test_a_replay_is_interrupted_inside_one_event(cep: Workbench) -> None:
    cep.run("@name('loop') insert into Loop select x from Loop; @name('in') insert into Loop select x from E")
    replay = cep.replay({"E": events(0, 1)}, time="at")
    failure, seconds = interrupted(replay.run)
    assert seconds < SOON
    assert "dropped" in str(failure)
    assert replay.state == "stopped"


@pytest.mark.parametrize("options", [{}, {"speed": 1e8}])
def test_a_replay_is_interrupted_inside_one_gap_and_goes_on(cep: Workbench, options: dict[str, object]) -> None:
    cep.run("@name('a') select 1 as n from pattern[every timer:interval(1 msec)]")
    cep.run("@name('b') select x from E")
    replay = cep.replay({"E": events(0, 365 * 86_400_000)}, time="at", **options)  # type: ignore[arg-type]
    _, seconds = interrupted(replay.run)
    assert seconds < SOON
    assert replay.state == "paused"
    count = cep.feed("a").deliveries
    assert count == cep.clock.ms
    cep.drop("a")
    result = replay.run() if not options else None
    if result is not None:
        assert (result.state, cep.feed("b").deliveries) == ("finished", 2)
    else:
        replay.stop()


@pytest.mark.parametrize(("slow", "takes", "soon"), [(0, 0.05, SOON), (30_000, 0.0005, 1.5)])
def test_a_function_that_takes_long_does_not_hold_it_up(cep: Workbench, slow: int, takes: float, soon: float) -> None:
    """What comes with one call of the engine is done as a whole: with functions that is not much. Nothing is lost.

    `slow` is the first event of which the function takes so long: from the beginning, or all of a sudden.
    """
    count, calls = 32_000, 0

    def same(n: int) -> int:
        nonlocal calls
        if n == slow and not calls:
            press()
        if n >= slow:
            calls += 1
            time.sleep(takes)
        return n

    cep.register_function("same", same, returns="int")
    cep.run("@name('out') select same(x) as x from E")
    frame = pd.DataFrame({"time": range(count), "x": range(count)})
    replay = cep.replay(frame, type="E", time="time")
    with pytest.raises(Interrupted, match="paused at"):
        replay.run()
    assert calls * takes < soon
    assert replay.state == "paused" and slow < replay.progress.events < count
    assert len(cep.changes("out")) == replay.progress.events
    slow = count
    replay.run()
    assert cep.changes("out")["x"].tolist() == list(range(count))


def test_a_second_ctrl_c_breaks_in_and_the_workbench_says_so(cep: Workbench) -> None:
    cep.run("@name('a') select x from E; @name('b') select x from E")
    cep.on("a", lambda delta: time.sleep(30))
    begun = time.monotonic()
    interrupted(lambda: cep.send("E", x=1), times=2, apart=1)  # on a busy machine two at once are one
    assert time.monotonic() - begun < 20
    for work in (lambda: cep.send("E", x=2), lambda: cep.advance(by="1 sec"), lambda: cep.run("select * from E")):
        with pytest.raises(UsageError, match=r"interrupted in the middle.*\n.*rewind"):
            work()
    with pytest.raises(UsageError, match="interrupted in the middle"):
        cep.replay({"E": events(0)}, time="at").run()
    cep.rewind()
    cep.send("E", x=3)
    assert len(cep.changes("b")) == 1


def test_deploying_under_way_is_finished(cep: Workbench) -> None:
    cep.run("@name('a') select x from E", cell="one")
    pressed = set()

    def press_once(notice: PartitionNotice) -> None:
        if step not in pressed:
            pressed.add(step)
            press()

    cep.runtime.add_partition_listener(None, press_once)
    step = "deploy"
    cep.run("create context C initiated by E terminated after 1 min", cell="ctx")
    with pytest.raises(KeyboardInterrupt):
        cep.run("@name('c') context C select x from E", cell="two")
    assert list(cep.runtime.statements) == ["a", "c"]
    step = "redeploy"
    with pytest.raises(KeyboardInterrupt):
        cep.run("@name('c') context C select x, 2 as y from E", cell="two")
    assert cep.runtime.statement("c").epl == "@name('c') context C select x, 2 as y from E"
    step = "drop"
    with pytest.raises(KeyboardInterrupt):
        cep.drop("c")
    assert list(cep.runtime.statements) == ["a"]
    cep.run("@name('a') select 1 as y from E", cell="one")
    cep.send("E", x=1)
    assert cep.changes("a")["y"].tolist() == [1]


@pytest.mark.parametrize(
    ("query", "total"),
    [("insert into W select 9 as x", 12), ("update W set x = 5", 10), ("delete from W where x = 1", 2)],
)
def test_a_query_that_changes_rows_is_finished(cep: Workbench, query: str, total: int) -> None:
    cep.run("create window W#keepall as E; insert into W select x from E; @name('out') select sum(x) as s from W")
    for x in (1, 2):
        cep.send("E", x=x)
    cep.on("out", press)
    with pytest.raises(KeyboardInterrupt):
        cep.query(query)
    assert not cep.runtime.turn.broken and not cep.runtime.turn.halt
    assert cep.query("select sum(x) as s from W")["s"].tolist() == [total]


def test_a_call_within_a_listener_withdraws_no_ctrl_c(cep: Workbench) -> None:
    """Ctrl-C is for the advance: in the listener, before its own call or within."""
    for pressed_within in (False, True):
        cep.run("@name('a') select 1 as n from pattern[every timer:interval(1 sec)]")
        cep.run("create schema F(x int); @name('f') select x from F")
        steps: list[int] = []

        def listener(_: object, steps: list[int] = steps, within: bool = pressed_within) -> None:
            steps.append(cep.clock.ms)
            if len(steps) == 2 and not within:
                press()
            cep.send("F", x=len(steps))

        stop = cep.on("a", listener)
        stop_within = cep.on("f", press if pressed_within else lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            cep.advance(by="20 sec", stepping=True)
        assert len(steps) == (1 if pressed_within else 2)
        stop()
        stop_within()
        assert not cep.runtime.turn.halt
        cep.reset()
