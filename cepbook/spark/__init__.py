"""The Spark bridge: deployed statements over Spark DataFrames, by the same engine and the same contract of a replay.

pyspark is imported when it is first needed. Without it, or without Java, the rest of cepbook works. Spark's workers
load this package for the engine, so modules for the driver alone (and pandas with them) are loaded on demand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cepbook.argument_checks import check_arguments
from cepbook.errors import ErrorPolicy
from cepbook.lazy_imports import exports_on_demand
from cepbook.spark.spark_session import local_session, require_pyspark
from cepbook.spark.task.stream_columns import VISIBLE_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cepbook.engine.runtime import Runtime
    from cepbook.spark.comparison.comparison_report import Comparison, compare
    from cepbook.spark.execution.spark_run import SparkRun

__all__ = ["Comparison", "compare", "from_kafka", "local_session", "register_sql", "run", "sql", "stream"]
_ON_DEMAND = dict.fromkeys(("Comparison", "compare"), "cepbook.spark.comparison.comparison_report")
__getattr__, __dir__ = exports_on_demand(__name__, _ON_DEMAND, __all__)


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
    leap: bool = False,
    errors: ErrorPolicy = "raise",
) -> SparkRun:
    """Run the deployed select statements of `runtime` over `frames`, from an empty state.

    `frames` maps event types to Spark or pandas DataFrames, Arrow tables or paths of Parquet files, with a column for
    each property. The total order is the replay's: `time` (a column, or one per type; default: the type's time
    property; dates, ISO 8601 texts or whole units of the clock), then `sequence` (a column of whole numbers, compared
    across types), then the order of `frames`. Without `sequence`, rows of one time and type keep their order; if a
    Spark frame has none, `SparkRun.order` says so. NaN is null, as everywhere. A value that does not fit its property
    ends the job with an error that names it, even where ``spark.sql.ansi.enabled`` is off.

    `statements` selects some (default: all). The clock starts at `start` (ms) and ends at `until` (ms); later events
    are left out. The clock stops at every due time; with `leap` it moves from event to event, and what is due in
    between fires late, at the next event. Without a `session` that of the frames is used, or a local one is started.
    With `persist` Spark keeps computed rows until `SparkRun.close`; by default it does if one job serves several
    statements. `runtime` is not changed.

    If a statement failed on an event, `to_arrow` and `to_pandas` raise ReplayError with the other rows as its `result`,
    and reading `frame` is an error of Spark that names the first failure. With ``errors="keep"`` they return the other
    rows, and `SparkRun.errors` lists the failures.

    Raises `UsageError` and `EventError` for unknown names and for columns that are missing or do not fit.
    """
    require_pyspark()
    from cepbook.spark.execution.execution import execute
    from cepbook.spark.execution.spark_run import RunRequest

    request = RunRequest(
        frames=frames, time=time, sequence=sequence, statements=statements, start=start, until=until, session=session,
        leap=leap, errors=errors,
    )  # fmt: skip
    return execute(runtime, request, persist=persist)


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
    leap: bool = False,
    errors: ErrorPolicy = "raise",
    **named: Any,
) -> DataFrame | dict[str, DataFrame]:
    """Return the rows that an EPL module delivers over DataFrames: ``sql("select …", Flight=flights,
    time="departure")``.

    Each frame is passed by the name of its event type, in `frames` if that is the name of another argument. A type that
    the module does not create has the columns of its frame; dates become long (ms since 1970). A module with one
    statement that does not insert into a stream gives a DataFrame, any other a dict of them by name. Their columns are
    those of `SparkRun` (``about=()``: the statement's own alone); the other arguments are those of `run`. Errors: as
    `run`; ParseError, BindError.
    """
    require_pyspark()
    from cepbook.spark.execution.epl_module import sql as run_module
    from cepbook.spark.execution.spark_run import RunRequest

    frames = {**(frames or {}), **named}
    request = RunRequest(
        frames=frames, time=time, sequence=sequence, until=until, session=session, leap=leap, errors=errors
    )
    return run_module(epl, request, functions, about)


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

    ``register_sql("cep_run", "select …", Tick=ticks, time="at")``, then ``select * from cep_run(TABLE(ticks) PARTITION
    BY symbol ORDER BY (at, seq))``.

    Each partition is a history of its own: the statement delivers what it would if only that partition's events
    existed. Their times move the clock, at the end to `until` (ms). The order must be that of `time` (default: the
    type's own). The columns are those of `SparkRun`, and ``error``: a row of kind ``error`` reports a failure of the
    statement. They are fixed here, so a function has one statement: the one of the module that does not insert into a
    stream, or `statement`. `frames` and `named` give the event type's columns if the module does not create it; the
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
    """Run the deployed select statements of `runtime` over streaming DataFrames, as streaming DataFrames.

    `frames`, `time`, `sequence` and `statements` are those of `run`. Write the DataFrames of `SparkRun.frame` with
    ``writeStream`` in append mode, with a checkpoint. The watermark is `delay` (a text such as "10 minutes") behind the
    latest event. Events are replayed once it has passed their time, so events that are late by less are put in order;
    later ones are left out, and `SparkRun.failures` has a row about them. The clock starts at `start` (ms; by default
    in 1970, with a warning for statements that deliver by the clock alone). It stops at the times of events and at all
    times at which something is due. Without `sequence` events of one time count by type, then in the order of arrival.

    Spark's state store keeps the state, as snapshots of the engine: after a restart from the checkpoint nothing is lost
    or repeated beyond what the sink itself guarantees. The state of other statements, of a stream that was divided
    otherwise, or of an older version does not fit; the query then ends with an error that says so. A saved state of one
    task with which a stream began (`initial`) must be given at every start.

    `initial` is the state of the first start: the end of a batch (a `run` of the same statements), computed per key
    group when the stream begins, or what `Workbench.save` wrote (or `Runtime.snapshot` returned). A saved state is
    divided if all state of a statement is in the partitions of a context ``partition by``, else it runs in one task.
    Events of its last instant and earlier ones are late then. Errors: as `run`; UsageError for frames that are no
    streams, for a batch that leaps, and for a state of other event types; SnapshotError for one of other statements.
    """
    require_pyspark()
    from cepbook.spark.execution.spark_run import RunRequest
    from cepbook.spark.streaming.stream_queries import stream as start_stream

    request = RunRequest(
        frames=frames, time=time, sequence=sequence, statements=statements, start=start, session=session
    )
    return start_stream(runtime, request, delay, initial)


@check_arguments
def from_kafka(messages: Any, *, runtime: Runtime, event_type: str) -> DataFrame:
    """Return the events of a type from JSON messages of Spark's connector for Kafka, for `stream` (or `run`).

    `messages` is the result of ``spark.readStream.format("kafka")….load()``. The columns are the type's properties, by
    their names in the JSON, ``kafka_timestamp`` (the message's own time) and ``kafka_order`` (partition, then offset: a
    `sequence`). A message that is no JSON, or whose values do not fit the properties, becomes an event without values
    and without ``kafka_timestamp``. It has no time, so a stream leaves it out and reports it, unless a filter that
    Spark itself runs drops it before. Errors: UsageError for an unknown type, and for a frame without the columns of
    messages.
    """
    require_pyspark()
    from cepbook.spark.frames import kafka_messages as kafka

    return kafka.from_kafka(messages, runtime.catalog.event_types, event_type)
