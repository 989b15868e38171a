"""The Spark bridge: deployed statements over Spark DataFrames, by the same engine and the same replay contract.

pyspark is imported when it is first needed; without it, or without Java, the rest of cepbook works. Spark's workers
load this package for the engine: what only the driver needs (pandas above all) is loaded when it is asked for.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cepbook.argument_checks import check_arguments
from cepbook.spark.session import local_session, require_pyspark
from cepbook.spark.task.stream_columns import VISIBLE_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cepbook.engine.runtime import Runtime
    from cepbook.spark.comparison.comparison_report import Comparison, compare
    from cepbook.spark.execution.spark_run import SparkRun

__all__ = ["Comparison", "compare", "from_kafka", "local_session", "register_sql", "run", "sql", "stream"]
_ON_DEMAND = {
    "Comparison": "comparison.comparison_report",
    "compare": "comparison.comparison_report",
}  # name -> the module that has it


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(importlib.import_module(f"cepbook.spark.{_ON_DEMAND[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@check_arguments
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
    from cepbook.spark.execution.execution import execute

    return execute(runtime, frames, time, sequence, statements, start, until, session, persist)


@check_arguments
def sql(
    epl: str,
    /,
    *,
    time: str | Mapping[str, str] | None = None,
    sequence: str | Mapping[str, str] | None = None,
    until: int | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    session: SparkSession | None = None,
    frames: Mapping[str, Any] | None = None,
    about: Sequence[str] = VISIBLE_COLUMNS,
    **named: Any,
) -> DataFrame | dict[str, DataFrame]:
    """The rows that a module of EPL delivers over DataFrames: ``sql("select …", Flight=flights, time="departure")``.

    Each frame is given by the name of its event type, in `frames` where that is the name of another argument. Types
    that the module does not create have the columns of their frame; dates are long (ms since 1970). Of a module with
    one statement that does not insert into a stream it is its DataFrame, else one for each, by name; their columns are
    those of `SparkRun` (``about=()``: the statement's own alone), the other arguments those of `run`. Errors: as `run`;
    ParseError, BindError.
    """
    require_pyspark()
    from cepbook.spark.execution.epl_module import sql as found

    return found(epl, {**(frames or {}), **named}, time, sequence, until, functions, session, about)


@check_arguments
def register_sql(
    name: str,
    epl: str,
    /,
    *,
    statement: str | None = None,
    time: str | None = None,
    until: int | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    session: SparkSession | None = None,
    frames: Mapping[str, Any] | None = None,
    **named: Any,
) -> None:
    """Register a statement as the Arrow table function `name` of Spark SQL, for a table of one event type:

    ``register_sql("cep_run", "select …", Tick=ticks, time="at")``, then
    ``select * from cep_run(TABLE(ticks) PARTITION BY symbol ORDER BY (at, seq))``.

    Each partition is a history of its own: the statement delivers what it would if only that partition's events were
    there, whose times move the clock, at the end to `until` (ms). The order must be that of `time` (default: the
    type's own). The columns are those of `SparkRun`, and ``error``: a row of kind ``error`` tells of a failure of the
    statement. They are fixed here, so that a function has one statement: that of the module which does not insert into
    a stream, or `statement`. `frames` and `named` give the event type's columns, if the module does not create it; the
    table may have others, too. Errors: as `sql`; UsageError for a statement that reads several event types.
    """
    require_pyspark()
    from cepbook.spark.execution.table_function import register

    register(name, epl, statement, time, until, functions, session, {**(frames or {}), **named})


@check_arguments
def stream(
    *,
    runtime: Runtime,
    frames: Mapping[str, Any],
    time: str | Mapping[str, str] | None = None,
    sequence: str | Mapping[str, str] | None = None,
    statements: Sequence[str] | None = None,
    start: int | None = None,
    delay: str = "0 seconds",
    initial: SparkRun | str | os.PathLike[str] | bytes | None = None,
    session: SparkSession | None = None,
) -> SparkRun:
    """The select statements that are deployed in `runtime` over streaming DataFrames, as streaming DataFrames.

    `frames`, `time`, `sequence` and `statements` are those of `run`; what `SparkRun.frame` gives is to be written with
    ``writeStream`` in append mode, with a checkpoint. The watermark is `delay` (a text such as "10 minutes") behind the
    latest event. Events are replayed when it has passed their time, so those that come out of order by less are put in
    order; later ones are left out, and `SparkRun.failures` has a row that tells of them. The clock starts at `start`
    (ms; by default in 1970, with a warning for statements that deliver by the clock alone) and stops at the times of
    events and at all at which something is due. Without `sequence` events of one time count by type, then as they come.

    What is known of events is kept by Spark's state store, as snapshots of the engine: after a restart from the
    checkpoint nothing is lost or repeated beyond what the sink itself guarantees. The state of other statements,
    of a stream that was divided otherwise, or of an older version does not fit: then the query ends with an error that
    says so. A saved state of one task that a stream began with (`initial`) is to be given
    at every start.

    `initial` is what the first start begins with: the end of a batch (`run` of the same statements), computed for each
    division when the stream begins, or what `Workbench.save` wrote (or `Runtime.snapshot` gave), divided where all that
    a statement keeps is in the partitions of a context ``partition by``, else of one task. Events of its last instant
    and earlier ones are late then. Errors: as `run`; UsageError for frames that are no streams, and for a state of
    other event types; SnapshotError for one of other statements.
    """
    require_pyspark()
    from cepbook.spark.streaming.stream_queries import stream as started

    return started(runtime, frames, time, sequence, statements, start, delay, session, initial)


@check_arguments
def from_kafka(messages: Any, *, runtime: Runtime, event_type: str) -> DataFrame:
    """The events of a type from messages in JSON, as Spark's connector for Kafka gives them, for `stream` (or `run`).

    `messages` is what ``spark.readStream.format("kafka")….load()`` gives. The columns are the type's properties, by
    their names in the JSON, ``kafka_timestamp`` (the message's own time) and ``kafka_order`` (partition, then offset: a
    `sequence`). A message that is no JSON, or whose values do not fit the properties, is an event without values, also
    of ``kafka_timestamp``: it has no time, so that a stream leaves it out and tells of it, unless a filter that Spark
    itself runs drops it before. Errors: UsageError for an
    unknown type, and for a frame without the columns of messages.
    """
    require_pyspark()
    from cepbook.spark.frames import kafka_messages as kafka

    return kafka.from_kafka(messages, runtime.catalog.event_types, event_type)
