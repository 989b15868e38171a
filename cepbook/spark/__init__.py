"""The Spark bridge: deployed statements over Spark DataFrames, by the same engine and the same replay contract.

pyspark is imported when it is first needed; without it, or without Java, the rest of cepbook works. Spark's workers
load this package for the engine: what only the driver needs (pandas above all) is loaded when it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cepbook.spark.session import local_session, require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cepbook.engine.runtime import Runtime
    from cepbook.spark.comparison import Comparison, compare
    from cepbook.spark.result import SparkRun

__all__ = ["Comparison", "compare", "local_session", "run"]
_ON_DEMAND = {"Comparison": "comparison", "compare": "comparison"}  # name -> the module that has it


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(importlib.import_module(f"cepbook.spark.{_ON_DEMAND[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def run(
    *,
    runtime: Runtime,
    frames: Mapping[str, Any],
    time: str | Mapping[str, str] | None = None,
    sequence: str | Mapping[str, str] | None = None,
    statements: Sequence[str] | None = None,
    start: int = 0,
    until: int | None = None,
    session: SparkSession | None = None,
    persist: bool | None = None,
) -> SparkRun:
    """Run the select statements that are deployed in `runtime` over `frames`, from an empty state.

    `frames` maps event types to Spark or pandas DataFrames, Arrow tables or paths of Parquet files, with a column for
    each property. The total order is the replay's: `time` (a column, or one for each type; default: the type's time
    property; dates, ISO 8601 texts or whole units of the clock), then `sequence` (a column of whole numbers, compared
    across types), then the order of `frames`. Without `sequence`, rows of one time and type count in their own order;
    where a Spark frame has none, `SparkRun.order` says so. NaN is null, as everywhere. A value that does not fit its
    property ends the job with an error that names it, also where ``spark.sql.ansi.enabled`` is off.

    `statements` chooses some (default all). The clock begins at `start` (ms) and ends at `until` (ms); later events are
    left out. Without a `session` the frames' own is used, or a local one is started. With `persist` Spark keeps what
    was computed until `SparkRun.close`; by default where one job serves several statements. `runtime` itself is not
    touched. Raises `UsageError` and `EventError` for unknown names and for columns that are missing or do not fit.
    """
    require_pyspark()
    from cepbook.spark.execute import execute

    return execute(runtime, frames, time, sequence, statements, start, until, session, persist)
