"""Statements over streaming DataFrames: the same placement and the same engine, with its state in Spark's state store.

See `processor` for when events are replayed. A statement whose state is not divided by key has one key group, which one
task serves; `SparkRun.coverage` gives the reason.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import functions as F

from cepbook.argument_checks import caller_stacklevel
from cepbook.engine.runtime import Runtime
from cepbook.engine.time.timers import NEVER
from cepbook.errors import UsageError
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies
from cepbook.lang.plan.references import event_types_read
from cepbook.spark.execution.execution import SparkJob, plan_jobs, warn_of_placement
from cepbook.spark.execution.spark_run import RunRequest, SparkRun
from cepbook.spark.execution.task_input import KEY_GROUP_COUNT
from cepbook.spark.frames.job_output import JobOutput, constant_output, task_output
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.frames.tagged_stream import check_delay
from cepbook.spark.plan.placement import Placement
from cepbook.spark.plan.state_fingerprint import state_fingerprint_of
from cepbook.spark.streaming.initial_state import (
    STATE_COLUMNS,
    InitialState,
    initial_states,
    place_with_initial_state,
    states_due_at_start,
    workbench_program,
)
from cepbook.spark.streaming.processor import PACKED_DELIVERIES, PACKED_ROWS, EngineProcessor, pack_rows, unpack_rows
from cepbook.spark.task.stream_columns import TASK, TIME
from cepbook.spark.task.task_runner import load_runtime, output_schema
from cepbook.spark.task.type_mapping import spark_schema

STATE_STORE_SETTING = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_WATERMARK_COLUMN = "at"


def stream(runtime: Runtime, request: RunRequest, delay: str, initial: InitialState | None = None) -> SparkRun:
    """See `cepbook.spark.stream`."""
    if runtime.config.second != 1000:
        raise UsageError("a stream's watermark counts milliseconds, but the engine's clock microseconds")
    check_delay(delay)
    adapt = partial(_placement_in_stream, frames=request.frames, catalog=runtime.catalog, initial=initial)
    jobs, placements, tagged, session = plan_jobs(runtime, request, adapt)
    if session.conf.get(STATE_STORE_SETTING, "") != ROCKSDB_PROVIDER:  # the only one with stateful processors
        session.conf.set(STATE_STORE_SETTING, ROCKSDB_PROVIDER)
    warn_of_placement(placements)
    if request.start is None and initial is None:
        _warn_of_early_timers(jobs)
    if isinstance(initial, str | bytes | os.PathLike):
        jobs = [replace(job, program=workbench_program(job.program, runtime)) for job in jobs]
    outputs = []
    for job in jobs:
        fingerprint = state_fingerprint_of(job.program, job.placement, KEY_GROUP_COUNT)
        job = replace(job, program=replace(job.program, fingerprint=fingerprint))
        first_states = None
        if initial is not None and job.placement.path != "native":
            first_states = initial_states(initial, job, runtime, tagged, session).groupBy(TASK)
        elif due_states := states_due_at_start(job.program, job.placement, KEY_GROUP_COUNT):
            first_states = session.createDataFrame(due_states, STATE_COLUMNS).groupBy(TASK)
        output = _stream_output(job, delay, request.sequence is not None, first_states)
        outputs.append((job.program, constant_output(output)))
    return SparkRun(session, outputs, placements, tagged, persist=False)


def _placement_in_stream(
    placement: Placement,
    deps: StatementDependencies,
    frames: Mapping[str, Any],
    catalog: Catalog,
    initial: InitialState | None,
) -> Placement:
    """Return how a statement runs as a stream. Errors: UsageError for a statement that no event of the frames would
    reach.
    """
    if deps.inputs:
        return place_with_initial_state(placement, deps, catalog, initial)
    derived = {insert.target for reader in deps.readers for insert in reader.inserts} | set(catalog.stores)
    missing = [name for name in dict.fromkeys(event_types_read((deps.readers, deps.contexts))) if name not in derived]
    if missing:
        raise UsageError(
            f"`{deps.target}` reads no events of {' or '.join(frames)}, so as a stream it would never deliver "
            f"anything\n  hint: pass events of {' or '.join(missing)}, too, or leave the statement out"
        )
    raise UsageError(
        f"`{deps.target}` reads no events, and those that a statement reads move its clock in a stream: it would "
        "never deliver anything\n  hint: leave it out, or run it over a batch"
    )


class EarlyWarning(UserWarning):
    """A statement delivers by the clock alone, from 1970 on."""


def _warn_of_early_timers(jobs: Sequence[SparkJob]) -> None:
    """Warn of statements with something due before any event, if no start of the clock was given."""
    for job in jobs:
        runtime, collected = load_runtime(job.program) if job.placement.path != "native" else (None, {})
        if runtime is not None and any(running.timed.due < NEVER for running in runtime.statements.values()):
            names = " and ".join(f"`{name}`" for name in collected)
            deliver = "delivers" if len(collected) == 1 else "deliver"
            warnings.warn(
                f"{names} {deliver} by the clock alone, which starts in 1970 by default: very many rows may be due "
                "before the first event\n"
                "  hint: pass `start=` (of a job: --start)",
                EarlyWarning,
                stacklevel=caller_stacklevel(),
            )


def _stream_output(job: SparkJob, delay: str, sequenced: bool, first_states: Any) -> JobOutput:
    """Return the output of a job's statements, as a stream. Key groups begin with `first_states`."""
    if job.placement.path == "native":
        return job.output()
    watermarked = (
        job.stream.withColumn(_WATERMARK_COLUMN, F.timestamp_millis(TIME))
        .withWatermark(_WATERMARK_COLUMN, delay)
        .drop(_WATERMARK_COLUMN)
    )
    divided = watermarked.mapInArrow(pack_rows, PACKED_ROWS).groupBy(TASK)
    delivered = divided.transformWithState(
        EngineProcessor(job.program, sequenced), PACKED_DELIVERIES, "Append", "EventTime", first_states
    )
    rows = delivered.mapInArrow(unpack_rows(job.program), spark_schema(output_schema(job.program)))
    return task_output(SqlQuery(rows), job.program)
