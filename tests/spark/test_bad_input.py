"""What cannot be read, told apart or reached is told before a job starts, wherever that is possible."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from cepbook.errors import CepbookError, EventError, UsageError
from cepbook.spark import sql
from cepbook.spark.execution.spark_actions import error_behind
from cepbook.spark.job import EXIT_USAGE, main
from cepbook.spark.spark_session import connect_session, read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_files_that_cannot_be_read(spark: SparkSession, tmp_path: Path, capsys: Any) -> None:
    broken, empty = tmp_path / "broken.parquet", tmp_path / "empty.parquet"
    broken.write_text("no columns at all, " * 9)
    empty.mkdir()
    (tmp_path / "job.epl").write_text("@name('q') select k from T")
    for path, message in (
        (broken, f"Encountered error while reading file file:{broken}. Could not read footer. "),
        (empty, "there is no file with columns in it, only empty ones or none"),
        (tmp_path / "no*.parquet", f"Path does not exist: file:{tmp_path}/no*.parquet."),
    ):
        with pytest.raises(UsageError) as told:
            sql("select k from T", T=path, time="ts", session=spark)
        assert str(told.value).startswith(f"{path} cannot be read: {message}") and "\n" not in str(told.value)
        out = tmp_path / "out"
        assert main([str(tmp_path / "job.epl"), "--in", f"T={path}", "--time", "ts", "--out", f"q={out}"]) == EXIT_USAGE
        assert capsys.readouterr().err == f"{told.value}\n"
        assert not out.exists()


@pytest.mark.parametrize("master", ["spark://nowhere:7077", "local[]", "locals"])
def test_a_job_of_its_own_runs_on_this_machine(master: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["job.epl", "--in", "T=in", "--out", "q=out", "--master", master])
    message = f"argument --master: {master!r} is no local session such as local[4]; clusters take spark-submit\n"
    assert ended.value.code == EXIT_USAGE and capsys.readouterr().err.endswith(message)


def test_a_file_that_turns_out_to_be_broken_in_a_task() -> None:
    said = "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: "
    reason = "Encountered error while reading file file:///in/b.parquet."
    told = error_behind(f"{said}[FAILED_READ_FILE.NO_HINT] {reason}  SQLSTATE: KD001\n\tat x")
    assert isinstance(told, UsageError) and str(told) == f"what the events are in cannot be read: {reason}"


def test_names_that_no_table_of_spark_has(spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("three")
    found, known = read_table("three")
    assert found is not None and found.count() == 3 and "three" in known
    for name in ("four", "three;drop", "a b", "no.such.table", "three.csv", "", "'"):
        assert read_table(name) == (None, known), name
    spark.catalog.dropTempView("three")


def test_columns_that_spark_does_not_tell_apart(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1, 2)], "k string, K int, ts bigint")
    with pytest.raises(EventError) as told:
        sql("select k from T", T=frame, time="ts")
    assert str(told.value) == (
        "the DataFrame for `T` has the columns `k` and `K`, which Spark does not tell apart\n"
        "  hint: rename or drop all but one, or session.conf.set('spark.sql.caseSensitive', 'true')"
    )
    sql("select ts from T", T=frame, time="ts")  # what is not read does no harm


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"ts": ["2024-01-01", 5]}, "column `ts` of `T` holds values of several kinds: "),
        ({"ts": [1, 2], 7: [1, 2]}, "the DataFrame for `T` has a column named 7, and names of columns are texts"),
    ],
)
def test_frames_that_have_no_columns_of_a_type(columns: Any, message: str) -> None:
    with pytest.raises(EventError) as told:
        sql("select ts from T", T=pd.DataFrame(columns), time="ts")
    assert str(told.value).startswith(message)


def test_a_missing_time_is_the_first_that_spark_says(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1, 1), ("b", 2, None)], "k string, v int, ts bigint")
    keyed = sql("select k, sum(v) as s from T group by k", T=frame, time="ts")
    assert not isinstance(keyed, dict)
    with pytest.raises(Exception, match="missing") as said:
        keyed.collect()
    first = str(said.value).splitlines()[0]
    assert first == "[USER_RAISED_EXCEPTION] cepbook.errors.EventError: the time of an event of T is missing"
    with pytest.raises(CepbookError, match=r"^the time of an event of T is missing$"):
        sql("select irstream k, v from T#time(1 sec)", T=frame, time="ts", session=spark)


@pytest.mark.parametrize("remote", ["spark://nowhere", "sc://", "sc://host:port", "nowhere"])
def test_what_is_no_address_of_a_server(remote: str) -> None:
    with pytest.raises(UsageError) as told:
        connect_session(remote)
    assert str(told.value) == (
        f"Spark Connect ({remote}): that is no address of a server\n"
        "  hint: SPARK_REMOTE is sc://host:port (or local[*] for a server of one's own); "
        "a cluster such as spark://host:7077 is for spark-submit --master"
    )


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(UsageError) as told:
            connect_session(f"sc://127.0.0.1:{port}")
    assert str(told.value) == (
        f"Spark Connect (sc://127.0.0.1:{port}): no server answers at 127.0.0.1:{port}: Connection refused\n"
        "  hint: start one there, or take the variable SPARK_REMOTE away for Spark on this machine"
    )


@pytest.mark.parametrize(
    ("factor", "convert"),
    [(1, "timestamp_seconds(`ts`)"), (10**6, "timestamp_micros(`ts`)"), (10**9, "timestamp_micros(`ts` div 1000)")],
)
def test_numbers_in_another_unit_are_noticed(factor: int, convert: str, spark: SparkSession, tmp_path: Path) -> None:
    """Frames and files; what the message says to write gives the times that are meant."""
    from pyspark.sql import functions as F

    moments = [1_709_283_600, 1_709_283_900]
    frame = spark.createDataFrame([(second * factor,) for second in moments], "ts bigint")
    frame.write.parquet(str(tmp_path / "e.parquet"))
    for source in (frame, tmp_path / "e.parquet"):
        with pytest.raises(EventError) as told:
            sql("select ts from T", T=source, time="ts", session=spark)
        assert f'frame = frame.withColumn("ts", F.expr("{convert}"))' in str(told.value)
    converted = frame.withColumn("ts", F.expr(convert))
    rows = sql("select ts from T", T=converted, time="ts", session=spark).collect()
    assert sorted(row["ts"] for row in rows) == [second * 1000 for second in moments]


def test_small_numbers_of_a_clock_that_begins_at_zero_are_times(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(0,), (1_709_283_600,)], "ts bigint")
    assert len(sql("select ts from T", T=frame, time="ts", session=spark).collect()) == 2
