"""The same text of a file is the same value, or refused, whoever reads it: texts × types × readers × kinds of file."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cepbook import Workbench
from cepbook.cli import main
from cepbook.errors import CepbookError, EventError, UsageError
from cepbook.session import inlets
from cepbook.session.io import chunked_files

REFUSED = "refused"
SELECT = "@name('out') select v from E"

# type: texts with their values
TEXTS: dict[str, dict[str, Any]] = {
    "string": {
        "NA": "NA", "null": "null", "N/A": "N/A", "nan": "nan", "None": "None", "": None,
        "007": "007", "1_000": "1_000",
        "ü": "ü", "a;b": "a;b", "#x": "#x", "1.50": "1.50", "true": "true", "a,b": "a,b", 'say "hi"': 'say "hi"',
    },
    "long": {
        "1": 1, "-7": -7, "+5": 5, "007": 7, "1.0": 1, "": None, "1_000": REFUSED, "NA": REFUSED, "null": REFUSED,
        "1.5": REFUSED, "x": REFUSED, "٣": REFUSED, "0x10": REFUSED, "1,000": REFUSED, "nan": REFUSED,
        "9223372036854775807": 2**63 - 1, "9223372036854775808": REFUSED, "9" * 30: REFUSED,
    },
    "int": {"2147483647": 2**31 - 1, "2147483648": REFUSED, "1e3": 1000, "1_0": REFUSED},
    "double": {
        "1": 1.0, "1.50": 1.5, "1e3": 1000.0, ".5": 0.5, "-inf": float("-inf"), "": None, "1_000.5": REFUSED,
        "NaN": REFUSED, "nan": None, "NA": REFUSED, "1,5": REFUSED, "9" * 30: 1e30,
    },
    "biginteger": {"1": 1, "9" * 30: int("9" * 30), "1_000": REFUSED, "x": REFUSED, "": None},
    "bigdecimal": {"1.10": Decimal("1.10"), "3": Decimal("3"), "9" * 30: Decimal("9" * 30), "1_0": REFUSED, "": None},
    "boolean": {"true": True, "False": False, "TRUE": True, "": None, "1": REFUSED, "yes": REFUSED, "tRUE": True},
}  # fmt: skip


def declared(of: str) -> Workbench:
    cep = Workbench()
    cep.run(f"create schema E(ts long, v {of}); {SELECT}")
    return cep


def value(rows: list[dict[str, Any]]) -> Any:
    return rows[0]["v"] if rows else REFUSED


def collected(cep: Workbench) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cep.on("out", lambda delta: rows.extend(delta.insert))
    return rows


def replayed(path: Path, of: str, **options: Any) -> Any:
    cep = declared(of)
    rows = collected(cep)
    try:
        cep.replay(path, "E", time="ts", **options).run()
    except EventError:
        return REFUSED
    return value(rows)


def tailed(path: Path, of: str, **options: Any) -> Any:
    return value(tailed_rows(declared(of), path, **options)[0])


def tailed_rows(cep: Workbench, path: Path, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a file that grows, and why items are rejected."""
    rows = collected(cep)

    async def read() -> list[str]:
        async def look(_: float) -> None:
            live.stop()
            await asyncio.sleep(0)

        live = cep.live({"E": inlets.tail(path, begin=True, sleep=look, **options)}, time="ts")
        await live
        return [item.reason for _, item in live.rejected]

    reasons = asyncio.run(read())
    return rows, reasons


def in_pieces(path: Path, of: str, **options: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked_files, "SIZE", 1)
        return replayed(path, of, **options)


READERS: dict[str, Callable[..., Any]] = {"replay": replayed, "pieces": in_pieces, "tail": tailed}


def write_csv(path: Path, text: str, sep: str = ",", encoding: str = "utf-8", before: str = "") -> None:
    with path.open("w", encoding=encoding, newline="") as file:
        file.write(before)
        csv.writer(file, delimiter=sep, lineterminator="\n").writerows([("ts", "v"), ("1", text)])


SWEEP = [(of, text, expected) for of, texts in TEXTS.items() for text, expected in texts.items()]


@pytest.mark.parametrize("reader", READERS)
def test_a_text_of_csv_is_the_same_value_for_all_readers(reader: str, tmp_path: Path) -> None:
    """66 texts of 7 types × 3 readers."""
    assert len(SWEEP) == 66
    wrong = []
    for of, text, expected in SWEEP:
        write_csv(tmp_path / "e.csv", text)
        got = READERS[reader](tmp_path / "e.csv", of)
        if (type(got), got) != (type(expected), expected):
            wrong.append((of, text, expected, got))
    assert not wrong


