"""Before a statement's own columns stands what somebody asks for, on each way that a statement runs."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from cepbook import Workbench
from cepbook.errors import EventError, UsageError
from cepbook.spark import sql
from cepbook.spark.frames.tagged_stream import physical_plan
from cepbook.spark.task.stream_columns import VISIBLE_COLUMNS

SCHEMA = "create schema T(at long, k string, time double, v int);"
KEYED = "create context K partition by k from T;"
WAYS = {
    "native": ("native", "select k, time from T(v > 2)"),
    "by columns": ("by key", "select k, at as begun, avg(time) as time from T#groupwin(k)#length(3) group by k"),
    "named as the stream is": ("by key", "select k, at as time, sum(v) as seq from T#groupwin(k)#length(3) group by k"),
    "batches": (
        "native",
        f"{KEYED} @name('q') context K select k, sum(v) as time from T#ext_timed_batch(at, 3 msec, 0L)",
    ),
    "engine": ("by key", KEYED + "@name('q') context K select irstream k, v as time from T#length(2)"),
    "ordered": ("ordered", "select irstream k, v as `statement` from T#sort(2, v)"),
    "slices": ("by time slice", "select k, sum(v) as time from T#time(20 msec)"),
}
FRAME = pd.DataFrame(
    {"at": range(40), "k": ["a", "b", "c", "a"] * 10, "time": [n % 7 / 2 for n in range(40)], "v": [1, 5, 3, 2] * 10}
)


def bench(epl: str) -> Workbench:
    cep = Workbench()
    cep.run(SCHEMA + (epl if "@name" in epl else f"@name('q') {epl}"))
    return cep


@pytest.mark.filterwarnings("ignore::cepbook.spark.execution.execution.OneTaskWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("persist", [None, True])
def test_who_asks_for_less_gets_the_same_rows(spark: SparkSession, way: str, persist: bool | None) -> None:
    path, epl = WAYS[way]
    run = bench(epl).spark({"T": FRAME}, time="at", session=spark, persist=persist)
    assert run.coverage["q"].path == path
    whole = run.to_pandas("q")
    own = run.columns("q")
    assert len(whole) and not run.errors().size
    for about in ((), ("sequence",), ("kind", "time"), VISIBLE_COLUMNS):
        found = run.frame("q", about=about)
        names = run.columns("q", about)
        assert found.columns == [*about, *names.values()]
        assert about or list(names.values()) == list(own)  # nothing is renamed for what nobody asked for
        columns = [*about, *(own[each] for each in names)]
        assert _bag(found.toPandas()) == _bag(whole[columns])
    run.close()


def _bag(frame: pd.DataFrame) -> list[Any]:
    return sorted(map(repr, frame.itertuples(index=False, name=None)))


def test_nothing_is_calculated_that_nobody_asks_for(spark: SparkSession) -> None:
    run = bench(WAYS["batches"][1]).spark({"T": FRAME}, time="at", session=spark)
    assert "first" in physical_plan(run.frame("q"), "extended")
    assert "first" not in physical_plan(run.frame("q", about=()), "extended")
    own = bench("select k, avg(v) as mean from T#groupwin(k)#length(3) group by k")
    run = own.spark({"T": FRAME}, time="at", session=spark)
    physical = physical_plan(run.frame("q", about=()))
    assert physical.partition("MapInArrow")[0].count("Project") == 0, physical


def test_failures_are_not_rows_whatever_is_asked_for(spark: SparkSession) -> None:
    cep = Workbench()
    cep.register_function("half", _half, returns="int")
    cep.run(SCHEMA + "@name('q') select k, half(v) as h from T")
    run = cep.spark({"T": FRAME}, time="at", session=spark, errors="keep")
    assert sorted(row.h for row in run.frame("q", about=()).collect()) == [1] * 10
    assert len(run.errors()) == 30


def _half(v: int) -> int:
    if v % 2:
        raise ValueError("odd")
    return v // 2


def test_one_call_gives_the_columns_alone(spark: SparkSession) -> None:
    found = sql("select k, v as time from T(v > 4)", T=FRAME, time="at", session=spark, about=())
    assert not isinstance(found, dict) and found.columns == ["k", "time"] and found.count() == 10
    two = "select k from T(v > 4); @name('x') select v from T(v < 2)"
    several = sql(two, T=FRAME, time="at", session=spark, about=())
    assert isinstance(several, dict) and several["x"].columns == ["v"]


@pytest.mark.parametrize(
    ("about", "message"),
    [
        (("when",), "about=('when',): there is no metadata column 'when'"),
        (("time", "time"), "about=('time', 'time'): repeats 'time'"),
        ("time", "`about` is a list of names, not 'time'"),
    ],
)
def test_what_is_not_told_of_rows_cannot_be_asked_for(spark: SparkSession, about: Any, message: str) -> None:
    run = bench(WAYS["native"][1]).spark({"T": FRAME}, time="at", session=spark)
    for ask in (lambda: run.frame("q", about=about), lambda: sql("select k from T", T=FRAME, time="at", about=about)):
        with pytest.raises(UsageError) as wrong:
            ask()
        assert message in str(wrong.value)


@pytest.mark.filterwarnings("ignore::cepbook.spark.execution.execution.OneTaskWarning")
@pytest.mark.parametrize("way", [way for way in WAYS if way != "native"])
def test_times_beyond_the_clock_end_the_job(spark: SparkSession, way: str) -> None:
    """Whoever reads them sees it: tasks, or Spark where it calculates itself."""
    frame = spark.createDataFrame(FRAME.assign(at=FRAME["at"] + 2**53 - 20), "at bigint, k string, time double, v int")
    with pytest.raises(EventError, match=r"an event of T has the time \d+ ms, which is beyond the clock"):
        bench(WAYS[way][1]).spark({"T": frame}, time="at", session=spark).to_arrow("q")
