"""Windows by columns, and those of Spark itself, give what the engine gives, row for row."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cepbook import Workbench
from cepbook.engine.config import Config
from cepbook.engine.replay import batch_replayer
from cepbook.engine.vectorized import kernel_library
from cepbook.engine.vectorized.vectorized_statement import VectorizedStatement
from cepbook.errors import EventError
from cepbook.lang.plan.dependencies import dependencies_of
from cepbook.spark.execution import execution
from cepbook.spark.plan.vectorized_windows import vectorized_window_of
from cepbook.spark.task import task_runner
from cepbook.spark.task.program import VectorizedWindow
from tests.spark.tasks import Recorded, differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# ruff: noqa: E501  (a table of statements reads better with a statement in one line)
SCHEMA = """
create schema Tick(ts long, symbol string, venue int, price double, volume int, big long, tiny byte, bits short);
create schema Quote(ts long, symbol string);
create schema Fine() inherits Tick;
create context PerSymbol partition by symbol from Tick, symbol from Quote;
create context PerBoth partition by symbol and venue from Tick;
create context Cheap partition by symbol from Tick(price < 50);
"""
ALL = "count(*) as n, count(price) as priced, sum(volume) as total, sum(big) as large, sum(tiny) as t, avg(volume) as mean, avg(bits) as b"
ROWS = (
    f"select symbol, {ALL}, min(volume) as low, max(big) as top from Tick#groupwin(symbol)#length(3) group by symbol",
    f"select symbol, price, ts, {ALL} from Tick(price > 20 or volume is null)#groupwin(symbol)#length(7) group by symbol",
    f"context PerBoth select context.key2 as k, volume, {ALL}, min(tiny) as low from Tick#length(1)",
    "select venue, symbol, sum(ts) as s, min(bits) as low from Tick#groupwin(venue, symbol)#length(100) group by symbol, venue",
)
DOUBLES = "count(*) as n, count(symbol) as named, sum(price) as s, avg(price) as a, sum(volume) as v, min(tiny) as low, max(big) as top"
WHILES = (
    f"select symbol, price, {DOUBLES} from Tick#groupwin(symbol)#length(4) group by symbol",
    f"context PerSymbol select ts, {DOUBLES} from Tick#length(1)",
    f"context PerSymbol select ts, {DOUBLES} from Tick#time(700 msec)",
    f"select ts, symbol, {DOUBLES} from Tick#time(300 msec) group by symbol",
    f"select ts, venue, symbol, {DOUBLES} from Tick(price > 20)#time(2 sec) group by symbol, venue",
    f"select ts, {DOUBLES} from Tick#time(1 sec)",
    "select ts, sum(volume) as v, max(bits) as top, count(*) as n from Tick#time(1 sec)",
    f"select ts, {DOUBLES} from Tick#length(9)",
    "select ts, sum(volume) as v, min(tiny) as low from Tick#length(9)",
    "select sum(volume) as v, avg(bits) as b from Tick(price > 5)#length(5)",
    "context PerSymbol select ts, count(*) as n, max(tiny) as top from Tick#time(700 msec)",
    "select count(*) as n, symbol, count(*) as m, sum(tiny) as t from Tick#groupwin(symbol)#length(2) group by symbol",
    "select symbol as s from Tick#groupwin(symbol)#length(2) group by symbol",
)
BATCHES = (
    f"context PerSymbol select symbol, {ALL}, min(volume) as low, max(big) as top from Tick#ext_timed_batch(ts, 10 sec, 0L)",
    f"context PerBoth select context.key2 as v, context.key1 as k, {ALL} from Tick(price > 20)#ext_timed_batch(ts, 777 msec, -3001L)",
    f"select symbol, {ALL}, max(bits) as top from Tick#groupwin(symbol)#ext_timed_batch(ts, 1 sec, 250L) group by symbol",
    "select sum(volume) as total from Tick#groupwin(venue)#ext_timed_batch(ts, 1 day, 0L) group by venue",
)
OUTSIDE = (
    (
        "context PerSymbol select sum(price) as s from Tick#ext_timed_batch(ts, 1 sec, 0L)",
        "Spark itself could compute sum of a property of whole numbers",
    ),
    ("context PerSymbol select avg(big) as s from Tick#length(3)", "columns could compute avg of int"),
    (
        "context PerSymbol select sum(volume * 2) as s from Tick#length(3)",
        "columns could compute sum of a property of whole numbers",
    ),
    (
        "context PerSymbol select max(price) as s from Tick#length(3)",
        "columns could compute max of a property of whole numbers",
    ),
    ("context PerSymbol select stddev(volume) as s from Tick#length(3)", "stddev is not an aggregate"),
    ("context PerSymbol select sum(distinct volume) as s from Tick#length(3)", "sum is not an aggregate"),
    ("context PerSymbol select sum(volume, price > 3) as s from Tick#length(3)", "sum is not an aggregate"),
    ("context PerSymbol select sum(volume) as s from Tick#ext_timed_batch(ts, 1 sec)", "with a reference point"),
    ("select ts, sum(volume) as s from Tick#ext_timed_batch(ts, 1 sec, 0L)", None),
    ("select sum(volume) as s from Tick#ext_timed_batch(ts, 1 sec, 0L)", None),
    ("select ts, sum(volume) as s from Tick#groupwin(symbol)#time(1 sec) group by symbol", None),
    ("select ts, sum(volume) as s from Tick#time(1 month) group by symbol", None),
    ("select symbol, sum(volume) as s from Tick#time(1 sec) group by symbol", None),
    ("select irstream ts, sum(volume) as s from Tick#time(1 sec) group by symbol", None),
    ("context PerSymbol select irstream sum(volume) as s from Tick#length(3)", None),
    ("context PerSymbol select *, sum(volume) as s from Tick#length(3)", None),
    ("context PerSymbol select sum(volume) + 1 as s from Tick#length(3)", None),
    ("context PerSymbol select sum(volume) as s from Tick#length(3) having sum(volume) > 3", None),
    ("context PerSymbol select sum(volume) as s from Tick#length(3) output every 2 events", None),
    ("context PerSymbol select sum(volume) as s from Tick#length(3) where volume > 2", None),
    ("context PerSymbol select sum(volume) as s from Tick(volume * 2 > 3)#length(3)", None),
    ("context PerSymbol select sum(volume) as s from Tick#length(3) group by venue", None),
    ("context PerSymbol select venue, sum(volume) as s from Tick#ext_timed_batch(ts, 1 sec, 0L)", None),
    ("context PerSymbol select sum(volume) as s from Tick#ext_timed_batch(ts, 1 month, 0L)", None),
    ("context PerSymbol select sum(volume) as s from Tick#time(3 sec)", None),  # a row when an event leaves, too
    ("context PerSymbol select sum(volume) as s from Tick", None),
    ("context Cheap select sum(volume) as s from Tick#length(3)", None),
    ("select price, sum(volume) as s from Tick#groupwin(price)#length(3) group by price", None),
    ("select symbol, sum(volume) as s from Tick#groupwin(symbol, venue)#length(3) group by symbol", None),
    ("select symbol, sum(volume) as s from Tick#length(3) group by symbol", None),
)


def ticks(seed: int, events: int = 500) -> pa.Table:
    """Many ties in time, before 1970 and after it, sequence numbers in no order; nulls everywhere; sums that wrap."""
    rng = np.random.default_rng(seed)

    def whole(low: int, high: int, of: pa.DataType, missing: float = 0.15) -> pa.Array:
        values = rng.integers(low, high, events, endpoint=True)
        extreme = rng.random(events) < 0.2
        values[extreme] = rng.choice([low, high], int(extreme.sum()))
        return pa.array(values, of, mask=rng.random(events) < missing)

    price = np.where(rng.random(events) < 0.1, np.nan, rng.normal(40, 30, events))
    sequence = rng.permutation(events)
    sequence += np.where(rng.random(events) < 0.1, rng.choice([-(2**63), -events, 2**50, 2**62], events), 0)
    return pa.table(
        {
            "ts": np.sort(rng.integers(-30, 300, events) * 100)[rng.permutation(events)],
            "symbol": rng.choice(np.array(["A", "a", "B ", "", None], object), events, p=[0.5, 0.2, 0.2, 0.05, 0.05]),
            "venue": whole(0, 2, pa.int32(), 0.05),
            "price": pa.array(price, mask=rng.random(events) < 0.1),
            "volume": whole(-(2**31), 2**31 - 1, pa.int32()),
            "big": whole(-(2**63), 2**63 - 1, pa.int64()),
            "tiny": whole(-128, 127, pa.int8()),
            "bits": whole(-(2**15), 2**15 - 1, pa.int16()),
            "seq": sequence,
        }
    )


def bench(statements: tuple[str, ...], start: int = -5000) -> Workbench:
    cep = Workbench(start=start)
    cep.run(SCHEMA + ";".join(f"@name('q{i}') {epl}" for i, epl in enumerate(statements)))
    return cep


def test_the_same_rows_as_in_tasks_and_in_the_kernel(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seed: int = 0
) -> None:
    """With all that is told about a row: its time, sequence number, trigger, place."""
    table = ticks(seed)
    frame, cep = spark.createDataFrame(table).repartition(4), bench((*ROWS, *BATCHES))
    given: dict[str, Any] = {"time": "ts", "sequence": "seq", "session": spark, "persist": True}
    quotes = spark.createDataFrame(pa.table({"ts": [-(10**6)], "symbol": ["A"], "seq": [1]}))  # nobody looks at them
    run = cep.spark({"Quote": quotes, "Tick": frame}, **given)
    assert {p.path for p in run.coverage.values()} == {"native", "by key"}, run
    assert all(p.window is not None for p in run.coverage.values()), run
    with monkeypatch.context() as without:
        without.setattr(execution, "bypass_engine", lambda found, *_: found)
        tasks = cep.spark({"Tick": frame}, **given)
    assert {p.path for p in tasks.coverage.values()} == {"by key"}
    for name in run.statements:
        found, wanted = run.to_arrow(name), tasks.to_arrow(name)
        assert found.num_rows > 3
        assert found.cast(wanted.schema).equals(wanted), name  # those of tasks might be null
    cep.replay({"Tick": table}, time="ts", sequence="seq").run()
    comparison = cep.compare(run)
    assert comparison.verdict == "equal", comparison
    run.close()
    tasks.close()


def odd_tick(rng: random.Random, time: int, keys: list[str | None], special: float, longs: int) -> dict[str, Any]:
    """An event with nulls, extremes and numbers of all sizes; some `special` doubles, and longs of so many bits."""

    def whole(bits: int) -> int | None:
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        return rng.choice((rng.choice((low, high)), rng.randint(low, high), None, rng.randint(-9, 9)))

    price = None if rng.random() < 0.3 else rng.gauss(30, 20) * 10 ** rng.randint(-3, 3)
    if rng.random() < special:
        price = rng.choice((None, math.inf, -math.inf, -0.0, 0.0, 1e308, -1e308, 5e-324))
    return {
        "ts": time,
        "symbol": rng.choice(keys),
        "venue": rng.choice((None, 0, 1)),
        "price": price,
        "volume": whole(32),
        "big": whole(longs),
        "tiny": whole(8),
        "bits": whole(16),
    }


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("epl", [*ROWS, *WHILES])
def test_columns_are_what_the_engine_makes_to_the_last_bit(
    epl: str, kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of random histories in batches of any size, of which any number is taken at once. Without Spark."""
    if kernels:
        assert kernel_library.kernels(wait=True) is not None, kernel_library.missing_reason()
        monkeypatch.setattr(kernel_library, "LEAST", 1)
        monkeypatch.setattr(batch_replayer, "event_loop_pays", lambda *_: False)
    run, by_kernels = VectorizedStatement.run, 0

    def counted(self: VectorizedStatement, *arguments: Any) -> Any:
        nonlocal by_kernels
        output = run(self, *arguments)
        by_kernels += output is not None
        return output

    monkeypatch.setattr(VectorizedStatement, "run", counted)
    for seed in range(6):
        rng = random.Random(f"{epl} {seed}")
        monkeypatch.setattr(task_runner, "_ROWS_AT_ONCE", rng.choice((1, 5, 37, 10**6)))
        engine, time = Recorded(-5000, {}), -3000
        engine.deploy(SCHEMA, "types")
        engine.deploy(f"@name('q') {epl}", "module")
        keys, special = ["A", "a", "B ", "", None][: rng.randint(1, 5)], rng.choice((0.0, 0.02, 0.2))
        for _ in range(rng.choice((3, 60, 150))):
            time += rng.choice((0, 0, 1, 50, 100, 400, rng.choice((20, 20, 3000))))
            if time > engine.runtime.now:
                engine.advance(time, stepping=False)
            event = odd_tick(rng, time, keys, special, 40 if seed % 2 else 64)  # kernels add what floats can hold
            if rng.random() < 0.05:
                engine.send("Quote", {"ts": time, "symbol": event["symbol"]})
            else:
                engine.send("Tick", event)
        wrong, paths = differences(engine, {"q"}, size=rng.choice((0, 1, 4, 50)))
        assert not wrong, (seed, wrong)
        assert paths["by columns"] == 1
    assert (by_kernels > 0) is (kernels and "count(symbol)" not in epl)  # counts of texts have no kernel


