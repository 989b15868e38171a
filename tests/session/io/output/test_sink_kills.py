"""Sinks × kills, and files that are added to: the rows of a killed process are there up to its last second, once."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
import pytest

from cepbook.errors import UsageError
from cepbook.session import Workbench
from cepbook.session.io.output.parquet_writers import ParquetStreamWriter
from cepbook.session.io.output.row_writer import RowWriter
from cepbook.session.io.output.sinks import SinkError

KINDS = ("csv", "jsonl", "parquet", "db")
SECOND = 2.0  # seconds: one, and what a busy machine adds
PROGRAM = """
import sys, time
from cepbook import Workbench
folder, run, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
cep = Workbench()
cep.run("create schema A(run int, x int, text string); @name('q') select * from A")
for kind in ("csv", "jsonl", "parquet", "db"):
    cep.sink("q", f"{folder}/q.{kind}", append=True)
for x in range(count):
    print(x, time.time(), flush=True)
    cep.send("A", run=run, x=x, text='a "torn"\\nline, ' * 20)
    time.sleep(0.001)
"""


def readable(path: Path) -> list[tuple[int, int]]:
    """Return run and number of the rows of a file after a kill."""
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(row["run"], row["x"]) for row in rows]
    if path.suffix == ".db":
        with closing(sqlite3.connect(path)) as base:
            return base.execute("select run, x from q order by rowid").fetchall()
    if path.suffix == ".csv":
        frame = pd.read_csv(path, on_bad_lines="skip")
    elif path.exists():
        frame = pd.read_parquet(path)
    else:
        batches = []
        try:
            with pyarrow.OSFile(str(path.with_suffix(".partial.arrows"))) as file:
                for batch in pyarrow.ipc.open_stream(file):
                    batches.append(batch)
        except (OSError, ValueError):
            pass
        frame = pyarrow.Table.from_batches(batches).to_pandas()
    return list(zip(frame["run"].tolist(), frame["x"].tolist(), strict=True))


def test_a_killed_process_loses_the_last_second_of_its_sinks(tmp_path: Path) -> None:
    chance = random.Random(31)
    surely: list[int] = []  # by run: the events that were sent more than a second before the kill
    for run in range(3):
        command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(run), "100000" if run < 2 else "50"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            if run < 2:
                time.sleep(SECOND + chance.random())
                process.kill()
            end = time.time()
            lines += process.stdout.readlines()
        sent = [line.split() for line in lines if line.endswith("\n")]
        surely.append(50 if run == 2 else sum(float(at) < end - SECOND for _, at in sent))
        assert surely[-1] > 0
        if run == 0:
            for kind in KINDS:
                assert len(readable(tmp_path / f"q.{kind}")) >= surely[0], kind
            assert not (tmp_path / "q.parquet").exists(), "no unreadable file has the name"
    for kind in KINDS:
        rows = readable(tmp_path / f"q.{kind}")
        numbers = [[x for of, x in rows if of == run] for run in range(3)]
        assert numbers == [list(range(len(sequence))) for sequence in numbers], f"{kind}: once, in order"
        assert all(len(sequence) >= least for sequence, least in zip(numbers, surely, strict=True)), kind
        assert [of for of, _ in rows] == sorted(of for of, _ in rows)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"q.{kind}" for kind in KINDS)


@pytest.fixture
def cep() -> Workbench:
    workbench = Workbench()
    workbench.run("create schema A(x long, t string); @name('q') select x, t from A#keepall")
    return workbench


def until_written(sink: Any, rows: int) -> None:
    deadline = time.monotonic() + 20
    while sink.rows < rows and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sink.rows == rows


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_written_without_flush(kind: str, cep: Workbench, tmp_path: Path) -> None:
    with cep.sink("q", tmp_path / f"q.{kind}") as sink:
        for count in (1, 2):
            cep.send("A", x=count, t="")
            with cep._lock:  # also while the engine is busy
                until_written(sink, count)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_live_batch_are_written_at_its_end(kind: str, cep: Workbench, tmp_path: Path) -> None:
    async def take() -> None:
        with cep.sink("q", tmp_path / f"q.{kind}") as sink:
            await cep.live({"A": [{"x": x} for x in range(3)]})
            assert sink.rows == 3

    asyncio.run(take())


@pytest.mark.parametrize("kind", KINDS)
def test_append_adds_to_a_file(kind: str, cep: Workbench, tmp_path: Path) -> None:
    path = tmp_path / f"q.{kind}"
    for x in range(3):
        with cep.sink("q", path, append=True):
            cep.send("A", x=x, t='a "b"\nc')
    if kind == "db":
        with closing(sqlite3.connect(path)) as base:
            assert base.execute("select x from q").fetchall() == [(0,), (1,), (2,)]
        return
    frame = {"csv": pd.read_csv, "jsonl": lambda p: pd.read_json(p, lines=True), "parquet": pd.read_parquet}[kind](path)
    assert frame["x"].tolist() == [0, 1, 2] and set(frame["t"]) == {'a "b"\nc'}
    if kind != "jsonl":
        cep.run("@name('r') select x as other from A")
        with pytest.raises(UsageError, match="has other columns"):
            cep.sink("r", path, append=True)
    with pytest.raises(UsageError, match="exclude each other"):
        cep.sink("q", path, append=True, whole=kind != "parquet")


def test_append_removes_a_torn_line(cep: Workbench, tmp_path: Path) -> None:
    for kind in ("csv", "jsonl"):
        path = tmp_path / f"q.{kind}"
        with cep.sink("q", path):
            cep.send("A", x=1, t='"\n,')
        good = path.read_bytes()
        with cep.sink("q", path):
            cep.send("A", x=1, t='"\n,')
            cep.send("A", x=2, t='"\n,')
        both = path.read_bytes()
        for size in range(len(good), len(both)):
            path.write_bytes(both[:size])
            cep.sink("q", path, append=True).close()
            whole = kind == "jsonl" and size == len(both) - 1  # only the line end is missing
            assert path.read_bytes() == (both if whole else good), (kind, both[:size])
        path.write_bytes(b"ti")  # even of the header
        cep.sink("q", path, append=True).close()
        assert path.read_bytes() == (good.splitlines(keepends=True)[0] if kind == "csv" else b"")


@pytest.mark.parametrize("moment", ["before the name", "behind the name"])
def test_rows_come_once_if_the_process_is_killed_while_it_closes(
    moment: str, cep: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "q.parquet"
    with cep.sink("q", path):
        cep.send("A", x=0)
    with monkeypatch.context() as patch:
        patch.setattr(ParquetStreamWriter, "clean", lambda self: None)
        if moment == "before the name":
            patch.setattr("os.replace", lambda *_: None)
        with cep.sink("q", path, append=True):
            cep.send("A", x=1)
    assert path.with_suffix(".partial.arrows").exists()
    with cep.sink("q", path, append=True):
        cep.send("A", x=2)
    assert pd.read_parquet(path)["x"].tolist() == [0, 1, 2]
    assert not path.with_suffix(".partial.arrows").exists()


def test_the_stream_of_a_killed_run_is_never_replaced_in_silence(
    cep: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, stream = tmp_path / "q.parquet", tmp_path / "q.partial.arrows"

    def full(self: ParquetStreamWriter) -> None:
        self._file.close()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ParquetStreamWriter, "close", full)
        sink = cep.sink("q", path)
        cep.send("A", x=1)
        with pytest.raises(SinkError, match=r"No space left.*; 0 rows .* lost; '.*q\.partial\.arrows' has the other"):
            sink.close()
    assert stream.exists() and not path.exists()
    with cep.sink("q", path):
        cep.send("A", x=2)
    assert "q.partial.unclosed.arrows' has the rows of a run that ended before" in capsys.readouterr().err
    assert pd.read_parquet(path)["x"].tolist() == [2]
    with pyarrow.OSFile(str(tmp_path / "q.partial.unclosed.arrows")) as file:
        assert next(iter(pyarrow.ipc.open_stream(file)))["x"].to_pylist() == [1]


def test_a_write_that_fails_by_itself_is_printed(
    cep: Workbench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = cep.sink("q", tmp_path / "q.csv")

    class Full(RowWriter):
        def write(self, rows: object) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    assert sink._writer is not None
    sink._writer.close()
    sink._writer = Full()
    cep.send("A", x=1)
    sink.write_waiting()  # or the thread was quicker
    sink.write_waiting()
    assert capsys.readouterr().err.count("No space left on device; 1 row of `q` lost") == 1
    with pytest.raises(SinkError):
        sink.close()


def test_csv_distinguishes_null_and_the_empty_text(cep: Workbench, tmp_path: Path) -> None:
    for x, text in enumerate((None, "", "a\rb", 'say "hi"', "plain")):
        cep.send("A", x=x, t=text)
    cep.export("q", tmp_path / "q.csv")
    assert (tmp_path / "q.csv").read_bytes() == b'x,t\n0,\n1,""\n2,"a\rb"\n3,"say ""hi"""\n4,plain\n'
    cep.run("@name('one') select t from A#keepall")
    cep.send("A", x=1)
    cep.export("one", tmp_path / "q.csv")
    assert (tmp_path / "q.csv").read_bytes() == b't\n""\n', "a blank line would be skipped by readers"


@pytest.mark.parametrize("way", ["save", "export", "sink", "whole"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_keep_their_permissions_and_links_stay(way: str, kind: str, cep: Workbench, tmp_path: Path) -> None:
    def write(path: Path) -> None:
        if way == "save":
            cep.save(path)
        elif way == "export":
            cep.export("q", path)
        else:
            with cep.sink("q", path, **({"whole": True} if way == "whole" else {})):
                cep.send("A", x=1)

    (tmp_path / "there").mkdir()
    real, link, plain = tmp_path / "there" / f"real.{kind}", tmp_path / f"link.{kind}", tmp_path / f"plain.{kind}"
    link.symlink_to(Path("there") / real.name)
    write(link)
    plain.touch()
    assert link.is_symlink() and real.stat().st_size > 1
    assert real.stat().st_mode == plain.stat().st_mode, "a new file has the usual permissions"
    for mode in (0o640, 0o600, 0o664):
        real.chmod(mode)
        write(link)
        assert link.is_symlink() and real.stat().st_mode & 0o777 == mode
    assert [path.name for path in (tmp_path / "there").iterdir()] == [real.name]
    assert {path.name for path in tmp_path.iterdir()} == {"there", link.name, plain.name}
