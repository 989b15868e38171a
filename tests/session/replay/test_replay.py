"""Replay over a fake engine: order, clock, orders while it runs, failures, real time."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from threading import RLock
from time import sleep
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from cepbook.errors import EventError, Interrupted, StatementError, UsageError
from cepbook.lang import types as t
from cepbook.lang.plan.catalog import EventType
from cepbook.session import Workbench
from cepbook.session.io.frame_source import SourceOptions
from cepbook.session.io.replay_options import ReplayOptions
from cepbook.session.io.source_merge import SourceBatch
from cepbook.session.io.sources import open_source
from cepbook.session.replay import batch_sizer, replay_loop
from cepbook.session.replay import replay as module
from cepbook.session.replay.replay import Replay
from cepbook.session.replay.replay_results import ReplayResult, paused_message
from tests.waiting import until

KIND = EventType("E", {"at": t.LONG, "n": t.LONG})
OTHER = EventType("F", {"at": t.LONG, "n": t.LONG})
TYPES = {"E": KIND, "F": OTHER}


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that changes the wall clock changes that of replays, not that of threads in the background."""
    wall = SimpleNamespace(**vars(module.wall))
    for user in (module, replay_loop):
        monkeypatch.setattr(user, "wall", wall)


class FakeEngine:
    """Notes what it is given. `due` are the times of its timers."""

    def __init__(self, due: tuple[int, ...] = ()) -> None:
        self.lock = RLock()
        self.now = 0
        self.second = 1000
        self.log: list[Any] = []
        self.due = list(due)
        self.calls: list[int] = []  # how many events came with each
        self.on_event: Any = None
        self.calls_out = False
        self.failures = 0

    @property
    def next_due(self) -> int | None:
        return self.due[0] if self.due else None

    def due_after(self, time: int) -> int | None:
        return next((due for due in self.due if due > time), None)

    def advance_to(self, time: int, *, stepping: bool = False) -> None:
        assert time >= self.now
        self.now = time
        self.due = [d for d in self.due if d > time]
        self.log.append(("clock", time))

    def flush_journal(self) -> None:
        pass

    def room(self, events: int, first: int, *, stepping: bool) -> int:
        return events

    def check_state(self) -> None:
        pass

    def halt(self, on: bool) -> None:
        self.halted = on

    def feeder(self, types: Sequence[str], late: Any) -> Callable[[Sequence[SourceBatch], bool], None]:
        return self.feed

    def feed(self, parts: Sequence[SourceBatch], stepping: bool) -> None:
        self.calls.append(sum(len(batch.times) for batch in parts))
        events = [
            (rank, batch.type_name, time, number)
            for batch in parts
            for rank, time, number in zip(
                batch.ranks or range(len(batch.times)), batch.times, batch.column("n"), strict=True
            )
        ]
        for _, name, time, number in sorted(events):
            due = self.next_due if stepping else None
            while self.now < time and due is not None and due <= time:
                self.advance_to(max(due, self.now))
                due = self.due_after(self.now)
            assert time >= self.now
            self.now = time
            self.due = [d for d in self.due if d > time]
            self.log.append((name, time, number))
            if self.on_event is not None:
                self.on_event()

    def counts(self) -> tuple[dict[str, int], int]:
        return {"out": len(self.log), "idle": 0}, self.failures

    def failures_since(self, before: int) -> tuple[StatementError, ...]:
        return ()

    def raise_failure_since(self, before: int) -> None:
        return None

    @property
    def numbers(self) -> list[int]:
        return [entry[2] for entry in self.log if entry[0] != "clock"]