def test_sums_that_make_up_for_rounding_are_those_of_the_engine() -> None:
    epl = "context PerSymbol select sum(price) as s from Tick#length(3)"
    assert isinstance(_form(epl), VectorizedWindow)
    assert _form(epl, config=Config(compensated_sums=True)) == "compensated sums of doubles need the engine"
    assert _form("select ts, count(*) as n from Tick#time(3 sec)", config=Config(microseconds=True)) is None


@pytest.mark.parametrize(("epl", "reason"), OUTSIDE)
def test_what_is_not_provably_the_same_runs_in_tasks(epl: str, reason: str | None) -> None:
    found = _form(epl)
    assert (reason in found) if reason is not None and isinstance(found, str) else found is reason, found


def test_the_form_of_a_statement() -> None:
    found = _form("context PerBoth select venue, sum(volume) as s from Tick(price > 3)#length(9)")
    assert isinstance(found, VectorizedWindow) and found.filter is not None
    assert (found.keys, found.columns[0], found.length, found.clock) == (("symbol", "venue"), "venue", 9, None)
    found = _form("context PerSymbol select sum(volume) as s from Tick#ext_timed_batch(ts, 3 sec, -1000L)")
    assert isinstance(found, VectorizedWindow)
    assert (found.keys, found.period, found.reference, found.clock) == (("symbol",), 3000, 2000, "ts")


