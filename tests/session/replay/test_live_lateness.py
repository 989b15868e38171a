"""Live events that come out of order: the naive reference of replays says which are late; what waits is never lost."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook.engine.snapshot.file_format import pack_document
from cepbook.engine.snapshot.runtime_snapshot import runtime_document
from cepbook.errors import EventError, SnapshotError, UsageError
from cepbook.session import Workbench, inlets
from tests.session.replay.test_lateness import bench, delivered, history, reference
from tests.waiting import until

Rows = list[dict[str, Any]]


def run(scenario: Any) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 60))


async def generated(rows: Rows, then: asyncio.Event | None = None) -> AsyncIterator[object]:
    for number, row in enumerate(rows):
        if number % 7 == 0:
            await asyncio.sleep(0)
        yield row
    if then is not None:
        await then.wait()


def lines(rows: Rows) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


async def never(_seconds: float) -> None:
    """Stand for real time that does not go on."""
    await asyncio.Event().wait()


# ---------------------------------------------------------------- order, beside the reference
async def from_generator(cep: Workbench, rows: Rows, _path: Path, **options: Any) -> Any:
    return await cep.live({"E": generated(rows)}, time="ts", sleep=never, **options)


async def from_socket(cep: Workbench, rows: Rows, _path: Path, **options: Any) -> Any:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(lines(rows))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await cep.live({"E": inlets.lines("127.0.0.1", port)}, time="ts", sleep=never, **options)


async def from_file(cep: Workbench, rows: Rows, path: Path, **options: Any) -> Any:
    (path / "e.jsonl").write_bytes(lines(rows))
    source = inlets.tail(path / "e.jsonl", begin=True, every="1 msec")
    live = cep.live({"E": source}, time="ts", sleep=never, **options)
    await until(lambda: live.events["E"] + live.late["E"] + live.buffered["E"] == len(rows))
    live.stop()
    return await live


async def from_database(cep: Workbench, rows: Rows, _path: Path, **options: Any) -> Any:
    base = sqlite3.connect(":memory:", check_same_thread=False)
    base.execute("create table e (ts, v)")
    base.executemany("insert into e values (:ts, :v)", rows)
    source = inlets.database(lambda: base, "select ts, v from e order by rowid")
    return await cep.live({"E": source}, time="ts", sleep=never, **options)


SOURCES = (from_generator, from_socket, from_file, from_database)


@pytest.mark.parametrize("lateness", [0, 500, 2_000, 5_000, 60_000])
@pytest.mark.parametrize("source", SOURCES)
def test_order_and_late_events(source: Any, lateness: int, tmp_path: Path) -> None:
    for seed in range(6):
        rows, cep, path = history(seed), bench(), tmp_path / f"{seed}.jsonl"
        bound = {"lateness": f"{lateness} msec"} if lateness else {}
        live = run(source(cep, rows, tmp_path, rejected=path, **bound))
        expected = reference(rows, lateness)
        assert delivered(cep) == expected
        assert (live.events["E"], live.late["E"], len(live.buffered)) == (len(expected[0]), len(expected[1]), 0)
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        assert [entry["item"] for entry in entries] == [
            next(row for row in rows if row["v"] == v) for v, _ in expected[1]
        ]
        assert all(entry["source"] == "E" and entry["reason"].startswith("late by ") for entry in entries)


def test_two_sources_have_one_watermark() -> None:
    cep = bench()
    cep.run("create schema F(ts long, v int) starttimestamp ts; @name('f') select v from F")

    async def both() -> AsyncIterator[object]:
        for second in (1, 4, 2, 3, 9):
            yield {"ts": 1000 * second, "v": second}
            await asyncio.sleep(0.005)

    async def scenario() -> Any:
        return await cep.live({"E": both(), "F": both()}, time="ts", lateness="3 sec", sleep=never)

    live = run(scenario())
    assert delivered(cep) == ([1, 2, 3, 4, 9], []) and cep.changes("f")["v"].tolist() == [1, 2, 3, 4, 9]
    assert not live.late


# ---------------------------------------------------------------- what waits
def test_events_wait_and_are_told_and_stop_takes_them() -> None:
    cep, rows = bench(), [{"ts": 1000 * second, "v": second} for second in (10, 12, 11, 13)]

    async def scenario() -> Any:
        live = cep.live({"E": generated(rows, asyncio.Event())}, time="ts", lateness="2 sec", sleep=never)
        await until(lambda: live.buffered["E"] == 2)
        assert delivered(cep)[0] == [10, 11] and "2 waiting" in repr(live)
        assert live.sources[["events", "buffered"]].to_dict("records") == [{"events": 2, "buffered": 2}]
        live.stop()
        assert delivered(cep)[0] == [10, 11, 12, 13], "at once"
        return await live

    live = run(scenario())
    assert not live.buffered and "waiting" not in repr(live)


def test_a_quiet_source_holds_nothing_and_a_pause_does() -> None:
    cep, rows, looks = bench(), [{"ts": 1000 * second, "v": second} for second in (10, 12, 11)], asyncio.Event()
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await looks.wait()
        await asyncio.sleep(0)

    async def scenario() -> None:
        live = cep.live({"E": generated(rows, asyncio.Event())}, time="ts", lateness="8 sec", sleep=sleep)
        await until(lambda: live.buffered["E"] == 3)
        live.pause()
        looks.set()
        for _ in range(50):
            await asyncio.sleep(0)
        assert live.buffered["E"] == 3
        live.resume()
        await until(lambda: live.events["E"] == 3)
        live.stop()
        await live

    run(scenario())
    assert delivered(cep)[0] == [10, 11, 12] and set(pauses) == {2.0}


def test_a_stream_of_one_time_or_of_late_events_holds_nothing() -> None:
    cep = bench()

    async def stuck() -> AsyncIterator[object]:
        yield {"ts": 60_000, "v": 0}
        for number in range(1, 10_000):
            await asyncio.sleep(0.001)
            yield {"ts": 60_000 if number % 2 else 10, "v": number}

    async def scenario() -> None:
        live = cep.live({"E": stuck()}, time="ts", lateness="20 msec")
        await until(lambda: live.events["E"] > 2 and live.late["E"] > 2)
        live.stop()
        await live

    run(scenario())
    on_time, late = delivered(cep)
    assert on_time == [0, *(number for number in range(on_time[-1] + 1) if number % 2)]
    assert [v for v, _ in late] == list(range(2, late[-1][0] + 1, 2))


@pytest.mark.parametrize("place", [True, False], ids=["places", "no places"])
def test_what_waits_is_saved_wherever_the_workbench_is_saved(place: bool, tmp_path: Path) -> None:
    rows, saves = history(3), 0
    for stop in range(4, len(rows), 9):
        first, second = bench(), Workbench()

        def source(rows: Rows, begin: int) -> Any:
            """A source with a place continues there by itself, another one is continued by hand."""

            async def located(offsets: Any) -> AsyncIterator[object]:
                for number in range(offsets.get("", 0), len(rows)):
                    yield inlets.Located(rows[number], number + 1)
                    await asyncio.sleep(0)
                await asyncio.Event().wait()

            return inlets.Source("own", located) if place else generated(rows[begin:], asyncio.Event())

        async def scenario(first: Workbench = first, second: Workbench = second, stop: int = stop) -> int:
            options: dict[str, Any] = {"time": "ts", "lateness": "2 sec", "sleep": never}
            live = first.live({"E": source(rows[:stop], 0)}, **options)
            await until(lambda: live.events["E"] + live.late["E"] + live.buffered["E"] == stop)
            first.save(tmp_path / "w.cep", feeds=True)
            waiting = live.buffered["E"]
            live.stop()
            second.load(tmp_path / "w.cep")
            second.save(tmp_path / "again.cep", feeds=True)
            second.load(tmp_path / "again.cep")  # they are still there
            live = second.live({"E": source(rows, stop)}, **options)
            assert live.buffered["E"] == waiting
            expected = reference(rows, 2000)
            rest = len(rows) - stop
            await until(lambda: sum(map(len, delivered(second))) + live.buffered["E"] >= len(rows) and rest >= 0)
            live.stop()
            await live
            assert delivered(second) == expected
            return waiting

        saves += run(scenario()) > 0
    assert saves >= 5


def test_what_waited_goes_in_without_a_lateness_too_and_resume_false_drops_it(tmp_path: Path) -> None:
    async def scenario(resume: bool) -> list[int]:
        first, second = bench(), Workbench()
        live = first.live({"E": generated(rows, asyncio.Event())}, time="ts", lateness="5 sec", sleep=never)
        await until(lambda: live.buffered["E"] == 3)
        first.save(tmp_path / "w.cep", feeds=True)
        live.stop()
        second.load(tmp_path / "w.cep")
        await second.live({"E": generated([{"ts": 13_000, "v": 13}])}, time="ts", resume=resume)
        return delivered(second)[0]

    rows = [{"ts": 1000 * second, "v": second} for second in (10, 12, 11)]
    assert run(scenario(True)) == [10, 11, 12, 13]
    assert run(scenario(False)) == [13]


def test_a_rewind_drops_what_waits_and_the_source_goes_on(tmp_path: Path) -> None:
    cep, more = bench(), asyncio.Event()

    async def source() -> AsyncIterator[object]:
        yield {"ts": 10_000, "v": 10}
        await more.wait()
        yield {"ts": 1_000, "v": 1}

    async def scenario() -> None:
        live = cep.live({"E": source()}, time="ts", lateness="5 sec", sleep=never)
        await until(lambda: live.buffered["E"] == 1)
        cep.rewind()
        assert not live.buffered and not cep._engine.waiting
        more.set()
        await live
        assert delivered(cep) == ([1], [])

    run(scenario())


def test_reasons_of_long_texts_are_one_reason() -> None:
    cep = bench()
    live = run(wait_for(cep, [{"ts": 1, "v": f"<{number} {'x' * number * 20}>"} for number in range(100)]))
    assert live.rejections["count"].tolist() == [100]


async def wait_for(cep: Workbench, rows: Rows) -> Any:
    return await cep.live({"E": rows}, time="ts", lateness="5 sec", sleep=never)


def test_a_forged_file_with_waiting_events_replaces_nothing(tmp_path: Path) -> None:
    cep = bench()
    event = {"ts": 1, "v": 2}
    for entry in (
        *([1.5, "E", event, 1], [1, 3, event, 1], [1, "E", [2], 1], [1, "E", event, "one"], [1, "E", event]),
        *([1, "E"], 7, ["a", "E", None, 1]),
    ):
        extra = {"start": 0, "cells": [], "feeds": {}, "offsets": [], "waiting": [entry]}
        (tmp_path / "w.cep").write_bytes(pack_document(runtime_document(cep.runtime, extra)))
        runtime = cep.runtime
        with pytest.raises(SnapshotError):
            cep.load(tmp_path / "w.cep")
        assert cep.runtime is runtime


def test_waiting_events_of_a_changed_or_dropped_type_do_not_spoil_a_file(tmp_path: Path) -> None:
    types = "create schema E(ts long, v int) starttimestamp ts"
    changed = "create schema E(ts long, w int) starttimestamp ts"

    async def scenario(text: str) -> Any:
        first, second = Workbench(), Workbench()
        first.run(types, cell="a")
        rows = [{"ts": 1000 * v, "v": v} for v in range(1, 4)]
        live = first.live({"E": generated(rows, asyncio.Event())}, time="ts", lateness="1 hour", sleep=never)
        await until(lambda: live.buffered["E"] == 3)
        first.drop("E") if not text else first.run(text, cell="a")
        first.save(tmp_path / "w.cep")
        live.stop()
        second.load(tmp_path / "w.cep")
        if not text:
            second.run(types)
        second.run("@name('out') select * from E")
        live = await second.live({"E": []}, time="ts")
        return len(second.changes("out")), live.malformed["E"]

    assert run(scenario(types)) == (3, 0)
    assert run(scenario("")) == (3, 0)
    assert run(scenario(changed)) == (0, 3)


# ---------------------------------------------------------------- meanwhile
def test_an_event_type_that_changes_while_events_wait(tmp_path: Path) -> None:
    path, cep = tmp_path / "rejected.jsonl", Workbench()
    cep.run("create schema E(ts long, v int) starttimestamp ts; @name('out') select v from E", cell="a")
    more = asyncio.Event()

    async def source() -> AsyncIterator[object]:
        for v in range(1, 4):
            yield {"ts": 1000 * v, "v": v}
        await more.wait()
        yield {"ts": 9000, "w": 9}

    async def scenario() -> None:
        live = cep.live({"E": source()}, time="ts", lateness="5 sec", rejected=path, sleep=never)
        await until(lambda: live.buffered["E"] == 3)
        cep.run("create schema E(ts long, w int) starttimestamp ts; @name('out') select w from E", cell="a")
        more.set()
        await live
        assert live.malformed["E"] == 3, "told and in the file, not lost"

    run(scenario())
    assert cep.changes("out")["w"].tolist() == [9]
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["item"] for entry in entries] == [{"ts": 1000 * v, "v": v} for v in range(1, 4)]
    assert all("no property `v`" in entry["reason"] for entry in entries)


def test_a_clock_that_overtakes_events_that_wait() -> None:
    cep = bench()

    async def scenario() -> Any:
        rows = [{"ts": 1000 * second, "v": second} for second in (10, 12, 11)]
        live = cep.live({"E": generated(rows, asyncio.Event())}, time="ts", lateness="5 sec", sleep=never)
        await until(lambda: live.buffered["E"] == 3)
        cep.advance(11_500)
        live.stop()
        return await live

    live = run(scenario())
    assert delivered(cep) == ([12], [(10, 1500), (11, 500)])
    assert (live.events["E"], live.late["E"]) == (1, 2)


def test_changes_of_sources_are_not_late() -> None:
    cep = bench()
    cep.run(
        "create schema Change(source string, state string, reason string, gap double);"
        "@name('changes') select state from Change"
    )

    async def scenario() -> Any:
        rows = [{"ts": 1000 * second, "v": second} for second in (10, 12, 11)]
        return await cep.live({"E": generated(rows)}, time="ts", lateness="5 sec", status="Change", sleep=never)

    live = run(scenario())
    assert cep.changes("changes")["state"].tolist() == ["finished"] and not live.late.total()


def test_a_text_may_declare_a_type_of_the_name() -> None:
    cep = Workbench()
    cep.run("create schema E(ts long, v int) starttimestamp ts; create schema LateEvent(x int)")

    async def scenario() -> Any:
        return await cep.live({"E": generated(history(5))}, time="ts", lateness="1 sec", sleep=never)

    assert run(scenario()).late["E"] > 0


def test_wrong_arguments(tmp_path: Path) -> None:
    async def scenario() -> None:
        cep, source = bench(), generated([])
        for options, message in (
            ({"lateness": "5 sec"}, "needs the column of the event time"),
            ({"time": "ts", "lateness": "soon"}, "is not a time period"),
            ({"time": "ts", "rejected": tmp_path / "r.csv"}, "JSON lines"),
        ):
            with pytest.raises(UsageError, match=message):
                cep.live({"E": source}, **options)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="JSON lines"):
            cep.live({"E": source}, rejected=tmp_path / "r.csv")
        assert cep.live_clock is None

    run(scenario())


# ---------------------------------------------------------------- the file of rejected items
LONG = "x" * 5_000
WHOLE: dict[str, tuple[str, object]] = {
    "not JSON": (LONG, LONG),
    "no UTF-8": (LONG + "\\xff", LONG + "\\xff"),
    "no number": (json.dumps({"ts": LONG, "v": 1}), {"ts": LONG, "v": 1}),
    "no property": (json.dumps({LONG: 1}), {LONG: 1}),
    "no int": (json.dumps({"ts": 1, "v": LONG}), {"ts": 1, "v": LONG}),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_the_file_has_the_whole_item(kind: str, tmp_path: Path) -> None:
    text, item = WHOLE[kind]
    data = text.replace("\\xff", "\xff").encode("latin-1")

    async def over_socket(cep: Workbench, path: Path) -> Any:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(data + b"\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await cep.live({"E": inlets.lines("127.0.0.1", port)}, time="ts", rejected=path)

    async def in_file(cep: Workbench, path: Path) -> Any:
        (tmp_path / "e.jsonl").write_bytes(data + b"\n")
        live = cep.live({"E": inlets.tail(tmp_path / "e.jsonl", begin=True)}, time="ts", rejected=path)
        await until(lambda: live.malformed["E"] == 1)
        live.stop()
        return await live

    async def in_table(cep: Workbench, path: Path) -> Any:
        (tmp_path / "e.csv").write_bytes(b"ts,v\n" + data + b",1,2,3\n")
        live = cep.live({"E": inlets.tail(tmp_path / "e.csv", begin=True)}, time="ts", rejected=path)
        await until(lambda: live.malformed["E"] == 1)
        live.stop()
        return await live

    for number, way in enumerate((over_socket, in_file, in_table)):
        path = tmp_path / f"rejected{number}.jsonl"
        live = run(way(bench(), path))
        (entry,) = [json.loads(line) for line in path.read_text().splitlines()]
        assert entry["item"] == (item if way is not in_table else text + ",1,2,3")
        assert len(live.rejected[0][1].text) <= 200


def test_a_source_that_is_refused_leaves_no_file_open(tmp_path: Path) -> None:
    path = tmp_path / "rejected.jsonl"

    def is_open() -> bool:
        return any(str(path) == str(link.resolve()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())

    async def broken() -> None:
        class Refused:
            def __aiter__(self) -> Any:
                raise RuntimeError("no")

            async def __anext__(self) -> Any: ...

        cep = bench()
        cep.run("create schema F(ts long)")
        for options in ({"time": "ts"}, {}):
            with pytest.raises(RuntimeError):
                cep.live({"F": generated([]), "E": Refused()}, rejected=path, **options)  # type: ignore[arg-type]
        assert cep.live_clock is None
        assert not any("source of" in task.get_name() for task in asyncio.all_tasks())

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("open files are listed on Linux only")
    run(broken())
    assert not is_open()
    for events in ([{"x": 1}], [{"ts": 1, "x": 1}]):
        with pytest.raises(EventError):
            bench().replay(pd.DataFrame(events), "E", rejected=path)
        assert not is_open()
    assert path.exists()


def test_a_full_disk_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> Any:
        live = bench().live({"E": generated([{"v": 1}, {"v": 2}])}, time="ts", rejected=tmp_path / "r.jsonl")
        live._file._writer._file.close()  # type: ignore[union-attr,attr-defined]
        live._file._writer._file = open("/dev/full", "w")  # type: ignore[union-attr,attr-defined]  # noqa: SIM115
        return await live

    assert "2 rejected items missing in" in repr(run(scenario()))
    assert capsys.readouterr().err.count("cannot be written") == 1
