"""Keys that are not alike: of large inputs tasks get about as many events, and the rows stay those of the kernel."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cepbook import Workbench
from cepbook.spark.execution import execution, key_assignment, task_input
from cepbook.spark.execution.spark_run import RunRequest
from cepbook.spark.task import stream_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPL = """
create context PerSymbol partition by symbol from Trade, symbol from Quote;
@name('mean') select symbol, avg(price) as mean from Trade#groupwin(symbol)#length(4) group by symbol;
@name('batches') context PerSymbol select symbol, count(*) as n from Trade#time_batch(2 sec);
@name('rises') context PerSymbol select a.price as low, b.bid as high from pattern [every a=Trade -> b=Quote(bid > 70)];
"""
OFTEN = 0.6  # of all events are of one symbol


def events(kind: str, count: int = 1500) -> pd.DataFrame:
    rng = random.Random(f"{kind} 1")
    symbols = ["often" if rng.random() < OFTEN else f"S{rng.randrange(40)}" for _ in range(count)]
    times = sorted(rng.randrange(60_000) for _ in range(count))
    return pd.DataFrame({"ts": times, "symbol": symbols, kind: [float(rng.randrange(100)) for _ in range(count)]})


@pytest.fixture
def bench() -> Workbench:
    made = Workbench()
    made.define("Trade", events("price"), time="ts")
    made.define("Quote", events("bid"), time="ts")
    made.run(EPL)
    return made


@pytest.fixture
def frames() -> dict[str, Any]:
    return {"Trade": events("price"), "Quote": events("bid")}


def shares(bench: Workbench, frames: dict[str, Any], session: SparkSession, statement: str) -> list[int]:
    """How many events each task gets, the most first; stops of the clock are none."""
    from pyspark.sql import functions as F

    jobs, _, _, _ = execution.plan_jobs(
        bench.runtime, RunRequest(frames=frames, time="ts", statements=[statement], session=session)
    )
    (job,) = jobs
    stream = job.stream
    if stream_columns.TAG in stream.columns:
        stream = stream.where(f"{stream_columns.TAG} >= 0")
    rows = stream.groupBy(F.spark_partition_id()).count().collect()
    return sorted((row[1] for row in rows), reverse=True)


@pytest.mark.parametrize("statement", ["mean", "batches", "rises"])
def test_tasks_get_as_many_events_as_the_most_frequent_key_allows(
    statement: str, bench: Workbench, frames: dict[str, Any], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_assignment, "BALANCING_THRESHOLD", 1)
    first, second, third = shares(bench, frames, spark, statement)
    total = first + second + third
    assert 0.5 * total < first < 0.68 * total  # the frequent key, and hardly another: its group
    assert second < 1.2 * third


def test_rows_are_those_of_the_kernel(
    bench: Workbench, frames: dict[str, Any], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_assignment, "BALANCING_THRESHOLD", 1)
    bench.replay(frames).run()
    run = bench.spark(frames, session=spark)
    assert {run.coverage[name].path for name in ("mean", "batches", "rises")} == {"by key"}
    assert bench.compare(run).verdict == "equal"


def test_small_inputs_and_those_of_unknown_size_are_left_to_the_hash(
    bench: Workbench, frames: dict[str, Any], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_job(*_: object) -> list[int]:
        raise AssertionError("events are counted")

    monkeypatch.setattr(task_input, "balanced_assignment", no_job)
    assert len(shares(bench, frames, spark, "mean")) == 3
    assert not key_assignment.is_worth_balancing(spark, frames.values())
    monkeypatch.setattr(key_assignment, "BALANCING_THRESHOLD", 1)
    unknown = spark.createDataFrame(spark.sparkContext.parallelize([(1, "A")]), "ts long, symbol string")
    path = tmp_path / "trades.parquet"
    pq.write_table(pa.Table.from_pandas(frames["Trade"]), path)
    calculated = spark.read.parquet(str(path)).groupBy("symbol").count()
    assert not key_assignment.is_worth_balancing(
        spark, [frames["Trade"], unknown]
    ) and not key_assignment.is_worth_balancing(spark, [calculated])
    read = spark.read.parquet(str(path))
    for frame in (
        frames["Trade"],
        pa.Table.from_pandas(frames["Trade"]),
        str(path),
        read,
        read.where("ts > 5"),
        read.cache(),
    ):
        assert key_assignment.is_worth_balancing(spark, [frame])


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_dealt_evenly(seed: int) -> None:
    rng = random.Random(seed)
    tasks, groups = rng.randrange(2, 9), rng.randrange(10, 200)
    counts = {group: int(rng.paretovariate(0.8)) for group in range(groups) if rng.random() < 0.8}
    found = key_assignment.assign_key_groups(counts, groups, tasks)
    loads = [sum(counts.get(group, 0) for group in range(groups) if found[group] == task) for task in range(tasks)]
    assert len(found) == groups and set(found) <= set(range(tasks))
    # whoever is last gets its last group when it has the least of all
    assert max(loads) - min(loads) <= max(counts.values())
    assert key_assignment.assign_key_groups({}, groups, tasks).count(0) <= groups // tasks + 1