JSON_VALUES = [
    ("string", "NA", "NA"), ("string", "", ""), ("string", None, None), ("long", 1, 1), ("long", 1.0, 1),
    ("long", 1.5, REFUSED), ("long", "1", REFUSED), ("long", True, REFUSED), ("long", 2**63, REFUSED),
    ("double", 1, 1.0),
    ("double", "1", REFUSED), ("boolean", "true", REFUSED), ("boolean", True, True), ("biginteger", 10**30, 10**30),
]  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_a_value_of_json_lines_is_the_same_for_all_readers(reader: str, tmp_path: Path) -> None:
    """14 values × 3 readers."""
    wrong = []
    for of, value, expected in JSON_VALUES:
        (tmp_path / "e.jsonl").write_text(json.dumps({"ts": 1, "v": value}) + "\n")
        got = READERS[reader](tmp_path / "e.jsonl", of)
        if (type(got), got) != (type(expected), expected):
            wrong.append((of, value, expected, got))
    assert not wrong


OPTIONS: list[tuple[dict[str, Any], dict[str, Any], str, Any]] = [  # how it is written, options, text, value
    ({"sep": ";"}, {"sep": ";"}, "a,b", "a,b"),
    ({"sep": "\t"}, {"sep": "\t"}, "a;b", "a;b"),
    ({"sep": "|"}, {"sep": "|"}, 'x "y" | z', 'x "y" | z'),
    ({"encoding": "latin-1"}, {"encoding": "latin-1"}, "Zürich", "Zürich"),
    ({"encoding": "cp1252"}, {"encoding": "cp1252"}, "5 €", "5 €"),
    ({"encoding": "utf-8-sig"}, {}, "Zürich", "Zürich"),
    ({"before": "# made by hand\n"}, {"comment": "#"}, "C#", "C#"),
    ({"before": "// made\n// by hand, 2\n"}, {"comment": "//"}, "#x", "#x"),
    ({}, {"na": "NA"}, "NA", None),
    ({}, {"na": ["NA", "-"]}, "-", None),
    ({}, {"na": ["NA", "-"]}, "null", "null"),
]


