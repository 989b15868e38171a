"""Streams of Spark that begin with a state: rows are those of a stream that was there from the start."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cepbook import Workbench
from cepbook.errors import UsageError
from cepbook.spark import stream
from cepbook.spark.execution.execution import OneTaskWarning
from cepbook.spark.streaming.stream_queries import EarlyWarning
from tests.spark.histories import trades

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPL = """
create schema Trade(ts long, symbol string, venue long, price double, size int);
@name('keyed') select irstream symbol, sum(size) as total from Trade#time(4 sec) group by symbol;
@name('all') select count(*) as n from Trade output last every 3 sec;
"""


def written(frame: pd.DataFrame, folder: Path) -> str:
    folder.mkdir()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), folder / "a.parquet")
    return str(folder)


def rows_of(spark: SparkSession, cep: Workbench, source: str, state: Path, initial: Any = None) -> dict[str, list[Any]]:
    schema = spark.read.parquet(source).schema
    frames = {"Trade": spark.readStream.schema(schema).parquet(source)}
    run = stream(runtime=cep.runtime, frames=frames, time="ts", sequence="number", initial=initial)
    found: dict[str, list[Any]] = {}
    for name in ("keyed", "all"):
        rows = run.frame(name).drop("sequence", "delivery")
        query = rows.writeStream.option("checkpointLocation", str(state / name)).trigger(availableNow=True)
        query.start(str(state / f"{name}-rows")).awaitTermination()
        table = pq.read_table(state / f"{name}-rows")
        found[name] = sorted(map(repr, table.to_pylist()))
    return found


def _time(row: str) -> int:
    return int(row.partition("'time': ")[2].partition(",")[0])


@pytest.mark.histories
@pytest.mark.filterwarnings("ignore:`all` runs in one task")
def test_a_stream_goes_on_from_a_batch_and_from_a_saved_workbench(spark: SparkSession, tmp_path: Path) -> None:
    frame = trades(5).assign(number=range(400))
    end = int(frame["ts"].iloc[200])
    before, after = frame[frame["ts"] <= end], frame[frame["ts"] > end]
    cep = Workbench()
    cep.run(EPL)
    whole = rows_of(spark, cep, written(frame, tmp_path / "whole"), tmp_path / "a")
    expected = {name: [row for row in rows if _time(row) > end] for name, rows in whole.items()}
    assert all(0 < len(expected[name]) < len(whole[name]) for name in whole)
    late = written(after, tmp_path / "after")

    batch = cep.spark({"Trade": before}, time="ts", sequence="number", session=spark)
    assert batch.coverage["keyed"].path == "by key"
    assert rows_of(spark, cep, late, tmp_path / "b", batch) == expected

    desk = Workbench()
    desk.run(EPL)
    for row in before.itertuples(index=False):
        desk.runtime.advance(row.ts, stepping=True)  # as streams do, which stop whenever something is due
        symbol = row.symbol if isinstance(row.symbol, str) else None
        event = {"ts": row.ts, "symbol": symbol, "venue": row.venue, "price": row.price, "size": row.size}
        desk.send("Trade", event)
    desk.save(tmp_path / "desk.cep")
    with pytest.warns(OneTaskWarning, match="the saved state that it begins with is not divided"):
        assert rows_of(spark, cep, late, tmp_path / "c", tmp_path / "desk.cep") == expected


IN_PARTITIONS = (
    "create schema Trade(ts long, symbol string, venue long, price double, size int)",
    "create context P partition by symbol and venue from Trade",
    "@name('pairs') context P select a.ts as t, b.size as s "
    "from pattern [every a=Trade(size > 500) -> b=Trade(size < 300)]",
)


@pytest.mark.histories
@pytest.mark.filterwarnings("error::cepbook.spark.execution.execution.OneTaskWarning")
def test_a_saved_workbench_is_divided_by_the_keys_of_its_context(spark: SparkSession, tmp_path: Path) -> None:
    frame = trades(6).assign(number=range(400))
    end = int(frame["ts"].iloc[200])
    before, after = frame[frame["ts"] <= end], frame[frame["ts"] > end]
    desk = Workbench()
    for cell in IN_PARTITIONS:
        desk.run(cell)
    desk.replay(before, type="Trade", time="ts", sequence="number").run()
    desk.save(tmp_path / "desk.cep")
    assert len(desk.runtime.partitions("P")) > 7
    rows: list[tuple[Any, ...]] = []
    desk.runtime.statement("pairs").add_listener(
        lambda delta: rows.extend((delta.time, *row.values()) for row in delta.insert or ())
    )
    desk.replay(after, type="Trade", time="ts", sequence="number").run()
    assert any(row[1] <= end for row in rows) and any(row[1] > end for row in rows)

    cep = Workbench()
    for cell in IN_PARTITIONS:
        cep.run(cell)
    source = written(after, tmp_path / "after")
    tasks = str(spark.conf.get("spark.sql.shuffle.partitions"))
    schema = spark.read.parquet(source).schema
    for count in ("1", "2", "7"):
        spark.conf.set("spark.sql.shuffle.partitions", count)
        try:
            frames = {"Trade": spark.readStream.schema(schema).parquet(source)}
            run = stream(
                runtime=cep.runtime, frames=frames, time="ts", sequence="number", initial=tmp_path / "desk.cep"
            )
            assert run.coverage["pairs"].path == "by key"
            writer = run.frame("pairs").writeStream.trigger(availableNow=True)
            writer.option("checkpointLocation", str(tmp_path / count)).start(
                str(tmp_path / f"rows {count}")
            ).awaitTermination()
        finally:
            spark.conf.set("spark.sql.shuffle.partitions", tasks)
        found = pq.read_table(tmp_path / f"rows {count}").to_pylist()
        assert sorted((row["time"], row["t"], row["s"]) for row in found) == sorted(rows), count


def test_categories_are_there_before_their_first_event_also_when_the_stream_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    cep = Workbench()
    cep.run(
        """create schema Trade(ts long, symbol string, venue long, price double, size int);
        create context Venues group venue = 0 as first, group venue > 2 as none from Trade;
        @name('counts') context Venues select context.label as label, count(*) as n
        from Trade#time_batch(10 sec, 'FORCE_UPDATE, START_EAGER')"""
    )
    frame, folder = trades(7).assign(number=range(400)), tmp_path / "in"
    folder.mkdir()
    for part, rows in enumerate((frame[:150], frame[150:])):
        pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / f"{part}.parquet")
        given = spark.readStream.schema(spark.read.parquet(str(folder)).schema).parquet(str(folder))
        run = stream(runtime=cep.runtime, frames={"Trade": given}, time="ts", sequence="number", start=0)
        writer = run.frame("counts").writeStream.option("checkpointLocation", str(tmp_path / "state"))
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist()
    cep.replay(frame, type="Trade", time="ts", sequence="number").run()
    expected = cep.changes("counts", times="ms")[["time", "label", "n"]].values.tolist()
    assert sorted([row["time"], row["label"], row["n"]] for row in found) == sorted(expected)
    assert sum(label == "none" for _, label, _ in expected) == 5


