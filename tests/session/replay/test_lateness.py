"""Events that arrive out of order: a naive reference says which are late, and in which order the others go in."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook.errors import EventError, UsageError
from cepbook.session import Workbench

EPL = """create schema E(ts long, v int) starttimestamp ts;
@name('on time') select v from E;
@name('late') select type, time as at, lateness, event.v as v from LateEvent"""


def bench() -> Workbench:
    cep = Workbench()
    cep.run(EPL)
    return cep


def history(seed: int, count: int = 60) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [{"ts": 1000 * n + 500 - draw.randrange(8000) // 500 * 500, "v": n} for n in range(8, count)]


def reference(rows: list[dict[str, Any]], lateness: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the values of the events that are on time, in order, and (value, lateness) of the others."""
    on_time, late, latest = [], [], None
    for number, row in enumerate(rows):
        latest = row["ts"] if latest is None else max(latest, row["ts"])
        if row["ts"] < latest - lateness:
            late.append((row["v"], latest - lateness - row["ts"]))
        else:
            on_time.append((row["ts"], number, row["v"]))
    return [value for _, _, value in sorted(on_time)], late


def delivered(cep: Workbench) -> tuple[list[int], list[tuple[int, int]]]:
    late = cep.changes("late")
    return cep.changes("on time")["v"].tolist(), list(zip(late["v"].tolist(), late["lateness"].tolist(), strict=True))


SOURCES = {"rows": lambda rows: rows, "generator": iter, "frame": pd.DataFrame}
LATENESS = (0, 500, 2_000, 5_000, 60_000)


@pytest.mark.parametrize("lateness", LATENESS)
@pytest.mark.parametrize("source", SOURCES)
def test_order_and_late_events(source: str, lateness: int, tmp_path: Path) -> None:
    path = tmp_path / "rejected.jsonl"
    for seed in range(8):
        rows, cep = history(seed), bench()
        path.unlink(missing_ok=True)
        bound: dict[str, Any] = {"lateness": f"{lateness} msec"} if lateness else {"late": "drop"}
        result = cep.replay(SOURCES[source](rows), "E", sort=False, rejected=path, **bound).run()
        expected = reference(rows, lateness)
        assert delivered(cep) == expected
        assert result is not None
        assert (result.events, result.late) == (len(expected[0]), len(expected[1]))
        assert result.late_by_type == ({"E": result.late} if result.late else {})
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [line["item"]["v"] for line in lines] == [value for value, _ in expected[1]]
        assert all(line["source"] == "E" and line["reason"].startswith("late by ") for line in lines)


@pytest.mark.parametrize("options", [{}, {"leap": True}, {"speed": 1e6}, {"keep": 5}])
def test_late_events_have_one_place_whatever_the_source(options: dict[str, Any]) -> None:
    rows = history(1)
    seen = []
    for source in SOURCES.values():
        cep = bench()
        cep.replay(source(rows), "E", sort=False, lateness="2 sec", **options).run()
        seen.append(cep.changes("late").to_dict("records"))
    assert seen[0] == seen[1] == seen[2] and seen[0]


def test_two_sources_and_a_clock_that_is_ahead(tmp_path: Path) -> None:
    cep = bench()
    cep.run("create schema F(ts long, v int) starttimestamp ts; @name('f') select v from F")
    cep.advance(20_000)
    e, f = history(2), history(3)
    result = cep.replay({"E": e, "F": pd.DataFrame(f)}, lateness="3 sec", rejected=tmp_path / "r.jsonl").run()
    assert result is not None
    in_time = {v for v in reference(e, 3000)[0] if next(r["ts"] for r in e if r["v"] == v) >= 20_000}
    assert set(cep.changes("on time")["v"]) == in_time
    assert set(cep.changes("f")["v"]) == {row["v"] for row in f if row["ts"] >= 20_000}
    assert result.late_by_type == {
        "E": len(e) - len(in_time), "F": sum(row["ts"] < 20_000 for row in f),
    }  # fmt: skip
    assert len(cep.changes("late")) == result.late == len((tmp_path / "r.jsonl").read_text().splitlines())


@pytest.mark.parametrize("options", [{}, {"leap": True}])
def test_late_events_of_two_sources_at_once(options: dict[str, Any]) -> None:
    cep = bench()
    cep.run("create schema F(ts long, v int) starttimestamp ts; @name('f') select v from F")
    cep.run("@name('order') select type, current_timestamp as now from LateEvent#length(2)")
    e, f = history(7, 300), history(8, 300)
    result = cep.replay({"E": e, "F": f}, lateness="1 sec", **options).run()
    on_e, late_e = reference(e, 1000)
    on_f, late_f = reference(f, 1000)
    assert result is not None and result.late_by_type == {"E": len(late_e), "F": len(late_f)}
    assert (cep.changes("on time")["v"].tolist(), cep.changes("f")["v"].tolist()) == (on_e, on_f)
    late = cep.changes("late")
    for name, expected in (("E", late_e), ("F", late_f)):
        mine = late[late["type"] == name]
        assert list(zip(mine["v"].tolist(), mine["lateness"].tolist(), strict=True)) == expected
    assert late["time"].is_monotonic_increasing
    assert (late["at"] + pd.to_timedelta(late["lateness"], unit="ms") == late["time"]).all()


def test_steps_and_past_instants() -> None:
    rows, cep = history(4), bench()
    replay = cep.replay(rows, "E", lateness="2 sec", keep=5, paused=True)
    replay.step(20)
    replay.step(200)
    replay.step()
    assert delivered(cep) == reference(rows, 2000) and replay.state == "finished"
    assert replay.at(30_000).clock.ms == 30_000


def test_items_that_are_no_events_go_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rejected.jsonl"
    bad: list[Any] = [
        None,
        "text",
        7,
        {"v": 1},
        {"ts": "--5", "v": 1},
        {"ts": 5, "v": "x"},
        {"ts": 5, "w": 1},
        {"ts": 10**40},
    ]
    good = [{"ts": 1000 * n, "v": n} for n in range(20)]
    for place in (0, 7, 20):
        path.unlink(missing_ok=True)
        cep = bench()
        result = cep.replay([*good[:place], *bad, *good[place:]], "E", rejected=path).run()
        assert result is not None and result.rejected == {"E": len(bad)}
        assert "8 rejected" in repr(result)
        assert cep.changes("on time")["v"].tolist() == list(range(20))
        assert [json.loads(line)["item"] for line in path.read_text().splitlines()] == bad
        with pytest.raises(EventError, match=f"row {place} of `E`"):
            bench().replay([*good[:place], *bad, *good[place:]], "E").run()


def test_a_text_may_declare_a_type_of_the_name() -> None:
    cep = Workbench()
    cep.run("create schema E(ts long, v int) starttimestamp ts; create schema LateEvent(x int)")
    result = cep.replay(history(5), "E", lateness="1 sec").run()
    assert result is not None and result.late > 0


def test_saved_and_loaded(tmp_path: Path) -> None:
    cep, rows = bench(), history(6)
    cep.save(tmp_path / "w.cep")
    other = Workbench()
    other.load(tmp_path / "w.cep")
    other.replay(rows, "E", lateness="2 sec").run()
    assert delivered(other) == reference(rows, 2000)


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a time period"):
        bench().replay([], "E", lateness="soon")
    with pytest.raises(UsageError, match="JSON lines"):
        bench().replay([], "E", rejected=tmp_path / "r.csv")
