"""The table in docs/concepts/spark.md of how statements run on Spark: made here, true of physical plans and tasks."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from cepbook.engine.runtime import Runtime
from cepbook.spark.execution import execution
from cepbook.spark.execution.spark_run import RunRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[2] / "docs" / "concepts" / "spark.md"
SCHEMA = """
create schema Tick(ts long, symbol string, price double, size int);
create schema Quote(ts long, symbol string, bid double);
create context PerSymbol partition by symbol from Tick, symbol from Quote;
create context Busy start Tick(price > 5) end after 10 sec;
create context Sessions partition by symbol from Tick terminated after 10 sec;
create context Rushes context S partition by symbol from Tick, context B start Tick(price > 5) end after 10 sec;
create context Kinds group price < 5 as cheap, group price between 3 and 9 as fair, group price > 8 as dear from Tick;
create context Shares coalesce by consistent_hash_crc32(symbol) from Tick granularity 16;
create window Latest#unique(symbol) as Tick; insert into Latest select * from Tick;
create table Sums(symbol string primary key, total sum(double));
into table Sums select sum(price) as total from Tick group by symbol;
create variable int limit_ = 3; on Quote(bid > 9) set limit_ = 4;
"""
FORMS = (
    ("a filter, `and`, `or`, columns as they are", "select symbol, price from Tick(price > 5) where symbol != 'A'"),
    ("calculated columns, functions, `select *`", "select symbol, price * 2 as twice from Tick(price > 5)"),
    ("arrivals of a time window, no aggregate", "select symbol from Tick#time(5 sec)"),
    ("split streams, `update istream`", "on Tick insert into Low select symbol where price < 5 insert into High select "
     "symbol; select symbol from Low"),
    ("`group by` a property", "select symbol, sum(price) from Tick group by symbol"),
    ("`group by` over `time`", "select irstream symbol, avg(price) from Tick#time(5 sec) group by symbol"),
    ("`groupwin` a property: `length`, `time`, `ext_timed`, …", "select symbol, price, prev(1, price) from "
     "Tick#groupwin(symbol)#ext_timed(ts, 3 sec)"),
    ("`groupwin` a property or in `partition by`: counts, sums, averages, extremes over `length`", "select symbol, "
     "avg(price) from Tick#groupwin(symbol)#length(9) group by symbol"),
    ("`group by` or in `partition by`: the same of each arrival over `time`", "select price, symbol, sum(price) from "
     "Tick#time(5 sec) group by symbol"),
    ("the same of whole numbers over `ext_timed_batch` of the time, with a reference point", "context PerSymbol select "
     "symbol, sum(size) from Tick#ext_timed_batch(ts, 5 sec, 0L)"),
    ("`unique` by a property", "select irstream symbol from Tick#unique(symbol)"),
    ("joins by equal properties", "select price from Tick#keepall as t, Quote#keepall as q where t.symbol = q.symbol"),
    ("subqueries by an equal property", "select (select max(bid) from Quote#keepall as q where q.symbol = t.symbol) as "
     "top from Tick as t"),
    ("named windows looked up by a key: joins, `on select`, `on merge`, …", "select price from Quote as q "
     "unidirectional, Latest as l where q.symbol = l.symbol"),
    ("tables with a primary key, looked up by it", "select Sums[symbol].total as total from Quote"),
    ("patterns `every a=A -> …` whose events equal `a` in a key", "select a.price from pattern [every a=Tick -> "
     "b=Quote(symbol = a.symbol)]"),
    ("`match_recognize` with `partition by`", "select * from Tick match_recognize (partition by symbol "
     "measures a.price as a pattern (a b) define b as b.price > a.price)"),
    ("in `partition by`: any window", "context PerSymbol select irstream count(*) from Tick#time_batch(4 sec)"),
    ("in `partition by`: patterns", "context PerSymbol select a.price from pattern [every a=Tick -> b=Quote]"),
    ("in `partition by`: output clauses", "context PerSymbol select count(*) from Tick output last every 2 sec"),
    ("in `partition by`: subqueries", "context PerSymbol select (select max(bid) from Quote#keepall) as top from Tick"),
    ("in `partition by`: named windows, tables", "context PerSymbol create window Own#length(3) as Tick; context "
     "PerSymbol insert into Own select * from Tick; context PerSymbol select sum(price) from Own"),
    ("in `partition by … terminated`, `… initiated`", "context Sessions select count(*) from Tick"),
    ("in nested contexts with a level `partition by`", "context Rushes select count(*) from Tick"),
    ("in categories", "context Kinds select count(*) from Tick#length(9)"),
    ("in hash buckets", "context Shares select count(*) from Tick#length(9)"),
    ("leaving rows of `time`", "select irstream symbol from Tick#time(5 sec)"),
    ("counts, extremes, sums of whole numbers over `time`", "select irstream count(*), max(price) from "
     "Tick#time(5 sec)"),
    ("the same of each arrival", "select ts, sum(size) from Tick#time(5 sec)"),
    ("`time_batch` with a reference point", "select count(*) from Tick#time_batch(5 sec, 0L)"),
    ("`ext_timed`, `ext_timed_batch` with a reference point, by the time column", "select irstream count(*) from "
     "Tick#ext_timed(ts, 5 sec)"),
    ("`length` and `prior` of all events", "select irstream symbol, prior(1, price) from Tick(price > 2)#length(3)"),
    ("joins and subqueries over `time`", "select price from Tick#time(2 sec) as t, Quote#time(2 sec) as q where "
     "t.price > q.bid"),
    ("patterns `every a=A -> …` that end in time", "select a.price from pattern [every a=Tick(price > 3) -> "
     "(timer:interval(5 sec) and not Quote)]"),
    ("aggregates of all events", "select count(*) from Tick"),
    ("sums of floating point numbers over `time`", "select sum(price) from Tick#time(5 sec)"),
    ("other windows of all events", "select symbol from Tick#length_batch(3)"),
    ("other patterns", "select a.price from pattern [every (a=Tick -> b=Quote)]"),
    ("output clauses", "select symbol from Tick output every 5 events"),
    ("contexts of conditions", "context Busy select count(*) from Tick"),
    ("named windows and tables as a whole", "select count(*) from Latest"),
    ("variables that statements set", "select price from Tick where price > limit_"),
)  # fmt: skip
TASKS = {
    "native": "any",
    "row by row": "any",
    "by key": "as many as wanted",
    "by time slice": "as many as pay",
    "ordered": "one",
}


def coverage(epl: str, session: Any) -> tuple[Any, Any]:
    """The placement of the statement, and its job."""
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    name = runtime.deploy(epl).statements[-1].name
    times = list(range(0, 400_000, 500))
    frames = {
        "Tick": pd.DataFrame({"ts": times, "symbol": "A", "price": [float(time % 11) for time in times], "size": 1}),
        "Quote": pd.DataFrame({"ts": times, "symbol": "A", "bid": [float(time % 7) for time in times]}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jobs, placements, _, _ = execution.plan_jobs(
            runtime, RunRequest(frames=frames, time="ts", statements=[name], session=session)
        )
    return placements[name], jobs[0]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, tuple[Any, Any]]:
    return {form: coverage(epl, spark) for form, epl in FORMS}


def test_the_table_in_the_document_is_the_one_made_here(found: dict[str, tuple[Any, Any]]) -> None:
    rows = [f"| {form} | {_way(at)} | {_tasks(at)} |" for form, (at, _) in found.items()]
    table = "\n".join(["| statement | on Spark | tasks |", "|---|---|---|", *rows])
    assert table in PAGE.read_text(encoding="utf-8"), table


def _way(at: Any) -> str:
    return f"{at.path}, by columns" if at.window is not None and at.path != "native" else str(at.path)


def _tasks(at: Any) -> str:
    return TASKS["by key" if at.path == "native" and at.window is not None else at.path]


def test_the_physical_plans_are_those_of_the_table(found: dict[str, tuple[Any, Any]], spark: SparkSession) -> None:
    wanted = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    for form, (at, job) in found.items():
        plan = job.output().rows.frame._jdf.queryExecution().executedPlan().toString()
        exchanges = re.findall(r"Exchange (\w+)", plan)
        assert ("MapInArrow" in plan) is (at.path != "native"), (form, plan)
        tasks = job.output().rows.frame.rdd.getNumPartitions()
        if at.path in ("native", "row by row") and at.window is None:
            assert not exchanges, (form, plan)
        elif at.path in ("by key", "by time slice", "native"):
            # Single partitions below the first exchange find the first and the last time, the ends of the clock
            assert tasks == wanted > 1 and exchanges[0] != "SinglePartition", (form, tasks, plan)
        else:
            assert tasks == 1 and exchanges[0] == "SinglePartition", (form, tasks, plan)
