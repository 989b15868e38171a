"""Live events over a rewind, a full disk of the journal, dropped types and clocks that are moved."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cepbook.errors import JournalError
from cepbook.session import Workbench, inlets
from cepbook.session.replay import live_batcher
from tests.waiting import until


async def never(_seconds: float) -> None:
    """Stand for real time that does not go on."""
    await asyncio.Event().wait()


def run(scenario: Any) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 20))


def workbench() -> Workbench:
    cep = Workbench()
    cep.run("create schema E(ts long, v int); @name('all') select v from E; @name('n') select count(*) as n from E")
    return cep


def values(cep: Workbench) -> list[int]:
    return [int(v) for v in cep.changes("all")["v"]]


def count(cep: Workbench) -> int:
    [current] = cep.iterate("n")
    return int(current["n"])


class Gate:
    """A source whose rows are let through by hand."""

    def __init__(self) -> None:
        self._rows: asyncio.Queue[Any] = asyncio.Queue()

    def let(self, *rows: Any) -> None:
        for row in rows:
            self._rows.put_nowait(row)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (row := await self._rows.get()) is not None:
            yield row


def row(v: int) -> dict[str, int]:
    return {"ts": 1000 * v, "v": v}


class FullDisk:
    """A disk without room, until `make_room`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._writev, self._full = os.writev, True
        monkeypatch.setattr(os, "writev", self._write)

    def _write(self, *arguments: Any) -> int:
        if self._full:
            raise OSError(28, "No space left on device")
        return self._writev(*arguments)

    def make_room(self) -> None:
        self._full = False


@pytest.mark.parametrize("journaled", [False, True])
@pytest.mark.parametrize("time", ["ts", None])
def test_after_a_rewind_live_events_go_into_the_workbench(tmp_path: Path, journaled: bool, time: str | None) -> None:
    cep = workbench()
    if journaled:
        cep.journal(tmp_path / "j")

    async def scenario() -> None:
        gate = Gate()
        live = cep.live({"E": gate}, time=time)
        gate.let(row(1), row(2))
        await until(lambda: live.events["E"] == 2)
        cep.rewind()
        assert values(cep) == []
        gate.let(row(3), row(4), None)
        await live
        assert values(cep) == [3, 4] and count(cep) == 2

    run(scenario())
    if journaled:
        cep.journaling.close()
        other = Workbench()
        other.recover(tmp_path / "j")
        assert count(other) == 2
        other.journaling.close()


@pytest.mark.parametrize("time", ["ts", None])
def test_a_full_disk_holds_live_events_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: str | None) -> None:
    monkeypatch.setattr(live_batcher, "RETRY", 0.01)
    path = tmp_path / "e.jsonl"
    path.write_text("")
    lateness: dict[str, Any] = {} if time is None else {"lateness": "1 sec"}
    cep = workbench()
    cep.journal(tmp_path / "j")

    async def scenario() -> None:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        live = cep.live({"E": inlets.tail(path, begin=True, every="1 msec")}, time=time, **lateness)
        with path.open("a") as file:
            for v in range(5):
                print(json.dumps(row(v)), file=file, flush=True)
            await until(lambda: live.events["E"] + live.buffered["E"] == 5)
            disk = FullDisk(monkeypatch)
            lines = [json.dumps(row(5)), "rubbish", *map(json.dumps, map(row, range(6, 20)))]
            print(*lines, sep="\n", file=file, flush=True)
            await until(lambda: "No space left" in repr(live))
            await asyncio.sleep(0.05)
        assert live.state == "running" and live.malformed["E"] <= 1 and max(values(cep)) < 5
        assert len(reported) == 1 and "No space left" in reported[0]
        offset = dict(cep._engine.offsets)
        assert all(at[0] <= len("".join(path.read_text().splitlines(keepends=True)[:5])) for at in offset.values())
        disk.make_room()
        await until(lambda: "No space left" not in repr(live) and live.events["E"] + live.buffered["E"] == 20)
        live.stop()
        await live
        assert values(cep) == list(range(20)) and live.malformed["E"] == 1

    run(scenario())
    cep.journaling.close()
    other = Workbench()
    other.recover(tmp_path / "j")
    assert count(other) == 20
    [at] = other._engine.offsets.values()
    assert at[0] == path.stat().st_size
    other.journaling.close()


