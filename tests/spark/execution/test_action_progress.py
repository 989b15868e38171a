"""While Spark works: a line of progress, Ctrl-C cancels, and functions that cannot travel are told of beforehand."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.errors import UsageError
from cepbook.spark.execution.action_progress import progress_text, run_with_progress
from cepbook.spark.execution.spark_actions import missing_module_error
from cepbook.spark.spark_session import cancel_actions, use_progress_display

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FRAME = pd.DataFrame({"ts": [1, 2], "n": [1, 2]})


def bench(**functions: object) -> Workbench:
    cep = Workbench()
    cep.define("A", FRAME, time="ts")
    for name, function in functions.items():
        cep.register_function(name, function, returns="long")  # type: ignore[arg-type]
    return cep


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str | None]]:
    monkeypatch.delenv("CEPBOOK_PROGRESS", raising=False)
    monkeypatch.setattr("cepbook.spark.execution.action_progress.SHOW_AFTER", 0.2)
    lines: list[str | None] = []
    undo = use_progress_display(lines.append)
    yield lines
    undo()


def slow(seconds: float) -> object:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(seconds)
            yield batch

    return work


def test_progress_is_spark_s_own_and_goes_away(spark: SparkSession, told: list[str | None]) -> None:
    frame = spark.range(4, numPartitions=4).mapInArrow(slow(0.5), "id bigint")  # type: ignore[arg-type]
    assert run_with_progress(spark, frame.toArrow).num_rows == 4
    assert told[-1] is None and any(line is not None and " of 4 tasks, " in line for line in told), told
    assert progress_text(3, 4, 1, 2.4) == "Spark [" + "#" * 22 + "." * 8 + "] 3 of 4 tasks, 1 running, 2 s"
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_an_interrupt_cancels_the_job(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.range(40, numPartitions=4).mapInArrow(slow(30), "id bigint")  # type: ignore[arg-type]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as a notebook's kernel has it
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_with_progress(spark, frame.toArrow)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
        timer.cancel()
    assert time.monotonic() - started < 20
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert spark.range(3).count() == 3


def test_functions_that_cannot_travel_are_told_before_a_job_starts(spark: SparkSession, tmp_path: Path) -> None:
    lock = threading.Lock()

    def guarded(n: int) -> int:
        with lock:
            return n

    cep = bench(guarded=guarded, plain=lambda n: n + 1)
    cep.run("@name('q') select guarded(n) as x from A")
    cep.run("@name('r') select plain(n) as x from A")
    with pytest.raises(UsageError, match="the function `guarded` cannot be sent to Spark's workers: cannot pickle"):
        cep.spark({"A": FRAME}, statements=["q"], session=spark)
    assert cep.spark({"A": FRAME}, statements=["r"], session=spark).to_pandas("r")["x"].tolist() == [2, 3]


def test_a_module_that_the_workers_lack_is_named_before_a_job_starts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_notebook.py").write_text("def twice(n):\n    return 2 * n\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import beside_the_notebook  # type: ignore[import-not-found]

    cep = bench(twice=beside_the_notebook.twice, through=lambda n: beside_the_notebook.twice(n), root=math.isqrt)
    for name in ("twice", "through", "root"):
        cep.run(f"@name('{name}') select {name}(n) as x from A#length(2)")
    message = "Spark's workers have no module `beside_the_notebook`, which the function `{0}` comes from"
    for name in ("twice", "through"):
        with pytest.raises(UsageError, match=message.format(name)) as told:
            cep.spark({"A": FRAME}, session=spark, statements=[name])
        assert "hint: install it where they run, or send it: spark.addArtifact('beside_the" in str(told.value)
    sys.modules.pop("beside_the_notebook")
    assert cep.spark({"A": FRAME}, session=spark, statements=["root"]).to_arrow("root").num_rows == 2


def test_what_the_bridge_itself_lacks_is_told() -> None:
    assert "install cepbook where they run" in str(missing_module_error("cepbook", "x"))


def test_events_before_the_clock_s_start_are_told(spark: SparkSession) -> None:
    cep = Workbench(start=10)
    cep.define("A", FRAME, time="ts")
    cep.run("@name('q') select n from A#length(2)")
    with pytest.raises(Exception, match=r"A has the time 00:00:00.001, but the clock starts at 00:00:00.010"):
        cep.spark({"A": FRAME}, session=spark).to_arrow("q")


@pytest.mark.parametrize("group", [None, "mine"])
def test_jobs_of_interrupted_actions_are_cancelled_and_no_others(spark: SparkSession, group: str | None) -> None:
    """A notebook does it when a cell ends by Ctrl-C: the kernel's handler stands in place of that of Spark."""
    context, failed = spark.sparkContext, []

    def act() -> None:
        if group is not None:
            context.setJobGroup(group, "of somebody")
        try:
            spark.range(1).mapInArrow(slow(60), "id long").collect()
        except Exception as error:  # noqa: BLE001  what Spark makes of a job that was cancelled
            failed.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    deadline = time.monotonic() + 30
    while not context.statusTracker().getActiveJobsIds() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert cancel_actions() == (1 if group is None else 0)
    if group is not None:
        thread.join(0.5)
        assert thread.is_alive() and not failed
        context.cancelJobGroup(group)
    thread.join(30)
    assert not thread.is_alive() and "cancelled" in str(failed[0])