def test_events_of_a_subtype_would_be_of_other_frames() -> None:
    epl = "context PerSymbol select sum(volume) as s from Tick#length(3)"
    assert isinstance(_form(epl, "Tick", "Quote"), VectorizedWindow)
    assert _form(epl, "Tick", "Fine") is _form(epl, "Quote") is None


def _form(epl: str, *given: str, config: Config | None = None) -> VectorizedWindow | str | None:
    runtime = Workbench().runtime
    runtime.deploy(SCHEMA)
    runtime.deploy(epl)
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    line = dependencies_of(plans[-1].name, plans, runtime.catalog, given or ("Tick",))
    return vectorized_window_of(line, runtime.catalog, config or runtime.config)


def test_batches_by_another_time_than_that_of_the_events_run_in_tasks(spark: SparkSession) -> None:
    cep = bench(BATCHES[:1])
    frame = ticks(1).append_column("arrival", pa.array(range(500)))
    run = cep.spark({"Tick": frame}, time="arrival", session=spark)
    assert run.coverage["q0"].path == "by key"
    assert run.coverage["q0"].reason.endswith("Spark itself could group batches if ts were the time")


@pytest.mark.parametrize("epl", [ROWS[0], BATCHES[0]])
def test_errors_are_those_of_tasks(spark: SparkSession, epl: str) -> None:
    times = [5, 7, 7, 20_000]
    good = pd.DataFrame(
        {
            "ts": times,
            "symbol": "A",
            "venue": 1,
            "price": 1.0,
            "volume": 1,
            "big": 1,
            "tiny": 1,
            "bits": 1,
            "seq": [1, 2, 3, 4],
        }
    )

    def run(frame: pd.DataFrame, start: int = 0) -> Any:
        cep = bench((epl,), start)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        return cep.spark({"Tick": spark.createDataFrame(table)}, time="ts", sequence="seq", session=spark).to_arrow(
            "q0"
        )

    assert len(run(good)) in (4, 1)
    with pytest.raises(EventError, match=r"Tick has the time 00:00:00.005, but the clock starts at 00:00:00.006"):
        run(good, start=6)
    with pytest.raises(EventError, match="the time of an event of Tick is missing"):
        run(good.assign(ts=pd.array([1, None, 2, 3], "Int64")))
    if epl == ROWS[0]:  # the sums of a batch are the same in any order
        with pytest.raises(
            EventError, match=r"two events of Tick at 00:00:00.007 have the sequence number 2: their order"
        ):
            run(good.assign(seq=[1, 2, 2, 3]))
