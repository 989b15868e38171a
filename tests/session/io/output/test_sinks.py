"""Rows into files and async iteration: all of them, typed, also when a disk is full or a statement changes."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook.errors import JournalError, MissingRowsWarning, UsageError
from cepbook.session import Workbench
from cepbook.session.io.output.row_writer import RowWriter
from cepbook.session.io.output.sinks import SinkError, end_all_sinks
from cepbook.session.io.output.writers import CsvWriter, open_writer
from tests.engine.dispatch.test_faults import in_a_copy

AT = "1970-01-01T00:00:00.000+00:00"
EPL = "create schema A(id string, x long); @name('q') select irstream id, x from A#length(2)"


@pytest.fixture
def cep() -> Workbench:
    workbench = Workbench()
    workbench.run(EPL)
    return workbench


def send(cep: Workbench, *numbers: int) -> None:
    for x in numbers:
        cep.send("A", id=f"e{x}", x=x)


def test_a_sink_writes_what_changes_shows(cep: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "q.parquet"
    send(cep, 0)
    with cep.sink("q", path) as sink:
        frame = pd.DataFrame({"id": [f"e{i}" for i in range(20_000)], "x": range(20_000)})
        cep.replay({"A": frame.assign(at=range(20_000))}, time="at").run()
        assert 0 < sink.rows <= 39_999, "batches are written on the way"
    assert repr(sink) == f"q → {path}: 39,999 rows, closed"
    written = pd.read_parquet(path)
    expected = cep.changes("q").iloc[1:].reset_index(drop=True)
    assert written["seq"].tolist() == (expected["seq"] - 1).tolist()
    pd.testing.assert_frame_equal(
        written.drop(columns="seq").astype(object), expected.drop(columns="seq").astype(object), check_dtype=False
    )
    send(cep, 1)
    sink.close()
    assert len(pd.read_parquet(path)) == 39_999, "nothing follows after it was closed"


def test_a_sink_goes_on_with_the_statement_that_is_deployed_anew(cep: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    sink = cep.sink("q", path)
    send(cep, 1)
    cep.run(EPL.replace("length(2)", "length(3)"))
    send(cep, 2)
    assert sink.flush().rows == 2
    cep.rewind()
    send(cep, 3)
    assert sink.flush().rows == 3
    cep.run(EPL.replace("id, x from", "id, x * 2 as twice from"))
    send(cep, 4)
    with pytest.raises(SinkError, match=r"redeployed with other columns.*; 1 row of `q` lost"):
        sink.close()
    assert path.read_text().splitlines()[1:] == [f"{AT},0,insert,e1,1", f"{AT},1,insert,e2,2", f"{AT},2,insert,e3,3"]


def test_a_full_disk_stops_the_sink_and_nothing_else(cep: Workbench, tmp_path: Path) -> None:
    sink = cep.sink("q", tmp_path / "q.jsonl")

    class Full(RowWriter):
        def write(self, rows: object) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    assert sink._writer is not None
    sink._writer.close()
    sink._writer = Full()
    send(cep, 1, 2)
    with pytest.raises(SinkError, match=r"No space left on device; 2 rows of `q` lost"):
        sink.flush()
    send(cep, 3)
    assert len(cep.changes("q")) == 4
    with pytest.raises(SinkError, match="4 rows of `q` lost"):
        sink.close()


@pytest.mark.parametrize("end", ["flush", "close"])
def test_ctrl_c_while_rows_are_written_is_heard_behind_them(end: str, cep: Workbench, tmp_path: Path) -> None:
    sink = cep.sink("q", tmp_path / "q.csv")
    writer = sink._writer
    assert writer is not None
    write = writer.write

    def pressed(rows: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        write(rows)

    writer.write = pressed  # type: ignore[method-assign]
    send(cep, 1, 2)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            getattr(sink, end)()
    finally:
        signal.signal(signal.SIGINT, before)
    assert (sink.rows, sink.lost) == (2, 0)
    assert len((tmp_path / "q.csv").read_text().splitlines()) == 3


def test_sqlite_adds_to_its_table(cep: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    for x in (1, 2):
        with cep.sink("q", path, table='odd "name"'):
            send(cep, x)
    rows = sqlite3.connect(path).execute('select id, x, kind from "odd ""name"""').fetchall()
    assert rows == [("e1", 1, "insert"), ("e2", 2, "insert")]
    with pytest.raises(UsageError, match="has other columns: time, seq, kind, id, x"):
        cep.run("@name('r') select id from A")
        cep.sink("r", path, table='odd "name"')


