"""Events that no statement can use travel to no task, and are missed by none."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.plan.dependencies import dependencies_of
from cepbook.spark.execution import execution
from cepbook.spark.execution.spark_run import RunRequest
from cepbook.spark.plan.placement import place
from cepbook.spark.task.stream_columns import SEQ, TIME
from tests.spark.tasks import Recorded, differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# ruff: noqa: E501  (a table of statements reads better with a statement in one line)
SCHEMA = """
create schema Tick(ts long, symbol string, price int, volume int);
create schema Quote(ts long, symbol string, bid int);
create context PerSymbol partition by symbol from Tick, symbol from Quote;
create context PerTick partition by symbol from Tick;
"""
DROPPING = (
    "context PerSymbol select a.ts as t from pattern [every a=Tick(price > 7) -> b=Tick(price < 2 or price is null)]",
    "context PerSymbol select a.ts as t from pattern [every a=Tick(price > 7) -> b=Tick(price < 4, volume > a.volume)]",
    "context PerSymbol select a.ts as t from pattern [every a=Tick(price > 7) -> (b=Tick(price = 3) and not Quote(bid > 6))]",
    "select a.ts as t from pattern [every a=Tick(price > 7) -> timer:interval(2 sec) and not Tick(price < 2)]",
    "select a.ts as t from pattern [a=Tick(price > 7) -> [3] b=Tick(price < 5) until Quote(bid = 0)]",
    "select symbol, count(*) as n from Tick(price > 5)#groupwin(symbol)#length(3) group by symbol",
    "select irstream symbol, price from Tick(price > 5 and volume * 2 > 4)#time(2 sec)",
    "select symbol, prior(2, price) as p from Tick(price between 2 and 4)",
    "select count(*) as n from Tick(price > 5) output every 3 events",
    "insert into High select * from Tick(price > 6); select count(*) as n from High(volume < 5)",
)
# What begins with a partition may have a timer: when it is opened shows
KEEPING = (
    "context PerSymbol select count(*) as n from Tick(price > 5)#time_batch(3 sec, 'START_EAGER, FORCE_UPDATE')",
    "context PerSymbol select count(*) as n from Tick(price > 5)#time_batch(3 sec, 'START_EAGER')",
    "context PerSymbol select a.price as p from pattern [every (timer:interval(3 sec) -> a=Tick(price > 5))]",
    "context PerSymbol select a.price as p from pattern [timer:interval(3 sec) or a=Tick(price > 7)]",
    "context PerSymbol select a.price as p from pattern [a=Tick(price > 7) where timer:within(1 sec)]",
    "context PerSymbol select count(*) as n from Tick(price > 5) output snapshot every 2 sec",
    "context PerSymbol select a.ts as t from pattern [every a=Tick(price > 7) -> b=Tick]",
    "context PerSymbol select a.ts as t from pattern [every a=Tick(price > 7) -> b=Tick(price < a.price)]",
    "context PerSymbol select count(*) as n from pattern [not Tick(price > 7)]",
    "context PerSymbol select context.id as id from Tick(price > 7)",
    "context PerTick select a.bid as b, t.price as p from pattern [every a=Quote(bid > 3) -> t=Tick(price > 7)]",
    "select t.price as p from Tick(price > 7)#length(3) as t, Quote(bid > 4)#length(3) as q where t.symbol = q.symbol",
    "select (select max(bid) from Quote(bid > 3)#length(4)) as top from Tick(price > 7)",
    "select count(*) as n from Tick#length(3) where price > 7",
)


def history(rng: random.Random, events: int) -> list[tuple[str, int, dict[str, Any]]]:
    time, found = 0, []
    for _ in range(events):
        time += rng.choice((0, 0, 10, 500, 1500))
        symbol, number = rng.choice(("A", "B", None)), rng.choice((*range(10), None))
        tick = {"symbol": symbol, "price": number, "volume": rng.randrange(10), "ts": time}
        quote = {"symbol": symbol, "bid": number, "ts": time}
        found.append(rng.choice((("Tick", time, tick), ("Quote", time, quote))))
    return found


@pytest.mark.parametrize("epl", [*DROPPING, *KEEPING])
def test_tasks_deliver_what_the_kernel_does(epl: str) -> None:
    paths: Counter[str] = Counter()
    for seed in range(4):
        engine = Recorded(0, {})
        engine.deploy(SCHEMA + epl, "module")
        events = history(random.Random(f"{epl} {seed}"), 80)
        for name, time, event in events:
            if time > engine.runtime.now:
                engine.advance(time, stepping=False)
            engine.send(name, event)
        engine.advance(events[-1][1] + 2500, stepping=False)
        wrong, ran = differences(engine, {[*engine.rows][-1]}, size=20)
        assert not wrong, (seed, wrong)
        paths += ran
    assert ("Tick" in _wanted(epl)) is (epl in DROPPING)
    assert paths["dropped"] or epl not in DROPPING, paths


def test_what_is_true_as_a_partition_begins_shows_with_the_event_that_begins_it() -> None:
    """Which no atom of the pattern reads, and a task by key has as well."""
    engine = Recorded(0, {})
    engine.deploy(SCHEMA + "context PerSymbol select count(*) as n from pattern [not Tick(price > 7)]", "module")
    for time, symbol in ((5, "A"), (10, "B"), (20, "C"), (500, "A"), (600, "B")):
        engine.advance(time, stepping=False)
        engine.send("Quote", {"ts": time, "symbol": symbol, "bid": 1})  # which the pattern does not read
    (name,) = (each for each, rows in engine.rows.items() if rows)
    assert [time for time, _, _ in engine.rows[name]] == [5, 10, 20]
    wrong, paths = differences(engine, {name})
    assert not wrong and paths["by key"] and not paths["dropped"]


def test_what_is_kept_of_each_type() -> None:
    """Parts of an `and` that Spark does not express the engine looks at; a type that nobody reads is wanted by none."""
    epl = "context PerSymbol select 1 as one from pattern [every a=Tick(price > 7, volume > 3) -> b=Tick(price < 4, volume > a.volume)]"
    assert _wanted(epl) == {"Tick": [2, 1], "Quote": []}
    assert _wanted("select symbol from Tick(price * 2 > 3, price > 3)") == {}
    assert _wanted("select symbol from Tick(price > 3)") == {"Tick": [1]}


def test_they_are_dropped_before_they_travel(spark: SparkSession) -> None:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(f"@name('q') {DROPPING[0]}")
    ticks = spark.range(4).selectExpr(
        "id AS ts", "'A' AS symbol", "array(8, 5, 9, 1)[id] AS price", "1 AS volume", "id"
    )
    (job,) = execution.plan_jobs(runtime, RunRequest(frames={"Tick": ticks}, time="ts", sequence="id", session=spark))[
        0
    ]
    plan = job.output().rows.frame._jdf.queryExecution().executedPlan().toString()
    assert re.search(r"Exchange.*Filter .*> 7\).*OR.*< 2\)", plan, re.DOTALL), plan
    assert job.stream.count() == 3
    ((_, _, properties, columns),) = job.program.inputs[:1]
    assert dict(zip(properties, columns, strict=True)) == {"ts": TIME, "symbol": "e0_1", "price": "e0_2"}
    assert job.stream.columns == [TIME, SEQ, "e0_1", "e0_2"]  # and not the volume


def _wanted(epl: str) -> dict[str, list[int]]:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    name = runtime.deploy(epl).statements[-1].name
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    line = dependencies_of(name, plans, runtime.catalog, ("Tick", "Quote"))
    placement = place(line, runtime.catalog, {"Tick": "ts", "Quote": "ts"})
    found = execution._predicates([line], runtime.catalog, replace(placement, window=None))
    return {kind: [len(way) for way in ways] for kind, ways in found.items()}
