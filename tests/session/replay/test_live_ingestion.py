"""Live sources and the wall clock: loopback sockets, files, databases; time is a number that the tests turn."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from cepbook.errors import EventError, JournalError, UsageError
from cepbook.session import Workbench, inlets
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.inlets import Malformed
from cepbook.session.replay.live_ingestion import LiveInterrupted
from cepbook.session.replay.wall_clock import WallClock
from tests.waiting import until


class Turned:
    """A clock that stands still until somebody sleeps; then it is later at once."""

    def __init__(self, ms: int = 1_000_000) -> None:
        self.ms = float(ms)

    def now(self) -> int:
        return round(self.ms * 1_000_000)

    async def sleep(self, seconds: float) -> None:
        self.ms += seconds * 1000
        await asyncio.sleep(0)


@pytest.fixture
def cep() -> Workbench:
    workbench = Workbench()
    workbench.run("create schema A(x int, at long); @name('all') select x, current_timestamp as t from A")
    return workbench


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 60))


def rows(cep: Workbench) -> list[Any]:
    return cep.changes("all", times="ms")[["x", "t"]].astype(object).to_numpy().tolist()


async def numbers(*items: object, then: Exception | None = None) -> AsyncIterator[object]:
    for item in items:
        await asyncio.sleep(0)
        yield {"x": item} if isinstance(item, int) else item
    if then is not None:
        raise then


# ---------------------------------------------------------------- sources and their faults
def test_events_happen_when_they_arrive(cep: Workbench) -> None:
    turned = Turned()

    async def source() -> AsyncIterator[object]:
        for x in (1, 2, 3):
            yield {"x": x}
            turned.ms += 250

    async def scenario() -> str:
        live = cep.live({"A": source()}, now=turned.now, sleep=turned.sleep)
        assert live.state == "running" and cep.live_clock is not None
        await live
        return repr(live)

    assert run(scenario()).startswith("Live of A: 3 events, finished\n  clock 00:16:40.")
    assert [x for x, _ in rows(cep)] == [1, 2, 3]
    assert [t >= 1_000_000 + 250 * i for i, (_, t) in enumerate(rows(cep))] == [True] * 3
    assert cep.live_clock is None, "the clock that came with the sources goes with them"


def test_events_with_a_time_of_their_own(cep: Workbench) -> None:
    live = run(
        run_live(
            cep, numbers({"x": 1, "ts": 5000}, {"x": 2, "ts": 4000}, {"x": 3, "ts": "1970-01-01T00:00:07"}, {"x": 4})
        )
    )
    assert rows(cep) == [[1, 5000], [3, 7000]]
    assert (live.events["A"], live.late["A"], live.malformed["A"]) == (2, 1, 1)
    assert "2 events, 1 malformed, 1 late" in repr(live) and "`ts` is missing" in repr(live)
    assert live.rejected[0][1].reason == "the event time `ts` is missing"


async def run_live(cep: Workbench, source: Any, **options: Any) -> Any:
    return await cep.live({"A": source}, **(options or {"time": "ts"}))


def test_what_is_no_event_is_counted_and_the_rest_goes_on(cep: Workbench) -> None:
    items = (1, {"x": "text"}, 5, {"y": 1}, "word", Malformed("{", "this is no JSON"), {"x": None})
    live = run(run_live(cep, numbers(*items), now=Turned().now))
    assert [x for x, _ in rows(cep)][:2] == [1, 5] and len(rows(cep)) == 3
    assert live.malformed["A"] == 4
    reasons = [what.reason.splitlines()[0] for _, what in live.rejected]
    assert reasons[0].startswith("property `x`") or "is int, not 'text'" in reasons[0]
    assert reasons[2].startswith("an event of type `A` is a dict") and reasons[3] == "this is no JSON"


def test_a_source_that_fails_does_not_stop_the_others(cep: Workbench) -> None:
    cep.run("create schema B(x int); @name('b') select x from B")

    async def scenario() -> Any:
        live = cep.live({"A": numbers(1, then=ValueError("broken")), "B": numbers(*range(50))}, now=Turned().now)
        with pytest.raises(EventError, match=r"the source of `A` failed: ValueError\('broken'\)"):
            await live
        return live

    live = run(scenario())
    assert (live.state, live.events) == ("failed", {"A": 1, "B": 50})
    assert "the source of A failed: ValueError('broken')" in repr(live)


def test_statements_that_fail_stop_nothing(cep: Workbench) -> None:
    def fail(x: int) -> int:
        raise RuntimeError("no")

    cep.register_function("fail", fail)
    cep.run("@name('f') select fail(x) as y from A(x = 2)")
    live = run(run_live(cep, numbers(1, 2, 3), now=Turned().now))
    assert (live.events["A"], live.errors, len(cep.errors)) == (3, 1, 1)
    counts = live.sources.drop(columns=["rate", "age"]).to_dict("records")
    expected = {"late": 0, "buffered": 0, "rejected": 0, "reconnections": 0, "gap": 0.0, "note": ""}
    assert counts == [{"source": "A", "state": "finished", "events": 3, **expected}]
    assert live.rejections.columns.tolist() == ["source", "reason", "count", "first", "last"]


def test_errors_of_several_batches_add_up(cep: Workbench) -> None:
    def fail(x: int) -> int:
        raise RuntimeError("no")

    cep.register_function("fail", fail)
    cep.run("@name('f') select fail(x) as y from A")

    async def scenario() -> int:
        source = Closing()
        live = cep.live({"A": source}, now=Turned().now)
        for x in (1, 2, 3):
            source.items.put_nowait({"x": x})
            await until(lambda x=x: live.events["A"] == x)
        live.stop()
        await live
        return live.errors

    assert run(scenario()) == 3


def test_stop_closes_the_source(cep: Workbench) -> None:
    closed: list[bool] = []

    async def endless() -> AsyncIterator[object]:
        try:
            while True:
                yield {"x": 1}
                await asyncio.sleep(0)
        finally:
            closed.append(True)

    async def scenario() -> Any:
        live = cep.live({"A": endless()}, now=Turned().now)
        await until(lambda: live.events["A"] > 5)
        live.stop()
        return await live

    live = run(scenario())
    assert (live.state, closed) == ("stopped", [True])
    count = len(rows(cep))
    assert count == live.events["A"]


def test_an_interruption_closes_the_sources_and_says_so(cep: Workbench) -> None:
    async def scenario() -> Any:
        async def endless() -> AsyncIterator[object]:
            while True:
                yield {"x": 1}
                await asyncio.sleep(0)

        live = cep.live({"A": endless()}, now=Turned().now)

        async def cell() -> None:
            await live

        task = asyncio.create_task(cell())
        await until(lambda: live.events["A"] > 5)
        task.cancel()
        with pytest.raises(LiveInterrupted, match=r"interrupted: Live of A: .* events, stopped"):
            await task
        return live

    assert run(scenario()).state == "stopped"


def test_a_reset_ends_live_sources(cep: Workbench) -> None:
    async def scenario() -> str:
        async def endless() -> AsyncIterator[object]:
            while True:
                yield {"x": 1}
                await asyncio.sleep(0)

        live = cep.live({"A": endless()}, now=Turned().now)
        await until(lambda: live.events["A"] > 5)
        cep.reset()
        await live
        return repr(live)

    assert "the workbench was reset" in run(scenario())


def test_a_full_reader_holds_the_sources_back(cep: Workbench) -> None:
    async def scenario() -> tuple[int, int, list[int]]:
        stream = cep.stream("all", capacity=10)
        live = cep.live({"A": numbers(*range(100))}, now=Turned().now)
        await until(lambda: live.events["A"] == 10)
        for _ in range(50):
            await asyncio.sleep(0)
        count = live.events["A"]
        received = [(await anext(stream)).insert[0]["x"] for _ in range(100)]  # type: ignore[index]
        await live
        return count, stream.missed, received

    assert run(scenario()) == (10, 0, list(range(100)))


# ---------------------------------------------------------------- many at once
async def burst(count: int, **more: Any) -> AsyncIterator[object]:
    for x in range(count):
        yield {"x": x} | {name: make(x) for name, make in more.items()}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events came with each call of the engine."""
    sizes: list[int] = []
    whole = EngineHandle.feeder

    def counting(self: EngineHandle, types: Any) -> Any:
        feed = whole(self, types)

        def counted(parts: Any, *rest: Any) -> None:
            sizes.append(sum(len(batch.times) for batch in parts))
            feed(parts, *rest)

        return counted

    monkeypatch.setattr(EngineHandle, "feeder", counting)
    return sizes


