"""Statements as table functions of Spark SQL: each partition gives what a kernel gives over its events alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cepbook import Workbench
from cepbook.errors import EventError, UsageError
from cepbook.spark import register_sql
from cepbook.spark.execution.spark_actions import run_action
from tests.spark.histories import SPAN, trades

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPL = "select irstream symbol, sum(size) as total, count(*) as n from Trade#time(2 sec)"
SQL = "select * from {0}(TABLE(select * from udtf_trades) PARTITION BY symbol ORDER BY (ts, number))"
SHOWN = ["time", "sequence", "trigger", "delivery", "kind"]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Any:
    """400 trades of several symbols, ties among them, as a view."""
    frame = trades(3).assign(number=range(400))
    spark.createDataFrame(frame).createOrReplaceTempView("udtf_trades")
    return frame


def delivered(epl: str, frame: Any, until: int | None = None) -> list[tuple[Any, ...]]:
    cep = Workbench()
    cep.define("Trade", frame, time="ts")
    cep.run(f"@name('q') {epl}")
    cep.replay({"Trade": frame}, until=until).run()
    found: list[tuple[Any, ...]] = []
    for delta in cep.feed("q").snapshot():
        for kind, rows in (("insert", delta.insert), ("remove", delta.remove)):
            found += [(delta.time, kind, *row.values()) for row in rows or ()]
    return found


@pytest.mark.parametrize("until", [None, SPAN + 5000])
def test_each_partition_gives_what_a_kernel_gives_over_its_events(
    spark: SparkSession, table: Any, until: int | None
) -> None:
    register_sql("cep_run", EPL, Trade=table, time="ts", until=until, session=spark)
    frame = spark.sql(SQL.format("cep_run"))
    assert frame.columns == ["statement", *SHOWN, "error", "symbol", "total", "n"]
    own = [tuple(r) for r in frame.select("time", "kind", "symbol", "total", "n").collect()]
    expected = []
    for symbol in table["symbol"].unique():
        of = table[table["symbol"] == symbol] if isinstance(symbol, str) else table[table["symbol"].isna()]
        expected += delivered(EPL, of, until)
    assert sorted(own, key=repr) == sorted(expected, key=repr)
    assert len(own) > 400


def test_patterns_and_several_statements(spark: SparkSession, table: Any) -> None:
    module = (
        "insert into Big select symbol, size, ts from Trade(size > 300);"
        "@name('rises') select a.size as a, b.size as b from pattern [every a=Big -> b=Big(size > a.size)];"
        "@name('other') select size from Big"
    )
    with pytest.raises(
        UsageError, match=r"which statement delivers the rows\? pass statement='…'; the module has: rises, o"
    ):
        register_sql("cep_rises", module, Trade=table, time="ts", session=spark)
    register_sql("cep_rises", module, statement="rises", Trade=table, time="ts", session=spark)
    rows = spark.sql(f"select a, b from ({SQL.format('cep_rises')})").collect()
    assert rows and all(a < b for a, b in rows)


def test_failures_are_rows(spark: SparkSession, table: Any) -> None:
    register_sql("cep_fails", "select cast(symbol, int) as n from Trade", Trade=table, time="ts", session=spark)
    rows = spark.sql(SQL.format("cep_fails")).where("kind = 'error'").select("error", "n").limit(1).collect()
    assert "cast" in rows[0]["error"] and rows[0]["n"] is None


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from {0}(TABLE(udtf_trades) PARTITION BY symbol)", None),
        (
            "select * from {0}(TABLE(udtf_trades) PARTITION BY symbol ORDER BY ts DESC)",
            "the order must be that of time",
        ),
        (
            "select * from {0}(TABLE(select ts, size from udtf_trades) WITH SINGLE PARTITION ORDER BY ts)",
            "the table has no column `symbol`, which Trade has; it has ts, size",
        ),
        (
            "select * from {0}(TABLE(select ts, symbol, 3000000000 as size from udtf_trades) WITH SINGLE PARTITION)",
            "the property is int (-2147483648 … 2147483647), not 3000000000",
        ),
        (
            "select * from {0}(TABLE(select cast(null as bigint) as ts, symbol, size from udtf_trades))",
            "the event time is missing",
        ),
    ],
)
def test_what_a_table_must_be(spark: SparkSession, table: Any, query: str, message: str | None) -> None:
    schema = "create schema Trade(ts long, symbol string, size int)"
    register_sql("cep_strict", f"{schema}; @name('q') {EPL}", time="ts", session=spark)
    if message is None:  # as the rows come, and here they come in order
        assert spark.sql(query.format("cep_strict")).count() > 0
        return
    with pytest.raises(EventError) as failure:
        run_action(spark.sql(query.format("cep_strict")).collect)
    assert message in str(failure.value)


def test_what_cannot_be_a_table_function(spark: SparkSession, table: Any) -> None:
    two = "create schema A(t long); create schema B(t long); select a.t as t from pattern [every a=A -> B]"
    with pytest.raises(UsageError, match="reads A and B, but a table holds events of one type"):
        register_sql("cep_two", two, time="t", session=spark)
    with pytest.raises(UsageError, match="'a b' is not a valid name"):
        register_sql("a b", EPL, Trade=table, session=spark)
    with pytest.raises(UsageError, match="which column holds the time of Trade"):
        register_sql("cep_time", EPL, Trade=table, session=spark)
    with pytest.raises(UsageError, match="a table function reads one table"):
        register_sql("cep_both", EPL, Trade=table, Quote=table, session=spark)
