"""What does a statement cost on Spark, beside the replay in the kernel and beside a job written by hand?

    python benchmarks/spark.py [--events 300000] [--rounds 1] [--only filter,pattern] [--tasks 2]

For each workload, on ticks of 300 symbols in a Parquet file with a sequence column, in seconds of CPU of all processes
(this one, the JVM, Spark's Python workers):

- **kernel**: the replay of a DataFrame that is in memory, in this process;
- **task**: the function of a Spark task alone, over the job's sorted Arrow batches, in this process: what the engine
  takes within a worker, columns in and columns out; **task / kernel** is to be at most 1.3;
- **Spark**: the statement on Spark, from Parquet to a sink that throws rows away, planning included;
- **floor**: scan, repartition as the job does it, sort, nothing else; **Spark / (kernel + floor)** is to be at most 2;
- **by hand**: the same rows and columns by PySpark without cepbook: window functions where they can express it, else
  ``applyInPandas``; **wall** are seconds by the clock of both.

All of them run over 100,000 events first, once to see that the rows by hand are the statement's, then as often as
``--warm`` says, so that the JVM has compiled what it runs. How much faster two tasks are than one, and how large the
workers get, `spark_workers.py` measures.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from cepbook import Workbench, spark
from cepbook.spark import local_session
from cepbook.spark.execution.execution import SparkJob, plan_jobs
from cepbook.spark.execution.spark_run import RunRequest, SparkRun
from cepbook.spark.task.stream_columns import SEQ, TIME
from cepbook.spark.task.task_runner import task_function

SCHEMA = "create schema Tick(ts long, symbol string, price double, volume int)"
KEYED = "create context PerSymbol partition by symbol from Tick;"
EPL = {
    "filter": "@name('q') select ts, symbol, price from Tick(price > 90)",
    "length": "@name('q') select symbol, count(*) as n, avg(price) as mean from Tick#groupwin(symbol)#length(10) "
    "group by symbol",
    "whole": "@name('q') select symbol, count(*) as n, sum(volume) as total from Tick#groupwin(symbol)#length(10) "
    "group by symbol",
    "time": "@name('q') select ts, symbol, sum(volume) as total from Tick#time(30 sec) group by symbol",
    "tumbling": KEYED + "@name('q') context PerSymbol select symbol, sum(volume) as total from Tick#ext_timed_batch("
    "ts, 10 sec, 0L)",
    "pattern": KEYED + "@name('q') context PerSymbol select a.ts as begun, b.price as low from pattern "
    "[every a=Tick(price > 95) -> b=Tick(price < 5)]",
    "slices": "@name('q') select ts, sum(volume) as total from Tick#time(30 sec)",
}
_TICK = os.sysconf("SC_CLK_TCK")


def ticks(events: int) -> pd.DataFrame:
    """Ticks some 10 ms apart, a third of them at the time of another."""
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "ts": np.cumsum(rng.integers(0, 3, events)) * 10 + 1,
            "symbol": np.array([f"S{i:03}" for i in range(300)])[rng.zipf(1.5, events) % 300],
            "price": np.round(rng.random(events) * 100, 2),
            "volume": rng.integers(1, 1000, events).astype("int32"),
            "seq": np.arange(events),
        }
    )


# ---------------------------------------------------------------- by hand
def _filter(frame: DataFrame) -> DataFrame:
    return frame.where("price > 90").select("ts", "symbol", "price")


def _length(frame: DataFrame) -> DataFrame:
    last = Window.partitionBy("symbol").orderBy("ts", "seq").rowsBetween(-9, 0)
    return frame.select("symbol", F.count("*").over(last).alias("n"), F.avg("price").over(last).alias("mean"))


def _whole(frame: DataFrame) -> DataFrame:
    last = Window.partitionBy("symbol").orderBy("ts", "seq").rowsBetween(-9, 0)
    return frame.select("symbol", F.count("*").over(last).alias("n"), F.sum("volume").over(last).alias("total"))


def _time(frame: DataFrame) -> DataFrame:
    """Rows of the last 30 s; RANGE would count later events of the same time as well, so it is done by hand."""

    return frame.groupBy("symbol").applyInPandas(_sums, "ts long, symbol string, total long")


def _sums(part: pd.DataFrame) -> pd.DataFrame:
    part = part.sort_values(["ts", "seq"])
    at, running = part["ts"].to_numpy(), np.concatenate([[0], part["volume"].to_numpy().cumsum()])
    first = np.searchsorted(at, at - 30_000, side="right")
    total = running[1:] - running[first]
    return pd.DataFrame({"ts": at, "symbol": part["symbol"], "total": total})


def _slices(frame: DataFrame) -> DataFrame:
    """Without a key: all in one group."""
    whole = frame.groupBy().applyInPandas(_sums, "ts long, symbol string, total long")
    return whole.select("ts", "total")


def _tumbling(frame: DataFrame) -> DataFrame:
    """Of each symbol all but the last batch, which is not over: nothing came behind it."""
    slot = F.expr("ts div 10000").alias("slot")
    sums = frame.groupBy("symbol", slot).agg(F.sum("volume").alias("total"))
    after = F.lead("slot").over(Window.partitionBy("symbol").orderBy("slot"))
    return sums.withColumn("after", after).where("after IS NOT NULL").select("symbol", "total")


def _pattern(frame: DataFrame) -> DataFrame:
    def matches(part: pd.DataFrame) -> pd.DataFrame:
        part = part.sort_values(["ts", "seq"])
        begun: list[int] = []
        low: list[float] = []
        waiting: deque[int] = deque()
        for at, price in zip(part["ts"].tolist(), part["price"].tolist(), strict=True):
            if price > 95:
                waiting.append(at)
            elif price < 5:
                begun += waiting
                low += [price] * len(waiting)
                waiting.clear()
        return pd.DataFrame({"begun": begun, "low": low})

    return frame.groupBy("symbol").applyInPandas(matches, "begun long, low double")


BY_HAND: dict[str, Callable[[DataFrame], DataFrame]] = {
    "filter": _filter, "length": _length, "whole": _whole, "time": _time, "tumbling": _tumbling,
    "pattern": _pattern, "slices": _slices,
}  # fmt: skip


# ---------------------------------------------------------------- measuring
def processes() -> dict[int, int]:
    """This process and all below it: pid -> parent."""
    parents: dict[int, int] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                parents[int(each.name)] = int((each / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:  # it ended
                continue
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: parents[pid] for pid in found}


def cpu() -> float:
    """CPU-seconds of this process, the JVM and the Python workers so far, with those that have ended."""
    total = 0
    for pid in processes():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / _TICK


def largest_worker() -> float:
    """The most memory (MB) that a Python worker of Spark has used."""
    most = 0
    for pid in processes():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text()
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if "pyspark" in words and pid != os.getpid() and "java" not in words.split("\0")[0]:
            most = max(most, int(status.split("VmHWM:")[1].split()[0]))
    return most / 1024


def spent(work: Callable[[], object]) -> tuple[float, float]:
    """(CPU-seconds of all processes, seconds)."""
    start, before = time.perf_counter(), cpu()
    work()
    return cpu() - before, time.perf_counter() - start


def thrown_away(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def bench(name: str) -> Workbench:
    made = Workbench()
    made.run(f"{SCHEMA}; {EPL[name]}")
    return made


def kernel(name: str, frame: pd.DataFrame) -> float:
    """CPU-seconds of the replay."""
    made = bench(name)
    start = time.process_time()
    made.replay(frame.drop(columns="seq"), type="Tick", time="ts").run()
    return time.process_time() - start


def task(job: SparkJob) -> float:
    """CPU-seconds of the task's function over the whole stream."""
    table: pa.Table = job.stream.toArrow().sort_by([(TIME, "ascending"), (SEQ, "ascending")])  # of all partitions
    batches = table.combine_chunks().to_batches(max_chunksize=10_000)
    start = time.process_time()
    for _ in task_function(job.program, ())(iter(batches)):
        pass
    return time.process_time() - start


