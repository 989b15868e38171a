"""Dates, decimals, structs and maps through Spark and back: what the engine works with is what a workbench does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyarrow import parquet

from cepbook import Workbench
from cepbook.errors import EventError
from cepbook.lang.java.date_text import local_text, parse_local_time, parse_zoned_datetime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEW_YORK = ZoneInfo("America/New_York")
EPL = """
create schema P(dated localdate, amount bigdecimal, at calendar);
create schema A(ts long, date timestamp, cal calendar, zoned zoneddatetime, local localdatetime, dated localdate,
    clock localtime, amount bigdecimal, big biginteger, m map, p P, many localdate[]);
@name('q') select *, cal.getHourOfDay() as cal_hour, zoned.getHourOfDay() as zoned_hour, local.plus(1 day) as next,
    cast(date, string) as date_text, cast(zoned, string) as zoned_text, cast(clock, string) as clock_text,
    p.at.getHourOfDay() as inner_hour, amount * 2 as twice, cast(m.get('day'), string) as from_map from A#length(2);
"""
MOMENT = dt.datetime(2024, 3, 10, 6, 59, 59, 250_000, tzinfo=dt.UTC)  # a second before New York leaves winter
VALUES: dict[str, Any] = {
    "date": MOMENT,
    "cal": MOMENT,
    "zoned": MOMENT.astimezone(NEW_YORK),
    "local": dt.datetime(2024, 3, 10, 2, 30),
    "dated": dt.date(1969, 12, 31),
    "clock": dt.time(23, 59, 59, 1),
    "amount": Decimal("12345678901234567890.123456789012345678"),
    "big": 2**100,
    "m": {"day": "x"},
    "p": {"dated": dt.date(2000, 2, 29), "amount": Decimal("0.1"), "at": MOMENT},
    "many": [dt.date(2024, 1, 1), None],
}
COLUMNS = {
    "date": pa.timestamp("us", tz="UTC"),
    "cal": pa.timestamp("us", tz="Asia/Tokyo"),
    "zoned": pa.string(),
    "local": pa.timestamp("us"),
    "dated": pa.date32(),
    "clock": pa.string(),
    "amount": pa.decimal128(38, 18),
    "big": pa.decimal128(38, 0),
    "m": pa.map_(pa.string(), pa.string()),
    "p": pa.struct([("dated", pa.date32()), ("amount", pa.decimal128(38, 18)), ("at", pa.timestamp("us", tz="UTC"))]),
    "many": pa.list_(pa.date32()),
}


@pytest.fixture(params=["UTC", "America/New_York"])
def zoned(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def as_text(value: Any) -> Any:
    return local_text(value) if isinstance(value, dt.time | dt.datetime) else value


def table() -> pa.Table:
    found: dict[str, Any] = {"ts": pa.array([1, 2], pa.int64())}
    for name, kind in COLUMNS.items():
        value = as_text(VALUES[name]) if pa.types.is_string(kind) else VALUES[name]
        value = list(value.items()) if name == "m" else Decimal(value) if name == "big" else value
        found[name] = pa.array([value, None], kind)
    return pa.table(found)


def test_types_of_dates_both_ways_whatever_the_zone_of_the_session(zoned: SparkSession, tmp_path: Path) -> None:
    cep = Workbench()
    cep.run(EPL)
    cep.advance(1)
    cep.send("A", {"ts": 1, **VALUES})
    cep.advance(2)
    cep.send("A", {"ts": 2, **dict.fromkeys(VALUES)})
    feed = cep.feed("q").columns()
    expected = {name: feed.column(name) for name in feed.names or ()}
    parquet.write_table(table(), tmp_path / "a.parquet")
    for given in (zoned.read.parquet(str(tmp_path)), table()):
        run = cep.spark({"A": given}, time="ts", session=zoned)
        assert len(run.errors()) == 0
        rows = run.to_arrow("q").to_pylist()
        for name, (value, missing) in expected.items():
            found = rows[0][name]
            if name in ("zoned", "clock"):
                value = local_text(value)
            elif name == "m":
                value = '{"day": "x"}'
            assert (found, rows[1][name], missing) == (value, None, None), name
        cep.compare(run, order=True).assert_same()
        fields = {f.name: f.dataType.simpleString() for f in run.frame("q").schema.fields}
        assert [fields[n] for n in ("date", "cal", "zoned", "local", "dated", "clock", "amount", "big", "m", "p")] == [
            "timestamp", "timestamp", "string", "timestamp_ntz", "date", "string", "decimal(38,18)", "decimal(38,0)",
            "string", "struct<dated:date,amount:decimal(38,18),at:timestamp>",
        ]  # fmt: skip


def test_the_texts_of_dates() -> None:
    for value in (VALUES["zoned"], MOMENT, dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5.5)))):
        assert parse_zoned_datetime(local_text(value)) == value
        assert local_text(parse_zoned_datetime(local_text(value))) == local_text(value)
    assert parse_local_time(local_text(VALUES["clock"])) == VALUES["clock"]
    for wrong in ("2024-01-01T00:00", "2024-01-01T00:00Z[Nowhere/City]", "2024-01-01T00:00Z[UTC", "x"):
        with pytest.raises(ValueError):
            parse_zoned_datetime(wrong)
    for wrong in ("10:00Z", "x"):
        with pytest.raises(ValueError):
            parse_local_time(wrong)


def test_a_text_that_is_no_date_ends_the_job(spark: SparkSession) -> None:
    cep = Workbench()
    cep.run("create schema A(ts long, z zoneddatetime); @name('q') select z from A#length(2)")
    frame = spark.createDataFrame([(1, "2024-01-01T00:00")], "ts bigint, z string")
    with pytest.raises(EventError, match=r"'2024-01-01T00:00' is no zoneddatetime, which travels as a text such as"):
        cep.spark({"A": frame}, time="ts").to_arrow("q")
    moments = spark.createDataFrame([], "ts bigint, z timestamp")
    with pytest.raises(EventError, match="column `z` of `A` is timestamp, but the property is zoneddatetime"):
        cep.spark({"A": moments}, time="ts")
