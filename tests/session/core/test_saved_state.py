"""Save and load a workbench."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cepbook import Workbench
from cepbook.engine.runtime import Config
from cepbook.errors import SnapshotError, UsageError

EPL = """
create schema Tick(symbol string, price double);
create variable double high = 10;
create context Each partition by symbol from Tick;
@name('mean') select irstream symbol, avg(price) as mean from Tick#length(3) group by symbol;
@name('each') context Each select count(*) as n, twice(price) as d from Tick(price < high)#time(5 sec)
output last every 2 sec;
@name('pairs') select a.price as p, b.price as q from pattern [every a=Tick -> b=Tick(symbol = a.symbol)];
"""


def bench() -> Workbench:
    cep = Workbench(start="2024-01-01", config=Config(integer_division=True))
    cep.register_function("twice", twice)
    cep.define("Own", {"x": "int"})
    cep.run(EPL, cell="a")
    cep.run("@name('own') select x from Own#keepall", cell="b")
    cep.send("Own", x=1)
    cep.set("high", 7.5)
    play(cep, 7)
    return cep


def twice(value: float | None) -> float | None:
    return None if value is None else 2 * value


def play(cep: Workbench, count: int) -> None:
    for i in range(count):
        cep.send("Tick", symbol="abc"[i % 3], price=float(i))
        cep.advance(by="700 msec")


def deliveries(cep: Workbench) -> dict[str, Any]:
    return {name: cep.feed(name).snapshot() for name in cep.runtime.statements}


def copy(cep: Workbench, path: Path, *, feeds: bool = False) -> Workbench:
    cep.save(path, feeds=feeds)
    other = Workbench()
    other.register_function("twice", twice)
    other.load(path)
    return other


def test_goes_on_as_the_saved_one(tmp_path: Path) -> None:
    cep = bench()
    other = copy(cep, tmp_path / "a.cep", feeds=True)
    assert deliveries(other) == deliveries(cep)
    assert other.clock == cep.clock and other.get("high") == 7.5
    assert repr(other.statements()) == repr(cep.statements())
    play(cep, 9)
    play(other, 9)
    assert deliveries(other) == deliveries(cep)
    assert other.iterate("own") == [{"x": 1}] and other.iterate("mean") == cep.iterate("mean")
    assert repr(other.partitions("Each")) == repr(cep.partitions("Each"))


def test_feeds_begin_anew_unless_they_are_saved(tmp_path: Path) -> None:
    cep = bench()
    other = copy(cep, tmp_path / "a.cep")
    assert not other.feed("mean").snapshot()
    play(cep, 1)
    play(other, 1)
    assert [d[1:] for d in other.feed("mean").snapshot()] == [d[1:] for d in cep.feed("mean").snapshot()[-1:]]


def test_cells_are_known_again(tmp_path: Path) -> None:
    other = copy(bench(), tmp_path / "a.cep")
    assert other.run("@name('own') select x + 1 as y from Own", cell="b").replaced
    other.rewind()
    assert str(other.clock).startswith("2024-01-01") and other.get("high") == 7.5


def test_listeners_stay(tmp_path: Path) -> None:
    cep = bench()
    cep.save(tmp_path / "a.cep")
    deliveries: list[Any] = []
    cep.on("mean", lambda delta: deliveries.append(delta.insert))
    cep.load(tmp_path / "a.cep")
    cep.send("Tick", symbol="z", price=1.0)
    assert [rows[0] for rows in deliveries] == [{"symbol": "z", "mean": 1.0}]


def test_diagrams_say_that_the_past_is_not_known(tmp_path: Path) -> None:
    other = copy(bench(), tmp_path / "a.cep")
    play(other, 1)
    assert any("is not known" in note for note in other.marble("mean").notes)


def test_what_cannot_be_loaded_changes_nothing(tmp_path: Path) -> None:
    cep = bench()
    cep.save(tmp_path / "a.cep")
    other = Workbench()
    other.run("create schema A(x int); @name('a') select * from A")
    (tmp_path / "b.cep").write_bytes((tmp_path / "a.cep").read_bytes()[:-1])
    (tmp_path / "c.cep").write_text("pickle")
    with pytest.raises(SnapshotError, match="not registered: `twice`"):
        other.load(tmp_path / "a.cep")
    with pytest.raises(SnapshotError, match="damaged"):
        other.load(tmp_path / "b.cep")
    with pytest.raises(SnapshotError, match="not a cepbook snapshot"):
        other.load(tmp_path / "c.cep")
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        other.load(tmp_path / "d.cep")
    other.send("A", x=1)
    assert len(other.feed("a")) == 1


def test_a_file_that_cannot_be_written_stays(tmp_path: Path) -> None:
    cep = bench()
    path = tmp_path / "a.cep"
    cep.save(path)
    before = path.read_bytes()
    cep.define("Odd", {"o": "object"})
    cep.run("@name('keeps') select * from Odd#keepall")
    cep.runtime.send("Odd", {"o": object()})
    with pytest.raises(SnapshotError, match="statement `keeps` holds a value of type"):
        cep.save(path)
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        Workbench().save(tmp_path / "no" / "a.cep")
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["a.cep"]


def test_a_file_of_something_else_is_replaced_on_request_only(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    cep = bench()
    with pytest.raises(UsageError) as refused:
        cep.save(path)
    assert str(refused.value) == (
        f"`{path}` is there already and is no saved workbench\n"
        "  hint: give another name; `replace=True`, or `%epl save --replace`, replaces it"
    )
    assert path.read_text() == "mine"
    cep.save(path, replace=True)
    cep.save(path)  # a saved workbench, by now
    (tmp_path / "empty").touch()
    cep.save(tmp_path / "empty")  # such as tempfile makes
    assert path.read_bytes() == (tmp_path / "empty").read_bytes()
