"""A row with a value that does not fit costs itself with `rejected=`, for every source. Without it, it is an error."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from cepbook import Workbench
from cepbook.cli import main
from cepbook.errors import EventError
from cepbook.session.io import chunked_files

Row = dict[str, Any]
SCHEMA = (
    "create schema E(ts long, v int, w double, b boolean, s string, d timestamp, n long); @name('q') select * from E;"
)
START = 1_704_067_200_000
BAD = 3  # the row that does not fit
ROWS = 8


def rows_with(name: str, value: object) -> list[Row]:
    """Return rows of which one has a value that does not fit."""
    rows = [
        {"ts": START + at, "v": at, "w": at / 2, "b": at % 2 == 0, "s": f"t{at}", "d": "2024-01-01T00:00:00", "n": at}
        for at in range(ROWS)
    ]
    rows[BAD][name] = value
    return rows


VALUES: dict[str, list[object]] = {
    "ts": [None, "--5", "²", "noon", 2.5, 1e300, 2**60, True, [1]],
    "v": ["abc", 2.5, 2**40, True, [1], float("inf"), "²", "1_0"],
    "w": ["abc", True, "²", {"a": 1}],
    "b": ["maybe", 2, 0.5],
    "s": [5, 2.5, True, ["a"]],
    "d": ["noon", 5, "2024-13-01"],
    "n": ["abc", 2**63, 0.5],
}


def as_frame(rows: list[Row], path: Path) -> object:
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in rows[0]})


def as_typed_frame(rows: list[Row], path: Path) -> object:
    return pd.DataFrame(rows).set_index(pd.Index([f"r{at}" for at in range(ROWS)]))


def as_categories(rows: list[Row], path: Path) -> object:
    frame = pd.DataFrame(rows)
    return frame.assign(v=frame["v"].astype("category"), s=frame["s"].astype("category"))


def as_csv(rows: list[Row], path: Path) -> object:
    text = as_typed_frame(rows, path).to_csv(index=False)  # type: ignore[attr-defined]
    (path / "e.csv").write_text(text.replace("\n", "\n\n", 1))
    return path / "e.csv"


def as_json_lines(rows: list[Row], path: Path) -> object:
    (path / "e.jsonl").write_text("\n" + "\n".join(map(json.dumps, rows)) + "\n")
    return path / "e.jsonl"


def as_parquet(rows: list[Row], path: Path) -> object:
    pd.DataFrame(rows).to_parquet(path / "e.parquet")
    return path / "e.parquet"


def as_table(rows: list[Row], path: Path) -> object:
    return pa.table(pd.DataFrame(rows))


SOURCES: dict[str, tuple[Callable[[list[Row], Path], object], str]] = {
    "frame": (as_frame, f"row {BAD}: "),
    "typed frame": (as_typed_frame, f"row {BAD} (index 'r{BAD}'): "),
    "categories": (as_categories, f"row {BAD}: "),
    "csv": (as_csv, f"line {BAD + 3}: "),
    "json lines": (as_json_lines, f"line {BAD + 2}: "),
    "parquet": (as_parquet, f"row {BAD}: "),
    "arrow": (as_table, f"row {BAD}: "),
    "list": (lambda rows, path: rows, f"row {BAD}: "),
}


def workbench() -> tuple[Workbench, list[Row]]:
    cep = Workbench(start=START)
    cep.run(SCHEMA)
    rows: list[Row] = []
    cep.on("q", lambda delta: rows.extend(delta.insert))
    return cep, rows


def rejected_in(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def good_rows() -> list[Row]:
    rows = rows_with("v", 0)
    del rows[BAD]
    return [{**row, "d": datetime(2024, 1, 1, tzinfo=UTC)} for row in rows]


RARE = ("typed frame", "categories", "arrow", "json lines")  # which go the way of others: with every third value
CASES = [
    (source, name, value)
    for source in SOURCES
    for name in VALUES
    for value in VALUES[name][:: 3 if source in RARE else 1]
]
FITS = {("csv", "s"): VALUES["s"], ("categories", "v"): [True], ("parquet", "w"): [True], ("arrow", "w"): [True]}


def test_a_row_with_a_value_that_does_not_fit_costs_itself(tmp_path: Path) -> None:
    """Each bad value in each source that can hold it: the other rows come, and the file has the row with its place."""
    file, tried = tmp_path / "rejected.jsonl", Counter[str]()
    for number, (source, name, value) in enumerate(CASES):
        make, place = SOURCES[source]
        if value in FITS.get((source, name), ()):
            continue  # as a field of CSV is a text, and True is 1 in a column of numbers
        try:
            events = make(rows_with(name, value), tmp_path)
        except (TypeError, pa.ArrowException, OverflowError):
            continue  # a column of one type cannot hold the value
        case = (source, name, value)
        cep, rows = workbench()
        file.unlink(missing_ok=True)
        result = cep.replay(events, "E", time="ts", rejected=file).run()
        (entry,) = rejected_in(file)
        assert entry["reason"].startswith(place), (case, entry)
        assert f"`{name}`" in entry["reason"], (case, entry)
        other = "v" if name == "s" else "s"
        assert str(entry["item"][other]) == str(rows_with(name, value)[BAD][other]), (case, entry)
        assert (result.rejected, list(result.rejections["E"].values())) == ({"E": 1}, [1]), case
        assert rows == good_rows(), case
        tried[source] += 1
        if number % 7 == 0 and source != "list":  # of which the good rows before it come
            cep, rows = workbench()
            with pytest.raises(EventError, match=f"`{name}`"):
                cep.replay(events, "E", time="ts")
            assert not rows, case
    counts = {"frame": 34, "typed frame": 13, "categories": 11, "csv": 30, "json lines": 13, "parquet": 11, "arrow": 3}
    assert dict(tried) == {**counts, "list": 34}


def csv_of(lines: int, bad: dict[int, str]) -> str:
    return "ts,v\n" + "".join(bad.get(at, f"{START + at},{at}") + "\n" for at in range(lines))


@pytest.mark.parametrize("checked", [True, False])
def test_rows_of_a_large_file_are_rejected_with_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    """A file that is checked before it is read, or while it is; lines that are no rows count as lines."""
    monkeypatch.setattr(chunked_files, "SIZE", 1)
    monkeypatch.setattr(chunked_files, "PIECE", 100)
    monkeypatch.setattr(chunked_files, "HUGE", 10**9 if checked else 1)
    monkeypatch.setattr("cepbook.session.io.files.BLOCK", 50)
    path, file = tmp_path / "e.csv", tmp_path / "rejected.jsonl"
    bad = {
        150: f"{START + 150},abc",
        151: "x",
        152: f"{START + 152},2.5",
        333: f"{START},2,3",
        444: "²,1",
        640: f"{START},",
    }
    path.write_text(csv_of(700, bad))
    cep = Workbench(start=START)
    cep.run("create schema E(ts long, v int); @name('q') select count(*) as n, sum(v) as total from E")
    result = cep.replay(path, "E", time="ts", rejected=file, late="drop").run()
    lines = [int(entry["reason"].split(":")[0].removeprefix("line ")) for entry in rejected_in(file)]
    assert sorted(lines) == [152, 153, 154, 335, 446]

    assert sum(result.rejections["E"].values()) == 5
    assert cep.to_frame("q").to_dict("records") == [
        {"n": 695, "total": sum(range(700)) - 150 - 151 - 152 - 333 - 444 - 640}
    ]


def test_several_bad_values_of_one_row_are_one_rejection(tmp_path: Path) -> None:
    file = tmp_path / "rejected.jsonl"
    frame = as_frame(rows_with("ts", "noon"), tmp_path)
    assert isinstance(frame, pd.DataFrame)
    frame.loc[BAD, "v"] = "abc"
    frame.loc[5, "v"] = "def"
    cep, rows = workbench()
    result = cep.replay(frame.assign(extra=object()), "E", time="ts", rejected=file).run()
    first, second = rejected_in(file)
    assert (first["reason"][:5], second["reason"][:5]) == ("row 3", "row 5")
    assert result.rejections == {"E": {next(iter(result.rejections["E"])): 2}}
    assert [row["v"] for row in rows] == [0, 1, 2, 4, 6, 7]


@pytest.mark.parametrize("kind", ["frame", "list"])
def test_a_bad_sequence_number_costs_its_row(tmp_path: Path, kind: str) -> None:
    rows = rows_with("n", 2.5)
    make, place = SOURCES[kind]
    cep, received = workbench()
    cep.replay(make(rows, tmp_path), "E", time="ts", sequence="n", rejected=tmp_path / "r.jsonl").run()
    (entry,) = rejected_in(tmp_path / "r.jsonl")
    assert entry["reason"].startswith(place)
    assert len(received) == ROWS - 1


def test_rows_are_rejected_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, file = tmp_path / "m.epl", tmp_path / "rejected.jsonl"
    module.write_text(SCHEMA)
    lines = as_json_lines(rows_with("v", "abc"), tmp_path)
    for source in (as_csv(rows_with("v", "abc"), tmp_path), lines, as_parquet(rows_with("v", 2.5), tmp_path), "-"):
        monkeypatch.setattr("sys.stdin", io.StringIO(Path(str(lines)).read_text()))
        arguments = ["run", str(module), "--in", f"E={source}", "--time", "ts", "--start", "2024-01-01"]
        file.unlink(missing_ok=True)
        assert main([*arguments, "--rejected", str(file)]) == 0
        assert "7 events finished" in capsys.readouterr().out
        assert len(rejected_in(file)) == 1
        if source != "-":
            assert main(arguments) == 1
            assert "`v`" in capsys.readouterr().err


def test_items_of_a_live_source_are_rejected_with_their_reason(tmp_path: Path) -> None:
    """The items of a live source have no numbers: the file has the whole item, and the count is by reason."""
    values = [(name, value) for name in VALUES for value in VALUES[name]]

    async def items() -> AsyncIterator[Row]:
        for name, value in values:
            for row in rows_with(name, value):
                yield {**row, "ts": START} if row["ts"] != value else row

    async def run() -> Workbench:
        cep, rows = workbench()
        live = cep.live({"E": items()}, time="ts", rejected=tmp_path / "r.jsonl")
        await live
        assert len(rows) == (ROWS - 1) * len(values)
        assert live.rejections["count"].sum() == len(values)
        return cep

    asyncio.run(run())
    assert len(rejected_in(tmp_path / "r.jsonl")) == len(values) == 34
