"""``cepbook run``: events from files, deliveries into files, errors with their places, exit codes."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook.cli import main, run_command
from cepbook.cli.run_command import ReplayProgressBar
from cepbook.session import Workbench
from cepbook.session.io import chunked_files, sources
from tests.waiting import until

EPL = """create schema Tick(ts long, symbol string, price double);
create variable double low = 0;
@name('q') select symbol, avg(price) as mean from Tick(price > low)#time(10 sec) group by symbol;
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.epl").write_text(EPL)
    ticks = pd.DataFrame({"ts": [0, 1000, 2000], "symbol": ["A", "007", None], "price": [1.0, 2.5, 3.0]})
    ticks.to_csv("ticks.csv", index=False)
    ticks.to_parquet("ticks.parquet")
    Path("ticks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ticks.to_dict("records")))
    return tmp_path


WRITTEN = [
    ("1970-01-01T00:00:00.000+00:00", "A", 1.0),
    ("1970-01-01T00:00:01.000+00:00", "007", 2.5),
    ("1970-01-01T00:00:02.000+00:00", None, 3.0),
]


@pytest.mark.parametrize("source", ["ticks.csv", "ticks.parquet", "ticks.jsonl"])
def test_files_in_and_out(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    outs = [word for kind in ("csv", "parquet", "jsonl", "db") for word in ("--out", f"q=out.{kind}")]
    assert main(["run", "m.epl", "--in", f"Tick={source}", "--time", "ts", "--until", "1970-01-01T00:01", *outs]) == 0
    shown = capsys.readouterr().out
    assert "3 events finished, clock 00:01:00.000" in shown
    assert "q                 6        0  out.csv, out.parquet, out.jsonl, out.db" in shown
    rows = pd.read_csv("out.csv", dtype={"symbol": "str"})
    assert rows.columns.tolist() == ["time", "seq", "kind", "symbol", "mean"]
    first = rows.head(3)
    assert [
        (t, None if s != s else s, m) for t, s, m in zip(first.time, first.symbol, first["mean"], strict=True)
    ] == WRITTEN
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [(row["time"], row["symbol"], row["mean"]) for row in lines[:3]] == WRITTEN
    assert lines[-1] == {
        "time": "1970-01-01T00:00:12.000+00:00",
        "seq": 5,
        "kind": "insert",
        "symbol": None,
        "mean": None,
    }
    table = sqlite3.connect("out.db").execute("select time, symbol, mean from q").fetchall()
    assert table[:3] == WRITTEN and len(table) == 6
    parquet = pd.read_parquet("out.parquet")
    assert str(parquet["time"].dtype) == "datetime64[ms]"
    assert len(parquet) == 6 and parquet["mean"].tolist()[:3] == [1.0, 2.5, 3.0]


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl"])
@pytest.mark.parametrize("module", [EPL, "@name('q') select symbol, avg(price) as mean from Tick#length(5)"])
def test_large_files_are_never_read_at_once(
    kind: str, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where their columns say what the events are; the rows are those of the whole file."""
    Path("m.epl").write_text(module)
    symbols = ["A", "B", None, "007"]
    ticks = pd.DataFrame({"ts": range(0, 4000, 10), "symbol": symbols * 100, "price": [1.0, None, 2.5, 4.0] * 100})
    if kind == "jsonl":
        ticks.to_json("large.jsonl", orient="records", lines=True)
    else:
        ticks.to_csv(f"large.{kind}", index=False)
    command = ["run", "m.epl", "--in", f"Tick=large.{kind}", "--time", "ts"]
    assert main([*command, "--out", "q=whole.csv"]) == 0
    monkeypatch.setattr(chunked_files, "SIZE", 1)
    monkeypatch.setattr(chunked_files, "PIECE", 8)
    for part in (sources, run_command):
        monkeypatch.setattr(part, "read_file", lambda *_, **__: pytest.fail("the file is read at once"))
    assert main([*command, "--out", "q=pieces.csv"]) == 0
    assert "400 events finished" in capsys.readouterr().out
    assert Path("pieces.csv").read_text() == Path("whole.csv").read_text() != ""


def test_variables_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.epl").write_text("@name('p') select symbol from Tick(price >= :least and symbol = :who)")
    given = ["--times", "ms", "--set", "low=2", "--set", "least=1.5", "--set", "who=007", "--out", "p=-"]
    assert main(["run", "m.epl", "p.epl", "--in", "Tick=ticks.csv", "--time", "ts", *given]) == 0
    shown = capsys.readouterr()
    assert shown.out == '{"time": 1000, "seq": 0, "kind": "insert", "symbol": "007"}\n'
    assert "  q                 2        0\n  p                 1        0  standard output" in shown.err
    assert main(["run", "p.epl", "m.epl", "--in", "Tick=ticks.csv", "--time", "ts", *given[:4]]) == 1
    assert "--> p.epl:1" in capsys.readouterr().err, "modules are deployed in the order in which they are named"


def test_types_that_no_module_declares_and_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("free.epl").write_text("@name('q') select count(*) as n, max(price) as top from Free;")
    assert main(["run", "free.epl", "--in", "Free=ticks.parquet", "--time", "ts", "--out", "q=-", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["top"] == 3.0
    monkeypatch.setattr("sys.stdin", io.StringIO('{"ts": 5, "symbol": "A", "price": 1.5}\n\nno json\n'))
    assert main(["run", "m.epl", "--in", "Tick=-", "--time", "ts", "--out", "q=-"]) == 1
    shown = capsys.readouterr()
    assert '"mean": 1.5' in shown.out, "what came before the mistake is written"
    assert "standard input, line 3: this is no JSON" in shown.err
    assert main(["run", "free.epl", "--in", "Free=-"]) == 1
    assert "the module must declare `Free`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["m.epl"], "nothing to replay"),
        (["none.epl", "--in", "Tick=ticks.csv"], "'none.epl' cannot be read"),
        (["m.epl", "--in", "Tick=none.csv", "--time", "ts"], "there is no file 'none.csv'"),
        (["m.epl", "--in", "Tck=ticks.csv", "--time", "ts"], "no statement reads `Tck`\n  hint: did you mean `Tick`?"),
        (["m.epl", "--in", "Tick=ticks.csv"], "the event time of `Tick` is not known"),
        (["m.epl", "--in", "Tick=ticks.csv", "--time", "ts", "--out", "r=o.csv"], "`r`"),
        (["m.epl", "--in", "Tick=ticks.csv", "--time", "ts", "--out", "q=o.xls"], "the kinds of files are"),
        (["m.epl", "--in", "Tick=ticks.csv", "--time", "ts", "--out", "q=no/o.csv"], "'no/o.csv' cannot be written: "),
        (["m.epl", "--in", "Tick=ticks.csv", "--time", "ts", "--set", "lov=3"], "did you mean `low`?"),
        (["m.epl", "--in", "Tick=ticks.csv", "--time", "ts", "--set", "low=x"], "variable `low` is double"),
        (["m.epl", "--in", "Tick=ticks.csv", "--time", "ts", "--until", "noon"], "'noon' is not an ISO 8601"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(Path().iterdir())
    assert main(["run", *words]) == 1
    assert said in capsys.readouterr().err
    assert sorted(Path().iterdir()) == before


def test_mistakes_in_epl_show_their_file_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.epl").write_text("create schema Tick(ts long);\nselect prize from Tick")
    assert main(["run", "bad.epl", "--in", "Tick=ticks.csv", "--time", "ts"]) == 1
    assert "--> bad.epl:2:8\n2 | select prize from Tick\n  |        ^^^^^" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["run", "m.epl", "--in", "ticks.csv"])
    assert stopped.value.code == 2


def test_a_statement_that_fails_makes_the_run_fail(capsys: pytest.CaptureFixture[str]) -> None:
    Path("f.epl").write_text("@name('f') select cast(symbol, int) as n from Tick")
    assert main(["run", "m.epl", "f.epl", "--in", "Tick=ticks.csv", "--time", "ts", "--out", "q=o.csv"]) == 1
    shown = capsys.readouterr()
    assert "statement error" in shown.out and "f" in shown.err
    assert len(pd.read_csv("o.csv")) == 3


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_file_has_its_name_when_it_is_whole(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("t.epl").write_text("create schema T(ts long, x int); @name('t') select x from T")
    file, partial = Path(f"o.{kind}"), Path(f"o.partial.{kind}")
    file.write_text("of a former run")
    lines = [json.dumps({"ts": i, "x": i}) for i in range(20)]
    words = ["run", "t.epl", "--in", "T=-", "--time", "ts", "--out", f"t={file}"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*lines, '{"ts": "soon"}'])))
    assert main(words) == 1
    assert f"cepbook: '{file}' is not written; '{partial}' has what came until then" in capsys.readouterr().err
    assert file.read_text() == "of a former run" and read(partial)["x"].tolist() == list(range(20))
    assert main(["run", "t.epl", "--in", f"T={partial}", "--time", "ts", "--out", f"t={file}"]) == 1
    assert "holds the events that are read" in capsys.readouterr().err
    linked = Path(f"linked.{kind}")
    os.link(partial, linked)
    assert main(["run", "t.epl", "--in", f"T={partial}", "--time", "ts", "--out", f"t={linked}"]) == 1
    assert "holds the events that are read" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    assert main(words) == 0
    assert read(file)["x"].tolist() == list(range(20)) and not partial.exists()


def test_a_run_that_is_killed_leaves_no_file_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "m.epl").write_text("create schema T(x int, at long); @name('q') select x from T")
    (tmp_path / "o.csv").write_text("of a former run")
    words = ["run", "m.epl", "--in", "T=-", "--time", "at", "--out", "q=o.csv"]
    with subprocess.Popen([sys.executable, "-m", "cepbook", *words], cwd=tmp_path, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(b'{"x": 1, "at": %d}\n' % at for at in range(20_000)))
        process.stdin.flush()
        asyncio.run(until(lambda: (tmp_path / "o.partial.csv").exists()))
        process.kill()
    assert (tmp_path / "o.csv").read_text() == "of a former run"


def read(path: Path) -> pd.DataFrame:
    kinds: dict[str, Any] = {".csv": pd.read_csv, ".parquet": pd.read_parquet}
    return kinds.get(path.suffix, lambda name: pd.read_json(name, lines=True))(path)


def test_ctrl_c_keeps_what_was_written(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(self: object) -> None:
        self.step(2)  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    monkeypatch.setattr("cepbook.session.replay.replay.Replay.run", interrupted)
    assert main(["run", "m.epl", "--in", "Tick=ticks.csv", "--time", "ts", "--out", "q=o.parquet"]) == 130
    shown = capsys.readouterr()
    assert "2 events stopped" in shown.out and "0  o.partial.parquet" in shown.out and "interrupted" in shown.err
    assert "'o.parquet' is not written; 'o.partial.parquet' has what came until then" in shown.err
    assert len(pd.read_parquet("o.partial.parquet")) == 2 and not Path("o.parquet").exists()


@contextmanager
def piped(folder: Path, out: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command over events that come through its standard input, in a process of its own."""
    (folder / "m.epl").write_text("create schema T(x int, at long); @name('q') select x from T")
    words = ["run", "m.epl", "--in", "T=-", "--time", "at", "--out", f"q={out}"]
    with subprocess.Popen(
        [sys.executable, "-m", "cepbook", *words],
        cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        yield process


def unread(process: subprocess.Popen[bytes]) -> int:
    """How many bytes of its standard input a process has not read yet."""
    assert process.stdin is not None
    return int.from_bytes(fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, b"\0" * 4), sys.byteorder)


def test_ctrl_c_while_nothing_comes_from_a_pipe(tmp_path: Path) -> None:
    # whoever writes holds the pipe open; Ctrl-C comes when all that is in it has been read
    with piped(tmp_path, "o.csv") as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b'{"x": 1, "at": 5}\n{"x": 2, "at": 6}\n{"x"')
        process.stdin.flush()
        asyncio.run(until(lambda: not unread(process)))
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert b"2 events" in process.stdout.read()
    assert list(pd.read_csv(tmp_path / "o.csv")["x"]) == [1, 2]


def test_what_was_read_from_a_pipe_before_ctrl_c_goes_in(tmp_path: Path) -> None:
    with piped(tmp_path, "o.csv") as process:
        assert process.stdin is not None and process.stdout is not None
        lines = [b'{"x": %d, "at": %d}\n' % (x, x) for x in range(2_400)]  # as much as a pipe holds
        process.stdin.write(b"".join(lines))
        process.stdin.flush()
        while unread(process):
            pass  # it is at work on what it has read
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert b"2,400 events stopped" in process.stdout.read()
    assert len(pd.read_csv(tmp_path / "o.csv")) == 2_400


def test_rows_go_into_a_pipe_as_they_are_made(tmp_path: Path) -> None:
    with piped(tmp_path, "-") as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        for x in (1, 2, 3):  # each is written when nothing follows yet
            process.stdin.write(b'{"x": %d, "at": 5}\n' % x)
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["x"] == x
        process.stdout.close()
        process.stdin.write(b'{"x": 4, "at": 6}\n')  # now nobody reads, and nothing more is wanted
        process.stdin.flush()
        assert process.wait(60) == 141
        told = process.stderr.read().decode()
    assert "4 events stopped" in told and "may have missed the last 1 row of `q`" in told
    assert "Traceback" not in told and "Exception" not in told


def test_files_are_whole_where_nobody_reads_the_standard_output(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("".join(f'{{"x": {x}, "at": {x}}}\n' for x in range(50_000)))
    (tmp_path / "m.epl").write_text("create schema T(x int, at long); @name('q') select x from T")
    words = ["run", "m.epl", "--in", "T=t.jsonl", "--time", "at", "--out", "q=-", "--out", "q=all.csv"]
    with subprocess.Popen(
        [sys.executable, "-m", "cepbook", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait(60) == 141
        told = process.stderr.read().decode()
    assert "50,000 events finished" in told and "Traceback" not in told
    assert len(pd.read_csv(tmp_path / "all.csv")) == 50_000


def test_the_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    cep = Workbench()
    cep.run(EPL)
    replay = cep.replay({"Tick": "ticks.csv"}, time="ts")
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    bar = ReplayProgressBar(replay)
    replay.step(2)
    assert "67%  2 of 3 events" in bar.line() and bar.line().startswith("[████████████████        ]")
    bar.draw()
    assert not out.getvalue(), "no terminal"
    monkeypatch.setattr(out, "isatty", lambda: True)
    bar = ReplayProgressBar(replay)
    bar.draw()
    bar.draw()
    bar.clear()
    assert out.getvalue().count("\r") == 2, "drawn once, as it was just drawn, and cleared"
