"""Sweeps over live sources: bad items among good ones, and interruptions; and sources that continue after a load."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cepbook.errors import EventError, UsageError
from cepbook.session import Workbench, inlets
from tests.waiting import until

COUNT, AT = 60, 30


class Unreadable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Hostile(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


BAD_TEXTS = (
    "--5", "²", "9" * 5000, "", " ", "NaT", "x" * 100_000, "1e999", "\u202e", "2024-13-01", "-", "+", "0x10", "1_000",
    "٣", "12:00", "null",
)  # fmt: skip
BAD_TIMES = (*BAD_TEXTS, 10**400, -(10**400), float("inf"), float("nan"), True, [], {}, None)
BAD_ITEMS = (*({"x": 1, "ts": bad} for bad in BAD_TIMES), *({"x": bad, "ts": 10**6} for bad in BAD_TEXTS))
OBJECTS = (
    Unreadable(), Hostile(x=1), {"x": Unreadable(), "ts": 5000}, {"x": 1, "ts": Unreadable()}, {"x": nested(100_000)},
    {"x": 1, "ts": nested(100_000)}, None, 3, b"x", "word", [1], {1: 2}, {"y": 1}, inlets.Malformed("a", "b"),
    inlets.Located(None, 0), object(), int, {"x": 10**5000, "ts": 5000},
)  # fmt: skip
LINES = (
    b"no json", b"\xff\xfe", b"[1]", b"3", b"null", b"[" * 100_000, b'{"x": ' + b"9" * 5000 + b"}", b"\0" * 50 + b"{",
    b'{"x": 1', b"y" * 40_000,
)  # fmt: skip


def workbench() -> Workbench:
    cep = Workbench()
    cep.run("create schema A(x int); @name('all') select x from A")
    return cep


def numbers(cep: Workbench) -> list[int]:
    return [int(x) for x in cep.changes("all")["x"]]


def good(x: int) -> dict[str, int]:
    return {"x": x, "ts": 1000 + x}


def run(scenario: Any) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 60))


async def taken(cep: Workbench, source: Any, done: Callable[[], bool], **options: Any) -> Any:
    """Run a source until `done`, and stop it."""
    live = cep.live({"A": source}, **options)
    await until(lambda: done() or live.ended)
    live.stop()
    await live
    return live


def check(cep: Workbench, live: Any, bad: object) -> None:
    assert numbers(cep) == list(range(COUNT)), bad
    if not isinstance(bad, inlets.Located):
        assert live.malformed["A"] == 1 and live.rejections["count"].tolist() == [1], bad
    assert repr(live)


def test_a_bad_item_costs_no_good_one_from_a_generator() -> None:
    async def source(bad: object) -> AsyncIterator[object]:
        for x in range(COUNT):
            if x == AT:
                yield bad
            yield good(x)

    cases = 0
    for bad in (*BAD_ITEMS, *OBJECTS):
        cep = workbench()

        async def scenario(cep: Workbench = cep, bad: object = bad) -> Any:
            return await cep.live({"A": source(bad)}, time="ts")

        check(cep, run(scenario()), bad)
        cases += 1
    assert cases == 60


def json_line(item: object) -> bytes | None:
    try:
        return json.dumps(item).encode()
    except (TypeError, ValueError):
        return None


def bad_lines() -> list[bytes]:
    return [*LINES, *(line for item in BAD_ITEMS if (line := json_line(item)) is not None)]


def content(bad: bytes) -> bytes:
    lines = [json.dumps(good(x)).encode() for x in range(COUNT)]
    return b"\n".join((*lines[:AT], bad, *lines[AT:])) + b"\n"


async def over_tcp(cep: Workbench, data: bytes) -> Any:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await cep.live({"A": inlets.lines("127.0.0.1", port, longest=30_000)}, time="ts")


def test_a_bad_line_costs_no_good_one_over_tcp() -> None:
    cases = 0
    for bad in bad_lines():
        if bad.startswith(b"y") or len(bad) < 30_000:
            cep = workbench()
            check(cep, run(over_tcp(cep, content(bad))), bad[:50])
            cases += 1
    assert cases == 49


def test_a_bad_line_costs_no_good_one_in_a_file(tmp_path: Path) -> None:
    cases, path = 0, tmp_path / "a.jsonl"
    for bad in bad_lines():
        path.write_bytes(content(bad))
        cep = workbench()
        source = inlets.tail(path, begin=True, every="1 msec", longest=30_000)
        live = run(taken(cep, source, lambda cep=cep: len(numbers(cep)) == COUNT, time="ts"))  # type: ignore[misc]
        check(cep, live, bad[:50])
        cases += 1
    assert cases == 52


def test_a_bad_row_costs_no_good_one_in_a_database() -> None:
    for bad in BAD_TEXTS:
        base = sqlite3.connect(":memory:", check_same_thread=False)
        base.execute("create table a (x, ts)")
        rows = [(x, 1000 + x) for x in range(COUNT)]
        base.executemany("insert into a values (?, ?)", [*rows[:AT], (bad, 1000 + AT), *rows[AT:]])
        cep = workbench()

        async def scenario(cep: Workbench = cep, base: Any = base) -> Any:
            return await cep.live({"A": inlets.database(lambda: base, "select x, ts from a")}, time="ts")

        check(cep, run(scenario()), bad)


def test_a_text_that_is_no_utf_8_costs_no_good_row_in_a_database() -> None:
    base = sqlite3.connect(":memory:", check_same_thread=False)
    base.execute("create table a (x, ts, s)")
    for x in range(COUNT):
        base.execute("insert into a values (?, ?, 'é')", (x, 1000 + x))
        if x == AT:
            base.execute("insert into a values (-1, ?, cast(x'fffe' as text))", (1000 + x,))
    cep = Workbench()
    cep.run("create schema A(x int, ts long, s string); @name('q') select x, s from A")

    async def scenario() -> Any:
        return await cep.live({"A": inlets.database(lambda: base, "select x, ts, s from a order by rowid")}, time="ts")

    live = run(scenario())
    rows = cep.changes("q")
    assert rows["x"].tolist() == list(range(COUNT)) and set(rows["s"]) == {"é"}
    assert live.malformed["A"] == 1


def test_a_database_that_is_stopped_among_its_rows_closes_the_connection(tmp_path: Path) -> None:
    path, closed = tmp_path / "a.db", []

    class Connection(sqlite3.Connection):
        def close(self) -> None:
            super().close()
            closed.append(self)

    with sqlite3.connect(path) as base:
        base.execute("create table a (x)")
        base.executemany("insert into a values (?)", [(x,) for x in range(1_000)])
    base.close()

    async def scenario() -> None:
        source = inlets.database(lambda: sqlite3.connect(path, factory=Connection), "select x from a")
        items = source.open({})
        async for item in items:
            if isinstance(item, dict):
                break
        await items.aclose()  # type: ignore[attr-defined]
        assert len(closed) == 1

    asyncio.run(scenario())


def test_the_path_of_a_database_is_no_connection() -> None:
    with pytest.raises(UsageError, match=r"a function that opens a connection, not 't.db'\n  hint: `lambda"):
        inlets.database("t.db", "select 1")  # type: ignore[arg-type]


@pytest.mark.parametrize("rejected", [True, False], ids=["rejected file", "no file"])
def test_a_bad_item_costs_no_good_one_within_a_lateness(rejected: bool, tmp_path: Path) -> None:
    """The good items come out of order, and a journal records what waits."""
    order = [x for x in range(COUNT) for x in ([x + 1, x] if x % 10 == 3 else [x] if x % 10 != 4 else [])]

    async def source(bad: object) -> AsyncIterator[object]:
        for n, x in enumerate(order):
            if n == AT:
                yield bad
            yield good(x)

    cases = 0
    for number, bad in enumerate((*BAD_ITEMS, *OBJECTS)):
        cep, path = workbench(), tmp_path / f"{number}.jsonl"
        if number % 6 == 0:
            cep.journal(tmp_path / f"{number}.journal")
        options: dict[str, Any] = {"rejected": path} if rejected else {}

        async def scenario(cep: Workbench = cep, bad: object = bad, options: Any = options) -> Any:
            return await cep.live({"A": source(bad)}, time="ts", lateness="20 msec", **options)

        live = run(scenario())
        check(cep, live, bad)
        if rejected:
            lines = path.read_text().splitlines()
            assert len(lines) == live.malformed["A"] and all("reason" in json.loads(line) for line in lines), bad
        if cep.journaling is not None:
            cep.journaling.close()
            again = Workbench()
            again.recover(tmp_path / f"{number}.journal")
            assert numbers(again) == list(range(COUNT)), bad
        cases += 1
    assert cases == 60


# ---------------------------------------------------------------- websockets
def test_a_bad_message_costs_no_good_one_over_a_websocket() -> None:
    web = pytest.importorskip("tornado.web", reason="tornado comes with Jupyter")
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port
    from tornado.websocket import WebSocketHandler

    messages: list[bytes] = []

    class Items(WebSocketHandler):  # type: ignore[misc]
        def open(self) -> None:
            for message in messages:
                try:
                    self.write_message(message.decode())
                except UnicodeDecodeError:
                    self.write_message(message, binary=True)
            self.close()

    async def scenario() -> int:
        server = HTTPServer(web.Application([("/", Items)]))
        socket, port = bind_unused_port()
        server.add_socket(socket)
        cases = 0
        for bad in bad_lines():
            if len(bad) < 30_000:
                messages[:] = [json.dumps(good(x)).encode() for x in range(COUNT)]
                messages.insert(AT, bad)
                cep = workbench()
                check(cep, await cep.live({"A": inlets.websocket(f"ws://127.0.0.1:{port}/")}, time="ts"), bad[:50])
                cases += 1
        server.stop()
        return cases

    assert run(scenario()) == 48


CLOSES = {1000: "finished", None: "finished", 1001: "failed", 1008: "failed", 1011: "failed", "cut": "failed",
          "long": "failed", "silent": "failed"}  # fmt: skip


@pytest.mark.parametrize("retry", [None, "1 msec"])
@pytest.mark.parametrize("close", CLOSES, ids=str)
def test_how_a_websocket_ended_is_told(close: object, retry: str | None) -> None:
    web = pytest.importorskip("tornado.web", reason="tornado comes with Jupyter")
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port
    from tornado.websocket import WebSocketHandler

    opened: list[Any] = []

    class Ticks(WebSocketHandler):  # type: ignore[misc]
        def open(self) -> None:
            opened.append(self)
            self.write_message(json.dumps({"x": len(opened)}))
            if len(opened) > 1:
                return
            if close == "cut":
                self.ws_connection.stream.close()
            elif close == "long":
                self.write_message("x" * 40_000)
            elif close == "silent":
                self.ws_connection._send_pong = lambda data: None
            else:
                self.close(close, None if close is None else "because")

    async def scenario() -> Any:
        cep = workbench()
        cep.run(
            "create schema Change(source string, state string, reason string, gap double);"
            "@name('changes') select source, state, gap from Change"
        )
        server = HTTPServer(web.Application([("/", Ticks)]))
        socket, port = bind_unused_port()
        server.add_socket(socket)
        source = inlets.websocket(f"ws://127.0.0.1:{port}/", retry=retry, ping="50 msec", longest=30_000)
        try:
            live = cep.live({"A": source}, status="Change")
            await until(lambda: live.ended or len(live.reconnections["gap"].dropna()) == 1)
            state, text = live.state, repr(live)
            if retry:
                await until(lambda: numbers(cep)[:2] == [1, 2])
            live.stop()
            if state == "failed":
                with pytest.raises(EventError):
                    await live
            else:
                await live
            return live, state, text, cep.changes("changes")["state"].tolist()
        finally:
            server.stop()

    live, state, text, changes = run(scenario())
    said = {"cut": "was cut", "long": "longest=", "silent": "no answer to a ping"}
    if retry is None:
        assert (state, changes) == (CLOSES[close], ["connected", CLOSES[close]])
        if state == "failed":
            assert said.get(str(close), f"closed by the server with {close}") in text, text
    else:
        assert state == "running" and live.sources["reconnections"].tolist() == [1]
        assert changes[:3] == ["connected", "reconnecting", "reconnected"]
        assert live.reconnections["gap"][0] >= (0.05 if close == "silent" else 0)


def test_a_line_socket_that_goes_silent_is_told() -> None:
    async def scenario() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b'{"x": 1}\n')
            await reader.read()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(EventError, match=r"nothing came for 0\.05 s"):
                await workbench().live({"A": inlets.lines("127.0.0.1", port, silence="50 msec")})

    run(scenario())


# ---------------------------------------------------------------- files
def lines_of(*numbers: int) -> str:
    """Return lines with something that differs, as logs have."""
    return "".join(json.dumps({"x": x}) + "\n" for x in numbers)


def copytruncate(path: Path, before: int, after: int) -> None:
    with path.open("a") as file:
        file.write(lines_of(*range(100, 100 + before)))
    shutil.copy(path, f"{path}.1")
    os.truncate(path, 0)
    with path.open("a") as file:
        file.write(lines_of(*range(100 + before, 100 + before + after)))


def renamed(path: Path, before: int, after: int) -> None:
    with path.open("a") as file:
        file.write(lines_of(*range(100, 100 + before)))
    path.rename(f"{path}.1")
    path.write_text(lines_of(*range(100 + before, 100 + before + after)))


def renamed_twice(path: Path, before: int, after: int) -> None:
    with path.open("a") as file:
        file.write(lines_of(*range(100, 100 + before)))
    path.rename(f"{path}.2")
    os.utime(f"{path}.2", (1, 1))
    Path(f"{path}.1").write_text(lines_of(*range(100 + before, 100 + before + after // 2)))
    os.utime(f"{path}.1", (2, 2))
    path.write_text(lines_of(*range(100 + before + after // 2, 100 + before + after)))


@pytest.mark.parametrize("before", [0, 1, 20, 100])
@pytest.mark.parametrize("after", [2, 20, 100, 300])
@pytest.mark.parametrize("rotate", [copytruncate, renamed, renamed_twice])
def test_a_rotation_between_two_looks_loses_no_line(rotate: Any, before: int, after: int, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines_of(*range(100)))
    cep = workbench()

    async def scenario() -> None:
        live = cep.live({"A": inlets.tail(path, begin=True, every="5 msec")})
        await until(lambda: len(numbers(cep)) == 100)
        rotate(path, before, after)
        await until(lambda: len(numbers(cep)) >= 100 + before + after)
        live.stop()
        await live

    run(scenario())
    assert numbers(cep) == list(range(100 + before + after))


def test_a_file_that_is_truncated_without_a_copy_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines_of(*range(100)))
    cep = workbench()

    async def scenario() -> str:
        live = cep.live({"A": inlets.tail(path, begin=True, every="5 msec")})
        await until(lambda: len(numbers(cep)) == 100)
        path.write_text(lines_of(*range(500, 900)))
        await until(lambda: len(numbers(cep)) == 500)
        live.stop()
        return repr(await live)

    assert "truncated or written anew: lines after byte 990 may be lost" in run(scenario())


@pytest.mark.parametrize(
    ("after", "expected"),
    [(["2,9.5", "3,9.5"], [1, 2, 3]), (["x,p", "2,9.5", "3,9.5"], [1, 2, 3]), (["p,x", "9.5,2", "9.5,3"], [1, 2, 3])],
)
def test_a_csv_file_that_is_truncated_needs_no_second_line_of_names(
    tmp_path: Path, after: list[str], expected: list[int]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,p\n1,9.5\n")
    cep = workbench()

    async def scenario() -> None:
        live = cep.live({"A": inlets.tail(path, begin=True, every="5 msec")})
        await until(lambda: len(numbers(cep)) == 1)
        path.write_text("\n".join([*after, ""]))
        await until(lambda: len(numbers(cep)) == 3)
        live.stop()
        await live

    run(scenario())
    assert numbers(cep) == expected


# ---------------------------------------------------------------- databases
@pytest.mark.parametrize(
    ("query", "options"),
    [("id > ?", {"overlap": 5}), ("id > ?", {"overlap": 5, "key": "x"}), ("id >= ?", {"overlap": 5}),
     ("id > ? order by id limit 2", {"overlap": 1}), ("id >= ?", {})],
)  # fmt: skip
def test_late_rows_and_ties_of_a_database_come_once(query: str, options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    base = sqlite3.connect(path)
    base.execute("create table t (id, x)")
    cep = workbench()
    cep.run("create schema T(id int, x int); @name('t') select x from T")
    expected: list[int] = []

    async def add(*rows: tuple[int, int]) -> None:
        base.executemany("insert into t values (?, ?)", rows)
        base.commit()
        expected.extend(x for _, x in rows)
        await until(lambda: len(cep.changes("t")) >= len(expected))

    async def scenario() -> None:
        where = f"select id, x from t where {query}"
        source = inlets.database(lambda: sqlite3.connect(path), where, cursor="id", every="1 msec", **options)
        live = cep.live({"T": source})
        await add((1, 1), (2, 2), (5, 5))
        await add((5, 6))  # a tie
        if options and "limit" not in query:
            await add((4, 4), (3, 3))  # committed late
        base.execute("begin exclusive")
        await until(lambda: live.sources["state"].tolist() == ["reconnecting"])
        base.execute("commit")
        await add((9, 9))
        await until(lambda: live.sources["state"].tolist() == ["running"])
        live.stop()
        await live
        assert live.reconnections["reason"][0].startswith("OperationalError: database is locked")

    connect = sqlite3.connect
    sqlite3.connect = lambda name: connect(name, timeout=0)  # type: ignore[assignment]
    try:
        run(scenario())
    finally:
        sqlite3.connect = connect  # type: ignore[assignment]
    assert sorted(int(x) for x in cep.changes("t")["x"]) == sorted(expected)


def test_an_overlap_needs_a_cursor() -> None:
    with pytest.raises(UsageError, match="with a cursor"):
        inlets.database(lambda: None, "select 1", overlap=1)


# ---------------------------------------------------------------- save and load
def test_a_loaded_workbench_continues_in_a_rotated_file(tmp_path: Path) -> None:
    path, saved = tmp_path / "a.jsonl", tmp_path / "a.cep"
    path.write_text(lines_of(*range(100)))
    first, second = workbench(), Workbench()

    async def scenario() -> None:
        live = first.live({"A": inlets.tail(path, begin=True, every="1 msec")})
        await until(lambda: len(numbers(first)) == 100)
        first.save(saved, feeds=True)
        live.stop()
        await live
        copytruncate(path, 7, 50)
        second.load(saved)
        live = second.live({"A": inlets.tail(path, begin=True, every="1 msec")})
        await until(lambda: len(numbers(second)) >= 157)
        live.stop()
        await live

    run(scenario())
    assert numbers(second) == list(range(157))


def test_a_loaded_workbench_continues_behind_the_cursor_wherever_it_was_saved(tmp_path: Path) -> None:
    path, saved = tmp_path / "t.db", tmp_path / "a.cep"
    with sqlite3.connect(path) as base:
        base.execute("create table t (x)")
        base.executemany("insert into t values (?)", [(x,) for x in range(1, 200)])
    first, second = workbench(), Workbench()

    def source() -> Any:
        return inlets.database(
            lambda: sqlite3.connect(path),
            "select x from t where x >= ? order by x limit 30",
            cursor="x",
            every="1 msec",
        )

    async def scenario() -> None:
        live = first.live({"A": source()})
        await until(lambda: len(numbers(first)) >= 50)
        first.save(saved, feeds=True)
        live.stop()
        await live
        second.load(saved)
        live = second.live({"A": source()})
        await until(lambda: len(numbers(second)) >= 199)
        live.stop()
        await live

    run(scenario())
    assert numbers(second) == list(range(1, 200))


def test_a_load_ends_live_sources_and_resume_false_begins_anew(tmp_path: Path) -> None:
    path, saved = tmp_path / "a.jsonl", tmp_path / "a.cep"
    path.write_text(lines_of(1, 2))
    cep = workbench()

    async def scenario() -> None:
        live = cep.live({"A": inlets.tail(path, begin=True, every="1 msec")})
        await until(lambda: len(numbers(cep)) == 2)
        cep.save(saved, feeds=True)
        cep.load(saved)
        with path.open("a") as file:
            file.write(lines_of(3))
        await until(lambda: live.ended)
        assert "the workbench was loaded" in repr(live)
        await taken(cep, inlets.tail(path, begin=True, every="1 msec"), lambda: len(numbers(cep)) == 3)
        source = inlets.tail(path, begin=True, every="1 msec")
        await taken(cep, source, lambda: len(numbers(cep)) == 6, resume=False)

    run(scenario())
    assert numbers(cep) == [1, 2, 3, 1, 2, 3]


def test_a_pause_takes_nothing_more() -> None:
    cep = workbench()

    async def scenario() -> None:
        async def source() -> AsyncIterator[object]:
            for x in range(1000):
                await asyncio.sleep(0)
                yield {"x": x}

        live = cep.live({"A": source()})
        await until(lambda: len(numbers(cep)) > 5)
        live.pause()
        count = len(numbers(cep))
        for _ in range(20):
            await asyncio.sleep(0)
        assert live.state == "paused" and len(numbers(cep)) <= count + 1
        live.resume()
        await live
        assert live.state == "finished"

    run(scenario())
    assert numbers(cep) == list(range(1000))
