"""Frames as a stream: checked values, one order, whatever the events come in."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import types as st

from cepbook import Workbench
from cepbook.display import format_time
from cepbook.errors import EventError, UsageError
from cepbook.lang.types import MAP, OBJECT, Type
from cepbook.spark.execution.spark_actions import run_action
from cepbook.spark.frames.arrow_casts import cast_property
from cepbook.spark.frames.sql_casts import ColumnLocation, cast_sql
from cepbook.spark.frames.tagged_stream import physical_plan
from cepbook.spark.task.stream_columns import DELIVERY_COLUMN_NAMES, bounded_event_time, sql_literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BIG = 3_000_000_000


@pytest.fixture
def lenient(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", "true")


def bench(properties: str, epl: str = "@name('q') select * from A") -> Workbench:
    cep = Workbench()
    cep.run(f"create schema A({properties}); {epl}")
    return cep


@pytest.mark.parametrize(
    ("of", "spark_type", "value", "message"),
    [
        ("int", "bigint", BIG, "column `x` of `A`, `ts` = 5: the property is int (-2147483648 … 2147483647), not 30"),
        ("short", "int", 70_000, "the property is short (-32768 … 32767), not 70000"),
        ("long", "double", 1e19, "the property is long (-9223372036854775808 … 9223372036854775807), not 1.0E19"),
        ("int", "double", 2.5, "the property is int (-2147483648 … 2147483647), not 2.5"),
        ("long", "decimal(20,0)", Decimal(2**63), "not 9223372036854775808"),
        ("int", "decimal(10,2)", Decimal("1.50"), "not 1.50"),
        ("bigdecimal", "decimal(38,0)", Decimal(10**30), "bigdecimal holds 20 digits before the point"),
        ("biginteger", "decimal(10,2)", Decimal("1.50"), "biginteger holds whole numbers of 38 digits, not 1.50"),
        ("char", "string", "ab", "the property is char (one character), not ab"),
        ("int[]", "array<bigint>", [1, BIG], "column `x.[]` of `A`, `ts` = 5: the property is int"),
        ("P", "struct<i:bigint>", (BIG,), "column `x.i` of `A`, `ts` = 5: the property is int"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_ends_the_job(
    lenient: SparkSession, of: str, spark_type: str, value: object, message: str
) -> None:
    cep = Workbench()
    cep.run(f"create schema P(i int); create schema A(ts long, x {of}); @name('q') select x from A")
    frame = lenient.createDataFrame([(5, value)], f"ts bigint, x {spark_type}")
    with pytest.raises(EventError) as wrong:
        cep.spark({"A": frame}, time="ts").to_arrow("q")
    assert message in str(wrong.value) and "\n" not in str(wrong.value)
    table = frame.toArrow()
    with pytest.raises(EventError, match=r"column `x.*row 0: (the property is|on Spark big)"):
        cep.spark({"A": table}, time="ts").to_arrow("q")


@pytest.mark.parametrize(
    ("of", "spark_type", "message"),
    [
        ("int", "string", "column `x` of `A` is string, but the property is int"),
        ("double", "string", "is string, but the property is double"),
        ("string", "bigint", "is bigint, but the property is string"),
        ("boolean", "int", "is int, but the property is boolean"),
        ("int", "boolean", "is boolean, but the property is int"),
        ("map", "string", "is string, but the property is map"),
        ("P", "struct<j:int>", "lacks `i` of the event type `P`"),
        ("double[]", "array<string>", "column `x.[]` of `A` is string, but the property is double"),
    ],
)
def test_a_column_that_cannot_fit_is_refused_before_a_job(
    spark: SparkSession, of: str, spark_type: str, message: str
) -> None:
    cep = Workbench()
    cep.run(f"create schema P(i int); create schema A(ts long, x {of}); @name('q') select x from A")
    frame = spark.createDataFrame([], f"ts bigint, x {spark_type}")
    with pytest.raises(EventError) as wrong:
        cep.spark({"A": frame}, time="ts")
    assert message in str(wrong.value)


def test_values_that_fit_another_type(lenient: SparkSession) -> None:
    cep = Workbench()
    cep.run(
        "create schema P(i int); create schema A(ts long, i int, l long, d double, big biginteger, dec bigdecimal,"
        "m map, p P, xs double[]);"
        "@name('q') select *, big + 1 as more, m.get('a') as a from A"
    )
    schema = (
        "ts bigint, i bigint, l double, d int, big decimal(38,0), dec double, m map<string,int>, "
        "p struct<i: bigint, other: string>, xs array<double>"
    )
    nan = float("nan")
    rows = [(1, 7, 3.0, 4, Decimal(2**80), 0.1, {"a": 5}, (8, "x"), [1.0, nan, None]), (2, *[None] * 8)]
    frame = lenient.createDataFrame(rows, schema)
    for given in (frame, frame.toArrow()):
        first, second = cep.spark({"A": given}, time="ts").to_arrow("q").to_pylist()
        assert (first["i"], first["l"], first["d"], first["dec"]) == (7, 3, 4.0, Decimal("0.1"))
        assert (first["big"], first["more"]) == (2**80, 2**80 + 1)
        assert (first["m"], first["a"]) == ('{"a": 5}', 5) or first["a"] == "5"
        assert first["p"] == {"i": 8} and first["xs"] == [1.0, None, None]
        assert all(second[c] is None for c in ("i", "l", "d", "big", "dec", "m", "p", "xs"))


TIMES = ["2013-01-01T05:00:00.250", "2013-01-01T05:00:01Z", "2013-01-01 07:00:02+02:00"]
MILLIS = [1_357_016_400_250, 1_357_016_401_000, 1_357_016_402_000]


def test_times_are_read_alike_from_all_that_holds_events(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"ts": TIMES, "n": [1, 2, 3]})
    parquet.write_table(table, tmp_path / "a.parquet")
    moments = pa.table({"ts": pa.array(MILLIS, pa.timestamp("ms", "America/New_York")), "n": [1, 2, 3]})
    cep = bench("n long", "@name('q') select n, current_timestamp() as now from A")
    path = tmp_path / "a.parquet"
    given: list[Any] = [table, table.to_pandas(), path, moments, *map(spark.createDataFrame, (table, moments))]
    for each in given:
        run = cep.spark({"A": each}, time="ts", session=spark)
        assert run.to_arrow("q").column("now").to_pylist() == MILLIS, each
    bad = table.set_column(0, "ts", pa.array(["x", *TIMES[1:]]))
    for each in (bad, spark.createDataFrame(bad)):
        with pytest.raises(EventError, match=r"not an ISO 8601 date and time: '?x"):
            cep.spark({"A": each}, time="ts", session=spark).to_arrow("q")
    with pytest.raises(EventError, match="can only be a time in ns"):
        cep.spark({"A": spark.createDataFrame([(2**60, 1)], "ts bigint, n bigint")}, time="ts").to_arrow("q")


def test_no_single_task_numbers_the_rows(spark: SparkSession) -> None:
    cep = bench("ts long, n int", "@name('q') select n from A(n > 1)")
    frame = spark.createDataFrame([(1, 1), (1, 2), (1, 3)], "ts bigint, n int")
    run = cep.spark({"A": frame}, time="ts")
    plan = physical_plan(run.frame("q"))
    assert "Exchange" not in plan and "Window" not in plan, plan
    assert run.to_arrow("q").column("n").to_pylist() == [2, 3]


def test_files_are_read_in_the_order_of_their_names_and_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Not in that of their sizes, by which Spark divides them into tasks."""
    sizes = [3, 200, 1, 40]
    numbers = iter(range(sum(sizes)))
    for file, size in enumerate(sizes):
        own = [next(numbers) for _ in range(size)]
        parquet.write_table(pa.table({"ts": [n // 100 for n in own], "n": own}), tmp_path / f"part {file}.parquet")
    cep = bench("ts long, n long", "@name('q') select n, prev(1, n) as before from A#length(2)")
    frame = spark.read.parquet(str(tmp_path)).where("n >= 0")
    for given in (frame, str(tmp_path)):
        run = cep.spark({"A": given}, time="ts", session=spark)
        assert run.certain and run.order.endswith("then by file name and row in the file")
        assert run.to_arrow("q").column("n").to_pylist() == list(range(sum(sizes)))
    shuffled = cep.spark({"A": frame.repartition(2)}, time="ts")
    assert not shuffled.certain


def test_several_types_of_equal_time_come_in_the_order_given(spark: SparkSession) -> None:
    cep = Workbench()
    for name in "AB":
        cep.define(name, pd.DataFrame({"ts": [1], "n": [1]}), time="ts")
    cep.run("@name('q') select a.n as a, b.n as b from pattern [every a=A -> b=B]")
    data = pa.table({"ts": [1, 1, 2], "n": [10, 20, 30]}), pa.table({"ts": [1, 2, 2], "n": [1, 2, 3]})
    for names in ("AB", "BA"):
        tables = {name: data["AB".index(name)] for name in names}
        alone = cep.rehearsal()
        alone.replay({n: t.to_pandas() for n, t in tables.items()}).run()
        spark_frames = {n: spark.createDataFrame(t) for n, t in tables.items()}
        mixed = {n: f if n == "A" else tables[n] for n, f in spark_frames.items()}
        for frames in (tables, spark_frames, mixed):
            alone.compare(cep.spark(frames, session=spark), order=True).assert_same()


@pytest.mark.parametrize("seed", range(3))
def test_random_ties_of_two_types_are_replayed_alike_with_a_sequence(spark: SparkSession, seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(200)
    tables = {
        name: pa.table({"ts": rng.integers(0, 12, 100), "seq": numbers[half], "n": rng.integers(0, 5, 100)})
        for name, half in (("A", slice(0, 100)), ("B", slice(100, 200)))
    }
    cep = Workbench()
    for name, table in tables.items():
        cep.define(name, table, time="ts")
    cep.run(
        "@name('follows') select a.seq as a, b.seq as b from pattern [every a=A -> b=B(n = a.n)];"
        "@name('both') insert into Both select seq, n from A; insert into Both select seq, n from B;"
        "@name('last') select irstream seq, sum(n) as total from Both#length(3)"
    )
    frames = {name: spark.createDataFrame(table).repartition(3) for name, table in tables.items()}
    cep.replay(frames if seed else tables, sequence="seq").run()
    for given in (frames, tables):
        found = cep.compare(cep.spark(given, sequence="seq", session=spark, statements=["follows", "last"]), order=True)
        found.assert_same()
        assert all(v.equal > 50 for v in found.statements.values())


def test_a_type_from_a_spark_frame_is_that_from_its_arrow_table(spark: SparkSession) -> None:
    schema = (
        "b tinyint, s smallint, i int, l bigint, f float, d double, big decimal(20,0), dec decimal(10,2), t string,"
        "ok boolean, at timestamp, day date, xs array<int>, p struct<a: int>, m map<string, int>"
    )
    frame = spark.createDataFrame([], schema)
    found = [Workbench().define("E", given) for given in (frame, frame.toArrow())]
    assert found[0] == found[1]
    assert " ".join(str(of) for of in found[0].properties.values()) == (
        "byte short int long float double biginteger bigdecimal string boolean long long int[] E_p map"
    )
    with pytest.raises(UsageError, match="a streaming DataFrame has no end"):
        cep = bench("timestamp long, value long")
        cep.replay({"A": spark.readStream.format("rate").load()}, time="timestamp")


def test_a_streaming_frame_and_other_things_are_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    cep = bench("timestamp timestamp, value long")
    stream = spark.readStream.format("rate").load()
    with pytest.raises(UsageError, match="the DataFrame for `A` is a stream"):
        cep.spark({"A": stream}, time="timestamp")
    for given, message in (
        ([{"value": 1}], "expected a Spark or pandas DataFrame, an Arrow table or the path of a Parquet file,"),
        ("nowhere.parquet", "there is no file 'nowhere.parquet'"),
        (__file__, "is not a Parquet file"),
    ):
        with pytest.raises(UsageError, match=message):
            cep.spark({"A": given}, time="timestamp")


def test_what_serves_one_result_is_not_kept(spark: SparkSession) -> None:
    cep = bench("ts long, n long", "@name('q') select n + 1 as m from A; @name('r') select n from A#lastevent")
    frame = spark.createDataFrame([(1, 1)], "ts bigint, n bigint")

    def kept(**options: Any) -> bool:
        run = cep.spark({"A": frame}, time="ts", **options)
        found = any(asked(DELIVERY_COLUMN_NAMES).rows.frame.storageLevel.useMemory for _, asked in run._jobs)
        run.close()
        return found

    assert not kept(statements=["q"]) and kept(statements=["q"], persist=True)
    cep.run("@name('s') select n + 2 as m from A(n > 1)")
    assert kept() and not kept(persist=False)


@pytest.mark.parametrize("declared", [OBJECT, MAP, Type("string"), Type("byte", of=Type("byte"))])
def test_binary_columns_are_refused(declared: Type) -> None:
    """They came out as the text that Python shows of them."""
    kinds: tuple[st.DataType, ...] = (
        st.BinaryType(),
        st.ArrayType(st.BinaryType()),
        st.MapType(st.StringType(), st.BinaryType()),
        st.StructType([st.StructField("a", st.StructType([st.StructField("b", st.BinaryType())]))]),
    )
    for of in kinds:
        with pytest.raises(EventError) as wrong:
            cast_sql("x", of, declared, {}, ColumnLocation("x", "T", row="at"), 1000)
        text = f"column `x` of `T` is {of.simpleString()}, and no type of EPL is binary"
        assert str(wrong.value) == f"{text}\n  hint: encode the column (base64, hex) or drop it"
    word = pa.array([b"word"])
    arrays = [word, word.cast(pa.large_binary()), word.cast(pa.binary(4)), word.dictionary_encode()]
    arrays += [pa.array([[b"word"]]), pa.array([{"a": {"b": b"word"}}])]
    for array in arrays:
        with pytest.raises(EventError, match=r"^column x is .*binary.*, and no type of EPL is binary"):
            cast_property(array, declared, {}, "column x", 1000)
    assert (
        cast_sql("x", st.MapType(st.StringType(), st.StringType()), MAP, {}, ColumnLocation("x", "T", row="at"), 1000)
        == "x"
    )


def test_errors_of_spark_show_times_as_everything_else_does(spark: SparkSession) -> None:
    for second in (1000, 1_000_000):
        start = 1_357_038_000_005 * second // 1000
        early = start - 3
        frame = spark.createDataFrame(pa.table({"time": [start, early]}))
        frame = frame.selectExpr(bounded_event_time("time", "A %d", start, second))
        with pytest.raises(EventError) as failed:
            run_action(frame.collect)
        told = [format_time(time, millis=True, second=second) for time in (early, start)]
        assert str(failed.value) == f"an event of A %d has the time {told[0]}, but the clock starts at {told[1]}"


def test_literals_are_what_they_were(spark: SparkSession) -> None:
    texts = ["", "it's", 'a "b"', "\\n", "${x}", "{y}", "50 % of `a`: (1 < 2, 3 > 2); x_y-z = 1.5", "ä…\n", "a\tb"]
    assert list(spark.range(1).selectExpr(*(f"{sql_literal(t)} AS c{i}" for i, t in enumerate(texts))).first()) == texts
