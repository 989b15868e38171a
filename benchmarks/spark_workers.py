"""What does a second task bring on Spark, and how large does a Python worker get?

    python benchmarks/spark_workers.py [--events 3000000] [--rounds 3] [--warm 5] [--only length,pattern]

The workloads and jobs by hand are those of `spark.py`. By the clock, planning and start of the job included, medians of
rounds that take turns, after as many rounds as ``--warm`` says (a JVM compiles what it runs for half a minute, and does
so beside the tasks):

- **1 task, 1 core** against **2 tasks, 2 cores**, each a process with a JVM and workers of its own that have so many
  cores: what twice the machine brings; it is to be at least 1.6 times as fast;
- **1 task, 2 cores** against the latter: what dividing the work brings on this machine. One task uses more than one
  core, for the JVM reads, sorts and writes while Python works, so that this cannot be 2.

**At most** is what the division allows, for a task that gets the most frequent keys ends last: all events that tasks
get by those of the larger one. **Machine** is what the second core is worth to such work: how much two cores do in a
time, each with a job of one task of its own, against one of them alone. Then the memory (MB) of the largest Python
worker, each in a session of its own, over a tenth of the events and over all of them: the statement's and that of the
job by hand. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from spark import BY_HAND, EPL, bench, largest_worker, rows_of, thrown_away, ticks

from cepbook import spark
from cepbook.spark import local_session
from cepbook.spark.execution.execution import plan_jobs
from cepbook.spark.execution.spark_run import RunRequest

WAYS = ((1, 1), (1, 2), (2, 2))  # tasks, cores


def opened(tasks: int) -> SparkSession:
    return local_session(**{"spark.master": f"local[{tasks}]", "spark.driver.memory": "2g"})


def run(name: str, path: str, session: SparkSession, by_hand: bool = False) -> float:
    """Seconds by the clock of a statement, or of its job by hand."""
    source = session.read.parquet(path)
    start = time.perf_counter()
    if by_hand:
        thrown_away(BY_HAND[name](source))
    else:
        own = spark.run(
            runtime=bench(name).runtime, frames={"Tick": source}, time="ts", sequence="seq", session=session
        )
        thrown_away(rows_of(own))
        own.close()
    return time.perf_counter() - start


def balance(name: str, path: str, session: SparkSession) -> float:
    """All events that tasks get by those of the one that gets the most."""
    frames = {"Tick": session.read.parquet(path)}
    (job,) = plan_jobs(bench(name).runtime, RunRequest(frames=frames, time="ts", sequence="seq", session=session))[0]
    if job.placement.path == "native":
        if not job.placement.keys:
            return float(session.conf.get("spark.sql.shuffle.partitions") or 1)
        stream = frames["Tick"].repartition(int(session.conf.get("spark.sql.shuffle.partitions") or 1), "symbol")
    else:
        stream = job.stream
    counts = [row[1] for row in stream.groupBy(F.spark_partition_id()).count().collect()]
    return sum(counts) / max(counts)


def serve(tasks: int) -> None:
    """In a process of its own: do what lines of the standard input ask for, and answer with the seconds."""
    session = opened(tasks)
    for line in sys.stdin:
        what, name, path = json.loads(line)
        answer: Any = balance(name, path, session) if what == "balance" else run(name, path, session)
        sys.stdout.write(f"@{json.dumps(answer)}\n")
        sys.stdout.flush()


class Process:
    """One that `serve`s with so many tasks and cores."""

    def __init__(self, tasks: int, cores: Sequence[int]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(tasks)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )  # fmt: skip

    def ask(self, *question: str) -> float:
        self.put(*question)
        return self.answer()

    def put(self, *question: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(question)}\n")
        self._process.stdin.flush()

    def answer(self) -> float:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                return float(json.loads(line[1:]))
        raise SystemExit("a process ended")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def speed(names: Sequence[str], path: str, rounds: int, warming: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("there is but one core: two tasks are not compared with one")
        return
    processes = [Process(tasks, cores[:count]) for tasks, count in WAYS]
    beside = Process(1, cores[1:2])
    found: dict[tuple[str, int], list[float]] = {(name, i): [] for name in names for i in range(len(WAYS) + 1)}
    for _ in range(warming):
        for name in names:
            for process in (*processes, beside):
                process.ask("run", name, path)
    for _ in range(rounds):
        for name in names:
            for number, process in enumerate(processes):
                found[name, number].append(process.ask("run", name, path))
            pair = processes[0], beside
            for process in pair:
                process.put("run", name, path)
            found[name, len(WAYS)].append(statistics.mean(process.answer() for process in pair))
    print(f"{'':9}{'1 task, 1 core':>16}{'1 task, 2 cores':>17}{'2 tasks, 2 cores':>18}"
          f"{'of 1 core':>11}{'of 2 cores':>12}{'at most':>9}{'machine':>9}")  # fmt: skip
    for name in names:
        narrow, one, two, both = (statistics.median(found[name, number]) for number in range(len(WAYS) + 1))
        most = processes[-1].ask("balance", name, path)
        ratios = f"{narrow / two:11.2f}{one / two:12.2f}{most:9.2f}{2 * narrow / both:9.2f}"
        print(f"{name:9}{narrow:16.2f}{one:17.2f}{two:18.2f}{ratios}", flush=True)
    for process in (*processes, beside):
        process.close()


def memory(names: Sequence[str], few: str, many: str) -> None:
    print(f"\n{'MB':9}{'a tenth':>9}{'all':>6}{'by hand, a tenth':>18}{'all':>6}")
    for name in names:
        sizes = []
        for by_hand in (False, True):
            for path in (few, many):
                session = opened(2)  # its workers are new
                run(name, path, session, by_hand)
                sizes.append(largest_worker())
                session.stop()
        print(f"{name:9}{sizes[0]:9.0f}{sizes[1]:6.0f}{sizes[2]:18.0f}{sizes[3]:6.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--only", default=",".join(EPL))
    parser.add_argument("--without", choices=("speed", "memory"))
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    names = given.only.split(",")
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for events in (given.events, given.events // 10):
            paths.append(str(Path(folder) / f"{events}.parquet"))
            table = pa.Table.from_pandas(ticks(events), preserve_index=False)
            pq.write_table(table, paths[-1], row_group_size=events // 8 + 1)
        many, few = paths
        print(f"{given.events:,} events; seconds by the clock, medians of {given.rounds}")
        if given.without != "speed":
            speed(names, many, given.rounds, given.warm)
        if given.without != "memory":
            memory(names, few, many)


if __name__ == "__main__":
    main()
