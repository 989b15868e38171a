"""The examples on Spark in README.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import cepbook.spark
from cepbook.spark.job import EXIT_DONE, main
from tests import readme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_example_on_spark_prints_what_is_shown(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    assert any(readme.SPARK in script for script, _ in readme.scripts())
    for script, prints in readme.scripts():
        exec(compile(script, "README.md", "exec"), names)
        assert capsys.readouterr().out == prints


def commands(program: str, folder: Path) -> list[list[str]]:
    """The arguments of each command of the shell blocks that calls *program*, with its files in *folder*."""
    lines = [line for language, text in readme.fences() if language == "sh" for line in text.splitlines()]
    own = [shlex.split(line.removeprefix(program)) for line in lines if line.startswith(f"{program} ")]
    return [[re.sub(r"(?=\b(?:flights|out|state)/|^job\.epl$)", f"{folder}/", word) for word in words] for words in own]


def test_the_jobs_write_what_they_say(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "flights").mkdir()
    departures = pd.to_datetime(["2013-01-01 10:00", "2013-01-01 10:30"])
    flights = pd.DataFrame({"departure": departures, "origin": ["EWR", "JFK"], "delay": [50.0, 5.0]})
    flights.to_parquet(tmp_path / "flights" / "part.parquet")
    (tmp_path / "job.epl").write_text("@name('delays') select origin, delay from Flight(delay > 10)", encoding="utf-8")
    batch, stream = commands("python -m cepbook.spark", tmp_path)
    out = tmp_path / "out"
    assert main(batch) == EXIT_DONE
    assert pd.read_parquet(out)["origin"].tolist() == ["EWR"]
    out.rename(tmp_path / "of_the_batch")
    assert main([*stream, "--once"]) == EXIT_DONE  # without it more files are waited for
    assert spark.read.parquet(str(out)).toPandas()["origin"].tolist() == ["EWR"]


def test_the_function_of_spark_sql_is_registered_and_called(spark: SparkSession) -> None:
    (call,) = re.findall(r"`(cepbook\.spark\.register_sql\(.*?\))`", readme.README.read_text(encoding="utf-8"))
    (query,) = [text for language, text in readme.fences() if language == "sql"]
    ticks = pd.DataFrame({"at": [0, 1000], "seq": [0, 1], "symbol": ["A", "A"], "price": [10.0, 14.0]})
    spark.createDataFrame(ticks).createOrReplaceTempView("ticks")
    eval(call, {"cepbook": cepbook, "ticks": ticks})
    assert [row["mean"] for row in spark.sql(query).orderBy("time").collect()] == [10.0, 12.0]
