"""Running queries in the workbench: tables from DataFrames, replays, listeners, saving."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook.errors import StatementError, UsageError
from cepbook.lang.types import DOUBLE
from cepbook.session import Workbench
from tests.engine.cycles.test_histories import drawn

SCHEMA = "create schema s(id long, k string, v double)"
IN_TABLE = """select id from s (partition store last 9 where k in (select code from prio)) as w
 where w.$row_status is new"""


def run(workbench: Workbench, text: str, **settings: Any) -> None:
    workbench.run(text, dialect="streamcruncher", name="q", **settings)


def ids(workbench: Workbench) -> list[int]:
    return list(workbench.changes("q")["id"])


def test_a_table_from_a_frame_changes_while_the_query_runs() -> None:
    workbench = Workbench()
    workbench.run(SCHEMA)
    run(workbench, IN_TABLE, tables={"prio": pd.DataFrame({"code": ["a", None], "rank": [1, 2]})})
    workbench.send("s", id=1, k="a", v=1.0)
    workbench.send("s", id=2, k="b", v=1.0)
    workbench.replace_rows("prio", pd.DataFrame({"code": ["b"]}))
    workbench.send("s", id=3, k="b", v=1.0)
    workbench.send("s", id=4, k="a", v=1.0)
    workbench.replace_rows("prio", [["a", 7]])
    workbench.send("s", id=5, k="a", v=1.0)
    assert ids(workbench) == [1, 3, 5]
    assert workbench.query("select * from prio").to_dict("records") == [{"code": "a", "rank": 7}]


@pytest.mark.parametrize("rows", [[["a"]], [{"cod": "a"}], [{"code": 3}], pd.DataFrame({"x": [1]})])
def test_rows_that_do_not_fit(rows: Any) -> None:
    workbench = Workbench()
    workbench.run(SCHEMA)
    run(workbench, IN_TABLE, tables={"prio": [{"code": "a", "rank": 1}]})
    with pytest.raises(UsageError):
        workbench.replace_rows("prio", rows)
    with pytest.raises(UsageError, match="no named window `pri`"):
        workbench.replace_rows("pri", [])
    assert len(workbench.query("select * from prio")) == 1


@pytest.mark.parametrize("seed", range(25))
def test_sent_replayed_saved_and_loaded(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    text, _ = drawn(draw)
    settings = {name: value for name, value in text.settings.items() if name != "name"}
    time, rows = 0, []
    for number in range(draw.randint(5, 40)):
        time += draw.choice([0, 0, 1, 3, 7, 20])
        rows.append({"t": time, "id": number, "k": draw.choice("ab"), "v": draw.choice([None, 1.0, 2.0, 3.5])})
    sent, replayed = Workbench(), Workbench()
    for workbench in (sent, replayed):
        workbench.run(SCHEMA)
        run(workbench, str(text), **settings)
    loaded = sent
    for place, row in enumerate(rows):
        if place == len(rows) // 2:
            sent.save(tmp_path / "saved", feeds=True)
            loaded = Workbench()
            loaded.load(tmp_path / "saved")
        event = {name: value for name, value in row.items() if name != "t"}
        for workbench in {id(w): w for w in (sent, loaded)}.values():
            workbench.advance(row["t"])
            workbench.send("s", event)
    frame = pd.DataFrame(rows).astype({"v": "Float64"})
    replayed.replay({"s": frame}, time="t").run()
    for workbench in (sent, replayed, loaded):
        workbench.advance(time + 100)
    expected = sent.changes("q")
    pd.testing.assert_frame_equal(replayed.changes("q"), expected)
    pd.testing.assert_frame_equal(loaded.changes("q"), expected)


def test_lots_stay_apart_where_others_hold_rows() -> None:
    """With a pattern in the runtime rows wait until all have seen the event; each cycle is a delivery all the same."""
    workbench = Workbench()
    workbench.run(f"{SCHEMA}; @name('p') select * from pattern [every s -> s]")
    run(workbench, "select id from s (partition store last 1) as w where w.$row_status is not dead")
    lots: list[list[int]] = []
    workbench.on("q", lambda delta: lots.append([row["id"] for row in delta.insert or ()]))
    workbench.runtime.send_together(("s", {"id": number, "k": "a", "v": 1.0}) for number in range(3))
    assert lots == [[0], [1], [2]]


def test_running_the_query_again_begins_anew() -> None:
    workbench = Workbench()
    workbench.run(SCHEMA)
    for _ in range(2):
        run(workbench, IN_TABLE, tables={"prio": [{"code": "a"}]})
        workbench.send("s", id=1, k="a", v=1.0)
        assert len(workbench.iterate("q")) == 1
    workbench.drop("q")
    assert "prio" not in workbench.runtime.stores


def test_a_registered_function_is_an_aggregate_of_the_values(tmp_path: Path) -> None:
    workbench = Workbench()
    workbench.register_function("spread", lambda values: max(values) - min(values) if values else None, returns=DOUBLE)
    workbench.run(SCHEMA)
    query = """select k, d, e from s
        (partition by k store last 2 with spread(v) as d, spread(v) entrance only as e) as w
        where w.$row_status is new"""
    run(workbench, query)
    for number, value in enumerate([1.0, 5.0, None, 4.0]):
        workbench.send("s", id=number, k="a", v=value)
        workbench.save(tmp_path / "saved", feeds=True)
        workbench.load(tmp_path / "saved")
    assert workbench.changes("q")[["d", "e"]].values.tolist() == [[0.0, 0.0], [4.0, 4.0], [0.0, 4.0]]


def test_an_aggregate_that_fails_is_told_and_null() -> None:
    workbench = Workbench()
    workbench.register_function("broken", lambda values: 1 / 0)
    workbench.run(SCHEMA)
    run(workbench, "select c, d from s (partition store last 2 with count(id) as c, broken(v) as d) as w")
    with pytest.raises(StatementError, match="ZeroDivisionError"):
        workbench.send("s", id=1, k="a", v=1.0)
    assert workbench.iterate("q") == [{"c": 1, "d": None}]


def test_a_registered_aggregate_takes_in_the_values() -> None:
    workbench = Workbench()

    @workbench.aggregate(name="longest")
    class Longest:
        def __init__(self) -> None:
            self.found = ""

        def enter(self, value: str) -> None:
            self.found = max(self.found, value, key=len)

        def value(self) -> str:
            return self.found

    @workbench.aggregate
    def total_of(values: list[float]) -> float:
        return sum(values)

    workbench.run(SCHEMA)
    query = "select d, t from s (partition store last 2 with longest(k) as d, total_of(v) as t) as w"
    run(workbench, f"{query} where w.$row_status is new")
    for number, text in enumerate(["aaa", "b", "cc"]):
        workbench.send("s", id=number, k=text, v=1.0)
    assert workbench.changes("q")[["d", "t"]].values.tolist() == [["aaa", 1.0], ["aaa", 2.0], ["cc", 2.0]]
