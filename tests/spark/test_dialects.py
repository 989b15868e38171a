"""Queries of other dialects over Spark: the same rows as in the workbench."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd

from cepbook import Workbench

QUERIES = {
    "chain": "stream<float> b := from t in all Tick() within 3.0 every 1.0 select t.p; "
    "from x in b retain 3 select sum(x)",
    "groups": "from t in all Tick() within 2.0 group by t.s select sum(t.p)",
    "event": "event R { string s; float p; } from t in all Tick(p > 3.0) retain 2 select rstream R(t.s, t.p)",
}


# text and settings; the last ones read a table and correlate two streams
RUNNING: dict[str, tuple[str, dict[str, Any]]] = {
    "aggregates": (
        "select s, n, g from Tick (partition by s store last 2 seconds max 3 with pinned count(p) as n,"
        " geomean(p) entrance only as g) as w where w.$row_status is not dead",
        {"weights": {"Tick": 0.5}},
    ),
    "ranked": (
        "select * from Tick (partition store random 4) to (partition store highest 2 using p with update group s"
        " where $row_status is new) as w where w.$row_status is dead order by p desc",
        {"seed": 3},
    ),
    "fixed": (
        "select s, count(*) as n from Tick (partition store last 3 seconds) as w, codes as c"
        " where w.$row_status is not dead and c.code = w.s group by s",
        {
            "schedule": {"policy": "fixed", "every_ms": 1000},
            "tables": {"codes": {"columns": ["code"], "rows": [["a"], ["b"]]}},
        },
    ),
    "alerts": (
        "select * from alert x.n as n, x.p as p, y.p as q using Tick (partition store last 2 seconds where p > 1)"
        " as x correlate on n, Other (partition store last 2 seconds) as y correlate on n"
        " when present(x and y) or present(x and not y)",
        {},
    ),
}


def ticks_of(seed: int) -> tuple[pd.DataFrame, int]:
    rng, now, rows = random.Random(seed), 0, []
    for number in range(200):
        now += rng.choice((0, 100, 700))
        rows.append((now, rng.choice("abc"), float(number % 7), number))
    return pd.DataFrame(rows, columns=["t", "s", "p", "n"]), now


def test_running_queries_over_spark(spark: Any) -> None:
    (ticks, now), (others, _) = ticks_of(1), ticks_of(2)
    cep = Workbench()
    cep.run("create schema Tick(t long, s string, p double, n long)")
    cep.run("create schema Other(t long, s string, p double, n long)")
    for name, (text, settings) in RUNNING.items():
        cep.run(text, dialect="streamcruncher", name=name, **settings)
    frames = {"Tick": ticks, "Other": others[others["n"] % 3 > 0]}
    cep.replay(frames, time="t", until=now + 5000).run()
    run = cep.spark(frames, time="t", statements=list(RUNNING), until=now + 5000, session=spark)
    cep.compare(run).assert_same()
    assert all(len(cep.changes(name)) > 10 for name in RUNNING)
    reasons = str(run)
    assert "cycles" in reasons, reasons


def test_apama_over_spark(spark: Any) -> None:
    ticks, now = ticks_of(1)
    ticks = ticks[["t", "s", "p"]]
    cep = Workbench()
    cep.run("create schema Tick(t long, s string, p double)")
    for name, text in QUERIES.items():
        cep.run(text, dialect="apama", name=name)
    cep.replay(ticks, type="Tick", time="t", until=now + 5000).run()
    run = cep.spark({"Tick": ticks}, time="t", statements=list(QUERIES), until=now + 5000, session=spark)
    cep.compare(run).assert_same()
