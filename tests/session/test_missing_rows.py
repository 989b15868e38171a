"""No result lacks rows in silence: all delivered rows are there, or a warning says what is missing and what helps."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook.errors import MissingRowsWarning, SnapshotError, UsageError
from cepbook.feeds import Feed
from cepbook.session import Workbench
from cepbook.session.core import engine_handle
from cepbook.session.history import event_log
from cepbook.widgets.charts import stream_chart
from cepbook.widgets.live_view.download import DownloadRequest
from cepbook.widgets.live_view.file_rows import FileRows
from cepbook.widgets.live_view.view_source import WorkbenchSource

ROWS = 1_500
Output = Callable[[Workbench, Path], int]  # returns how many rows it has


def _exported(kind: str, read: Callable[[Path], Any]) -> Output:
    def count(cep: Workbench, folder: Path) -> int:
        path = folder / f"q.{kind}"
        assert cep.export("q", path, changes=True) == len(read(path))
        return len(read(path))

    return count


def _drawn(cep: Workbench, folder: Path) -> int:
    return len(stream_chart(cep, "q", y="v").data)


def _downloaded(cep: Workbench, folder: Path) -> int:
    return len(_file_rows(cep).rows)


def _file_rows(cep: Workbench) -> FileRows:
    request = DownloadRequest.of({"id": "1", "form": "csv", "stream": True})
    assert request is not None
    return WorkbenchSource(cep, "q").file_rows(request)()


OUTPUTS: dict[str, Output] = {
    "pandas": lambda cep, _: len(cep.changes("q")),
    "arrow": lambda cep, _: len(cep.changes("q", as_="arrow")),
    "polars": lambda cep, _: len(cep.changes("q", as_="polars")),
    "csv": _exported("csv", pd.read_csv),
    "parquet": _exported("parquet", pd.read_parquet),
    "jsonl": _exported("jsonl", lambda path: pd.read_json(path, lines=True)),
    "chart": _drawn,
    "download": _downloaded,
}


def replayed(capacity: int | None, rows: int = ROWS) -> Workbench:
    frame = pd.DataFrame({"ts": range(0, 1000 * rows, 1000), "v": range(rows)})
    cep = Workbench(feed_capacity=capacity)
    cep.define("E", frame, time="ts")
    cep.run("@name('q') select v from E")
    cep.replay(frame, "E").run()
    return cep


@pytest.mark.parametrize(("name", "capacity"), [*product(OUTPUTS, (7, 1_000, None))])
def test_every_output_has_all_that_was_delivered(name: str, capacity: int | None, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert OUTPUTS[name](replayed(capacity), tmp_path) == ROWS


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_output_says_what_is_missing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_handle, "SPILL_LIMIT", 0)
    cep = replayed(100)
    text = "the oldest 1,400 of 1,500 delivered rows are missing"
    if name == "chart":
        assert text in str(stream_chart(cep, "q", y="v").to_dict()["title"])
    elif name == "download":
        assert _file_rows(cep).note == f"; {text}"
    else:
        with pytest.warns(MissingRowsWarning, match=f"`q`: {text}\n  hint: `cep.feed_capacity = None`") as caught:
            assert OUTPUTS[name](cep, tmp_path) == 100
        assert caught[0].filename == __file__


@pytest.mark.parametrize("lost", ["file is full", "loaded", "value that cannot be pickled"])
def test_rows_are_missing_for_any_reason(lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if lost == "file is full":
        monkeypatch.setattr(engine_handle, "SPILL_LIMIT", 5_000)
        cep = replayed(100)
    elif lost == "loaded":
        monkeypatch.setattr(engine_handle, "SPILL_LIMIT", 0)
        other = replayed(100)
        with pytest.warns(MissingRowsWarning, match="1,400 of `q`"):
            other.save(tmp_path / "saved", feeds=True)
        monkeypatch.undo()
        cep = Workbench(feed_capacity=100)
        cep.load(tmp_path / "saved")
    else:
        cep = Workbench(feed_capacity=100)
        cep.run("create schema E(v int, f object); @name('q') select v, f from E")
        for i in range(ROWS):
            cep.send("E", v=i, f=lambda: 1)
    with pytest.warns(MissingRowsWarning, match="the oldest 1,400 of 1,500 delivered rows are missing"):
        assert len(cep.changes("q")) == 100
    with pytest.raises(UsageError, match=r"`q` has 100 rows: the oldest 1,400 of 1,500 .*; there is no row 100"):
        cep.why("q", row=100)


@pytest.mark.parametrize("capacity", [7, 100, 2_000, None])
def test_a_loaded_workbench_has_all_rows(capacity: int | None, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replayed(100).save(tmp_path / "saved", feeds=True, key="secret")
        cep = Workbench(feed_capacity=capacity)
        cep.load(tmp_path / "saved", key="secret")
        for i in range(500):
            cep.send("E", ts=10**7 + i, v=i)
        changes = cep.changes("q")
        cep.save(tmp_path / "again", feeds=True)
        cep.load(tmp_path / "again")
    assert changes["seq"].tolist() == list(range(2_000))
    assert changes["v"].tolist() == [*range(ROWS), *range(500)]
    assert changes.equals(cep.changes("q"))


def test_rows_of_every_kind_come_back(tmp_path: Path) -> None:
    cep = Workbench(feed_capacity=10)
    cep.run(
        "create schema E(k string, at timestamp, xs int[], m java.util.Map); create variant schema Mixed as *;"
        "@name('plain') select irstream k, at, xs, m from E#length(2) order by k;"
        "@name('events') select window(*) as w, last(*) as e from E#length(2);"
        "@name('none') select k from E where xs is null output every 3 events;"
        "insert into Mixed select * from E; @name('mixed') select * from Mixed"
    )
    for i in range(200):
        at = datetime(2024, 3, 1, tzinfo=UTC) + timedelta(seconds=i)
        cep.send("E", k=f"k{i % 7}", at=at, xs=[i, i + 1] if i % 5 else None, m={"a": [i, None, float("inf")]})
    before = {name: cep.changes(name) for name in ("plain", "events", "none", "mixed")}
    cep.save(tmp_path / "saved", feeds=True)
    cep.load(tmp_path / "saved")
    assert len(before) == 4 and len(before["plain"]) > 300
    for name, rows in before.items():
        pd.testing.assert_frame_equal(cep.changes(name), rows)


def test_a_value_in_the_file_of_a_feed_that_cannot_be_saved_leaves_the_saved_file(tmp_path: Path) -> None:
    cep = Workbench(feed_capacity=10)
    cep.run("create schema E(v int, f object); @name('q') select v, f from E")
    (tmp_path / "saved").write_bytes(b"cepbook snapshot ")
    for i in range(100):
        cep.send("E", v=i, f=range(3) if i == 2 else 0)
    with pytest.raises(SnapshotError, match="a feed, or a live source, holds a value of type builtins"):
        cep.save(tmp_path / "saved", feeds=True)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    assert (tmp_path / "saved").read_bytes() == b"cepbook snapshot "


def test_the_capacity_changes_at_any_time() -> None:
    cep = replayed(100)
    assert (cep.feed_capacity, cep.feed("q").rows) == (100, 100)
    cep.feed_capacity = None
    cep.run("@name('p') select v from E")
    for i in range(500):
        cep.send("E", ts=10**7 + i, v=i)
    assert (cep.feed_capacity, cep.feed("q").rows, cep.feed("p").rows) == (None, 600, 500)
    cep.feed_capacity = 10
    assert (cep.feed("q").rows, len(cep.changes("q")), len(cep.changes("p"))) == (10, 2_000, 500)
    cep.reset()
    assert cep.feed_capacity == 10
    for wrong in (0, -1, "many", 2.5, True):
        with pytest.raises(UsageError):
            cep.feed_capacity = wrong  # type: ignore[assignment]
    assert cep.feed_capacity == 10


def test_a_row_has_the_index_that_changes_gives_it() -> None:
    cep = replayed(100)
    changes = cep.changes("q")
    for row in (0, 700, 1_450, -1):
        assert cep.why("q", row=row).number == changes["seq"].iloc[row]


def test_a_chart_of_the_past_has_the_rows_of_the_file() -> None:
    feed = Feed(10, log=1 << 20)
    for i in range(100):
        feed.push(i, [{"v": i}, {"v": -i}], [{"v": 0}] if i % 3 == 0 else None)
    for until in (-1, 0, 42, 99, 500):
        whole = feed.whole(until)
        assert whole.times == [t for t in range(min(until, 99) + 1) for _ in range(3 if t % 3 == 0 else 2)]
        assert len(whole.numbers) == len(whole.inserts) == len(whole.column("v")) and whole.lost == 0


# ---------------------------------------------------------------- statements that keep no rows
NO_ROWS = {
    "groups": "select k, count(*) as n from E group by k",
    "filter": "select * from E(v > 2)",
    "pattern": "select a.k as k from pattern [every a=E -> E]",
    "insert": "insert into F select k from E",
    "trigger": "on E select w.k as k from W as w",
    "context": "context PerK select k from E",
    "match": "select * from E match_recognize (measures A.k as k pattern (A))",
}
KEEPS = {"window": "select * from E#length(2)", "total": "select count(*) as n from E", "named": "select * from W"}
READ: dict[str, Callable[[Workbench, Path], object]] = {
    "to_frame": lambda cep, _: cep.to_frame("q"),
    "iterate": lambda cep, _: cep.iterate("q"),
    "export": lambda cep, folder: cep.export("q", folder / "q.csv"),
    "query": lambda cep, _: cep.query("select * from q"),
    "answer": lambda cep, _: cep.answer("select * from q"),
}
PREPARED = (
    "create schema E(k string, v int); create window W#keepall as E; insert into W select * from E;"
    "create context PerK partition by k from E;"
)


@pytest.mark.parametrize(("statement", "read"), [*product(NO_ROWS, READ)])
def test_an_empty_answer_says_that_no_rows_are_kept(statement: str, read: str, tmp_path: Path) -> None:
    cep = Workbench()
    cep.run(f"{PREPARED} @name('q') {NO_ROWS[statement]}")
    for v in range(4):
        cep.send("E", k="a", v=v)
    with pytest.warns(MissingRowsWarning, match=r"^`q` keeps no rows: no data window\n  hint: .*delivered") as caught:
        READ[read](cep, tmp_path)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(("statement", "read"), [*product(KEEPS, READ)])
def test_an_empty_window_is_no_news(statement: str, read: str, tmp_path: Path) -> None:
    cep = Workbench()
    cep.run(f"{PREPARED} @name('q') {KEEPS[statement]}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        READ[read](cep, tmp_path)


def test_a_replay_lists_statements_that_delivered_nothing() -> None:
    frame = pd.DataFrame({"ts": [1, 2], "v": [1, 2]})
    cep = Workbench()
    cep.define("E", frame, time="ts")
    cep.run(
        "create table T(k string primary key); create variable int least = 5;"
        "@name('all') select v from E; @name('none') select v from E(v > least)"
    )
    result = cep.replay(frame, "E").run()
    assert repr(result).splitlines()[1:] == ["  all: 2 deliveries", "  none: 0 deliveries"]
    assert "none" in result._repr_html_()
    for number in range(30):
        cep.run(f"@name('rule{number}') select v from E(v > 100 + {number})")
    cep.rewind()
    assert repr(cep.replay(frame, "E").run()).splitlines()[1:] == [
        "  all: 2 deliveries",
        "  31 more statements: 0 deliveries",
    ]


# ---------------------------------------------------------------- other lists that are cut
def test_a_list_of_partial_matches_says_that_it_is_cut() -> None:
    cep = Workbench()
    cep.run("create schema E(k string, v int); @name('q') select a.v as v from pattern [every a=E(v > 0) -> E(v = 0)]")
    for v in range(1, 204):
        cep.send("E", k="a", v=v)
    with pytest.warns(MissingRowsWarning, match="the first 200 of 204 partial matches of `q` are listed"):
        assert len(cep.partials("q")) == 200


def test_a_slow_reader_of_a_stream_is_told() -> None:
    cep = Workbench()
    cep.run("create schema E(v int); @name('q') select v from E")

    async def read() -> list[int]:
        stream = cep.stream("q", capacity=2)
        for v in range(5):
            cep.send("E", v=v)
        with pytest.warns(MissingRowsWarning, match="3 deliveries dropped\n  hint: .*capacity=4"):
            first = await anext(stream)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            second = await anext(stream)
        stream.close()
        return [(delivery.insert or [])[0]["v"] for delivery in (first, second)]

    assert asyncio.run(read()) == [3, 4]


def test_assignments_are_events_that_can_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "KEPT", 5)
    cep = Workbench()
    cep.run("create schema E(v int); create variable int least = 0; @name('q') select v from E(v > least)")
    for v in range(1, 10):
        cep.set("least", v)
    assert not cep.past().complete


def test_a_join_that_was_not_tried_on_all_rows_is_not_known() -> None:
    cep = Workbench()
    cep.run(
        "create schema A(k int); create schema B(k int); create window W#keepall as B; insert into W select * from B;"
        "@name('q') select a.k as k from A as a unidirectional, W as w where a.k = w.k"
    )
    for k in range(600):
        cep.send("B", k=k)
    step = next(s for s in cep.why("q", {"k": -1}, type="A").courses[0].stages if "of `" in s.note)
    assert step.note.endswith("true of 0 of 500 events of `w`, the latest of 600") and step.passed is None


@pytest.mark.parametrize("rows", [3, 5, 6, 5000])
def test_a_saved_workbench_says_which_rows_it_lacks(tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_handle, "SPILL_LIMIT", 0)
    cep = Workbench(feed_capacity=5)
    cep.run("create schema E(v int); @name('out') select v from E; @name('none') select v from E(v < 0)")
    for v in range(rows):
        cep.send("E", v=v)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cep.save(tmp_path / "w.cep")
        cep.save(tmp_path / "w.cep", feeds=True)
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == (rows > 5) and all(warning.filename == __file__ for warning in caught)
    other = Workbench()
    other.load(tmp_path / "w.cep")
    if rows > 5:
        assert f"1 statement: {rows - 5:,} of `out`" in texts[0] and "cep.sink('out', FILE)" in texts[0]
        with pytest.warns(MissingRowsWarning, match=f"{rows - 5:,} "):
            other.changes("out")
