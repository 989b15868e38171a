"""Sinks and values that files do not have, databases that others use, and files that killed runs left."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook.errors import UsageError
from cepbook.session import Workbench
from cepbook.session.io.output import sinks
from cepbook.session.io.output.parquet_writers import ParquetStreamWriter
from cepbook.session.io.output.sinks import SinkError

KINDS = ("csv", "jsonl", "parquet", "db")
EPL = (
    "create schema E(n int, i long, f double, b boolean, t string, big biginteger, m java.util.Map, xs double[]);"
    "@name('q') select n, i, f, b, t, big, m, xs from E; @name('r') select n from E"
)
ODD: dict[str, dict[str, Any]] = {
    "true": {"b": True},
    "false": {"b": False},
    "nan": {"f": float("nan")},
    "infinite": {"f": float("-inf"), "xs": [float("inf"), float("nan")]},
    "negative zero": {"f": -0.0, "xs": [-0.0]},
    "whole double": {"f": 1.0},
    "half of a surrogate pair": {"t": "a\ud800b"},
    "in a map": {"m": {"k\udc00": ["\udfff", float("nan"), True, (1, float("inf"))]}},
    "quotes": {"t": "\"\r\n,'", "m": {'"': "\n"}},
    "empty text": {"t": ""},
    "zero character": {"t": "a\x00b"},
    "large": {"i": 2**63 - 1, "big": 10**40},
    "nothing": {},
}


def bench(folder: Path | None = None) -> Workbench:
    cep = Workbench()
    cep.run(EPL)
    if folder is not None:
        cep.journal(folder / "j")
    return cep


def send(cep: Workbench, number: int, values: dict[str, Any]) -> None:
    cep.send("E", {"n": number, **values})


def read(path: Path, table: str = "q") -> list[dict[str, Any]]:
    if path.suffix == ".db":
        with closing(sqlite3.connect(path)) as base:
            return pd.read_sql_query(f"select * from {table}", base).to_dict("records")
    if path.suffix == ".parquet":
        return pd.read_parquet(path).to_dict("records")
    if path.suffix == ".csv":
        return pd.read_csv(path).to_dict("records")
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text("utf-8").splitlines()]


def killed(cep: Workbench, folder: Path) -> None:
    """Put the folder into the state that a process leaves which is killed now."""
    cep.journaling.flush()
    left = folder.with_name(f"{folder.name}_left")
    shutil.copytree(folder, left)
    cep.journaling.close()
    for sink in list(cep._engine.file_sinks):
        sink.close()
    shutil.rmtree(folder)
    left.rename(folder)


@pytest.mark.parametrize(("kind", "odd"), [*product(KINDS, ODD)])
def test_every_value_is_written_and_recognized_after_a_kill(kind: str, odd: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    path, cep = folder / f"q.{kind}", bench(folder)
    sink = cep.sink("q", path)
    send(cep, 0, ODD[odd])
    cep.journaling.checkpoint()
    for number in (1, 2):
        send(cep, number, ODD[odd])
    sink.flush()
    send(cep, 3, ODD[odd])  # in the journal, and not in the file
    killed(cep, folder)
    again = Workbench()
    answer = again.recover(folder / "j")
    send(again, 4, ODD[odd])
    assert (answer.sinks[0].close(), answer.lost) == (None, ())
    again.journaling.close()
    rows = read(path)
    assert [row["n"] for row in rows] == [0, 1, 2, 3, 4]
    assert len({str({**row, "n": 0, "seq": 0}) for row in rows}) == 1
    if odd == "half of a surrogate pair":
        assert {row["t"] for row in rows} == {"a\ud800b" if kind == "jsonl" else r"a\ud800b"}


@pytest.mark.parametrize("taken", [(1,), (1, 2, 3), (2, 4), (1, 2, 3, 4), (3,)])
def test_rows_that_another_program_took_from_a_table_do_not_come_again(taken: tuple[int, ...], tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    cep = bench(folder)
    sink = cep.sink("q", folder / "q.db")
    for number in range(6):
        send(cep, number, {})
        if number == 1:
            cep.journaling.checkpoint()
    sink.flush()
    with closing(sqlite3.connect(folder / "q.db")) as base, base:
        base.execute(f"delete from q where n in ({', '.join(map(str, taken))})")
    send(cep, 6, {})  # in the journal, and not in the file
    killed(cep, folder)
    again = Workbench()
    (sink,) = again.recover(folder / "j").sinks
    send(again, 7, {})
    sink.close()
    again.journaling.close()
    assert [row["n"] for row in read(folder / "q.db")] == [number for number in range(8) if number not in taken]


class Unreadable:
    """A value without a text."""

    def __str__(self) -> str:
        raise KeyError("none")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [(0,), (7,), (3, 4, 19)])
def test_a_value_that_cannot_be_written_costs_its_row(
    kind: str, bad: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cep, path = Workbench(), tmp_path / f"q.{kind}"
    cep.run("create schema E(n int, o object); @name('q') select n, o from E")
    sink = cep.sink("q", path, whole=False)
    for number in range(20):
        cep.send("E", n=number, o=Unreadable() if number in bad else [1])
    sink.write_waiting() if kind != "parquet" else sink._write_and_print()
    assert sink.lost == len(bad) and sink.rows == 20 - len(bad)
    assert capsys.readouterr().err.count(f"KeyError('none'); {sinks.format_count(len(bad), 'row')}") == 0
    cep.send("E", n=20, o=None)
    with pytest.raises(SinkError, match=f"{len(bad)} rows? of `q` lost"):
        sink.close()
    assert [row["n"] for row in read(path)] == [n for n in range(21) if n not in bad]


def test_rows_wait_for_a_locked_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cep = tmp_path / "q.db", bench()
    monkeypatch.setattr(sinks, "PATIENCE", 0.2)
    monkeypatch.setattr(sinks, "FULL_ROWS", 50)
    with cep.sink("q", path) as sink:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("begin exclusive")
        began = time.perf_counter()
        for number in range(120):
            send(cep, number, {})
        assert time.perf_counter() - began < 3
        with pytest.raises(SinkError, match="cannot be written now: database is locked; 120 rows of `q` wait"):
            sink.flush()
        with pytest.raises(SinkError, match="wait"):
            sink.mark()
        assert (sink.rows, sink.lost, sink.error) == (0, 0, None)
        other.execute("commit")
        send(cep, 120, {})
        assert (sink.flush().rows, sink.lost) == (121, 0)
        assert sink.mark()["position"] == 121
        other.execute("begin exclusive")
        send(cep, 121, {})
        with pytest.raises(SinkError, match="database is locked; 1 row of `q` lost"):
            sink.close()
        other.close()
    assert [row["n"] for row in read(path)] == [*range(121)]


@pytest.mark.parametrize("harm", ["drop table q", "alter table q rename to p"])
def test_a_table_that_is_gone_breaks_the_sink_and_nothing_else(harm: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    cep = bench(folder)
    sink = cep.sink("q", folder / "q.db")
    send(cep, 1, {})
    sink.flush()
    with closing(sqlite3.connect(folder / "q.db")) as other:
        other.execute(harm)
        other.commit()
    cep.journaling.checkpoint()
    send(cep, 2, {})
    assert len(cep.changes("q")) == 2
    cep.journaling.checkpoint()
    with pytest.raises(SinkError, match=r"no such table: q; 1 row of `q` lost"):
        sink.close()
    cep.journaling.close()
    assert len(Workbench().recover(folder / "j").lost) == 1


def test_a_database_of_other_columns_is_refused_with_a_way_out_and_not_changed(tmp_path: Path) -> None:
    for harm, reason in (
        ("alter table q add column more", "has other rows than were delivered"),
        ("drop table q", "has other rows than were delivered"),
        ("delete from q", "has other rows than were delivered"),
        (None, "is gone"),
    ):
        folder = tmp_path / f"work {reason} {harm}"
        folder.mkdir()
        cep = bench(folder)
        sink = cep.sink("q", folder / "q.db")
        send(cep, 1, {})
        sink.flush()
        cep.journaling.checkpoint()
        killed(cep, folder)
        if harm is None:
            (folder / "q.db").unlink()
        else:
            with closing(sqlite3.connect(folder / "q.db")) as other:
                other.execute(harm)
                other.commit()
        before = (folder / "q.db").read_bytes() if harm else None
        with pytest.raises(SinkError, match=rf"{reason}\n  hint: .*sinks=False"):
            Workbench().recover(folder / "j")
        assert before == ((folder / "q.db").read_bytes() if (folder / "q.db").exists() else None)


def test_tables_of_one_database_are_recovered_each_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    path, cep = folder / "a.db", bench(folder)
    first, second = cep.sink("r", path, table="one"), cep.sink("r", path, table="two")
    cep.sink("r", path, table="three").close()
    send(cep, 1, {})
    first.flush()
    killed(cep, folder)
    again = Workbench()
    assert len(again.recover(folder / "j").sinks) == 2
    assert again.sink("r", path, table="ONE") is again._engine.recovered_sinks[0]
    again.sink("r", path, table="one").close()
    send(again, 2, {})
    again.sink("r", path, table="two").close()
    again.journaling.close()
    assert [row["n"] for row in read(path, "one")] == [1]
    assert [row["n"] for row in read(path, "two")] == [1, 2]
    assert read(path, "three") == []
    assert second.name == "r"


def test_a_table_belongs_to_one_sink(tmp_path: Path) -> None:
    cep, path = bench(), tmp_path / "a.db"
    with cep.sink("q", path, table="t") as first:
        with pytest.raises(UsageError, match=r"table `t` of '.*a\.db' is written by a sink of `q`: close that first"):
            cep.sink("r", path, table="t")
        again = cep.sink("q", path, table="t")  # the cell is run again
        assert not first.is_open
        send(cep, 1, {})
        again.close()
    assert len(read(path, "t")) == 1


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_what_killed_runs_left_is_kept(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"q.{kind}"
    program = (
        "import os, sys\nfrom cepbook import Workbench\n"
        "for number in range(3):\n"  # each in a process of its own, which need not import
        "    if (process := os.fork()) == 0:\n"
        "        cep = Workbench()\n"
        "        cep.run(\"create schema E(n int); @name('q') select n from E\")\n"
        "        sink = cep.sink('q', sys.argv[1], whole=True)\n"
        "        cep.send('E', n=number)\n        sink.flush()\n        os.kill(os.getpid(), 9)\n"
        "    assert os.waitpid(process, 0)[1] == 9\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, stderr=subprocess.DEVNULL)
    cep = Workbench()
    cep.run("create schema E(n int); @name('q') select n from E")
    with cep.sink("q", path, whole=True):
        cep.send("E", n=3)
    said = capsys.readouterr().err
    assert f"q.partial.unclosed.3.{'arrows' if kind == 'parquet' else kind}' has the rows of a run that ended" in said
    assert f"before '{path}' was written" in said
    left = sorted(tmp_path.glob("q.partial.*"))
    assert len(left) == 3 and [row["n"] for row in read(path)] == [3]
    if kind != "parquet":
        assert sorted(row["n"] for file in left for row in read(file)) == [0, 1, 2]


@pytest.mark.parametrize("finished", [True, False])
def test_a_former_file_is_not_taken_for_the_finished_one(finished: bool, tmp_path: Path) -> None:
    """A process is killed while it closes a sink, and the partial file is gone."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "q.csv").write_text("of last week")
    cep = bench(folder)
    sink = cep.sink("q", folder / "q.csv", whole=True)
    send(cep, 1, {})
    sink.flush()
    cep._engine.before_close(sink)
    killed(cep, folder)
    if finished:
        (folder / "q.partial.csv").rename(folder / "q.csv")
        Workbench().recover(folder / "j")
    else:
        (folder / "q.partial.csv").unlink()
        with pytest.raises(SinkError, match="is gone"):
            Workbench().recover(folder / "j")