def test_what_is_at_hand_goes_in_together(cep: Workbench, calls: list[int]) -> None:
    live = run(run_live(cep, burst(5000), now=Turned().now))
    assert [x for x, _ in rows(cep)] == list(range(5000))
    assert live.events["A"] == sum(calls) == 5000 and len(calls) < 40


def test_what_comes_alone_goes_in_at_once(cep: Workbench, calls: list[int]) -> None:
    async def scenario() -> None:
        more = asyncio.Event()

        async def source() -> AsyncIterator[object]:
            yield {"x": 1}
            await more.wait()
            yield {"x": 2}

        live = cep.live({"A": source()}, now=Turned().now)
        for _ in range(4):
            await asyncio.sleep(0)
        assert [x for x, _ in rows(cep)] == [1]
        more.set()
        await live

    run(scenario())
    assert calls == [1, 1]


def test_times_and_stops_are_those_of_single_events(calls: list[int]) -> None:
    def bench() -> Workbench:
        workbench = Workbench()
        workbench.run(
            "create schema A(x int, at long); create schema B(x int); @name('w') select irstream x from A#time(3 msec);"
            "@name('p') select a.x as a, b.x as b from pattern [every a=A -> b=B];"
            "@name('o') select count(*) as n from A output snapshot every 2 msec"
        )
        return workbench

    live, sent = bench(), bench()
    turned, came = Turned(5), list[tuple[int, str, int]]()

    async def source(name: str) -> AsyncIterator[object]:
        for x in range(300):
            turned.ms += x % 5 == 0
            came.append((turned.now() // 1_000_000, name, x))
            yield {"x": x}
            if x % 50 == 0:
                await asyncio.sleep(0)

    async def scenario() -> Any:
        return await live.live({"A": source("A"), "B": source("B")}, now=turned.now, sleep=turned.sleep)

    done = run(scenario())
    assert done.events == {"A": 300, "B": 300} and len(calls) < 60
    for time, name, x in came:
        if time > sent.runtime.now:
            sent.advance(time, stepping=True)
        sent.send(name, x=x)
    sent.advance(live.clock.ms, stepping=True)
    for name in ("w", "p", "o"):
        assert live.changes(name).to_string() == sent.changes(name).to_string(), name


def test_among_many_what_is_no_event_or_late_is_counted(cep: Workbench) -> None:
    live = run(run_live(cep, burst(3000, ts=lambda x: None if x % 100 == 7 else 5 if x % 100 == 8 else 10 + x)))
    assert (live.events["A"], live.malformed["A"], live.late["A"]) == (2940, 30, 30)
    assert rows(cep) == [[x, 10 + x] for x in range(3000) if x % 100 not in (7, 8)]
    assert len(live.rejected) == 30


def test_a_listener_may_stop_it_send_and_fail(cep: Workbench) -> None:
    cep.run("create schema B(x int); @name('b') select x from B")
    stopped: list[Any] = []

    def listen(delta: Any) -> None:
        x = delta.insert[0]["x"]
        if x == 500:
            cep.send("B", x=x)
        if x == 1000:
            raise ValueError("no")
        if x == 1500:
            stopped.append(live_of())

    def live_of() -> Any:
        holder[0].stop()
        return holder[0]

    holder: list[Any] = []
    cep.on("all", listen)

    async def scenario() -> Any:
        holder.append(cep.live({"A": burst(100_000)}, now=Turned().now))
        return await holder[0]

    live = run(scenario())
    assert (live.state, live.errors, cep.changes("b")["x"].tolist()) == ("stopped", 1, [500])
    assert [x for x, _ in rows(cep)] == list(range(live.events["A"])) and 1500 < live.events["A"] < 100_000


def test_stopped_while_a_reader_is_full_nothing_that_came_is_lost(cep: Workbench) -> None:
    yielded: list[int] = []

    async def source() -> AsyncIterator[object]:
        for x in range(100):
            yielded.append(x)
            yield {"x": x}

    async def scenario() -> Any:
        stream = cep.stream("all", capacity=10)
        live = cep.live({"A": source()}, now=Turned().now)
        await until(lambda: live.events["A"] == 10)
        for _ in range(10):
            await asyncio.sleep(0)
        live.stop()
        await live
        stream.close()
        return live

    live = run(scenario())
    assert [x for x, _ in rows(cep)] == yielded and live.events["A"] == len(yielded)


def test_an_interruption_waits_for_the_events_under_way(cep: Workbench) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    cep.on("all", lambda delta: os.kill(os.getpid(), signal.SIGINT) if delta.insert[0]["x"] == 700 else None)
    sources: list[Any] = []

    async def scenario() -> None:
        sources.append(cep.live({"A": burst(100_000)}, now=Turned().now))
        await sources[0]

    try:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(scenario())
    finally:
        signal.signal(signal.SIGINT, before)
    assert [x for x, _ in rows(cep)] == list(range(sources[0].events["A"])) and sources[0].events["A"] > 700
    cep.send("A", x=-1)


def test_an_event_type_that_changes_meanwhile(cep: Workbench) -> None:
    async def scenario() -> Any:
        changed = asyncio.Event()

        async def source() -> AsyncIterator[object]:
            for x in range(20):
                if x == 5:
                    await changed.wait()
                yield {"x": x}

        live = cep.live({"T": source()}, now=Turned().now)
        await until(lambda: live.events["T"] == 5)
        changed.set()
        await asyncio.sleep(0)  # events wait
        cep.run("create schema T(x int, more string); @name('t') select x, more from T", cell="t")
        return await live

    cep.run("create schema T(x int); @name('t') select x from T", cell="t")
    live = run(scenario())
    assert (live.events["T"], live.malformed["T"]) == (20, 0)
    assert cep.changes("t")["x"].tolist()[-1] == 19


def test_sources_that_cannot_be(cep: Workbench) -> None:
    async def scenario() -> None:
        with pytest.raises(UsageError, match="cannot come from str"):
            cep.live({"A": "ticks.csv"})
        with pytest.raises(EventError, match="`B`"):
            cep.live({"B": numbers(1)})
        with pytest.raises(UsageError, match="which events"):
            cep.live({})
        cep.advance(10**12)
        with pytest.raises(
            UsageError, match=r"past the present\n  hint: .* run_clock\(here=True\), `%clock live here`"
        ):
            cep.live({"A": []}, now=Turned().now)
        cep.run_clock(here=True)
        with pytest.raises(UsageError, match="drives the time already"):
            cep.live({"A": []}, time="at")
        cep.stop_clock()

    run(scenario())
    with pytest.raises(UsageError, match="running event loop"):
        cep.live({"A": []}, time="at")
    with pytest.raises(UsageError, match="running event loop"):
        cep.run_clock()


# ---------------------------------------------------------------- the wall clock
def test_the_wall_clock_fires_what_is_due_when_it_is_due() -> None:
    cep = Workbench()
    cep.run("create schema A(x int); @name('q') select irstream x from A#time(3 sec)")
    turned = Turned()

    async def scenario() -> None:
        clock = cep.run_clock(now=turned.now, sleep=turned.sleep)
        assert cep.run_clock() is clock and repr(clock).endswith("live")
        cep.send("A", x=1)
        await until(lambda: len(cep.changes("q")) == 2)
        cep.stop_clock()
        assert not clock.running
        at = cep.clock.ms
        for _ in range(20):
            await asyncio.sleep(0)
        assert cep.clock.ms == at

    run(scenario())
    assert cep.changes("q", times="ms")["time"].tolist() == [1_000_000, 1_003_000]


def test_the_wall_clock_from_here_and_after_a_sleep_of_the_machine() -> None:
    cep = Workbench(start="2030-01-01")
    cep.run("@name('q') select 1 as one from pattern [every timer:interval(1 sec)]")
    turned = Turned()

    async def scenario() -> None:
        cep.run_clock(here=True, now=turned.now, sleep=turned.sleep)
        await until(lambda: len(cep.changes("q")) >= 3)
        turned.ms += 3_600_000
        await until(lambda: cep.clock.ms - cep._start > 3_600_000)
        cep.stop_clock()

    run(scenario())
    times = [time - cep._start for time in cep.changes("q", times="ms")["time"].tolist()]
    assert times[:3] == [1000, 2000, 3000], "a stop at every due time"
    assert len(times) < 3700 and max(times) >= 3_600_000, "a long gap is one advance"


def test_a_failing_statement_does_not_stop_the_clock() -> None:
    cep = Workbench()

    def fail() -> int:
        raise RuntimeError("no")

    cep.register_function("fail", fail)
    cep.run("@name('q') select fail() as y from pattern [every timer:interval(1 sec)]")
    turned = Turned(0)

    async def scenario() -> int:
        clock = cep.run_clock(now=turned.now, sleep=turned.sleep)
        await until(lambda: cep.clock.ms >= 3500)
        cep.stop_clock()
        return clock.failures

    assert run(scenario()) >= 3 and len(cep.errors) >= 3


def test_what_ends_the_clock_is_told() -> None:
    cep = Workbench()
    cep.run("@name('q') select 1 as one from pattern [every timer:interval(1 sec)]")
    turned = Turned(0)
    logged: list[dict[str, Any]] = []

    async def breaks(seconds: float) -> None:
        await turned.sleep(seconds)
        if turned.ms > 2500:
            raise OSError("the clock of the machine is gone")

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, failure: logged.append(failure))
        clock = cep.run_clock(now=turned.now, sleep=breaks)
        await until(lambda: not clock.running)
        note = "the live clock ended: OSError: the clock of the machine is gone"
        assert cep.live_clock is None and cep.clock_note == note and repr(clock).endswith(f"stopped\n  {note}")
        cep.run_clock(here=True, now=turned.now, sleep=turned.sleep)
        assert cep.clock_note == ""
        cep.stop_clock()

    run(scenario())
    assert len(cep.changes("q")) == 2
    assert [str(failure["exception"]) for failure in logged] == ["the clock of the machine is gone"]


def test_live_sources_tell_that_their_clock_ended(cep: Workbench) -> None:
    turned = Turned()

    async def breaks(seconds: float) -> None:
        await asyncio.sleep(0)
        raise OSError("gone")

    async def slow() -> AsyncIterator[dict[str, int]]:
        yield {"x": 1}
        for _ in range(20):
            await asyncio.sleep(0)
        yield {"x": 2}

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        live = cep.live({"A": slow()}, now=turned.now, sleep=breaks)
        await live
        assert live.events["A"] == 2 and "the live clock ended: OSError: gone" in repr(live)

    run(scenario())


def test_a_live_clock_that_is_ahead_says_so_and_one_from_here_goes_on() -> None:
    cep = Workbench()
    cep.run("create schema A(x int); @name('q') select * from A")
    turned = Turned()

    async def scenario() -> None:
        cep.run_clock(now=turned.now, sleep=turned.sleep)
        cep.advance(by="1 hour")
        assert "01:00:00" in cep.clock_note and "ahead of the present" in cep.clock_note
        with pytest.raises(UsageError, match="a live clock drives the time"):
            cep.replay([{"x": 1, "at": 5_000_000}], type="A", time="at")
        cep.stop_clock()
        cep.run_clock(here=True, now=turned.now, sleep=turned.sleep)
        cep.advance(by="1 hour")
        assert cep.clock_note == ""
        moved = cep.clock.ms
        await until(lambda: cep.clock.ms > moved)
        cep.rewind()
        await until(lambda: cep.clock.ms > 0)
        assert cep.clock.ms < 10_000 and cep.clock_note == ""
        cep.stop_clock()

    run(scenario())


# ---------------------------------------------------------------- inlets
async def served(lines: list[bytes], read: Callable[[int], Awaitable[Any]]) -> Any:
    connections = iter(lines)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(next(connections, b""))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        return await read(server.sockets[0].getsockname()[1])


def test_a_line_socket_and_its_malformed_lines(cep: Workbench) -> None:
    data = b'{"x": 1}\n\nno json\n\xff\xfe\n{"x": 2}\n{"x": 3'

    async def read(port: int) -> Any:
        return await cep.live({"A": inlets.lines("127.0.0.1", port)}, now=Turned().now)

    live = run(served([data], read))
    assert [x for x, _ in rows(cep)] == [1, 2]
    reasons = [what.reason for _, what in live.rejected]
    assert reasons[0].startswith("this is no JSON") and reasons[1:] == [
        "this is no UTF-8",
        "the connection ended in this line",
    ]


def test_a_connection_that_is_reset_in_a_line(cep: Workbench) -> None:
    """What came before counts, the line that is cut off is told of, and so is the reset."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"x": 1}\n{"x": 2}\n{}\n{"x": 3')
        await writer.drain()
        await until(lambda: len(rows(cep)) == 3)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def scenario() -> Any:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            live = cep.live({"A": inlets.lines("127.0.0.1", server.sockets[0].getsockname()[1])}, now=Turned().now)
            with pytest.raises(EventError, match="the source of `A` failed: ConnectionResetError"):
                await live
            return live

    live = run(scenario())
    assert cep.changes("all")["x"].fillna(0).tolist() == [1, 2, 0]
    assert [what.reason for _, what in live.rejected] == ["the connection ended in this line"]


def test_long_lines_and_short_ones_over_a_socket(cep: Workbench) -> None:
    cep.run("create schema S(t string); @name('long') select t from S")
    texts = ["a" * 300_000, "b", "c" * 70_000, ""]
    data = b"".join(json.dumps({"t": text}).encode() + b"\n" for text in texts)

    async def read(port: int) -> Any:
        return await cep.live({"S": inlets.lines("127.0.0.1", port)}, now=Turned().now)

    run(served([data], read))
    assert cep.changes("long")["t"].tolist() == texts


def test_a_connection_is_tried_again(cep: Workbench) -> None:
    turned = Turned()

    async def read(port: int) -> Any:
        source = inlets.lines("127.0.0.1", port, retry="1 sec", sleep=turned.sleep)
        live = cep.live({"A": source}, now=Turned().now)
        await until(lambda: live.events["A"] == 2)
        live.stop()
        return await live

    assert run(served([b'{"x": 1}\n', b"", b'{"x": 2}\n'], read)).events["A"] == 2
    assert turned.ms >= 1_002_000


def test_no_connection(cep: Workbench) -> None:
    async def nobody(port: int) -> int:
        return port

    port = run(served([], nobody))

    async def scenario() -> Any:
        with pytest.raises(EventError, match="the source of `A` failed: ConnectionRefusedError"):
            await cep.live({"A": inlets.lines("127.0.0.1", port)}, now=Turned().now)
        live = cep.live({"A": inlets.lines("127.0.0.1", port, retry="1 sec", sleep=Turned().sleep)}, now=Turned().now)
        await until(lambda: live.sources["state"].tolist() == ["reconnecting"])
        text = repr(live)
        live.stop()
        await live
        assert live.malformed.total() == 0
        return text

    assert "the source of A, reconnecting: [Errno" in run(scenario())


def test_a_websocket(cep: Workbench) -> None:
    web = pytest.importorskip("tornado.web", reason="tornado comes with Jupyter")
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port
    from tornado.websocket import WebSocketHandler

    asked: list[object] = []

    class Ticks(WebSocketHandler):  # type: ignore[misc]
        def on_message(self, message: str | bytes) -> None:
            asked.append(message)
            for text in ('{"x": 1}', "nonsense", b'{"x": 2}'):
                self.write_message(text, binary=isinstance(text, bytes))
            self.close()

    async def scenario() -> Any:
        server = HTTPServer(web.Application([("/ticks", Ticks)]))
        socket, port = bind_unused_port()
        server.add_socket(socket)
        try:
            source = inlets.websocket(f"ws://127.0.0.1:{port}/ticks", subscribe="go")
            return await cep.live({"A": source}, now=Turned().now)
        finally:
            server.stop()

    live = run(scenario())
    assert (live.events["A"], live.malformed["A"], asked) == (2, 1, ["go"])


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_the_tail_of_a_file(kind: str, cep: Workbench, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    line_of: Callable[[int], str] = (lambda x: f"{x},7\n") if kind == "csv" else (lambda x: json.dumps({"x": x}) + "\n")
    head = "x,at\n" if kind == "csv" else ""
    path.write_text(head + line_of(0))

    async def scenario() -> Any:
        live = cep.live({"A": inlets.tail(path, sleep=Turned().sleep)}, now=Turned().now)
        for _ in range(20):
            await asyncio.sleep(0)
        with path.open("a") as file:
            file.write(line_of(1) + line_of(2)[:2])
            file.flush()
            await until(lambda: live.events["A"] == 1)
            file.write(line_of(2)[2:] + "1,2,3 {\n")
        await until(lambda: live.events["A"] == 2 and live.malformed["A"] == 1)
        path.write_text(head + line_of(9))
        await until(lambda: live.events["A"] == 3)
        live.stop()
        return await live

    run(scenario())
    assert [x for x, _ in rows(cep)] == [1, 2, 9]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_many_lines_of_a_file_need_no_further_look(kind: str, cep: Workbench, tmp_path: Path) -> None:
    path, seen = tmp_path / f"a.{kind}", list[int]()
    line_of: Callable[[int], str] = (
        (lambda x: f'{x},"7"\n') if kind == "csv" else (lambda x: json.dumps({"x": x}) + "\n")
    )
    path.write_text(("x,at\n" if kind == "csv" else "") + "".join(map(line_of, range(30_000))) + "99")

    async def scenario() -> Any:
        async def sleep(seconds: float) -> None:
            seen.append(live.events["A"] + len(live._batcher))
            await asyncio.sleep(0)

        live = cep.live({"A": inlets.tail(path, begin=True, sleep=sleep)}, now=Turned().now)
        await until(lambda: live.events["A"] == 30_000)
        live.stop()
        return await live

    run(scenario())
    assert [x for x, _ in rows(cep)] == list(range(30_000)) and seen[0] == 30_000


def test_a_file_that_is_rotated_and_one_whose_header_comes_later(cep: Workbench, tmp_path: Path) -> None:
    path, log = tmp_path / "a.csv", tmp_path / "a.csv.1"
    path.write_text("")

    async def scenario() -> Any:
        live = cep.live({"A": inlets.tail(path, sleep=Turned().sleep)}, now=Turned().now)
        for _ in range(20):
            await asyncio.sleep(0)
        path.write_text("\ufeffx,at\n1,7\n")
        await until(lambda: live.events["A"] == 1)
        path.rename(log)
        for _ in range(20):
            await asyncio.sleep(0)
        with log.open("a") as file:
            file.write("2,7\n3")  # the writer has not looked yet, and is cut off
        path.write_text("at,x\n7,4\n")
        await until(lambda: live.events["A"] == 3)
        path.write_text("")
        for _ in range(20):
            await asyncio.sleep(0)
        with path.open("a") as file:
            file.write("x,at\n")
            file.flush()
            for _ in range(20):
                await asyncio.sleep(0)
            file.write("5,7\n")
        await until(lambda: live.events["A"] == 4)
        live.stop()
        return await live

    live = run(scenario())
    assert [x for x, _ in rows(cep)] == [1, 2, 4, 5]
    assert [what for _, what in live.rejected] == [inlets.Malformed("3", "the file was replaced in this line")]


def test_a_line_that_is_not_ended_when_the_tail_begins_is_read_whole(cep: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n0\n12")

    async def scenario() -> Any:
        live = cep.live({"A": inlets.tail(path, sleep=Turned().sleep)}, now=Turned().now)
        for _ in range(20):
            await asyncio.sleep(0)
        with path.open("a") as file:
            file.write("3\n")
        await until(lambda: live.events["A"] == 1)
        live.stop()
        return await live

    run(scenario())
    assert [x for x, _ in rows(cep)] == [123]


def test_a_source_that_fails_when_it_is_closed_says_so(cep: Workbench) -> None:
    async def source() -> Any:
        try:
            yield {"x": 1}
            await asyncio.sleep(60)
        finally:
            raise ValueError("not closed")

    async def scenario() -> Any:
        live = cep.live({"A": source()}, now=Turned().now)
        await until(lambda: live.events["A"] == 1)
        live.stop()
        with pytest.raises(EventError, match=r"the source of `A` failed: ValueError\('not closed'\)"):
            await live

    run(scenario())


def test_a_file_that_is_not_there(cep: Workbench) -> None:
    async def scenario() -> None:
        with pytest.raises(EventError, match="there is no file"):
            await cep.live({"A": inlets.tail("nowhere.jsonl")}, now=Turned().now)

    run(scenario())


def test_rows_of_a_database(cep: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    base = sqlite3.connect(path)
    base.execute("create table ticks (at integer, x integer)")
    base.executemany("insert into ticks values (?, ?)", [(1, 10), (2, 20)])
    base.commit()

    async def scenario() -> Any:
        source = inlets.database(
            lambda: sqlite3.connect(path),
            "select at, x from ticks where at > ? order by at",
            cursor="at",
            sleep=Turned().sleep,
        )
        live = cep.live({"A": source}, now=Turned().now)
        await until(lambda: live.events["A"] == 2)
        base.execute("insert into ticks values (3, 30)")
        base.commit()
        await until(lambda: live.events["A"] == 3)
        live.stop()
        await live
        once = cep.live({"A": inlets.database(lambda: sqlite3.connect(path), "select x from ticks")}, now=Turned().now)
        await once
        wrong = inlets.database(lambda: sqlite3.connect(path), "select x from ticks where at > ?", cursor="at")
        with pytest.raises(EventError, match="no column `at`"):
            await cep.live({"A": wrong}, now=Turned().now)
        with pytest.raises(EventError, match="OperationalError"):
            await cep.live({"A": inlets.database(lambda: sqlite3.connect(path), "select y from z")}, now=Turned().now)

    run(scenario())
    assert [x for x, _ in rows(cep)] == [10, 20, 30, 10, 20, 30]


def test_kafka_without_its_package(cep: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiokafka", None)

    async def scenario() -> None:
        with pytest.raises(EventError, match=r"pip install 'cepbook\[kafka\]'"):
            await cep.live({"A": inlets.kafka("ticks")}, now=Turned().now)

    run(scenario())


class Closing:
    """A source that takes a while to close."""

    def __init__(self) -> None:
        self.items: asyncio.Queue[object] = asyncio.Queue()
        self.closed = False

    def __aiter__(self) -> Closing:
        return self

    async def __anext__(self) -> object:
        return await self.items.get()

    async def aclose(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0.001)
        self.closed = True


@pytest.mark.parametrize("replaced", ["reset", "load"])
def test_a_source_that_a_load_ends_closes_whole(cep: Workbench, tmp_path: Path, replaced: str) -> None:
    async def scenario() -> None:
        first, second = Closing(), Closing()
        cep.run("create schema B(x int)")
        cep.save(tmp_path / "a.cep")
        live = cep.live({"A": first, "B": second}, now=Turned().now)
        await asyncio.sleep(0)
        cep.reset() if replaced == "reset" else cep.load(tmp_path / "a.cep")
        first.items.put_nowait({"x": 1})
        await live
        assert first.closed and second.closed and live.state == "stopped"
        assert live.sources["state"].tolist() == ["stopped", "stopped"]

    run(scenario())


def test_a_source_that_has_not_begun_is_stopped(cep: Workbench) -> None:
    async def scenario() -> None:
        live = cep.live({"A": numbers(1)}, now=Turned().now)
        live.stop()
        await live
        assert live.sources["state"].tolist() == ["stopped"]

    run(scenario())


def test_events_that_could_not_enter_are_no_good_end(cep: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **_options: object) -> int:
        raise JournalError("the disk is full")

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        live = cep.live({"A": numbers(1, 2, 3)}, now=Turned().now)
        monkeypatch.setattr(cep._engine, "room", refuse)
        await until(lambda: live.obstacle)
        assert live.state == "running" and "events wait: JournalError: the disk is full" in repr(live)
        with pytest.raises(JournalError):
            live.stop()
        with pytest.raises(JournalError):
            await live
        assert live.state == "failed"
        assert "events did not enter the engine: JournalError: the disk is full" in repr(live)

    run(scenario())


def test_an_interruption_stays_one_if_events_cannot_enter(cep: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **_options: object) -> int:
        raise JournalError("the disk is full")

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        source = Closing()
        live = cep.live({"A": source}, now=Turned().now)
        monkeypatch.setattr(cep._engine, "room", refuse)
        source.items.put_nowait({"x": 1})
        await until(lambda: live.obstacle)
        task = asyncio.ensure_future(live._wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(LiveInterrupted) as interruption:
            await task
        assert isinstance(interruption.value.__cause__, JournalError)
        assert source.closed and live.ended

    run(scenario())


def test_the_stream_that_holds_sources_back_is_named(cep: Workbench) -> None:
    async def scenario() -> None:
        stream = cep.stream("all", capacity=10)
        live = cep.live({"A": numbers(*range(100))}, now=Turned().now)
        await until(lambda: live.obstacle)
        assert live.obstacle == "events wait: the reader of the stream of `all` is behind"
        assert live.sources["state"].tolist() == ["held back"] and live.obstacle in repr(live)
        stream.close()
        await live
        assert not live.obstacle and live.state == "finished"

    run(scenario())


def test_an_error_of_cepbook_is_none_of_the_source(cep: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        live = cep.live({"A": numbers(1, 2, 3)}, now=Turned().now)
        monkeypatch.setattr(live._batcher, "put", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await live
        assert live.state == "failed" and not live.failures

    run(scenario())


def test_an_item_that_arrives_in_a_pause_waits(cep: Workbench) -> None:
    async def scenario() -> None:
        source = Closing()
        live = cep.live({"A": source}, now=Turned().now)
        source.items.put_nowait({"x": 1})
        await until(lambda: live.events["A"] == 1)
        live.pause()
        for x in range(2, 5):
            source.items.put_nowait({"x": x})
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert live.events["A"] == 1 and source.items.qsize() == 2
        assert live.sources["state"].tolist() == ["paused"]
        live.resume()
        await until(lambda: live.events["A"] == 4)
        assert live.sources["state"].tolist() == ["running"]
        live.pause()
        source.items.put_nowait({"x": 5})
        await until(lambda: not source.items.qsize())
        live.stop()
        await live
        assert [x for x, _ in rows(cep)] == [1, 2, 3, 4, 5]

    run(scenario())


def test_changes_of_the_sources_are_events(cep: Workbench) -> None:
    cep.run("create schema State(source string, state string, reason string, gap double)")
    cep.run("@name('states') select source, state from State")

    async def scenario() -> None:
        source = Closing()
        live = cep.live({"A": source}, now=Turned().now, status="State")
        source.items.put_nowait({"x": 1})
        await until(lambda: live.events["A"] == 1)
        live.pause()
        live.resume()
        source.items.put_nowait({"x": 2})
        await until(lambda: live.events["A"] == 2)
        live.stop()
        await live

    run(scenario())
    states = cep.changes("states")
    assert states["source"].tolist() == ["A"] * len(states)
    assert states["state"].tolist() == ["paused", "resumed", "stopped"]


def test_a_clock_ends_with_its_event_loop() -> None:
    cep = Workbench()

    async def scenario() -> WallClock:
        return cep.run_clock(now=Turned(0).now, sleep=asyncio.sleep)

    clock = run(scenario())
    assert not clock.running
    assert clock.note == "the live clock ended with its event loop"
