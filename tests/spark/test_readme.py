"""The example on Spark in README.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests import readme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_example_on_spark_prints_what_is_shown(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    assert any(readme.SPARK in script for script, _ in readme.scripts())
    for script, prints in readme.scripts():
        exec(compile(script, "README.md", "exec"), names)
        assert capsys.readouterr().out == prints
