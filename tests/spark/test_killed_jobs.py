"""A stream whose processes are killed while a batch is under way: the job goes on from its checkpoint, and ends with

what an unhurt one writes. `CEPBOOK_KILLS` says how often.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cepbook.engine.runtime import Runtime
from cepbook.spark.java_home import find_java

from .histories import trades

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.histories,
    pytest.mark.skipif(os.name != "posix", reason="kills a group of processes"),
]
ROOT = Path(__file__).parents[2]
SCHEMA = "create schema Trade(ts long, symbol string, venue long, price double, size int);"
QUERY = "@name('sums') select irstream symbol, sum(size) as total from Trade#time(2 sec) group by symbol;"
KILLS = int(os.environ.get("CEPBOOK_KILLS", "2"))  # 5 take minutes
FILES, SEED = 4 * KILLS, int(os.environ.get("CEPBOOK_SEED", "11"))


def expected() -> list[Any]:
    runtime, found = Runtime(), []
    runtime.deploy(SCHEMA + QUERY)

    def take(delta: Any) -> None:
        for kind, rows in (("insert", delta.insert), ("remove", delta.remove)):
            found.extend((delta.time, kind, *row.values()) for row in rows or ())

    runtime.statement("sums").add_listener(take)
    for row in trades(1).itertuples(index=False):
        runtime.advance(row.ts, stepping=True)
        runtime.send(
            "Trade", {"ts": row.ts, "symbol": row.symbol if isinstance(row.symbol, str) else None, "size": row.size}
        )
    return sorted(found, key=repr)


def batches(folder: Path, log: str) -> int:
    """How many batches the query has begun (``offsets``), or ended (``commits``)."""
    kept = folder / "state" / "sums" / log
    return sum(path.name.isdigit() for path in kept.iterdir()) if kept.exists() else 0


def within_a_batch(folder: Path, job: subprocess.Popen[Any], rng: random.Random) -> None:
    """Wait until the job has ended a batch, and for a random part of the time that one takes into another."""

    def waited(until: Callable[[], bool], most: float = 300) -> float:
        begun = time.monotonic()
        while not until() and job.poll() is None and time.monotonic() < begun + most:
            time.sleep(0.005)
        return time.monotonic() - begun

    def under_way() -> bool:
        return batches(folder, "offsets") > batches(folder, "commits")

    before = batches(folder, "commits")
    waited(lambda: batches(folder, "commits") > before)
    waited(under_way)
    at = batches(folder, "commits")
    took = waited(lambda: batches(folder, "commits") > at)
    waited(lambda: batches(folder, "commits") > at + 1, most=rng.uniform(0, took))  # a batch may have taken very long
    waited(under_way)


def test_a_job_that_is_killed_again_and_again_ends_with_all_rows_once(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "job.epl").write_text(SCHEMA + QUERY)
    (tmp_path / "in").mkdir()
    table = pa.Table.from_pandas(trades(1).assign(number=range(400)), preserve_index=False)
    size = -(-400 // FILES)
    for i in range(FILES):
        pq.write_table(table.slice(i * size, size), tmp_path / "in" / f"{i:02}.parquet")
        os.utime(
            tmp_path / "in" / f"{i:02}.parquet", (1_700_000_000 + i, 1_700_000_000 + i)
        )  # in which order they come
    words = [sys.executable, "-m", "cepbook.spark", "job.epl", "--in", f"Trade={tmp_path}/in", "--time", "ts"]
    words += ["--sequence", "number", "--out", f"sums={tmp_path}/out", "--stream", "--checkpoint", f"{tmp_path}/state"]
    words += ["--files", "1", "--master", "local[2]", "--quiet", "--once"]
    home = str(find_java().home)
    given = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": home, "PYSPARK_PYTHON": sys.executable}
    given["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1"  # most of a short life is compiling
    rng = random.Random(SEED)
    steps: list[tuple[int, int]] = []
    for _ in range(KILLS):
        with (tmp_path / "errors").open("w") as told:  # a pipe that nobody reads would stop the job
            job = subprocess.Popen(words, cwd=tmp_path, env=given, start_new_session=True, stderr=told)
        try:
            within_a_batch(tmp_path, job, rng)
            ended = job.poll() is not None
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        assert not ended, f"seed {SEED}: the job ended by itself: {(tmp_path / 'errors').read_text()[-3000:]}"
        steps.append((batches(tmp_path, "offsets"), batches(tmp_path, "commits")))
    print(f"seed {SEED}, batches begun and ended at the kills: {steps}, of {FILES}")
    ends = [ended for _, ended in steps]
    assert ends[0] > 0 and ends == sorted(set(ends)) and ends[-1] < FILES, steps
    assert any(begun > ended for begun, ended in steps), steps
    done = subprocess.run(words, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = spark.read.parquet(str(tmp_path / "out")).select("time", "kind", "symbol", "total").collect()
    assert sorted(map(tuple, rows), key=repr) == expected(), f"seed {SEED}, kills {steps}"
