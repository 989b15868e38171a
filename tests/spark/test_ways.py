"""The table in README of how statements run on Spark: made here, and true of the physical plan and the tasks."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from cepbook.engine.runtime import Runtime
from cepbook.spark import execute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

README = Path(__file__).resolve().parents[2] / "README.md"
SCHEMA = """
create schema Tick(ts long, symbol string, price double); create schema Quote(ts long, symbol string, bid double);
create context PerSymbol partition by symbol from Tick, symbol from Quote;
create context Busy start Tick(price > 5) end after 10 sec;
create window Latest#unique(symbol) as Tick; insert into Latest select * from Tick;
"""
FORMS = (
    ("a filter, `and`, `or`, columns as they are", "select symbol, price from Tick(price > 5) where symbol != 'A'"),
    ("calculated columns, functions, `select *`", "select symbol, price * 2 as twice from Tick(price > 5)"),
    ("arrivals of a time window, no aggregate", "select symbol from Tick#time(5 sec)"),
    ("`group by` a property", "select symbol, sum(price) from Tick group by symbol"),
    ("`group by` over `time`", "select irstream symbol, avg(price) from Tick#time(5 sec) group by symbol"),
    ("`groupwin` a property: `length`, `time`, …", "select symbol, price from Tick#groupwin(symbol)#length(3)"),
    ("`unique` by a property", "select irstream symbol from Tick#unique(symbol)"),
    ("joins by equal properties", "select price from Tick#keepall as t, Quote#keepall as q where t.symbol = q.symbol"),
    ("`match_recognize` with `partition by`", "select * from Tick match_recognize (partition by symbol "
     "measures a.price as a pattern (a b) define b as b.price > a.price)"),
    ("in `partition by`: any window", "context PerSymbol select irstream count(*) from Tick#time_batch(4 sec)"),
    ("in `partition by`: patterns", "context PerSymbol select a.price from pattern [every a=Tick -> b=Quote]"),
    ("in `partition by`: output clauses", "context PerSymbol select count(*) from Tick output last every 2 sec"),
    ("in `partition by`: subqueries", "context PerSymbol select (select max(bid) from Quote#keepall) as top from Tick"),
    ("aggregates of all events", "select count(*) from Tick"),
    ("`length` and batches of all events", "select symbol from Tick#length(3)"),
    ("leaving rows of `time`", "select irstream symbol from Tick#time(5 sec)"),
    ("patterns", "select a.price from pattern [every a=Tick -> b=Quote(symbol = a.symbol)]"),
    ("output clauses", "select symbol from Tick output every 5 events"),
    ("contexts of conditions", "context Busy select count(*) from Tick"),
    ("named windows and tables", "select price from Quote as q unidirectional, Latest as l where q.symbol = l.symbol"),
)  # fmt: skip
TASKS = {"native": "any", "row by row": "any", "by key": "as many as wanted", "ordered": "one"}


def coverage(epl: str, session: Any) -> tuple[Any, Any]:
    """The placement of the statement, and its job."""
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    name = runtime.deploy(epl).statements[-1].name
    frames = {
        "Tick": pd.DataFrame({"ts": [1, 2], "symbol": ["A", "B"], "price": [1.0, 2.0]}),
        "Quote": pd.DataFrame({"ts": [1], "symbol": ["A"], "bid": [1.0]}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jobs, placements, _, _ = execute.planned(runtime, frames, "ts", None, [name], 0, None, session)
    return placements[name], jobs[0]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, tuple[Any, Any]]:
    return {form: coverage(epl, spark) for form, epl in FORMS}


def test_the_table_in_the_readme_is_the_one_made_here(found: dict[str, tuple[Any, Any]]) -> None:
    rows = [f"| {form} | {at.path} | {TASKS[at.path]} |" for form, (at, _) in found.items()]
    table = "\n".join(["| statement | on Spark | tasks |", "|---|---|---|", *rows])
    assert table in README.read_text(encoding="utf-8"), table


def test_the_physical_plans_are_those_of_the_table(found: dict[str, tuple[Any, Any]], spark: SparkSession) -> None:
    wanted = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    for form, (at, job) in found.items():
        plan = job.output._jdf.queryExecution().executedPlan().toString()
        exchanges = re.findall(r"Exchange (\w+)", plan)
        assert ("MapInArrow" in plan) is (at.path != "native"), (form, plan)
        tasks = job.output.rdd.getNumPartitions()
        if at.path in ("native", "row by row"):
            assert not exchanges, (form, plan)
        elif at.path == "by key":
            assert tasks == wanted > 1 and "SinglePartition" not in exchanges, (form, tasks, plan)
        else:
            assert tasks == 1 and exchanges[0] == "SinglePartition", (form, tasks, plan)