@pytest.mark.parametrize("reader", [*READERS, "run"])
def test_options_for_all_readers(reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """11 files × 4 readers."""
    monkeypatch.chdir(tmp_path)
    Path("m.epl").write_text(f"create schema E(ts long, v string); {SELECT};")
    wrong = []
    for written, options, text, expected in OPTIONS:
        write_csv(Path("e.csv"), text, **written)
        if reader != "run":
            got = READERS[reader](Path("e.csv"), "string", **options)
        else:
            pairs = [(k, one) for k, v in options.items() for one in (v if isinstance(v, list) else [v])]
            words = [word for name, one in pairs for word in (f"--{name}", one)]
            assert (
                main(["run", "m.epl", "--in", "E=e.csv", "--time", "ts", "--out", "out=o.jsonl", "--quiet", *words])
                == 0
            )
            got = json.loads(Path("o.jsonl").read_text())["v"]
        if got != expected:
            wrong.append((options, text, expected, got))
    assert not wrong


MISTAKES: list[tuple[str, bytes, dict[str, Any], str]] = [  # name, contents, options, what the message says
    ("e.csv", b"ts,v,v\n1,a,b\n", {}, r"line 1: the column `v` occurs twice"),
    ("e.csv", b"# c\nts,v,v\n1,a,b\n", {"comment": "#"}, r"line 2: the column `v` occurs twice"),
    (
        "e.csv",
        b"ts;v\n1;a\n",
        {},
        r'there is one column, .ts;v., without .,.\n  hint: sep=";" \(in a shell --sep ";"\)',
    ),
    ("e.csv", b"ts\tv\n1\ta\n", {}, r'sep="\\t"'),
    ("e.csv", b"ts,v\n1,a\n", {"sep": ";"}, r'sep=","'),
    ("e.csv", "ts,v\n1,Zürich\n".encode("latin-1"), {}, r'0xfc is no utf-8\n  hint: encoding="latin-1"'),
    ("e.csv", "ts,v\n1,a\n".encode("utf-16"), {}, r'encoding="utf-16"'),
    ("e.jsonl", '{"ts": 1, "v": "Zürich"}\n'.encode("latin-1"), {}, r'encoding="latin-1"'),
    ("e.jsonl", b'{"ts": 1, "v": "a", "v": "b"}\n', {}, r"the name `v` occurs twice"),
]


@pytest.mark.parametrize(("name", "contents", "options", "message"), MISTAKES)
def test_mistakes_say_what_to_write(
    name: str, contents: bytes, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """9 mistakes × replay, define and tail."""
    path = tmp_path / name
    path.write_bytes(contents)
    with pytest.raises(EventError, match=message):
        declared("string").replay(path, "E", time="ts", **options)
    with pytest.raises(EventError, match=message):
        Workbench().define("E", path, **options)
    cep = declared("string")

    async def read() -> str:
        async def look(_: float) -> None:
            live.stop()
            await asyncio.sleep(0)

        live = cep.live({"E": inlets.tail(path, begin=True, sleep=look, **options)}, time="ts")
        try:
            await live
        except EventError as error:
            return str(error)
        return live.rejected[-1][1].reason

    if b"\xff\xfe" not in contents:
        assert message.split("line ")[-1][-20:].replace("\\", "") in asyncio.run(read()).replace("\\", "")


def test_texts_that_stand_for_null_are_named(tmp_path: Path) -> None:
    write_csv(tmp_path / "e.csv", "N/A")
    with pytest.raises(EventError, match=r"line 2, column `v`: 'N/A' is no double\n  hint: .* na=\[\"N/A\"\]"):
        declared("double").replay(tmp_path / "e.csv", "E", time="ts")
    assert replayed(tmp_path / "e.csv", "double", na="N/A") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sep": ";;"}, "`sep` is one character"),
        ({"sep": '"'}, "`sep` is one character"),
        ({"encoding": "klingon"}, "there is no encoding 'klingon'"),
        ({"comment": ""}, "`comment` is the beginning of a line"),
        ({"na": [1]}, "`na` is a (text|name) or a list of"),
        ({"na": 1}, "`na` is a (text|name) or a list of"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_csv(tmp_path / "e.csv", "x")
    cep = declared("string")
    for call in (
        lambda: cep.replay(tmp_path / "e.csv", "E", time="ts", **options),
        lambda: cep.define("F", tmp_path / "e.csv", **options),
        lambda: inlets.tail(tmp_path / "e.csv", **options),
    ):
        with pytest.raises(UsageError, match=message):
            call()


def test_options_without_a_file_are_refused() -> None:
    cep = declared("string")
    with pytest.raises(UsageError, match="and there is none"):
        cep.replay([{"ts": 1, "v": "x"}], "E", time="ts", sep=";")
    with pytest.raises(UsageError, match="and there is none"):
        cep.define("F", {"x": int}, na="NA")


def test_comments_stand_between_lines_only(tmp_path: Path) -> None:
    """A line within a quoted cell is none, and the place of a mistake counts all lines."""
    path = tmp_path / "e.csv"
    path.write_text('#1\nts,v,w\n#2\n1,"a\n#b",1\n#3\n2,c,x\n')
    cep = Workbench()
    cep.run("create schema E(ts long, v string, w int)")
    with pytest.raises(EventError, match=r"line 7, column `w`: 'x' is no int"):
        cep.replay(path, "E", time="ts", comment="#")
    assert replayed(path, "string", comment="#") == "a\n#b"


@pytest.mark.parametrize(
    "kind", ["csv", "csv.gz", "csv.bz2", "csv.xz", "csv.zip", "csv.zst", "jsonl", "jsonl.gz", "parquet"]
)
def test_define_and_replay_read_the_same(kind: str, tmp_path: Path) -> None:
    """Countries of which one is called NA, by define from a file and a replay of it."""
    import pandas as pd

    path = tmp_path / f"e.{kind}"
    frame = pd.DataFrame({"ts": [1, 2, 3], "v": ["NA", "DE", None]})
    if kind == "parquet":
        frame.to_parquet(path)
    elif "jsonl" in kind:
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False)
    cep = Workbench()
    cep.define("E", path, time="ts")
    cep.run(SELECT)
    cep.replay(path, "E").run()
    assert [None if pd.isna(v) else v for v in cep.changes("out")["v"]] == ["NA", "DE", None]
    cep.define("F", str(path), time="ts")
    assert cep.runtime.catalog.event_types["F"].properties == cep.runtime.catalog.event_types["E"].properties


def test_a_missing_file_is_told() -> None:
    with pytest.raises(CepbookError, match=r"there is no file 'none\.jsonl'"):
        Workbench().define("E", "none.jsonl")
