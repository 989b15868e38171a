"""One Spark session for all tests; they are skipped, saying why, where pyspark or Java is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cepbook.errors import UsageError
from cepbook.spark.java_home import find_java
from cepbook.spark.spark_session import local_session, require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    try:
        require_pyspark()
        find_java()
    except UsageError as missing:
        pytest.skip(str(missing))
    # three tasks on any machine, so that dividing by key is tried; small batches, so that state must outlive them
    return local_session(
        **{
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
            "spark.driver.memory": "1g",
            # and to generate Java for each of them, too
            "spark.sql.codegen.wholeStage": "false",
            # many small jobs: to compile them well takes longer than they do
            "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
        }
    )
