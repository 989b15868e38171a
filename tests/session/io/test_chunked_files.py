"""Files of many rows are read in pieces, and give what the same rows give as a DataFrame."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook.errors import EventError
from cepbook.session import Workbench
from cepbook.session.io import chunked_files, files
from cepbook.session.io.chunked_files import ChunkedFileSource
from cepbook.session.io.frame_source import FrameSource, SourceOptions
from cepbook.session.io.replay_options import ReplayOptions
from cepbook.session.io.sources import ReplaySource, open_source

EPL = """create schema A(t long, k string, x int, d double);
@name('s') select irstream k, x, d from A#length(5);
@name('u') select k, sum(x) as total from A#time(40 msec) group by k"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(chunked_files, "LARGE", 100)
    monkeypatch.setattr(chunked_files, "PIECE", 64)
    monkeypatch.setattr(chunked_files, "SIZE", 1_000)
    monkeypatch.chdir(tmp_path)


def frame(count: int = 300) -> pd.DataFrame:
    numbers = pd.array([None if i % 97 == 96 else i % 7 for i in range(count)], dtype="Int32")
    return pd.DataFrame(
        {"t": [i // 3 * 10 for i in range(count)], "k": [None if i % 50 == 9 else "abc"[i % 3] for i in range(count)],
         "x": numbers, "d": [None if i % 64 < 3 else i / 2 for i in range(count)], "other": "not wanted"}
    )  # fmt: skip


def bench() -> Workbench:
    cep = Workbench()
    cep.run(EPL)
    return cep


def source(cep: Workbench, path: str, **options: Any) -> ReplaySource:
    types = cep.runtime.catalog.event_types
    return open_source(path, SourceOptions(types["A"], "t", types, ReplayOptions(**options)))


@pytest.mark.parametrize("until", [None, 500, 639, 640, 5000])
@pytest.mark.parametrize("group", [50, 64, 1000])
def test_the_same_as_a_frame(until: int | None, group: int) -> None:
    frame().to_parquet("a.parquet", row_group_size=group)
    parts, whole = bench(), bench()
    opened = source(parts, "a.parquet", until=until)
    assert isinstance(opened, ChunkedFileSource)
    assert (opened.total, opened.first_time) == (len(frame()) if until is None else sum(frame()["t"] <= until), 0)
    replay = parts.replay("a.parquet", type="A", time="t", until=until)
    whole.replay(frame(), type="A", time="t", until=until).run()
    replay.run()
    assert replay.progress.events == replay.progress.total == opened.total
    for name in ("s", "u"):
        pd.testing.assert_frame_equal(parts.changes(name), whole.changes(name))


def test_snapshots_find_their_place_in_it() -> None:
    frame().to_parquet("a.parquet")
    cep, plain = bench(), bench()
    replay = cep.replay("a.parquet", type="A", time="t", keep=50)
    replay.run()
    plain.replay(frame(), type="A", time="t", until=700).run()
    assert replay.at(700).iterate("s") == plain.iterate("s")


def test_rows_that_are_not_in_order_are_sorted() -> None:
    events = frame()
    events.loc[200, "t"] = 5
    events.to_parquet("a.parquet")
    cep, whole = bench(), bench()
    assert not isinstance(source(cep, "a.parquet"), ChunkedFileSource)
    cep.replay("a.parquet", type="A", time="t").run()
    whole.replay(events, type="A", time="t").run()
    pd.testing.assert_frame_equal(cep.changes("s"), whole.changes("s"))
    swapped = pd.concat([frame().iloc[64:128], frame().iloc[:64], frame().iloc[128:]])
    swapped.to_parquet("b.parquet", index=False)
    with pytest.raises(EventError, match=r"row 64 of `A` goes back in time: 00:00:00\.000 after 00:00:00\.420"):
        cep.replay("b.parquet", type="A", time="t", sort=False)


def test_a_mistake_in_the_last_piece_is_told_before_any_event() -> None:
    events = frame().astype({"x": "Int64"})
    events.loc[290, "x"] = 2**40
    events.to_parquet("a.parquet")
    cep = bench()
    with pytest.raises(EventError, match=r"column `x` of `A`, row 290: .*1099511627776 is outside"):
        cep.replay("a.parquet", type="A", time="t")
    events.drop(columns="d").to_parquet("b.parquet")
    with pytest.raises(EventError, match=r"the file 'b.parquet' for event type `A` lacks the column `d`"):
        cep.replay("b.parquet", type="A", time="t")
    assert cep.feed("s").deliveries == 0


def test_pieces_go_when_they_are_done() -> None:
    """Garbage is collected seldom during a replay: what is in a cycle would stay, with all of its rows."""
    frame().to_parquet("a.parquet")
    chunks = source(bench(), "a.parquet").chunks()
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(object_, FrameSource) for object_ in gc.get_objects())
        for chunk in chunks:
            chunk.columns(("k", "x"), 0, 5)
            chunk.column("d")
        del chunk
        assert sum(isinstance(object_, FrameSource) for object_ in gc.get_objects()) == before
    finally:
        gc.enable()


