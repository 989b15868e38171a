"""Records of CSV with too few or too many fields, quotes, empty texts: the same for all readers, and nothing shifts."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cepbook import Workbench
from cepbook.cli import main
from cepbook.errors import EventError
from cepbook.session.io import chunked_files
from cepbook.session.io.csv_records import EMPTY, CsvRecords, fields_of
from cepbook.session.io.text_files import TextFormat
from tests.session.io.test_file_readers import collected, tailed_rows

SCHEMA = "create schema E(ts long, v string, w int); @name('out') select v, w from E"
TOO_FEW, TOO_MANY, OPEN = "2 fields for 3 columns", "4 fields for 3 columns", "a quote that does not end"

# contents behind `ts,v,w`; the line of the first mistake with its message, or None; the rows that are good
FILES: dict[str, tuple[str, tuple[int, str] | None, list[tuple[Any, Any]]]] = {
    "good": ("1,a,2\n2,b,3\n", None, [("a", 2), ("b", 3)]),
    "short": ("1,a,2\n2,b\n3,c,4\n", (3, TOO_FEW), [("a", 2), ("c", 4)]),
    "short at the end": ("1,a,2\n2,b\n", (3, TOO_FEW), [("a", 2)]),
    "long": ("1,a,2\n2,b,3,4\n3,c,4\n", (3, TOO_MANY), [("a", 2), ("c", 4)]),
    "a comma behind": ("1,a,2,\n2,b,3\n", (2, TOO_MANY), [("b", 3)]),
    "commas behind all": ("1,a,2,\n2,b,3,\n", (2, TOO_MANY), []),
    "one long, one short": ("1,a,2,3\n2,b\n3,c,4\n", (2, TOO_MANY), [("c", 4)]),
    "a decimal comma": ("1,a,2,5\n", (2, TOO_MANY), []),
    "short behind a text of two lines": ('1,"a\nb",2\n2,b\n', (4, TOO_FEW), [("a\nb", 2)]),
    "short behind empty lines": ("\n\n1,a,2\n\n2,b\n", (6, TOO_FEW), [("a", 2)]),
    "short with a quoted comma": ('1,"a,b"\n2,"a,b",3\n', (2, TOO_FEW), [("a,b", 3)]),
    "an open quote": ('1,a,2\n2,"b,3\n', (3, OPEN), [("a", 2)]),
    "a quote within": ('1,5" pipe,2\n2,6" pipe,3\n', None, [('5" pipe', 2), ('6" pipe', 3)]),
    "quotes in quotes": ('1,"say ""hi""",2\n', None, [('say "hi"', 2)]),
    "text behind quotes": ('1,"a"b,2\n', None, [("ab", 2)]),
    "null and empty": ('1,,\n2,"",""\n3,"",4\n', None, [(None, None), ("", None), ("", 4)]),
    "nulls at the end": ("1,,\n2,b,\n", None, [(None, None), ("b", None)]),
    "empty in quotes beside commas": ('1,"a,"","",b",2\n2,"",3\n', None, [('a,",",b', 2), ("", 3)]),
    "line ends of Windows": ('1,"",2\r\n\r\n2,b,3\r\n', None, [("", 2), ("b", 3)]),
    "short, Windows": ("1,a,2\r\n2,b\r\n", (3, TOO_FEW), [("a", 2)]),
    "blanks only": ("1,a,2\n   \n2,b,3\n", None, [("a", 2), ("b", 3)]),
}  # fmt: skip


def frame_rows(path: Path, **options: Any) -> list[tuple[Any, Any]]:
    cep = Workbench()
    cep.run(SCHEMA)
    rows = collected(cep)
    cep.replay(path, "E", time="ts", **options).run()
    return [(row["v"], row["w"]) for row in rows]