@pytest.mark.parametrize(
    ("path", "said"),
    [("q.xls", "the kinds of files are"), ("no/such/q.csv", "cannot be written: No such file"), (".", "cannot be")],
)
def test_files_that_cannot_be_written(
    path: str, said: str, cep: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        cep.sink("q", path)
    with pytest.raises(UsageError, match="there is no statement `r`"):
        cep.sink("r", "r.csv")
    assert list(tmp_path.iterdir()) == []


VALUES: dict[str, Any] = {
    "i": 1, "f": 1.5, "inf": float("inf"), "b": True, "t": "x,\"y\"\n<b>é", "big": 2**70, "dec": Decimal("1.10"),
    "arr": [1, None], "map": {"k": [1.5]}, "moment": datetime(2024, 1, 2, 3, tzinfo=UTC), "noted": date(2024, 1, 2),
}  # fmt: skip
TYPES = (
    "i long, f double, inf double, b boolean, t string, big biginteger, dec bigdecimal, arr long[], map java.util.Map, "
    "moment date, noted localdate"
)


def test_values_of_every_kind(tmp_path: Path) -> None:
    cep = Workbench()
    cep.run(f"create schema V({TYPES}); @name('v') select {', '.join(f'`{n}`' for n in VALUES)} from V#keepall")
    cep.send("V", VALUES)
    cep.send("V", {})
    for kind in ("csv", "jsonl", "parquet", "db"):
        assert cep.export("v", tmp_path / f"v.{kind}") == 2
    row, empty = (json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines())
    assert row == {
        **VALUES, "inf": "inf", "dec": "1.10", "moment": "2024-01-02T03:00:00+00:00", "noted": "2024-01-02",
    }  # fmt: skip
    assert set(empty.values()) == {None}
    frame = pd.read_parquet(tmp_path / "v.parquet")
    first = frame.iloc[0].to_dict()
    assert (first["i"], first["inf"], first["b"], first["t"]) == (1, float("inf"), True, VALUES["t"])
    assert (first["big"], first["dec"], first["map"]) == (str(2**70), "1.10", '{"k": [1.5]}')
    assert first["moment"] == pd.Timestamp("2024-01-02T03", tz="UTC") and first["noted"] == date(2024, 1, 2)
    assert frame.iloc[1].isna().all()
    csv = pd.read_csv(tmp_path / "v.csv")
    assert csv.loc[0, "t"] == VALUES["t"] and csv.loc[0, "arr"] == "[1, null]" and csv.iloc[1].isna().all()
    base = sqlite3.connect(tmp_path / "v.db").execute("select i, f, b, t, dec, arr from v").fetchall()
    assert base == [(1, 1.5, 1, VALUES["t"], "1.10", "[1, null]"), (None,) * 6]


def test_export_of_changes(cep: Workbench, tmp_path: Path) -> None:
    send(cep, 1, 2, 3)
    assert cep.export("q", tmp_path / "c.csv", changes=True) == 4
    assert (tmp_path / "c.csv").read_text().splitlines()[-1] == f"{AT},2,remove,e1,1"
    with pytest.raises(SinkError, match=r"c\.parquet' cannot be written"):
        from cepbook.session.io.output import sinks

        sinks.export_rows(
            [["no number"]], tmp_path / "c.parquet", {"x": cep.runtime.catalog.event_types["A"].properties["x"]}, "t"
        )


def test_async_iteration(cep: Workbench) -> None:
    async def read() -> list[list[dict[str, Any]] | None]:
        stream = cep.stream("q", capacity=3)
        asyncio.get_running_loop().call_later(0.001, send, cep, 1)
        deliveries = [(await anext(stream)).insert]
        send(cep, 2, 3, 4, 5, 6)
        assert stream.is_full and stream.missed == 2
        with pytest.warns(MissingRowsWarning, match="2 deliveries dropped"):
            deliveries += [(await anext(stream)).insert]
        cep.drop("q")
        deliveries += [delivery.insert async for delivery in stream]
        return deliveries

    assert asyncio.run(read()) == [[{"id": f"e{x}", "x": x}] for x in (1, 4, 5, 6)]


def test_a_stream_ends_with_reset_and_close(cep: Workbench) -> None:
    async def read() -> tuple[list[object], list[object]]:
        closed, ended = cep.stream("q"), cep.stream("q")
        send(cep, 1)
        closed.close()
        send(cep, 2)
        cep.reset()
        return [d.insert async for d in closed], [d.insert async for d in ended]

    closed, ended = asyncio.run(read())
    assert (len(closed), len(ended)) == (1, 2)
    with pytest.raises(UsageError, match="at least 1"):
        Workbench().run(EPL) and cep.run(EPL)
        cep.stream("q", capacity=0)


@pytest.mark.parametrize("end", ["break", "return", "error", "cancel", "unread"])
def test_a_stream_that_is_left_holds_up_nobody(end: str, cep: Workbench, tmp_path: Path) -> None:
    """However the loop ends: live sources go on, and the feed of the stream leaves the statement."""
    before = len(cep.runtime.statement("q").outlet._sinks)
    read: list[int] = []

    async def leave() -> None:
        if end == "unread":
            cep.stream("q", capacity=2)
            return
        async for delivery in cep.stream("q", capacity=2):
            read.append(delivery.number)
            if end == "break":
                break
            if end == "return":
                return
            if end == "error":
                raise KeyError

    async def run() -> None:
        task = asyncio.ensure_future(leave())
        await asyncio.sleep(0)
        with cep.sink("q", tmp_path / "q.csv"):
            send(cep, 1)
            await asyncio.sleep(0.01)
            task.cancel() if end == "cancel" else None
            await asyncio.gather(task, return_exceptions=True)
            del task
            gc.collect()  # the traceback of an error has the frame
            live = cep.live({"A": [{"id": "e", "x": x} for x in range(2, 3_000)]})
            await asyncio.wait_for(live, 60)

    asyncio.run(run())
    assert len(read) == (end != "unread")
    assert len(cep.changes("q")) == 5_996 == len(pd.read_csv(tmp_path / "q.csv"))
    assert len(cep.runtime.statement("q").outlet._sinks) == before
    assert not cep._engine.streams


def test_a_waiting_reader_that_nothing_else_refers_to_goes_on(cep: Workbench) -> None:
    read: list[int] = []

    async def follow() -> None:
        async for delivery in cep.stream("q"):
            read.append(delivery.number)

    async def run() -> None:
        asyncio.ensure_future(follow())  # noqa: RUF006
        await asyncio.sleep(0)
        for x in range(3):
            gc.collect()
            send(cep, x)
            await asyncio.sleep(0.01)

    asyncio.run(run())
    assert read == [0, 1, 2]


def test_a_writer_may_be_closed_twice(tmp_path: Path) -> None:
    for kind in ("csv", "jsonl", "parquet", "db"):
        writer = open_writer(tmp_path / f"w.{kind}", {}, "t") if kind != "db" else None
        if writer is not None:
            writer.close()
            writer.close()


def test_what_nobody_closes_is_written_at_the_end_of_the_program(tmp_path: Path) -> None:
    program = f"""
from cepbook import Workbench
cep = Workbench()
cep.run("create schema A(x int); @name('q') select x from A")
for kind in ("csv", "jsonl", "parquet"):
    cep.sink("q", {str(tmp_path)!r} + "/q." + kind)
cep.send("A", x=7)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    assert (tmp_path / "q.csv").read_text() == f"time,seq,kind,x\n{AT},0,insert,7\n"
    assert json.loads((tmp_path / "q.jsonl").read_text())["x"] == 7
    assert list(pd.read_parquet(tmp_path / "q.parquet")["x"]) == [7]


def test_a_file_that_was_taken_away_has_no_rows(cep: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    sink = cep.sink("q", path)
    send(cep, 1)
    path.unlink()
    with pytest.raises(SinkError, match=r"was taken away, or is another one, meanwhile; 2 rows of `q` lost"):
        send(cep, 2)
        sink.close()


def test_a_cell_that_is_run_again_writes_its_file_alone(cep: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    first = cep.sink("q", path)
    send(cep, 1)
    with cep.sink("q", path):
        send(cep, 2)
        cep.run("@name('r') select id from A")
        with pytest.raises(UsageError, match=r"is written by a sink of `q`: close that first"):
            cep.sink("r", path)
        (tmp_path / "link.csv").hardlink_to(path)
        with pytest.raises(UsageError, match=r"link\.csv' is written by a sink of `q`: close that first"):
            cep.sink("r", tmp_path / "link.csv")
    assert not first.is_open
    assert path.read_text().splitlines()[1:] == [f"{AT},0,insert,e2,2"]
    with cep.sink("q", tmp_path / "q.db"), cep.sink("r", tmp_path / "q.db"):  # tables of one database
        send(cep, 3)


def test_a_sink_writes_its_file_also_from_another_directory(
    cep: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, elsewhere = tmp_path / "there", tmp_path / "elsewhere"
    for folder in (there, elsewhere):
        folder.mkdir()
    for name, options in (("q.csv", {}), ("q.csv", {"whole": True}), ("q.parquet", {}), ("q.jsonl", {})):
        monkeypatch.chdir(there)
        with cep.sink("q", name, **options):
            send(cep, 1)
            monkeypatch.chdir(elsewhere)
            send(cep, 2)
            other = Workbench()
            other.run(EPL.replace("'q'", "'p'"))
            other.sink("p", name).close()  # of the same name in another directory
        assert os.listdir(there) == [name] and os.listdir(elsewhere) == [name]
        assert (there / name).stat().st_size > (elsewhere / name).stat().st_size
        os.remove(there / name)
        os.remove(elsewhere / name)


def test_an_export_that_fails_leaves_the_file_that_was_there(
    cep: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "q.csv"
    path.write_text("mine")

    close = CsvWriter.close

    def full(self: CsvWriter) -> None:
        close(self)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CsvWriter, "close", full)  # what is written last
    with pytest.raises(SinkError, match=r"q\.csv' cannot be written: .*No space left on device"):
        cep.export("q", path)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a forked process")
def test_a_forked_process_writes_nothing_into_the_file_of_its_parent(cep: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    with cep.sink("q", path) as sink:
        send(cep, 1)

        def in_child() -> str:
            send(cep, 2)
            with pytest.raises(SinkError, match="a forked process does not write into the file of its parent; 1 row"):
                sink.flush()
            sink.close()
            return path.read_text()

        assert "e1" not in in_a_copy(in_child)
        send(cep, 3)
    assert pd.read_csv(path)["id"].tolist() == ["e1", "e3"]


def test_a_sink_whose_journal_fails_keeps_no_other_open(
    cep: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / f"{number}.csv" for number in range(3)]
    opened = [cep.sink("q", path) for path in paths]
    send(cep, 1)

    def closing(self: object, *, failed: bool = False) -> None:
        raise JournalError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(type(opened[0]), "close", _once(closing, type(opened[0]).close))
        end_all_sinks()
    assert "no room" in capsys.readouterr().err
    assert sum("e1" in path.read_text() for path in paths) >= 2
    for sink in opened:
        sink.close()


def _once(first: Any, then: Any) -> Any:
    calls: list[object] = []

    def call(*values: Any, **options: Any) -> Any:
        calls.append(None)
        return (first if len(calls) == 1 else then)(*values, **options)

    return call


def test_deliveries_come_once_when_they_are_sent_in_a_thread(cep: Workbench) -> None:
    async def read() -> list[int]:
        stream = cep.stream("q", capacity=1_000_000)
        sender = threading.Thread(target=send, args=(cep, *range(6_000)))
        sender.start()
        numbers = []
        async for delivery in stream:
            numbers += [row["x"] for row in delivery.insert or ()]
            if numbers[-1] == 5_999:
                break
        sender.join()
        stream.close()
        return numbers

    assert asyncio.run(read()) == list(range(6_000))


def test_append_removes_nothing_that_is_whole(
    cep: Workbench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign, torn, lines = tmp_path / "foreign.csv", tmp_path / "torn.csv", tmp_path / "q.jsonl"
    foreign.write_text('size\n12" disk\n14 inch')
    with pytest.raises(UsageError, match="has other columns"):
        cep.sink("q", foreign, append=True)
    assert foreign.read_text() == 'size\n12" disk\n14 inch'
    head = "time,seq,kind,id,x\n"
    torn.write_text(f'{head}{AT},0,insert,12" disk,1\n{AT},1,insert,e2,2\n{AT},2,ins')
    lines.write_text('{"id": "whole"}')
    with cep.sink("q", torn, append=True), cep.sink("q", lines, append=True):
        send(cep, 3)
    assert torn.read_text() == f'{head}{AT},0,insert,12" disk,1\n{AT},1,insert,e2,2\n{AT},0,insert,e3,3\n'
    assert f"'{AT},2,ins'" in capsys.readouterr().err
    assert [json.loads(line)["id"] for line in lines.read_text().splitlines()] == ["whole", "e3"]
    for size in range(len(head) + 1):
        torn.write_text(head[:size])
        cep.sink("q", torn, append=True).close()
        assert torn.read_text() == head


def test_no_output_replaces_the_events_of_the_last_replay(tmp_path: Path) -> None:
    source, link = tmp_path / "ticks.csv", tmp_path / "link.csv"
    source.write_text("ts,symbol\n1,a\n2,b\n", encoding="utf-8")
    os.link(source, link)
    cep = Workbench()
    cep.run("create schema Tick(ts long, symbol string); @name('q') select symbol from Tick#keepall")
    cep.replay(source, "Tick", time="ts").run()
    for write in (cep.sink, cep.export):
        for path in (source, link):
            with pytest.raises(UsageError, match=r"ticks\.csv' has the events of the last replay: write into another"):
                write("q", path)
    assert source.read_text(encoding="utf-8") == "ts,symbol\n1,a\n2,b\n"
    assert cep.export("q", tmp_path / "q.csv") == 2
    cep.reset()
    cep.run("create schema Tick(ts long, symbol string); @name('q') select symbol from Tick#keepall")
    assert cep.export("q", link) == 0