def written(events: pd.DataFrame, path: str) -> str:
    """Into a file of the kind that its name says."""
    if ".csv" in path:
        events.to_csv(path, index=False)
    else:
        events.to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize("path", ["a.csv", "a.csv.gz", "a.jsonl", "a.ndjson.gz"])
@pytest.mark.parametrize("until", [None, 639, 5000])
def test_texts_the_same_as_read_at_once(path: str, until: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces have whole numbers, with gaps or not, where the whole has numbers with a fraction."""
    written(frame(900), path)
    monkeypatch.setattr(chunked_files, "SIZE", 1)
    parts, whole = bench(), bench()
    assert isinstance(source(parts, path, until=until), ChunkedFileSource)
    replay = parts.replay(path, type="A", time="t", until=until)
    replay.run()
    monkeypatch.setattr(chunked_files, "SIZE", 10**9)
    assert not isinstance(source(whole, path), ChunkedFileSource)
    whole.replay(path, type="A", time="t", until=until).run()
    assert replay.progress.events == replay.progress.total
    for name in ("s", "u"):
        pd.testing.assert_frame_equal(parts.changes(name), whole.changes(name))


ODD = "create schema A(t long, k string, x int, d double, flag boolean, thing Object); @name('s') select * from A"


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("column", "values", "in_pieces"),
    [
        ("flag", lambda i: [True, False, None][i % 3] if i > 100 else i % 2 == 0, True),
        ("x", lambda i: None if i > 200 else i, True),
        ("d", lambda i: i if i < 100 else i / 4, True),
        ("thing", lambda i: i if i < 100 else i / 4, False),  # 1 in a piece, 1.0 in the whole
        ("thing", lambda i: "text" if i < 100 else i, False),
        ("thing", lambda i: "text", True),
        ("k", lambda i: i if i < 100 else "a", None),
        ("d", lambda i: None, None),
    ],
)
def test_pieces_are_read_where_they_are_what_the_whole_is(
    kind: str, column: str, values: Any, in_pieces: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = frame().drop(columns="other").assign(flag=True, thing="a").astype(object)
    events[column] = pd.Series([values(i) for i in range(len(events))], dtype=object)
    path = written(events, f"a.{kind}")

    def replayed(size: int) -> pd.DataFrame | str:
        monkeypatch.setattr(chunked_files, "SIZE", size)
        cep = Workbench()
        cep.run(ODD)
        if size == 1 and in_pieces is not None:
            assert isinstance(source(cep, path), ChunkedFileSource) is in_pieces
        try:
            cep.replay(path, type="A", time="t").run()
        except EventError as error:
            return str(error)
        return cep.changes("s")

    parts, whole = replayed(1), replayed(10**9)
    if isinstance(whole, str):
        assert parts == whole
    else:
        pd.testing.assert_frame_equal(parts, whole)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_mistakes_in_texts_are_told_as_of_the_whole_before_any_event(kind: str) -> None:
    cep = bench()
    events = frame().drop(columns="other").astype(object)
    events.loc[290, "x"] = "many"
    path = written(events, f"a.{kind}")
    message = r"'a.csv', line 292, column `x`: 'many' is no int" if kind == "csv" else "column `x` of `A`, row 290: "
    with pytest.raises(EventError, match=message):
        cep.replay(path, type="A", time="t")
    with Path(path).open("a") as file:
        file.write('{"broken\n')
    with pytest.raises(EventError, match=r"cannot be read as a CSV|line 301: this is no JSON|line 292"):
        cep.replay(path, type="A", time="t")
    short = written(frame().drop(columns="d"), f"b.{kind}")
    with pytest.raises(EventError, match="lacks the column `d`"):
        cep.replay(short, type="A", time="t")
    mixed = frame().drop(columns="other").astype({"t": object})
    mixed.loc[200:, "t"] = [f"1970-01-01T00:00:0{i // 100}.{i % 100:02d}0" for i in range(200, 300)]
    cep.replay(written(frame().iloc[::-1], f"c.{kind}"), type="A", time="t").run()  # is sorted
    assert cep.feed("s").deliveries == len(frame())
    again = bench()
    if kind == "jsonl":  # has a type for each value: times may be numbers and dates
        again.replay(written(mixed, "d.jsonl"), type="A", time="t").run()
        assert again.feed("s").deliveries == len(mixed)
        return
    with pytest.raises(EventError):
        again.replay(written(mixed, f"d.{kind}"), type="A", time="t")
    assert again.feed("s").deliveries == 0


@pytest.mark.parametrize("path", ["a.parquet", "a.csv", "a.jsonl"])
def test_a_look_at_the_past_does_not_check_the_file_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads up to that instant; a file that has changed since is looked at anew."""
    events = frame().drop(columns="other")
    events.to_parquet(path) if path.endswith("parquet") else written(events, path)
    cep, plain = bench(), bench()
    replay = cep.replay(path, type="A", time="t", keep=50)
    replay.run()
    plain.replay(events, type="A", time="t", until=300).run()
    read: list[int] = []
    real = chunked_files.files.read_chunks

    def counting(*args: Any) -> Any:
        for piece in real(*args):
            read.append(len(piece))
            yield piece

    monkeypatch.setattr(chunked_files.files, "read_chunks", counting)
    assert replay.at(300).iterate("s") == plain.iterate("s")
    assert sum(read) < len(events), "to be checked it would be read to its end"
    assert replay.at(900).iterate("s") != plain.iterate("s")
    more = pd.concat([events, events.iloc[-1:].assign(t=9_000)])
    more.to_parquet(path) if path.endswith("parquet") else written(more, path)
    read.clear()
    assert replay.at(300).iterate("s") == plain.iterate("s") and sum(read) > len(events)


# ---------------------------------------------------------------- checked while they are read
@pytest.fixture
def huge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few kilobytes are looked at in five places."""
    monkeypatch.setattr(files, "PLACES", 5)
    monkeypatch.setattr(files, "BLOCK", 150)


def begun(opened: ReplaySource) -> bool:
    """Whether it is read from the first event on, without a check of all of it."""
    return isinstance(opened, ChunkedFileSource) and opened.total is None


@pytest.mark.usefixtures("huge")
@pytest.mark.parametrize("until", [None, 639, 5000])
@pytest.mark.parametrize("path", ["a.csv", "a.jsonl"])
def test_the_first_row_of_a_huge_file_does_not_wait_for_the_last(path: str, until: int | None) -> None:
    written(frame(900), path)
    parts, whole = bench(), bench()
    opened = source(parts, path, until=until)
    assert begun(opened) and opened.first_time == 0
    assert opened.estimate is None if until is not None else 700 < (opened.estimate or 0) < 1100
    replay = parts.replay(path, type="A", time="t", until=until)
    assert replay.progress.total is None and replay.progress.estimate == opened.estimate
    replay.step()
    assert parts.feed("s").deliveries == 1
    replay.run()
    assert replay.progress.total == replay.progress.events and replay.progress.estimate is None
    whole.replay(frame(900), type="A", time="t", until=until).run()
    for name in ("s", "u"):
        pd.testing.assert_frame_equal(parts.changes(name), whole.changes(name), check_dtype=False)


@pytest.mark.usefixtures("huge")
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_mistakes_of_a_huge_file_are_told_with_their_place(kind: str) -> None:
    """Behind the pieces that came: of 64 rows, and so the first 640."""
    events = frame(900).drop(columns="other").astype(object)
    events.loc[700, "x"] = "many"
    path = written(events, f"a.{kind}")
    cep = bench()
    assert begun(source(cep, path))
    message = r"'a.csv', line 702, column `x`: 'many' is no int"
    message = message if kind == "csv" else r"'a.jsonl': column `x` of .* row 700"
    with pytest.raises(EventError, match=message + r".* \(the first 640 rows of the file came\)"):
        cep.replay(path, type="A", time="t").run()
    assert cep.feed("s").deliveries == 640
    events.loc[700, "x"], events.loc[700, "t"] = 1, 5
    late = bench()
    with pytest.raises(EventError, match=rf"'b.{kind}': row 700 of `A` goes back in time: .*005 after .*640 rows"):
        late.replay(written(events, f"b.{kind}"), type="A", time="t").run()
    events.loc[700, "t"], events.loc[704, "t"] = events.loc[699, "t"], 5  # as a piece begins
    with pytest.raises(EventError, match=r"row 704 of `A` goes back in time"):
        bench().replay(written(events, f"c.{kind}"), type="A", time="t").run()


@pytest.mark.usefixtures("huge")
def test_what_is_odd_where_a_huge_file_is_looked_at_is_checked_before() -> None:
    events = frame(900).drop(columns="other")
    cep = bench()
    cep.replay(written(events.iloc[::-1], "a.csv"), type="A", time="t").run()  # is sorted
    assert cep.feed("s").deliveries == len(events)
    assert not begun(source(cep, written(events, "a.csv.gz")))
    assert not begun(source(cep, written(events, "b.csv"), late="drop", sort=False))
    broken = events.assign(k=[f"two\nlines {i}" for i in range(900)])
    assert not begun(source(cep, written(broken, "c.csv"))), "lines begin in cells"
    with pytest.raises(EventError, match="line 900, column `x`: 'many' is no int"):
        wrong = events.astype(object)
        wrong.loc[898, "x"] = "many"
        cep.replay(written(wrong, "d.csv"), type="A", time="t")


@pytest.mark.usefixtures("huge")
def test_values_of_another_kind_further_on_are_refused() -> None:
    """A whole file of them would be texts: nobody says that 1 was meant."""
    cep = Workbench()
    cep.run("create schema A(t long, thing Object); @name('s') select * from A")
    events = pd.DataFrame({"t": range(900), "thing": [i if i != 700 else "text" for i in range(900)]})
    with pytest.raises(EventError, match=r"'a.csv': column `thing` is of another kind from row 640 on"):
        cep.replay(written(events, "a.csv"), type="A", time="t").run()