def test_a_sink_that_nothing_refers_to_is_closed(tmp_path: Path) -> None:
    program = (
        "import gc, sys, time\nfrom cepbook import Workbench\nfrom cepbook.session.io.output.sinks import _open_sinks\n"
        "cep = Workbench()\ncep.run(\"create schema E(n int); @name('q') select n from E\")\n"
        "cep.sink('q', sys.argv[1])\ncep.send('E', n=1)\ntime.sleep(1)\ndel cep\n"
        "for _ in range(30):\n    gc.collect()\n    time.sleep(0.1)\n    if not _open_sinks():\n        break\n"
        "print(len(_open_sinks()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "q.csv")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0", done.stderr


def test_a_failure_of_a_library_at_the_end_is_raised_and_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: ParquetStreamWriter) -> None:
        self._file.close()
        raise MemoryError("no room")

    cep = bench()
    sink = cep.sink("r", tmp_path / "q.parquet")
    send(cep, 1, {})
    monkeypatch.setattr(ParquetStreamWriter, "close", fail)
    with pytest.raises(SinkError, match=r"no room; 0 rows of `r` lost; '.*q\.partial\.arrows' has the other rows"):
        sink.close()
    assert isinstance(sink.error, MemoryError)
    sink.close()


@pytest.mark.parametrize("way", ["redeploy", "drop", "rewind", "load"])
@pytest.mark.parametrize("same", [True, False])
def test_a_statement_with_other_columns_ends_the_sink_however_it_comes(
    way: str, same: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "@name('q') select n from E" if same else "@name('q') select n, 1 as m from E"
    cep, other = Workbench(), Workbench()
    for workbench, first in ((cep, "@name('q') select n from E"), (other, text)):
        workbench.run("create schema E(n int)")
        workbench.run(first)
    other.save(tmp_path / "saved")
    sink = cep.sink("q", tmp_path / "q.csv")
    cep.send("E", n=1)
    if way == "redeploy":
        cep.run(text)
    elif way == "drop":
        cep.drop("q")
        cep.run(text)
    elif way == "rewind":
        cep.rewind()
        cep.run(text)
    else:
        cep.load(tmp_path / "saved")
    cep.send("E", n=2)
    if same:
        sink.close()
    else:
        assert "`q` was redeployed with other columns than the file has; 0 rows" in capsys.readouterr().err
        with pytest.raises(SinkError, match="other columns than the file has; 1 row of `q` lost"):
            sink.close()
    assert [row["n"] for row in read(tmp_path / "q.csv")] == ([1, 2] if same else [1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_reset_closes_sinks_also_after_a_kill(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    cep = bench(folder)
    with cep.sink("r", folder / f"r.{kind}", whole=None if kind == "db" else True) as sink:
        send(cep, 1, {})
        cep.reset()
        assert not sink.is_open and [row["n"] for row in read(folder / f"r.{kind}", "r")] == [1]
        cep.run(EPL)
        send(cep, 2, {})
    killed(cep, folder)
    assert Workbench().recover(folder / "j").sinks == ()
    assert [row["n"] for row in read(folder / f"r.{kind}", "r")] == [1]


def test_a_failure_in_a_replay_is_printed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: object, rows: object) -> None:
        raise OSError(28, "No space left on device")

    cep = Workbench()
    cep.run("create schema E(n int); @name('r') select n from E")
    sink = cep.sink("r", tmp_path / "q.parquet")
    monkeypatch.setattr(ParquetStreamWriter, "write", full)
    cep.replay({"E": pd.DataFrame({"n": range(20_000), "at": range(20_000)})}, time="at").run()
    assert capsys.readouterr().err.count("No space left on device") == 1
    with pytest.raises(SinkError, match="20,000 rows of `r` lost"):
        sink.close()