def piece_rows(path: Path, **options: Any) -> list[tuple[Any, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked_files, "SIZE", 1)
        patch.setattr(chunked_files, "HUGE", 0)
        patch.setattr(chunked_files, "PIECE", 2)
        return frame_rows(path, **options)


def run_rows(path: Path, *, defined: bool = False, rejected: Path | None = None) -> list[tuple[Any, Any]]:
    module, out = path.with_name("m.epl"), path.with_name("out.jsonl")
    module.write_text("@name('out') select v, w from E" if defined else SCHEMA)
    words = ["run", str(module), "--in", f"E={path}", "--time", "ts", "--out", f"out={out}", "--quiet"]
    code = main([*words, *(() if rejected is None else ("--rejected", str(rejected)))])
    if code:
        raise EventError("refused")
    return [(row["v"], row["w"]) for row in map(json.loads, out.read_text().splitlines())]


READERS: dict[str, Callable[..., list[tuple[Any, Any]]]] = {"replay": frame_rows, "pieces": piece_rows, "run": run_rows}


@pytest.mark.parametrize("name", FILES)
def test_each_reader_refuses_the_line_or_leaves_it_out(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """21 files × replay, replay in pieces, define, cepbook run, tail; with and without a file of rejected lines."""
    contents, mistake, good = FILES[name]
    path = tmp_path / "e.csv"
    path.write_bytes(b"ts,v,w\n" + contents.encode())
    for reader in READERS.values():
        if mistake is None:
            assert reader(path) == good
            continue
        with pytest.raises(EventError) as caught:
            reader(path)
        message = str(caught.value) + capsys.readouterr().err
        assert f"line {mistake[0]}: {mistake[1]}" in message.replace("a field begins with ", "")
    if mistake is None:
        Workbench().define("E", path)
    else:
        with pytest.raises(EventError, match=f"line {mistake[0]}: .*{mistake[1]}"):
            Workbench().define("E", path)
    for number, reader in enumerate(READERS.values()):
        rejected = tmp_path / f"{number}.jsonl"
        assert reader(path, rejected=rejected) == good
        lines = [json.loads(line) for line in rejected.read_text().splitlines()]
        assert bool(lines) == (mistake is not None)
        if mistake is not None:
            assert lines[0]["reason"].startswith(f"line {mistake[0]}: ")
            assert all(line["item"] in contents.replace("\r\n", "\n") for line in lines)
    cep = Workbench()
    cep.run(SCHEMA)
    rows, reasons = tailed_rows(cep, path)
    assert [(row["v"], row["w"]) for row in rows] == good
    if mistake is not None and mistake[1] != OPEN:  # the rest of the record may still come
        assert mistake[1] in reasons[0]


def test_the_rejected_lines_are_counted_by_the_result(tmp_path: Path) -> None:
    for name, text in {
        "e.csv": "ts,v,w\n1,a,2\n2,b\n3\n",
        "e.jsonl": '{"ts": 1, "v": "a", "w": 2}\n{"ts":\n[1]\n',
    }.items():
        (tmp_path / name).write_text(text)
        cep = Workbench()
        cep.run(SCHEMA)
        result = cep.replay(tmp_path / name, "E", time="ts", rejected=tmp_path / f"{name}.jsonl").run()
        assert result.events == 1
        assert result.rejected == {"E": 2}


def test_a_quote_that_does_not_end_costs_no_other_line_of_a_growing_file(tmp_path: Path) -> None:
    lines = ["ts,v,w", '1,"a,2', *(f"{n},b,{n}" for n in range(2, 302))]
    (tmp_path / "e.csv").write_text("\n".join(lines) + "\n")
    cep = Workbench()
    cep.run(SCHEMA)
    rows, reasons = tailed_rows(cep, tmp_path / "e.csv")
    assert [row["w"] for row in rows] == list(range(2, 302))
    assert len(reasons) == 1 and OPEN in reasons[0]


@pytest.mark.parametrize("kind", ["null", "empty", "text", "all"])
def test_what_a_sink_wrote_is_read_as_it_was(kind: str, tmp_path: Path) -> None:
    """Null, the empty text and others, by a sink and an export × 5 readers."""
    values = {
        "null": [None],
        "empty": [""],
        "text": ["a", "NA", '"', ",", "\n", '""', "#"],
        "all": [None, "", "b", '""'],
    }
    texts = values[kind]
    cep = Workbench()
    cep.run("create schema E(ts long, v string, w int); @name('out') select ts, v, w from E")
    with cep.sink("out", tmp_path / "sink.csv"):
        for number, text in enumerate(texts):
            cep.send("E", ts=number, v=text, w=None if number else 7)
    cep.export("out", tmp_path / "export.csv", changes=True)
    expected = [(text, None if number else 7) for number, text in enumerate(texts)]
    for path in (tmp_path / "sink.csv", tmp_path / "export.csv"):
        for reader in (frame_rows, piece_rows, run_rows):
            assert reader(path) == expected
        own = Workbench()
        own.run(SCHEMA)
        rows, _ = tailed_rows(own, path)
        assert [(row["v"], row["w"]) for row in rows] == expected
        assert run_rows(path, defined=True) == expected or kind == "null"  # a column of nulls is no text


def test_an_empty_text_is_null_where_it_is_no_text(tmp_path: Path) -> None:
    """pandas writes ``""`` for null with all fields in quotes."""
    columns = {"a": "long", "b": "double", "c": "boolean", "d": "bigdecimal", "e": "string", "f": "biginteger"}
    text = 'ts,a,b,c,d,e,f\n"1","","","","","",""\n"2","5","1.5","true","1.10","x","7"\n'
    (tmp_path / "e.csv").write_text(text)
    for define in (False, True):
        cep = Workbench()
        if define:
            cep.define("E", tmp_path / "e.csv", time="ts")
            kinds = {name: str(of) for name, of in cep.runtime.catalog.event_types["E"].properties.items()}
            assert kinds["a"] in ("long", "double") and kinds["c"] == "boolean" and kinds["e"] == "string"
        else:
            cep.run(f"create schema E(ts long, {', '.join(f'{name} {of}' for name, of in columns.items())})")
        cep.run("@name('out') select * from E")
        rows = collected(cep)
        cep.replay(tmp_path / "e.csv", "E", time="ts").run()
        assert [rows[0][name] for name in columns] == [None, None, None, None, "", None]
        assert [rows[1][name] for name in "abc"] == [5, 1.5, True]
    assert frame_rows_of(tmp_path / "e.csv", na="") == [None, "x"]


def frame_rows_of(path: Path, **options: Any) -> list[Any]:
    cep = Workbench()
    cep.run("create schema E(ts long, e string); @name('out') select e from E")
    rows = collected(cep)
    cep.replay(path, "E", time="ts", **options).run()
    return [row["e"] for row in rows]


@pytest.mark.parametrize("sep", [",", ";", "\t", "|", "^", "§"])
def test_random_texts_are_those_of_the_csv_module(sep: str) -> None:
    """500 files per separator, in blocks of 7 characters and whole, against Python's reader."""
    from cepbook.session.io import csv_records

    draw = random.Random(sep)
    form = TextFormat(sep=sep)
    for _ in range(500):
        count = draw.randint(1, 4)
        rows = [["".join(draw.choices(f'ab{sep}"\n\r ', k=draw.randint(0, 4))) for _ in range(count)] for _ in range(6)]
        target = io.StringIO(newline="")
        ends, style = draw.choice((("\n", csv.QUOTE_ALL), ("\r\n", csv.QUOTE_MINIMAL)))
        csv.writer(target, delimiter=sep, lineterminator=ends, quoting=style).writerows(rows)
        text = target.getvalue()
        read = csv.reader(io.StringIO(text, newline=""), delimiter=sep)
        expected = [row for row in read if count > 1 or row[0].strip(" ")]
        for block in (7, csv_records.BLOCK):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(csv_records, "BLOCK", block)
                records = CsvRecords(io.StringIO(text, newline=""), form, names=["x"] * count)
                again = io.StringIO("".join(iter(records.read, "")), newline="")
            fields = [[field.replace(EMPTY, "") for field in row] for row in csv.reader(again, delimiter=sep)]
            assert [row for row in fields if count > 1 or row[0].strip(" ")] == expected
        for row in rows:
            target = io.StringIO(newline="")
            csv.writer(target, delimiter=sep, lineterminator="\r\n").writerow(row)
            assert [field or "" for field in fields_of(target.getvalue(), form) or ()] == row
