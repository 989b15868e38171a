"""A task's memory is that of its state and of the batch in hand, however many events pass through it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cepbook import Workbench
from cepbook.engine.runtime import Runtime
from cepbook.spark.execution.execution import single_statement_program
from cepbook.spark.task import clock_ticks, task_runner
from cepbook.spark.task.clock_ticks import pack_ticks
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import SEQ, TAG, TICK, TICKS, TIME
from cepbook.spark.task.task_runner import task_function

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "create schema Tick(ts long, symbol string, price double, volume int);"
KEYED = "create context PerSymbol partition by symbol from Tick;"
EPL = {
    "length": "@name('q') select symbol, avg(price) as mean from Tick#groupwin(symbol)#length(10) group by symbol",
    "time": "@name('q') select irstream symbol, sum(volume) as total from Tick#time(2 sec) group by symbol",
    "pattern": KEYED + "@name('q') context PerSymbol select a.ts as begun, b.price as low from pattern "
    "[every a=Tick(price > 95) -> b=Tick(price < 5) where timer:within(5 sec)]",
    "output": KEYED + "@name('q') context PerSymbol select symbol, sum(volume) as total from Tick#time(2 sec) "
    "output last every 1 sec",
}
BATCH = 400
SYMBOLS = np.array([f"S{i}" for i in range(20)])


def task(program: TaskProgram, batches: int) -> Iterator[pa.RecordBatch]:
    """What a task gets: every second event, and all stops of the stream in front of the batches that they are about."""
    rng = np.random.default_rng(5)
    (_, _, properties, columns) = program.inputs[0]
    for number in range(batches):
        times, numbers = (np.arange(number * BATCH, (number + 1) * BATCH) * each for each in (10, 1))
        own = slice(0, None, 2)
        values = {
            "ts": pa.array(times[own]),
            "symbol": pa.array(rng.choice(SYMBOLS, BATCH // 2)),
            "price": pa.array(rng.random(BATCH // 2) * 100),
            "volume": pa.array(rng.integers(1, 1000, BATCH // 2).astype(np.int32)),
        }
        about = {TAG: pa.array([program.inputs[0][0]] * (BATCH // 2), pa.int32())}
        about |= {TIME: pa.array(times[own]), SEQ: pa.array(numbers[own])}
        events = pa.table(about | {c: values[p] for p, c in zip(properties, columns, strict=True)})
        told = pa.Table.from_batches(pack_ticks([pa.record_batch([times, numbers], [TIME, SEQ])]))
        whole = pa.concat_tables([told, events], promote_options="default")
        (batch,) = whole.combine_chunks().to_batches()
        assert batch.column(TICKS).null_count == BATCH // 2 and batch.column(TAG)[0].as_py() == TICK
        yield batch


def most(program: TaskProgram, batches: int) -> tuple[int, int]:
    """The most bytes that Python and Arrow held at once, and how many rows were delivered."""
    pool, held, rows = pa.default_memory_pool(), 0, 0
    before = pool.bytes_allocated()
    tracemalloc.start()
    try:
        for batch in task_function(program)(task(program, batches)):
            rows += batch.num_rows
            held = max(held, pool.bytes_allocated() - before)
        return tracemalloc.get_traced_memory()[1] + held, rows
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", EPL)
def test_ten_times_the_events_take_no_more_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "_ROWS_AT_ONCE", BATCH)
    runtime = Runtime()
    runtime.deploy(SCHEMA + EPL[name])
    program, _ = single_statement_program(runtime, "q")
    program = replace(program, has_ticks=True)
    most(program, 3)  # what is made once
    few, rows = most(program, 5)
    for _ in range(3):  # threads of earlier tests may allocate memory meanwhile, not each time
        many, more = most(program, 50)
        assert more > 8 * rows > 0
        if many < 1.2 * few:
            break
    assert many < 1.2 * few, f"{few:,} bytes for {5 * BATCH:,} events, {many:,} for ten times as many"


def test_packing_stops_takes_no_more_memory_for_more_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_ticks, "_SORTED_AT_ONCE", 5 * BATCH)

    def read(batches: int) -> Iterator[pa.RecordBatch]:
        for begin, end in pairwise(range(0, (batches + 1) * BATCH, BATCH)):
            yield pa.record_batch([np.arange(begin, end) * 7, np.arange(begin, end)], [TIME, SEQ])

    def peak(batches: int) -> int:
        tracemalloc.start()
        try:
            assert sum(batch.num_rows for batch in pack_ticks(read(batches))) >= batches // 5
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    assert peak(100) < 1.2 * peak(10)


def test_workers_look_for_no_garbage_in_what_they_have_loaded(spark: SparkSession) -> None:
    before = gc.get_freeze_count()
    cep = Workbench()
    cep.run(SCHEMA + KEYED + "@name('q') context PerSymbol select symbol, sum(volume) as total from Tick#length(2)")
    ticks = pd.DataFrame({"ts": range(8), "symbol": ["a", "b"] * 4, "price": [1.0] * 8, "volume": [1] * 8})
    assert len(cep.spark({"Tick": ticks}, time="ts", session=spark).to_arrow("q")) == 8

    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[gc.get_freeze_count()]], ["frozen"])

    found = spark.range(2, numPartitions=2).mapInArrow(frozen, "frozen long").collect()
    assert max(row.frozen for row in found) > 10_000  # by a worker that has run a task
    assert gc.get_freeze_count() <= before, "the driver's own garbage is nobody's business"