def set_sizes(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Each call of the engine has `size` events."""
    monkeypatch.setattr(batch_sizer, "FIRST", size)
    monkeypatch.setattr(batch_sizer, "MOST", size)


def source(*times: int, kind: EventType = KIND, **options: Any) -> Any:
    events = [{"at": at, "n": n} for n, at in enumerate(times)]
    return open_source(events, SourceOptions(kind, "at", TYPES, ReplayOptions(**options)))


def begin(engine: Any, sources: Sequence[Any], **options: Any) -> Replay[Any]:
    return Replay(engine, sources, ReplayOptions(**options))


def test_order_clock_and_result() -> None:
    engine = FakeEngine()
    replay = begin(engine, [source(1, 2, 2), source(2, 3, kind=OTHER)], until=10)
    assert (replay.state, replay.progress.total, repr(replay)) == ("ready", 5, "Replay of E, F: 5 events, ready")
    with pytest.raises(UsageError, match="is ready: await it"):
        replay.result  # noqa: B018
    result = replay.run()
    assert engine.log == [("E", 1, 0), ("E", 2, 1), ("E", 2, 2), ("F", 2, 0), ("F", 3, 1), ("clock", 10)]
    assert repr(result) == "5 events finished, clock 00:00:00.010\n  out: 6 deliveries\n  idle: 0 deliveries"
    assert replay.progress.state == "finished"
    assert result is not None and "<table " in result._repr_html_()


def test_until_and_limit_cut_the_input() -> None:
    engine = FakeEngine()
    assert begin(engine, [source(1, 2, 3)], until=2).run()
    assert (engine.numbers, engine.now) == ([0, 1], 2)
    engine = FakeEngine()
    begin(engine, [source(1, 2, 3)], until=5, limit=1).run()
    assert (engine.numbers, engine.now) == ([0], 5)
    engine = FakeEngine()
    begin(engine, [source(1, 2, 3)], limit=0).run()
    assert (engine.numbers, engine.now) == ([], 0)


def test_step_pause_resume_stop() -> None:
    engine = FakeEngine()
    replay = begin(engine, [source(*range(10))], paused=True)
    replay.step()
    replay.step(3)
    assert (engine.numbers, replay.state, replay.progress.events) == ([0, 1, 2, 3], "paused", 4)
    replay.stop()
    assert (replay.state, engine.numbers) == ("stopped", [0, 1, 2, 3])
    assert (replay.progress.events, replay.progress.total) == (4, 10), "how far it came stays visible"
    replay.step()
    replay.resume()
    assert replay.run() == replay.result
    assert engine.numbers == [0, 1, 2, 3]
    assert replay.result.state == "stopped"


def test_steps_reach_the_end_and_the_clock_goes_to_until() -> None:
    engine = FakeEngine()
    replay = begin(engine, [source(1, 2)], paused=True, until=9)
    replay.step(5)
    assert (replay.state, engine.now) == ("finished", 9)
    assert replay.progress.rate > 0


def test_await_runs_in_slices_and_lets_the_loop_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 0.0)
    set_sizes(monkeypatch, 4)

    async def main() -> tuple[int, Any]:
        engine = FakeEngine()
        replay = begin(engine, [source(*range(2000))])
        turns = 0
        task = asyncio.ensure_future(_result(replay))
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        return turns, task.result()

    turns, result = asyncio.run(main())
    assert turns > 5
    assert result.events == 2000


async def _result(replay: Replay) -> Any:
    return await replay


def test_orders_from_another_thread() -> None:
    engine = FakeEngine()

    async def main() -> None:
        replay = begin(engine, [source(*range(100))], paused=True)
        thread = threading.Thread(target=lambda: (replay.step(7), replay.step(1)))
        thread.start()
        thread.join()
        while replay.progress.events < 8:
            await asyncio.sleep(0)
        assert (replay.state, len(engine.numbers)) == ("paused", 8)
        thread = threading.Thread(target=replay.resume)
        thread.start()
        assert (await replay).events == 100
        thread.join()

    asyncio.run(main())


def test_pause_by_a_listener_stops_between_events_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    set_sizes(monkeypatch, 10)
    engine = FakeEngine()
    replay = begin(engine, [source(*range(1000))])
    engine.on_event = lambda: replay.pause() if len(engine.numbers) == 15 else None
    assert replay.run() is None
    assert (replay.state, engine.numbers) == ("paused", list(range(20)))
    assert replay.run()
    assert engine.numbers == list(range(1000))


def test_a_cancelled_await_pauses() -> None:
    engine = FakeEngine()

    async def main() -> None:
        replay = begin(engine, [source(0, 60_000)], speed=1)
        task = asyncio.ensure_future(_result(replay))
        await until(lambda: engine.numbers)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        lines = getattr(caught.value, "_render_traceback_")()  # noqa: B009 - what a notebook shows in place of a traceback
        assert lines[0] == "interrupted: the replay is paused at 00:00:00.000, after 1 event"
        assert "resume()" in lines[1]
        assert (replay.state, engine.numbers) == ("paused", [0])
        replay.step()
        assert engine.numbers == [0, 1]
        replay.resume()
        assert (await replay).events == 2

    asyncio.run(main())


def test_keyboard_interrupt_pauses_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    set_sizes(monkeypatch, 10)
    engine = FakeEngine()
    replay = begin(engine, [source(*range(1000))])
    engine.on_event = lambda: os.kill(os.getpid(), signal.SIGINT) if len(engine.numbers) == 15 else None
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
    try:
        with pytest.raises(Interrupted) as caught:
            replay.run()
        assert "interrupted: the replay is paused at 00:00:00.019, after 20 events\n  hint" in str(caught.value)
        assert (replay.state, engine.numbers) == ("paused", list(range(20)))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        replay.run()
        assert engine.numbers == list(range(1000))
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_failing_source_leaves_the_good_rows_and_says_where() -> None:
    engine = FakeEngine()

    def events() -> Iterator[dict[str, int]]:
        yield {"at": 1, "n": 0}
        yield {"at": 2, "n": 1}
        raise OSError("gone")

    options = SourceOptions(KIND, "at", TYPES, ReplayOptions())
    replay = begin(engine, [open_source(events(), options)], until=99)
    with pytest.raises(EventError, match=r"source of `E` failed before row 2: OSError\('gone'\)"):
        replay.run()
    assert (replay.state, engine.numbers, engine.now) == ("failed", [0, 1], 2)
    with pytest.raises(EventError):
        replay.result  # noqa: B018

    async def wait() -> None:
        await begin(FakeEngine(), [open_source(events(), options)])

    with pytest.raises(EventError, match="before row 2"):
        asyncio.run(wait())


def test_time_going_backwards() -> None:
    engine = FakeEngine()
    with pytest.raises(EventError, match=r"row 2 of `E` goes back in time: 00:00:00.004 after 00:00:00.005"):
        begin(engine, [source(1, 5, 4, 6)]).run()
    assert engine.numbers == [0, 1]
    engine = FakeEngine()
    result = begin(engine, [source(1, 5, 4, 6, late="drop")], late="drop").run()
    assert engine.numbers == [0, 1, 3]
    assert "3 events finished, clock 00:00:00.006, 1 late dropped" in repr(result)


def test_events_before_the_clock() -> None:
    engine = FakeEngine()
    engine.now = 5
    with pytest.raises(EventError, match=r"(?s)`E` at 4 ms .* is before the clock, 5 ms.*`cep.rewind\(\)`"):
        begin(engine, [source(4, 6)]).run()
    assert engine.log == []
    result = begin(engine, [source(4, 6)], late="drop").run()
    assert (engine.numbers, result and result.late) == ([1], 1)


def test_the_clock_may_be_moved_while_paused() -> None:
    engine = FakeEngine()
    replay = begin(engine, [source(1, 2, 9)], paused=True, late="drop")
    replay.step()
    engine.advance_to(5)
    replay.run()
    assert (engine.numbers, replay.result.late) == ([0, 2], 1)


def test_real_time_visits_due_times_in_order_whatever_the_wall_clock_does(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [("E", 1000, 0), ("clock", 1500), ("clock", 2500), ("E", 3000, 1), ("clock", 3500), ("clock", 4000)]
    for hurry in (0.001, 0.3, 50.0):  # seconds that pass between two looks at the clock
        now = [0.0]

        def tick(now: list[float] = now, hurry: float = hurry) -> float:
            now[0] += hurry
            return now[0]

        monkeypatch.setattr(module.wall, "perf_counter", tick)
        monkeypatch.setattr(module.wall, "sleep", lambda seconds, now=now: now.__setitem__(0, now[0] + seconds))
        engine = FakeEngine(due=(1500, 2500, 3500, 9000))
        engine.now = 500
        begin(engine, [source(1000, 3000)], speed=2, until=4000).run()
        assert engine.log == expected


@pytest.mark.parametrize("paused", [False, True])
def test_stepping_visits_due_times_without_real_time(paused: bool) -> None:
    engine = FakeEngine(due=(500, 1500, 2500, 3500, 9000))
    replay = begin(engine, [source(1000, 3000, 3000)], until=4000, paused=paused)
    if paused:
        replay.step(3)
    replay.run()
    assert engine.log == [
        ("clock", 500), ("E", 1000, 0), ("clock", 1500), ("clock", 2500), ("E", 3000, 1), ("E", 3000, 2),
        ("clock", 3500), ("clock", 4000),
    ]  # fmt: skip


def test_what_waits_for_the_next_advance_hides_no_later_due_time() -> None:
    engine = FakeEngine(due=(700,))
    engine.on_event = lambda: setattr(engine, "due", [engine.now, 700]) if engine.now == 200 else None
    begin(engine, [source(200, 200, 900)], speed=1e6, until=1000).run()
    assert engine.log == [
        ("E", 200, 0), ("E", 200, 1), ("clock", 200), ("clock", 700), ("E", 900, 2), ("clock", 1000),
    ]  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"speed": 1e9}])
def test_what_is_due_together_goes_in_together(options: dict[str, Any]) -> None:
    engine = FakeEngine(due=(500, 4500))
    begin(engine, [source(*range(0, 10_000, 5))], **options).run()
    assert engine.numbers == list(range(2000)) and engine.log.index(("clock", 4500)) == 901
    assert len(engine.calls) < 25


def test_what_is_not_due_yet_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module.wall, "perf_counter", lambda: now[0])
    monkeypatch.setattr(module.wall, "sleep", lambda seconds: now.__setitem__(0, now[0] + 0.020))
    engine = FakeEngine()
    seen: list[tuple[float, int]] = []
    engine.on_event = lambda: seen.append((now[0], engine.now))
    begin(engine, [source(*range(200))], speed=1).run()
    assert all(time <= at * 1000 + 1e-6 for at, time in seen), "none comes before its time"
    assert engine.calls[:1] == [1] and sum(engine.calls) == 200 and max(engine.calls) <= 20


def test_events_far_apart_come_together_where_nothing_is_due() -> None:
    engine = FakeEngine()
    begin(engine, [source(*range(0, 3000 * 3_600_000, 3_600_000))]).run()
    assert len(engine.calls) < 30 and engine.numbers == list(range(3000))


def by_hand(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    """The wall clock of replays is `clock`, in seconds, and sleeping takes no time."""
    for owner in (module, replay_loop):
        monkeypatch.setattr(owner, "wall", SimpleNamespace(perf_counter=lambda: clock[0], sleep=lambda _: None))


def test_calls_get_smaller_where_events_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    by_hand(monkeypatch, clock)
    engine = FakeEngine()
    engine.on_event = lambda: clock.__setitem__(0, clock[0] + (0.02 if engine.now > 500 else 0))
    begin(engine, [source(*range(1000))]).run()
    assert max(engine.calls) > 100 and max(engine.calls[-50:]) <= 5


def test_a_long_gap_is_passed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    by_hand(monkeypatch, clock)
    engine = FakeEngine(due=tuple(range(1, 2001)))
    advance = engine.advance_to

    def slow(time: int, *, stepping: bool = False) -> None:
        clock[0] += 0.001
        advance(time)

    monkeypatch.setattr(engine, "advance_to", slow)
    replay = begin(engine, [source(0, 2500)], until=3000)
    seen: list[int] = []
    replay.subscribe(lambda: seen.append(engine.now))
    replay.run()
    assert [entry[1] for entry in engine.log if entry[0] == "clock"] == [*range(1, 2001), 3000]
    assert len(seen) >= 15, "whoever shows it sees it move"


def test_what_waits_at_an_instant_is_not_asked_again_by_the_wall_clock() -> None:
    """Something that is due at each stop of the clock stops it no oftener because somebody looks at the wall clock."""
    engine = FakeEngine(due=(5, 700))
    advance = engine.advance_to

    def again(time: int, *, stepping: bool = False) -> None:
        advance(time)
        engine.due = [time, *engine.due]

    engine.advance_to = again  # type: ignore[method-assign]
    begin(engine, [source(0, 900)], speed=20).run()
    assert engine.log == [("E", 0, 0), ("clock", 5), ("clock", 700), ("clock", 900), ("E", 900, 1)]


def test_real_time_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module.wall, "perf_counter", lambda: now[0])
    monkeypatch.setattr(module.wall, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    engine = FakeEngine()
    slept: list[float] = []
    replay = begin(engine, [source(0, 100)], speed=10)
    replay.subscribe(lambda: slept.append(replay.progress.events))
    replay.run()
    assert slept[0] == 1
    assert engine.numbers == [0, 1]
    assert now[0] == pytest.approx(0.01, abs=0.002)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"speed": 0}, "factor above 0"), ({"limit": -1}, "number of events"), ({"speed": -2}, "factor above 0")],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        begin(FakeEngine(), [source(1)], **options)


def test_a_replay_cannot_run_inside_itself() -> None:
    engine = FakeEngine()
    replay = begin(engine, [source(1, 2)])
    engine.on_event = replay.run
    with pytest.raises(UsageError, match="within itself"):
        replay.run()
    assert replay.state == "failed"


def test_garbage_is_collected_as_usual_when_no_event_flows() -> None:
    usual = gc.get_threshold()
    engine = FakeEngine()
    during: list[int] = []
    engine.on_event = lambda: during.append(gc.get_threshold()[0])
    replay = begin(engine, [source(*range(20))], paused=True)
    replay.step(3)
    assert gc.get_threshold() == usual
    replay.run()
    assert gc.get_threshold() == usual
    assert set(during) == {module.CollectionPause.OBJECTS}

    async def cut_short() -> None:
        task = asyncio.ensure_future(_result(begin(FakeEngine(), [source(0, 60_000)], speed=1)))
        await until(lambda: gc.get_threshold() != usual)
        task.cancel()

    asyncio.run(cut_short())
    assert gc.get_threshold() == usual


def test_a_replay_that_cannot_keep_its_speed_says_how_far_behind_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    by_hand(monkeypatch, clock)
    engine = FakeEngine()
    replay = begin(engine, [source(*range(0, 100_000, 1000))], speed=1000)  # an event is due every millisecond
    lags: list[float] = []

    def slow() -> None:
        clock[0] += 0.02
        lags.append(replay.progress.behind)

    engine.on_event = slow
    replay.run()
    assert lags[:2] == [0.0, pytest.approx(0.019)] and lags[-1] == pytest.approx(99 * 0.019)
    assert replay.progress.behind == 0.0


def test_the_last_time_is_known_without_a_limit_of_events() -> None:
    engine = FakeEngine()
    assert begin(engine, [source(1, 2, 7)]).last_time is None  # nobody knows the times of an iterator
    assert begin(engine, [source(1, 2, 7)], until=5).last_time == 5
    assert begin(engine, [source(1, 2, 7)]).began is None  # it keeps no snapshots
    assert begin(engine, [source(1, 2, 7)], limit=2).last_time is None
    assert begin(engine, [source(1, 2, 7)], until=5, limit=2).last_time is None  # the limit may come first


def test_the_last_time_of_a_table_is_unknown_with_a_limit_of_events() -> None:
    cep = Workbench()
    cep.run("create schema E(at long)")
    rows = pd.DataFrame({"at": [1, 2, 7]})
    assert [cep.replay(rows, "E", time="at", limit=limit).last_time for limit in (None, 2)] == [7, None]


def test_the_rate_counts_the_time_of_all_steps() -> None:
    cep = Workbench()
    cep.run("create schema E(at long); @name('out') select * from E")
    cep.on("out", lambda delta: sleep(0.05))
    replay = cep.replay(pd.DataFrame({"at": range(9)}), "E", time="at", paused=True)
    assert replay.progress.rate == 0
    for _ in range(4):
        replay.step()
    assert 0 < replay.progress.rate <= 4 / (4 * 0.05)


def test_a_result_shows_its_clock_in_its_own_units() -> None:
    assert "clock 00:00:01.5" in str(ReplayResult("finished", 1, 1_500_000, second=1_000_000))


def test_messages_have_the_unit_of_the_clock() -> None:
    message = paused_message(3, 1_500_250, 1_000_000)
    assert message.splitlines()[0] == "interrupted: the replay is paused at 00:00:01.500250, after 3 events"


@pytest.mark.parametrize(
    ("names", "note"),
    [
        (("volume",), "`Narrow` has no property `volume`"),
        (("a", "b"), "`Narrow` has no properties `a`, `b`"),
        (("a", "b", "c", "d", "e"), "`Narrow` has no properties `a`, `b`, `c` and 2 more"),
    ],
)
def test_columns_that_are_no_properties_are_named_in_the_result(names: tuple[str, ...], note: str) -> None:
    cep = Workbench()
    cep.run("create schema Narrow(price double); create schema Wide(at long)")
    frame = pd.DataFrame({"at": [1, 2], "number": [1, 2], "price": [1.0, 2.0]} | dict.fromkeys(names, 0))
    columns = {"Narrow": frame, "Wide": frame[["at", "number"]]}
    result = cep.replay(columns, time="at", sequence="number").run()
    assert result is not None and result.unread_columns == {"Narrow": names}
    assert str(result) == f"4 events finished, clock 00:00:00.002; {note}"
    assert not cep.rewind() and "has no" not in str(cep.replay(frame[["at", "price"]], "Narrow", time="at").run())