def test_a_live_run_that_ends_at_a_full_disk_says_so_and_keeps_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cep = workbench()
    cep.journal(tmp_path / "j")

    async def scenario() -> None:
        gate = Gate()
        live = cep.live({"E": gate}, time="ts", lateness="5 sec", sleep=never)
        gate.let(row(1), row(2))
        await until(lambda: live.buffered["E"] == 2)
        disk = FullDisk(monkeypatch)
        with pytest.raises(JournalError, match="No space left"):
            live.stop()
        with pytest.raises(JournalError, match="No space left"):
            await live
        assert live.ended and values(cep) == [] and len(cep._engine.waiting) == 2
        disk.make_room()
        gate.let(row(3), None)
        await cep.live({"E": gate}, time="ts", lateness="5 sec", sleep=never)
        assert values(cep) == [1, 2, 3]

    run(scenario())
    cep.journaling.close()
    other = Workbench()
    other.recover(tmp_path / "j")
    assert count(other) == 3 and not other._engine.waiting
    other.journaling.close()


def test_a_source_that_fails_while_a_run_begins_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cep = workbench()
    cep._engine.buffers.restore([(1, "E", row(1), 1)])
    cep.journal(tmp_path / "j")

    async def scenario() -> None:
        disk, gate = FullDisk(monkeypatch), Gate()
        with pytest.raises(JournalError, match="No space left"):
            cep.live({"E": gate}, time="ts")
        assert len(asyncio.all_tasks()) == 2 and len(cep._engine.waiting) == 1  # this one, and that of `wait_for`
        disk.make_room()
        gate.let(None)
        await cep.live({"E": gate}, time="ts")
        assert values(cep) == [1]

    run(scenario())
    cep.journaling.close()


def test_a_dropped_type_costs_its_waiting_events_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cep = workbench()
    cep.run("create schema F(ts long, w int)")
    checks: list[object] = []
    former = live_batcher.LiveBatcher._checked
    monkeypatch.setattr(
        live_batcher.LiveBatcher, "_checked", lambda self, entry: checks.append(entry) or former(self, entry)
    )

    async def scenario() -> None:
        e, f = Gate(), Gate()
        live = cep.live({"E": e, "F": f}, time="ts", lateness="1000 sec", sleep=never)
        e.let(*map(row, range(1, 51)))
        f.let({"ts": 1, "w": 1})
        await until(lambda: live.buffered.total() == 51)
        cep.drop("F")
        for v in range(51, 61):
            e.let(row(v))
            await until(lambda v=v: live.buffered["E"] == v)
        assert live.malformed == {"F": 1} and len(checks) == 1
        e.let(None)
        f.let(None)
        await live
        assert values(cep) == list(range(1, 61))

    run(scenario())


def test_a_late_event_that_waits_is_late_once() -> None:
    cep = workbench()
    cep.run("@name('late') select type from LateEvent")

    async def scenario() -> None:
        gate = Gate()
        live = cep.live({"E": gate}, time="ts", lateness="5 sec", sleep=never)
        gate.let(row(10), row(11))
        await until(lambda: live.buffered["E"] == 2)
        late = {"type": "E", "time": 1, "lateness": 7, "event": {}}
        cep._engine.buffers._buffers[1].insert((8_000, ("LateEvent", late)))
        cep.advance(by="20 sec")
        gate.let(None)
        await live
        assert live.late == {"E": 2} and cep.changes("late")["type"].tolist() == ["E"] * 3

    run(scenario())