@pytest.mark.filterwarnings("error")
def test_who_does_not_say_when_the_clock_starts_is_warned_of_what_is_due_since_1970(
    spark: SparkSession, tmp_path: Path
) -> None:
    cep = Workbench()
    cep.run(
        """create schema Trade(ts long, symbol string, venue long, price double, size int);
        create context Office start (0, 9, *, *, *) end (0, 17, *, *, *);
        create context Each partition by symbol from Trade;
        @name('due') context Each select * from pattern [every timer:interval(1 sec)];
        @name('eager') select count(*) as n from Trade#time_batch(1 sec, 'START_EAGER');
        @name('open') context Office select count(*) as n from Trade#time_batch(1 min)"""
    )
    source = written(trades(5).assign(number=range(400)), tmp_path / "in")
    given = {"Trade": spark.readStream.schema(spark.read.parquet(source).schema).parquet(source)}

    def begun(statement: str, **options: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OneTaskWarning)
            stream(runtime=cep.runtime, frames=given, time="ts", statements=[statement], **options)

    begun("due")
    begun("open")
    begun("eager", start=0)
    with pytest.warns(EarlyWarning, match="`eager` delivers by the clock alone, which starts in 1970"):
        begun("eager")


@pytest.mark.filterwarnings("ignore::cepbook.spark.execution.execution.OneTaskWarning")
def test_what_a_stream_cannot_begin_with(spark: SparkSession, tmp_path: Path) -> None:
    cep = Workbench()
    cep.run(EPL + "create schema Quote(ts long, bid double); @name('bids') select bid from Quote#time(1 sec)")
    frame = trades(5).assign(number=range(400))
    source = written(frame, tmp_path / "in")
    given = spark.readStream.schema(spark.read.parquet(source).schema).parquet(source)

    def begun(initial: Any) -> None:
        stream(runtime=cep.runtime, frames={"Trade": given}, time="ts", statements=["keyed"], initial=initial)

    quotes = pd.DataFrame({"ts": [1], "bid": [1.0]})
    with pytest.raises(UsageError, match="reads events of Quote, the stream over Trade"):
        begun(cep.spark({"Quote": quotes}, time="ts", statements=["bids"], session=spark))
    with pytest.raises(UsageError, match=r"nowhere.cep` cannot be read: No such file"):
        begun(tmp_path / "nowhere.cep")
    with pytest.raises(UsageError, match=r"a batch whose clock leaps(.|\n)*hint: pass the run of a batch without leap"):
        begun(cep.spark({"Trade": frame}, time="ts", statements=["keyed"], session=spark, leap=True))
    running = stream(runtime=cep.runtime, frames={"Trade": given}, time="ts", statements=["keyed"])
    with pytest.raises(UsageError, match="is a stream, which has no end"):
        begun(running)
