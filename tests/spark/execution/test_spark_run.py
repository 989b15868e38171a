"""Statements over Spark deliver what they deliver in a workbench that replays the same frames."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import time as clock
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from cepbook import Workbench
from cepbook.errors import EventError, ReplayError, UsageError
from cepbook.spark import compare, sql
from cepbook.spark.execution.execution import OneTaskWarning, UnfedWarning
from cepbook.spark.execution.spark_actions import run_action
from tests.spark.histories import SPAN, quotes, trades

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cepbook.spark import Comparison
    from cepbook.spark.execution.spark_run import SparkRun

UNTIL = SPAN + 20_000

# name, EPL, how it must be run
# ruff: noqa: E501  (a table of statements reads better with a statement in one line)
CASES = [
    ("native", "@name('q') select size, symbol as s, price from Trade(price > 100 and (symbol != 'A' or size <= 500)) where venue >= 1", "native"),
    ("native_null", "@name('q') select size from Trade where price is null or 90 > price or symbol is not null and size = 7", "native"),
    ("filter", "@name('q') select symbol, price * 2 as twice from Trade(price > 110)", "row by row"),
    ("where", "@name('q') select * from Trade where size > 500 and symbol is not null", "row by row"),
    ("time_istream", "@name('q') select symbol, size from Trade#time(5 sec)", "row by row"),
    ("time_irstream", "@name('q') select irstream symbol, size from Trade#time(5 sec)", "by time slice"),
    ("length", "@name('q') select irstream symbol, sum(size) as total from Trade#length(7)", "by time slice"),
    ("time_sum", "@name('q') select sum(price) as total, count(*) as n from Trade#time(5 sec)", "ordered"),
    ("time_batch", "@name('q') select irstream symbol, count(*) as n from Trade#time_batch(5 sec) group by symbol", "ordered"),
    ("length_batch", "@name('q') select irstream symbol, price from Trade#length_batch(6)", "ordered"),
    ("unbound_group", "@name('q') select symbol, sum(size) as total, max(price) as top from Trade group by symbol", "by key"),
    ("two_keys", "@name('q') select symbol, venue, count(*) as n from Trade group by symbol, venue", "by key"),
    (
        "time_group",
        "@name('q') select irstream symbol, avg(price) as mean, count(*) as n from Trade#time(5 sec) group by symbol",
        "by key",
    ),
    (
        "time_group_rows",
        "@name('q') select symbol, price, avg(price) as mean from Trade#time(5 sec) group by symbol having count(*) > 2",
        "by key",
    ),
    ("having", "@name('q') select symbol, sum(size) as n from Trade#keepall group by symbol having sum(size) > 3000", "by key"),
    ("groupwin", "@name('q') select irstream symbol, size from Trade#groupwin(symbol)#length(3)", "by key"),
    (
        "groupwin_group",
        "@name('q') select symbol, venue, sum(size) as n from Trade#groupwin(symbol)#length(3) group by symbol, venue",
        "by key",
    ),
    ("groupwin_total", "@name('q') select sum(size) as n from Trade#groupwin(symbol)#length(3)", "ordered"),
    ("unique", "@name('q') select irstream symbol, price from Trade#unique(symbol)", "by key"),
    ("lastevent", "@name('q') select irstream symbol from Trade#lastevent", "by time slice"),
    (
        "context_time",
        "create context PerSymbol partition by symbol from Trade;"
        "@name('q') context PerSymbol select irstream context.key1 as k, price, sum(size) as n from Trade#time(3 sec)",
        "by key",
    ),
    (
        "context_batch",
        "@name('q') context PerSymbol select symbol, count(*) as n, min(price) as low from Trade#time_batch(4 sec)",
        "by key",
    ),
    (
        "context_length",
        "create context PerBoth partition by symbol and venue from Trade;"
        "@name('q') context PerBoth select irstream symbol, venue, avg(price) as mean from Trade#length(2)",
        "by key",
    ),
    (
        "context_id",
        "@name('q') context PerSymbol select context.id as id, symbol, count(*) as n from Trade",
        "ordered",
    ),
    (
        "chain",
        "insert into Big select symbol as s, price as p from Trade(price > 100);"
        "@name('q') select s, count(*) as n, max(p) as top from Big group by s",
        "by key",
    ),
    (
        "chain_without_the_key",
        "insert into Newest select venue as v, price as p from Trade#unique(symbol);"
        "@name('q') select v, count(*) as n from Newest group by v",
        "ordered",
    ),
    (
        "chain_of_sums",
        "insert into Rate select symbol, sum(size) as volume from Trade#time(5 sec) group by symbol;"
        "@name('q') select symbol, volume, max(volume) as top from Rate group by symbol",
        "by key",
    ),
    (
        "two_inputs",
        "insert into Any_ select symbol as s, 1 as kind from Trade; insert into Any_ select symbol as s, 2 as kind from Quote;"
        "@name('q') select s, sum(kind) as n, count(*) as c from Any_ group by s",
        "by key",
    ),
    (
        "context_of_two",
        "create context Per partition by symbol from Trade, symbol from Quote;"
        "@name('q') context Per select symbol, avg(bid) as mean from Quote#time(6 sec)",
        "by key",
    ),
    ("output_events", "@name('q') select irstream symbol, price from Trade#length(4) output every 5 events", "ordered"),
    ("output_time", "@name('q') select symbol, sum(size) as n from Trade#time(5 sec) group by symbol output all every 2 sec", "ordered"),
    ("output_first", "@name('q') select symbol, price from Trade group by symbol output first every 3 sec", "ordered"),
    ("output_at", "@name('q') select count(*) as n, current_timestamp as t from Trade output last at (*, *, *, *, *, */5)", "ordered"),
    ("join", "@name('q') select t.symbol as s, t.size as size, q.bid as bid from Trade#length(4) as t, Quote#length(3) as q where t.symbol = q.symbol", "by time slice"),
    ("join_by_key", "@name('q') select t.symbol as s, t.size as size, q.bid as bid from Trade#time(5 sec) as t full outer join Quote#unique(symbol) as q on t.symbol = q.symbol", "by key"),
    ("join_of_groups", "@name('q') select t.symbol as s, sum(t.size) as n, max(q.bid) as top from Trade#keepall as t, Quote#time(4 sec) as q where q.symbol = t.symbol group by t.symbol", "by key"),
    ("join_in_partitions", "@name('q') context Per select irstream t.symbol as s, t.size as size, q.bid as bid from Trade#length(4) as t full outer join Quote#time(3 sec) as q on t.symbol = q.symbol", "by key"),
    ("pattern_in_partitions", "@name('q') context Per select a.size as size, b.bid as bid from pattern [every a=Trade -> (b=Quote and not Trade(size > 900))]", "by key"),
    ("silence_in_partitions", "@name('q') context Per select a.symbol as s, a.size as size from pattern [every a=Trade -> (timer:interval(2 sec) and not Trade)]", "by key"),
    ("output_in_partitions", "@name('q') context Per select symbol, sum(size) as n from Trade output last every 3 sec", "by key"),
    ("subquery_in_partitions", "@name('q') context Per select symbol, size, (select max(bid) from Quote#length(5)) as top from Trade", "by key"),
    ("before_in_partitions", "@name('q') context Per select size, prior(1, size) as before, prev(2, size) as earlier from Trade#length(3)", "by key"),
    ("shapes_in_partitions", "@name('q') context Per select * from Trade match_recognize (measures a.size as a, b.size as b pattern (a b) define b as b.size > a.size)", "by key"),
    ("subquery_over_all", "@name('q') context PerSymbol select size, (select max(bid) from Quote#length(5)) as top from Trade", "ordered"),
    (
        "named_window",
        "create window Latest#unique(symbol) as (symbol string, bid double); insert into Latest select symbol, bid from Quote;"
        "@name('q') select t.symbol as s, l.bid as bid from Trade as t unidirectional, Latest as l where t.symbol = l.symbol",
        "by key",
    ),
    (
        "merged_window",
        "create window Sums#keepall as (s string, n long);"
        "on Trade as t merge Sums as w where t.symbol = w.s when matched then update set n = w.n + t.size "
        "when not matched then insert select symbol as s, cast(size, long) as n;"
        "@name('q') select irstream s, n from Sums",
        "by key",
    ),
    (
        "table",
        "create table Counts(symbol string primary key, n count(*)); into table Counts select count(*) as n from Trade group by symbol;"
        "@name('q') select symbol, Counts[symbol].n as n from Quote",
        "by key",
    ),
    (
        "categories",
        "create context Sizes group size < 300 as small, group size between 200 and 700 as medium, group symbol = 'A' as a from Trade;"
        "@name('q') context Sizes select context.label as label, count(*) as n, sum(size) as total from Trade#time(4 sec)",
        "by key",
    ),
    (
        "hash_buckets",
        "create context Shares coalesce by consistent_hash_crc32(symbol, venue) from Trade granularity 5;"
        "@name('q') context Shares select irstream count(*) as n, max(price) as top from Trade#length(3)",
        "by key",
    ),
    (
        "sessions",
        "create context Sessions partition by symbol from Trade, symbol from Quote terminated after 5 sec;"
        "create context Bursts context S partition by symbol from Trade, context B start Trade(size > 800) end after 3 sec;"
        "@name('q') context Bursts select symbol, count(*) as n from Trade",
        "by key",
    ),
    (
        "answered",
        "@name('q') select a.size as size, b.bid as bid from pattern [every a=Trade(size > 300) -> b=Quote(symbol = a.symbol)]",
        "by key",
    ),
    (
        "silence",
        "@name('q') select a.symbol as s, a.size as size from pattern [every a=Trade(size > 500) -> (timer:interval(2 sec) and not Quote(symbol = a.symbol))]",
        "by time slice",
    ),
    ("counted_batches", "@name('q') select irstream count(*) as n, sum(size) as total from Trade#time_batch(3 sec, 0L)", "by time slice"),
]  # fmt: skip


def bench_of(epl: str, frames: dict[str, pd.DataFrame], until: int | None = UNTIL) -> Workbench:
    cep = Workbench()
    for name, frame in frames.items():
        cep.define(name, frame, time="ts")
    cep.run(epl)
    cep.replay(frames, until=until).run()
    return cep


@pytest.fixture(scope="module")
def all_cases(spark: SparkSession) -> Iterator[tuple[SparkRun, Comparison]]:
    """All statements of `CASES` in one workbench: one Spark job for each way to run them."""
    frames = {"Trade": trades(1), "Quote": quotes(1)}
    cep = bench_of(";".join(epl.replace("'q'", f"'{name}'") for name, epl, _ in CASES), frames)
    run = cep.spark(frames, until=UNTIL, statements=[c[0] for c in CASES], session=spark)
    yield run, cep.compare(run)
    run.close()


@pytest.mark.parametrize(("name", "path"), [(c[0], c[2]) for c in CASES])
def test_same_rows_as_in_the_workbench(all_cases: tuple[SparkRun, Comparison], name: str, path: str) -> None:
    run, comparison = all_cases
    assert run.coverage[name].path == path, run.coverage[name]
    found = comparison.statements[name]
    assert found.same, comparison
    assert found.equal > 10


@pytest.mark.parametrize("seed", range(2, 5))
def test_many_statements_over_other_histories(spark: SparkSession, seed: int) -> None:
    epl = """
        create context PerSymbol partition by symbol from Trade;
        @name('sum') context PerSymbol select irstream symbol, price, sum(price) as total from Trade#time(2 sec);
        @name('big') insert into Big select symbol, size from Trade(size > 300);
        @name('batches') select irstream size from Big#length_batch(4);
        @name('per') select symbol, avg(size) as mean from Big#time(7 sec) group by symbol;
        @name('quote') select irstream * from Quote#time(1 sec);
    """
    frames = {"Quote": quotes(seed), "Trade": trades(seed)}
    cep = bench_of(epl, frames)
    run = cep.spark(frames, until=UNTIL, session=spark)
    found = cep.compare(run)
    assert found.verdict == "equal", found
    assert {n: p.path for n, p in run.coverage.items()} == {
        "sum": "by key", "big": "native", "batches": "ordered", "per": "by key", "quote": "by time slice",
    }  # fmt: skip
    run.close()


def test_ties_keep_the_order_of_the_mapping_and_of_rows(spark: SparkSession) -> None:
    a = pd.DataFrame({"ts": [5, 5, 5, 7], "n": [1, 2, 3, 4]})
    b = pd.DataFrame({"ts": [3, 5, 7, 7], "n": [10, 20, 30, 40]})
    epl = "insert into Both select 'a' as src, n from A; insert into Both select 'b' as src, n from B;\
        @name('q') select src, n from Both#length(2)"
    for frames in ({"A": a, "B": b}, {"B": b, "A": a}):
        cep = bench_of(epl, frames)
        run = cep.spark(frames, session=spark)
        found = cep.compare(run, order=True)
        assert found.verdict == "equal", found
        table = run.to_pandas("q")
        assert table["sequence"].tolist() == list(range(8))
        expected = {"A": [10, 1, 2, 3, 20, 4, 30, 40], "B": [10, 20, 1, 2, 3, 30, 40, 4]}[next(iter(frames))]
        assert table["n"].tolist() == expected
        run.close()


def test_whole_numbers_with_gaps_keep_all_digits_in_pandas(spark: SparkSession) -> None:
    numbers = pd.array([2**53 + 1, None, 3], dtype="Int64")
    frame = pd.DataFrame({"ts": [1, 2, 3], "large": numbers, "small": pd.array([1, None, 3], dtype="Int64")})
    cep = Workbench()
    cep.run("create schema A(ts long, large long, small long) starttimestamp ts; @name('q') select large, small from A")
    table = cep.spark({"A": frame}, session=spark).to_pandas("q")
    assert table["large"].dtype == "Int64"
    assert table["large"].tolist() == [2**53 + 1, pd.NA, 3]
    assert table["small"].dtype == float


def test_names_of_no_statement(spark: SparkSession) -> None:
    frame = pd.DataFrame({"ts": [1], "n": [2]})
    cep = bench_of("@name('q') select n from A", {"A": frame}, None)
    run = cep.spark({"A": frame}, session=spark)
    for read in (run.frame, run.types, run.readers, run.fingerprint, run.columns, run.to_pandas):
        with pytest.raises(UsageError, match="the run has no statement r; it has q"):
            read("r")
    with pytest.raises(UsageError, match="`statements` names no statement"):
        cep.spark({"A": frame}, session=spark, statements=[])


def test_unsorted_frames_are_put_in_order(spark: SparkSession) -> None:
    frames = {"Trade": trades(3).sample(frac=1, random_state=1)}
    cep = bench_of("@name('q') select irstream symbol, size from Trade#length(3)", frames, None)
    found = cep.compare(cep.spark(frames, session=spark), order=True)
    assert found.verdict == "equal", found


def test_spark_frames_with_a_sequence(spark: SparkSession) -> None:
    frames = {"Trade": trades(4)}
    cep = bench_of("@name('q') select irstream symbol, price, size from Trade#length(3)", frames, None)
    numbered = frames["Trade"].assign(number=np.arange(len(frames["Trade"])) * 10)
    run = cep.spark({"Trade": spark.createDataFrame(numbered).repartition(4)}, sequence="number", session=spark)
    assert run.order == "events of one time are ordered by the column number"
    found = cep.compare(run, order=True)
    assert found.verdict == "equal", found
    assert set(run.to_pandas("q")["sequence"]) == set(numbered["number"])


def test_spark_frames_without_a_sequence_say_how_ties_are_broken(spark: SparkSession) -> None:
    frame = trades(5).drop_duplicates("ts")
    cep = bench_of("@name('q') select irstream symbol, price from Trade#length(3)", {"Trade": frame}, None)
    run = cep.spark({"Trade": spark.createDataFrame(frame).repartition(4)}, session=spark)
    assert not run.certain and "is undefined: Trade has no order of its own" in run.order
    found = cep.compare(run, order=True)
    assert found.verdict == "equal", found
    ordered = cep.spark({"Trade": spark.createDataFrame(trades(5))}, session=spark)
    assert (
        ordered.certain
        and ordered.order == "events of one time are ordered by type (order of the mapping), then by row"
    )


def test_a_sequence_number_must_not_repeat(spark: SparkSession) -> None:
    frame = pd.DataFrame({"ts": [1, 2, 2], "n": [1, 2, 3], "number": [0, 1, 1]})
    cep = bench_of("@name('q') select n from A#lastevent", {"A": frame}, None)
    with pytest.raises(EventError, match=r"two events of A at 00:00:00.002 have the sequence number 1"):
        cep.spark({"A": frame}, sequence="number", session=spark).to_pandas("q")


def test_nan_is_null_in_spark_frames_as_everywhere(spark: SparkSession) -> None:
    cep = Workbench()
    cep.run("create schema A(ts long, x double); @name('q') select x, x + 1 as y, x is null as absent from A")
    frame = spark.createDataFrame([(1, 1.5), (2, None), (3, float("nan"))], "ts bigint, x double")
    rows = cep.spark({"A": frame}, time="ts", session=spark).to_arrow("q").to_pylist()
    assert [r["absent"] for r in rows] == [False, True, True]
    assert rows[0]["y"] == 2.5 and rows[1]["x"] is None and rows[2]["x"] is None and rows[2]["y"] is None
    missing = pd.DataFrame({"ts": [1, 2], "x": [1.5, float("nan")]})
    rows = cep.spark({"A": missing}, time="ts", session=spark).to_arrow("q").to_pylist()
    assert [r["absent"] for r in rows] == [False, True]


def test_types_of_columns(spark: SparkSession) -> None:
    cep = Workbench()
    cep.run(
        "create schema Part(a int, b string);"
        "create schema A(ts long, i int, s short, f float, b boolean, c string, big bigdecimal, xs int[], o Part);"
        "@name('q') select *, i + 1 as j, f / 2 as h, sum(i) as time, i as I_ from A group by c"
    )
    schema = (
        "ts bigint, i int, s smallint, f float, b boolean, c string, big decimal(10,2), "
        "xs array<int>, o struct<a: int, b: string>"
    )
    frame = spark.createDataFrame(
        [(1, 2, 3, 0.1, True, "x", None, [1, None], (7, "y")), (2, None, None, None, None, None, None, None, None)],
        schema,
    )
    run = cep.spark({"A": frame}, time="ts", session=spark)
    assert run.columns("q")["time"] == "time_"
    types = dict(run.frame("q").dtypes)
    assert (types["i"], types["s"], types["f"], types["b"], types["xs"]) == (
        "int", "smallint", "float", "boolean", "array<int>",
    )  # fmt: skip
    first, second = run.to_arrow("q").to_pylist()
    assert first["xs"] == [1, None] and first["o"] == {"a": 7, "b": "y"} and first["j"] == 3 and first["time_"] == 2
    assert all(second[c] is None for c in ("i", "s", "f", "b", "c", "big", "xs", "o", "j"))


def test_empty_input(spark: SparkSession) -> None:
    frames = {"Trade": trades(1)[:0], "Quote": quotes(1)[:0]}
    cep = Workbench()
    for name, frame in {"Trade": trades(1), "Quote": quotes(1)}.items():
        cep.define(name, frame, time="ts")
    cep.run(
        "@name('a') select symbol from Trade; @name('b') select symbol, count(*) as n from Trade group by symbol;"
        "@name('c') select irstream count(*) as n from Quote#time(1 sec)"
    )
    run = cep.spark(frames, until=UNTIL, session=spark)
    assert [len(run.to_pandas(n)) for n in run.statements] == [0, 0, 0]
    assert list(run.to_pandas("b").columns[-2:]) == ["symbol", "n"]
    assert cep.compare(run).verdict == "equal"


def test_events_after_until_are_left_out(spark: SparkSession) -> None:
    frames = {"Trade": trades(6)}
    cep = bench_of("@name('q') select irstream symbol from Trade#time(10 sec)", frames, SPAN // 2)
    run = cep.spark(frames, until=SPAN // 2, session=spark)
    assert cep.compare(run).verdict == "equal"
    assert run.to_pandas("q")["time"].max() <= SPAN // 2


def test_timestamps_are_utc_milliseconds(spark: SparkSession) -> None:
    at = pd.to_datetime(["2013-01-01 05:15:00.250", "2013-01-01 06:00:00.000"])
    for times in (pd.Series(at), pd.Series(at.tz_localize("UTC").tz_convert("America/New_York"))):
        frame = pd.DataFrame({"ts": times, "n": [1, 2]})
        cep = bench_of("@name('q') select ts, n, current_timestamp() as now from A", {"A": frame}, None)
        for given in (frame, spark.createDataFrame(frame)):
            run = cep.spark({"A": given}, session=spark)
            found = run.to_pandas("q")
            assert found["ts"].tolist() == found["now"].tolist() == [1357017300250, 1357020000000]
            assert cep.compare(run).verdict == "equal"


def test_union_holds_all_statements(spark: SparkSession) -> None:
    frames = {"Trade": trades(1)}
    cep = bench_of(
        "@name('a') select symbol from Trade(size > 900); @name('b') select irstream size, price from Trade#lastevent",
        frames,
    )
    run = cep.spark(frames, until=UNTIL, session=spark)
    counts = {r["statement"]: r["count"] for r in run.union().groupBy("statement").count().collect()}
    assert counts == {n: len(run.to_pandas(n)) for n in ("a", "b")}
    assert set(run.frames) == {"a", "b"}
    row = run.union().where("statement = 'b'").first()
    assert row is not None and row["columns"].startswith('{"size":')


def test_only_the_wanted_statements_run(spark: SparkSession) -> None:
    frames = {"Trade": trades(1)}
    cep = bench_of("@name('a') select symbol from Trade; @name('b') select size from Trade#lastevent", frames)
    assert cep.spark(frames, statements=["b"], session=spark).statements == ("b",)
    with pytest.raises(UsageError, match="there is no select statement c; deployed are: a, b"):
        cep.spark(frames, statements=["c"], session=spark)


@pytest.mark.parametrize(
    ("epl", "reason"),
    [
        ("select symbol from Other", "no frame has events that it reads, so it delivers nothing"),
        ("select count(*) as n from Other#time(3 sec)", "no frame has events that it reads: only the clock drives it"),
        ("select count(*) as n from pattern [every timer:interval(3 sec)]", "only the clock drives it"),
        ("create context Per partition by symbol from Other; context Per select symbol from Other", "nothing"),
        ("create window W#keepall as Other", "nothing"),
    ],
)
def test_types_of_which_there_is_no_frame_have_no_events(spark: SparkSession, epl: str, reason: str) -> None:
    frames = {"Trade": trades(1)}
    cep = bench_of(f"create schema Other(symbol string); {epl}; @name('a') select symbol from Trade", frames)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = cep.spark(frames, session=spark, until=UNTIL)
    name = run.statements[0]
    assert run.coverage[name].reason.endswith(reason)
    unfed = [str(each.message) for each in told if each.category is UnfedWarning]
    expected = [f"`{name}`: no frame has events that it reads, so it delivers nothing"]
    assert unfed == (expected if reason.endswith("nothing") else [])
    found = cep.compare(run)
    assert found.verdict == "equal" and len(found.statements) == 2


@pytest.mark.parametrize(
    ("declared", "given", "shown"),
    [
        ("map", "map('a', 1)", '{"a": 1}'),
        ("map", "named_struct('a', 1)", '{"a": 1}'),
        ("object", "'a'", '"a"'),
        ("object", "5", "5"),
        ("Nested", "named_struct('m', map('a', 1))", {"m": '{"a": 1}'}),
        ("localtime", "'10:20:00'", "10:20"),
    ],
)
def test_values_come_out_alike_on_all_paths(spark: SparkSession, declared: str, given: str, shown: Any) -> None:
    """What tasks would make something else of is not left to Spark."""
    cep = Workbench()
    cep.run(f"create schema Nested(m map); create schema A(ts long, x {declared})")
    cep.run("@name('plain') select x from A; @name('whole') select * from A")
    cep.run("@name('last') select last(x) as x from A#length(2)")
    run = cep.spark({"A": spark.sql(f"SELECT 1L AS ts, {given} AS x")}, time="ts", session=spark)
    assert run.coverage["plain"].path == run.coverage["whole"].path == "row by row"
    assert [run.to_arrow(name).column("x").to_pylist() for name in run.statements] == [[shown]] * 3
    compare(run, run).assert_same()


def test_coverage_is_readable(spark: SparkSession) -> None:
    frames = {"Trade": trades(1)}
    cep = bench_of("@name('a<') select count(*) as n from Trade; @name('b') select symbol from Trade", frames)
    run = cep.spark(frames, session=spark)
    assert "a<: ordered (one aggregate over the events of all keys)" in repr(run)
    assert "a&lt;" in run._repr_html_()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="price"), "lacks the column `price`"),
        (lambda f: f.assign(size="many"), "column `size` of `Trade` is string, but the property is int"),
        (lambda f: f.assign(ts=f["ts"].where(f["size"] > 10)), r"the event time is missing \(2 of 400 rows\)"),
        (lambda f: f.assign(ts=-5), "has the time -00:00:00.005, but the clock starts at 00:00:00.000"),
    ],
)
def test_bad_frames(spark: SparkSession, change: Any, message: str) -> None:
    good = trades(1)
    cep = bench_of("@name('q') select symbol, size from Trade#lastevent", {"Trade": good})
    with pytest.raises(EventError, match=message):
        cep.spark({"Trade": change(good)}, session=spark).to_pandas("q")


def test_bad_spark_frames(spark: SparkSession) -> None:
    good = trades(1)
    cep = bench_of("@name('q') select symbol, size from Trade#lastevent", {"Trade": good})
    frame = spark.createDataFrame(good)
    with pytest.raises(EventError, match="column `size` of `Trade` is string, but the property is int"):
        cep.spark({"Trade": frame.withColumn("size", frame["size"].cast("string"))}, session=spark)
    with pytest.raises(EventError, match="has no column `tss`; did you mean `ts`"):
        cep.spark({"Trade": frame}, time="tss", session=spark)
    with pytest.raises(UsageError, match="there is no event type Trades; known are: Trade"):
        cep.spark({"Trades": frame}, session=spark)
    with pytest.raises(EventError, match="the time of an event of Trade is missing"):
        cep.spark({"Trade": frame.withColumn("ts", frame["ts"] + None)}, session=spark).to_pandas("q")
    cep.run("@name('plain') select size from Trade(size > 5)")
    some = spark.createDataFrame([(None, None, 1, 2.5, 7), (1, "A", 1, 2.5, 7)], frame.schema)
    for until in (None, 100):
        run = cep.spark({"Trade": some}, statements=["plain"], until=until)
        assert run.coverage["plain"].path == "native"
        with pytest.raises(EventError, match="the time of an event of Trade is missing"):
            run.to_pandas("plain")
    for twice in (good[["ts", *good.columns]], frame.select("ts", "*")):
        with pytest.raises(EventError, match="has several columns `ts`: rename or drop all but one"):
            cep.spark({"Trade": twice}, session=spark)
        with pytest.raises(EventError, match="has several columns `ts`"):
            sql("select size from Trade", Trade=twice, time="ts", session=spark)


def test_user_functions_travel_to_the_tasks(spark: SparkSession) -> None:
    frames = {"Trade": trades(1)}
    factor = 3
    cep = Workbench()
    cep.define("Trade", frames["Trade"], time="ts")
    cep.runtime.register_function("thrice", lambda n: n * factor)
    cep.run("@name('q') select cast(thrice(size), int) as n from Trade")
    cep.replay(frames).run()
    run = cep.spark(frames, session=spark)
    assert run.to_pandas("q")["n"].tolist() == (frames["Trade"]["size"] * 3).tolist()
    assert cep.compare(run).verdict == "equal"


def test_variables_travel_with_the_values_that_they_were_given(spark: SparkSession) -> None:
    frames = {"Trade": trades(1), "Quote": quotes(1)}
    cep = Workbench()
    for name, frame in frames.items():
        cep.define(name, frame, time="ts")
    cep.run(
        "create variable int given = 1; create variable int[] arr = {5, 6}; create variable long seen = 0;"
        "create constant variable int TWO = 2; @name('count') on Quote set seen = seen + 1;"
        "@name('plain') select symbol, given * TWO + arr[1] as n from Trade where size > given;"
        "@name('follows') select symbol, seen from Trade"
    )
    cep.set("given", 3)
    cep.replay(frames).run()
    assert cep.get("seen") == len(frames["Quote"])
    run = cep.spark(frames, session=spark)
    assert {name: run.coverage[name].path for name in run.statements} == {"plain": "row by row", "follows": "ordered"}
    assert run.coverage["follows"].reason == "it reads variables that count assigns event by event"
    assert run.to_pandas("plain")["n"].unique().tolist() == [12]
    assert run.to_pandas("follows")["seen"].max() > 1
    assert cep.compare(run).verdict == "equal"


@pytest.mark.parametrize("statement", ["select cast(s, int) as n from A", "select n from B"])
def test_a_failed_statement_raises_with_the_other_rows_or_is_listed(spark: SparkSession, statement: str) -> None:
    frame = pd.DataFrame({"ts": [1, 2, 3], "s": ["1", "x", "3"]})
    cep = Workbench()
    cep.define("A", frame, time="ts")
    cep.run(f"@name('feeder') insert into B select cast(s, int) as n from A; @name('q') {statement}")
    run = cep.spark({"A": frame}, session=spark)
    with pytest.raises(
        ReplayError, match=r"1 statement error in the run of `q`\n.*'x' is not a whole number"
    ) as raised:
        run.to_pandas("q")
    assert raised.value.result["n"].tolist() == [1, 3]
    for read in (run.frame("q").collect, run.frame("q", about=()).collect, run.union().collect):
        with pytest.raises(PySparkException, match=r"(?s)'x' is not a whole number.*hint: errors=\"keep\""):
            read()
    keeping = cep.spark({"A": frame}, session=spark, errors="keep")
    assert keeping.to_pandas("q")["n"].tolist() == [1, 3]
    assert sorted(row.n for row in keeping.frame("q").collect()) == [1, 3]
    errors = keeping.errors()
    assert ["feeder" if "B" in statement else "q", 2, 1] in errors[["statement", "time", "sequence"]].values.tolist()


def test_a_failed_feeder_is_named_by_every_job_and_listed_once(spark: SparkSession) -> None:
    frame = pd.DataFrame({"ts": [1, 2, 3], "s": ["1", "x", "3"]})
    cep = Workbench()
    cep.define("A", frame, time="ts")
    cep.run("@name('feeder') insert into B select cast(s, int) as n from A; @name('plain') select n from B")
    cep.run("@name('window') select sum(n) as total from B#length(2)")
    for statements in (["plain", "window"], ["feeder", "plain", "window"]):
        run = cep.spark({"A": frame}, session=spark, statements=statements)
        assert run.errors()["statement"].tolist() == ["feeder"]
        assert [row.statement for row in run.failures().collect()] == ["feeder"]
        for name in statements:
            with pytest.raises(PySparkException, match="'x' is not a whole number"):
                run.frame(name).collect()
            with pytest.raises(ReplayError, match="1 statement error"):
                run.to_arrow(name)


def test_events_that_are_too_large_for_a_batch_are_told_of_with_what_to_do() -> None:
    said = "An error occurred while calling o120.save.\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
    reason = "Lost task 0.0: org.apache.arrow.memory.OutOfMemoryException: Failure allocating buffer.\n\tat io"

    def action() -> None:
        raise RuntimeError(said + reason)

    with pytest.raises(UsageError, match=r"do not fit into memory\n.*maxRecordsPerBatch") as told:
        run_action(action)
    assert "org.apache" not in str(told.value)


def test_events_of_a_subtype_are_looked_at_as_wholes(spark: SparkSession) -> None:
    """A dynamic property is there; an event as a value has the properties of the declared type, as the column has."""
    cep = Workbench()
    cep.run("""create schema Up(k string, x int); create schema Down(q int) inherits Up;
    create context High partition by k from Up(q? > 3);
    @name('asked') select k, q? as q from Up; @name('filtered') select x from Up(q? = 3);
    @name('grouped') select k, max(cast(q?, int)) as top from Up group by k;
    @name('divided') context High select k, count(*) as n from Up; @name('event') select e, k from Up as e""")
    up = pd.DataFrame({"t": [1, 4], "k": ["a", "b"], "x": [1, 4]})
    down = pd.DataFrame({"t": [2, 3, 5], "k": ["a", "b", "a"], "x": [2, 3, 5], "q": [3, 4, 5]})
    frames = {"Up": up, "Down": down}
    cep.replay(frames, time="t").run()
    run = cep.spark({name: spark.createDataFrame(frame) for name, frame in frames.items()}, time="t", session=spark)
    assert compare(cep, run).verdict == "equal", compare(cep, run)
    assert sorted(run.to_arrow("divided").column("k").to_pylist()) == ["a", "b"]
    assert cep.changes("asked")["q"].tolist() == [None, 3, 4, None, 5]


def test_values_in_lists_and_events_are_compared_as_what_they_are(spark: SparkSession) -> None:
    """Also those that Spark has as texts: maps, objects, times without a date."""
    cep = Workbench()
    cep.run(
        """create schema Part(m map, n biginteger, t localtime);
        create schema A(ts long, m map, n biginteger, t localtime, o object, part Part, parts Part[]);
        @name('q') select window(m) as ms, window(n) as ns, window(t) as times, window(o) as os, last(part) as part,
        last(parts) as parts, last(m) as m, last(n) as n from A#length(2)"""
    )
    part = {"m": {"a": 1}, "n": 7, "t": clock(10, 20, 30)}
    events = [
        {"ts": 1, "m": {"a": 1}, "n": 2, "t": clock(10, 20), "o": "x", "part": part, "parts": [part, None]},
        {"ts": 2, "m": {}, "n": None, "t": None, "o": None, "part": None, "parts": []},
        {"ts": 3, "m": None, "n": 10**30, "t": clock(0), "o": "y", "part": {**part, "m": None}, "parts": None},
    ]

    def given(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: Decimal(v) if name == "n" and v is not None else given(v) for name, v in value.items()}
        return (
            [given(v) for v in value] if isinstance(value, list) else str(value) if isinstance(value, clock) else value
        )

    one = pa.struct([("m", pa.map_(pa.string(), pa.int64())), ("n", pa.decimal128(38, 0)), ("t", pa.string())])
    kinds = [("ts", pa.int64()), *((f.name, f.type) for f in one), ("o", pa.string()), ("part", one)]
    table = pa.Table.from_pylist([given(event) for event in events], pa.schema([*kinds, ("parts", pa.list_(one))]))
    cep.replay({"A": events}, time="ts").run()
    assert cep.changes("q").iloc[0]["ms"] == [{"a": 1}]
    compare(cep, cep.spark({"A": table}, time="ts", session=spark)).assert_same()


def test_warnings_stand_where_ours_is_called(spark: SparkSession) -> None:
    cep = Workbench()
    cep.run("create schema A(ts long, n int); @name('q') select sum(n) as s from A")
    frame = pd.DataFrame({"ts": [1], "n": pd.array([1], "int32")})
    with pytest.warns(OneTaskWarning) as told:
        cep.spark({"A": frame}, time="ts", session=spark)
        sql("select sum(n) as s from A", A=frame, time="ts", session=spark)
    assert [each.filename for each in told] == [__file__] * 2
