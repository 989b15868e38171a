"""Bad words on the command lines: an exit code, a message on standard error, no traceback, and no file is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from cepbook.cli import main
from cepbook.spark import job

SCHEMA = "create schema Tick(symbol string, price double, ts long);\n"
EPL = SCHEMA + "create variable int n = 3;\n@name('q') select symbol from Tick(price > n);\n"
EPL += "@name('r') select * from Tick"
TICKS = "symbol,price,ts\na,1,1000\nb,2,2000\n"
IN = ["--in", "Tick=t.csv", "--time", "ts"]
WRONG: list[tuple[list[str], int, str]] = [
    ([], 2, "the following arguments are required: COMMAND"),
    (["nosuch"], 2, "invalid choice: 'nosuch'"),
    (["--\x1b[31m\u202e"], 2, "usage"),
    (["run", "m.epl"], 1, "nothing to replay"),
    (["run", "nosuch.epl", *IN], 1, "'nosuch.epl' cannot be read: No such file"),
    (["run", "folder.epl", *IN], 1, "'folder.epl' cannot be read: Is a directory"),
    (["run", "binary.epl", *IN], 1, "'binary.epl' is no UTF-8 text: byte 128 is 0x80"),
    (["run", "hostile.epl", *IN], 1, "1 | select '\\u202e' nope from Tick\\x1b"),
    (["run", "m.epl", "--in", "Tick", "--time", "ts"], 2, "expected NAME=VALUE, not `Tick`"),
    (["run", "m.epl", *IN, *IN[:2]], 1, "--in names `Tick` twice"),
    (["run", "m.epl", "--in", "Tik=t.csv", "--time", "ts"], 1, "did you mean `Tick`?"),
    (["run", "m.epl", "--in", "Tick=folder.epl", "--time", "ts"], 1, "is neither a Parquet"),
    (["run", "m.epl", "--in", "Tick=t.csv", "--time", "="], 2, "expected NAME=VALUE"),
    (["run", "m.epl", *IN[:2], "--time", "Tick=ts", "--time", "Tick=price"], 1, "--time names `Tick` twice"),
    (["run", "m.epl", *IN, "--set", "m=1"], 1, "no variable and no parameter `m`"),
    (["run", "m.epl", *IN, "--set", "n=1", "--set", "n=2"], 1, "--set names `n` twice"),
    (["run", "m.epl", *IN, "--set", "n=" + "[" * 3_000], 1, "variable `n` is int"),
    (["run", "m.epl", *IN, "--set", "n=" + "9" * 5_000], 1, "variable `n` is int"),
    (["run", "m.epl", *IN, "--out", "q=t.csv"], 1, "--out: 't.csv' holds the events that are read"),
    (["run", "m.epl", *IN, "--out", "q=o.csv", "--out", "r=./o.csv"], 1, "--out names './o.csv' twice"),
    (["run", "m.epl", *IN, "--out", "p=o.csv"], 1, "there is no statement `p`"),
    (["run", "m.epl", *IN, "--out", "q=o.txt"], 1, "the kinds of files are"),
    (["run", "m.epl", *IN, "--until", "\u00b2"], 1, "is not an ISO 8601 date and time"),
    (["run", "m.epl", *IN, "--start", "9" * 5_000], 1, "is not an ISO 8601 date and time"),
    (["run", "m.epl", *IN, "--limit", "9" * 5_000], 2, "characters"),
    (["test", "nosuch"], 1, "there is no file or folder 'nosuch'"),
    (["test", "binary.epl"], 1, "is no UTF-8 text"),
    (["format", "nosuch.epl"], 1, "cannot be read"),
    (["format", "hostile.epl"], 1, "hostile.epl:1:"),
    (["lab", "t.csv"], 1, "is no notebook"),
    (["lab", "folder.ipynb"], 1, "is no notebook"),
]
SPARK: list[tuple[list[str], int, str]] = [
    ([], 2, "the following arguments are required"),
    (["nosuch.epl", "--in", "Tick=t.csv"], 2, "nosuch.epl: No such file"),
    (["folder.epl", "--in", "Tick=t.csv"], 2, "Is a directory"),
    (["binary.epl", "--in", "Tick=t.csv"], 2, "is no UTF-8 text: byte 128 is 0x80"),
    (["hostile.epl", "--in", "Tick=t.csv"], 2, "\\x1b"),
    (["m.epl", "--in", "Tick"], 2, "expected NAME=VALUE"),
    (["m.epl", *IN, "--in", "Tick=u.csv"], 2, "--in names Tick twice"),
    (["m.epl", *IN, "--out", "q=o", "--out", "q=p"], 2, "--out names q twice"),
    (["m.epl", *IN, "--out", "q=./t.csv"], 2, "--out: './t.csv' holds the events that are read"),
    (["m.epl", *IN, "--time", "Tick=price"], 2, "one column for all types, or TYPE=COLUMN"),
    (["m.epl", *IN[:2], "--time", "Tick=ts", "--time", "Tick=price"], 2, "name a type twice"),
    (["m.epl", *IN[:2], "--sequence", "="], 2, "expected NAME=VALUE"),
    (["m.epl", *IN, "--until", "--5"], 2, "expected one argument"),
    (["m.epl", *IN, "--until", "\u00b2"], 2, "neither an ISO 8601 date and time nor whole ms"),
    (["m.epl", *IN, "--stream"], 2, "--checkpoint DIR"),
    (["m.epl", *IN, "--initial", "x"], 2, "--initial needs --stream"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("folder.epl", "folder.ipynb"):
        Path(name).mkdir()
    Path("m.epl").write_text(EPL)
    Path("t.csv").write_text(TICKS)
    Path("binary.epl").write_bytes(bytes(range(256)))
    Path("hostile.epl").write_text("select '\u202e' nope from Tick\x1b[31m")


@pytest.mark.parametrize(("words", "code", "said"), WRONG, ids=range(len(WRONG)))
def test_cepbook(words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(main, words, code, said, capsys)


@pytest.mark.parametrize(("words", "code", "said"), SPARK, ids=range(len(SPARK)))
def test_spark_before_a_session_starts(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "_session", None)  # calling it would be an error that nobody catches
    check(job.main, words, code, said, capsys)


def check(main: object, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code, a harmless message of no great length, and the files as they were."""
    assert callable(main)
    before = sorted(Path().iterdir())
    try:
        given = main(words)
    except SystemExit as left:  # argparse
        given = left.code
    told = capsys.readouterr().err
    assert given == code and said in told
    assert "Traceback" not in told and len(told) < 4_000 and not any(mark in told for mark in "\x1b\u202e")
    assert sorted(Path().iterdir()) == before and Path("t.csv").read_text() == TICKS
