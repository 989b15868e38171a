"""The examples on Spark in README.md and docs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from cepbook.spark.job import EXIT_DONE, main
from tests import documents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = [path for path in documents.runner.pages() if documents.runner.mentions_spark(path)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_page_shows_what_happens(path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEPBOOK_PROGRESS", "off")
    assert documents.runner.check(path, spark) > 0


def commands(program: str, folder: Path) -> list[list[str]]:
    """The arguments of each command of the shell blocks that calls *program*, with its files in *folder*."""
    texts = [text for page in documents.SPARK_PAGES for text in documents.blocks(page, "sh")]
    lines = [line for text in texts for line in text.splitlines()]
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