def rows_of(run: SparkRun) -> DataFrame:
    """The statement's own columns, which are those of the job by hand."""
    return run.frame("q", about=())


def check(name: str, path: str, session: SparkSession) -> None:
    """The statement and the job by hand give the same rows."""
    source = session.read.parquet(path)
    run = spark.run(runtime=bench(name).runtime, frames={"Tick": source}, time="ts", sequence="seq", session=session)
    by_hand = BY_HAND[name](source)
    rounded = [F.round(c, 6).alias(c) if kind == "double" else F.col(c) for c, kind in by_hand.dtypes]
    ours, theirs = rows_of(run).select(*rounded), by_hand.select(*rounded)
    if ours.exceptAll(theirs).count() or theirs.exceptAll(ours).count():
        raise SystemExit(f"{name}: the job by hand does not give the statement's rows")
    run.close()


def measure(name: str, path: str, frame: pd.DataFrame, session: SparkSession) -> dict[str, float]:
    """One round of one workload."""
    source = session.read.parquet(path)
    runtime, frames = bench(name).runtime, {"Tick": source}
    run = spark.run(runtime=runtime, frames=frames, time="ts", sequence="seq", session=session)
    (job,) = plan_jobs(runtime, RunRequest(frames=frames, time="ts", sequence="seq", session=session))[0]
    path_, tasks = run.coverage["q"].path, int(session.conf.get("spark.sql.shuffle.partitions") or 2)
    floor = source
    if path_ == "by time slice":
        floor = source.repartition(tasks).sortWithinPartitions("ts", "seq")
    elif path_ == "by key" or run.coverage["q"].window is not None:  # Spark's own windows, by key
        floor = source.repartition(tasks, "symbol").sortWithinPartitions("ts", "seq")
    found = {"kernel": kernel(name, frame)}
    found["floor"] = spent(lambda: thrown_away(floor))[0]

    def whole() -> None:
        own = spark.run(runtime=runtime, frames=frames, time="ts", sequence="seq", session=session)
        thrown_away(rows_of(own))

    found["Spark"], found["wall"] = spent(whole)
    run.close()
    found["by hand"], found["wall by hand"] = spent(lambda: thrown_away(BY_HAND[name](source)))
    found["task"] = 0.0 if path_ in ("native", "by time slice") else task(job)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default=",".join(EPL))
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--warm", type=int, default=4)
    given = parser.parse_args()
    frame = ticks(given.events)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/ticks.parquet"
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=given.events // 8 + 1)
        session = local_session(**{"spark.master": f"local[{given.tasks}]"})
        warm = ticks(100_000)
        pq.write_table(pa.Table.from_pandas(warm, preserve_index=False), f"{folder}/warm.parquet")
        names = given.only.split(",")
        for name in names:
            check(name, f"{folder}/warm.parquet", session)
        for name in names * given.warm:
            measure(name, f"{folder}/warm.parquet", warm, session)
        print(f"{given.events:,} events, {given.tasks} tasks; CPU-seconds, medians of {given.rounds}")
        print(f"{'':9}{'kernel':>8}{'task':>8}{'/kernel':>8}{'floor':>8}{'Spark':>8}{'/(k+f)':>8}{'by hand':>9}"
              f"{'/hand':>7}{'wall':>7}{'wall by hand':>13}")  # fmt: skip
        for name in names:
            rounds = [measure(name, path, frame, session) for _ in range(given.rounds)]
            m = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
            total, least = m["Spark"], m["kernel"] + m["floor"]
            print(f"{name:9}{m['kernel']:8.2f}{m['task']:8.2f}{m['task'] / m['kernel']:8.2f}{m['floor']:8.2f}"
                  f"{total:8.2f}{total / least:8.2f}{m['by hand']:9.2f}{total / m['by hand']:7.2f}"
                  f"{m['wall']:7.2f}{m['wall by hand']:13.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
