"""Statements over streaming DataFrames: the same placement and the same engine, with its state in Spark's state store.

See `processor` for what happens when. Of statements without state that is divided by key there is one division, which
one task works at; `StreamRun.coverage` says of which and why.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cepbook.arguments import outside
from cepbook.engine.runtime import Runtime
from cepbook.engine.timers import NEVER
from cepbook.errors import UsageError
from cepbook.lang.catalog import Catalog
from cepbook.lang.reads import types_read
from cepbook.spark.derived import Derived
from cepbook.spark.execute import DIVISIONS, Job, planned, warn_of_order
from cepbook.spark.hosted import load, output_schema
from cepbook.spark.initial import INITIAL, Initial, awake, placed, states, whole
from cepbook.spark.inputs import check_delay
from cepbook.spark.mark import mark_of
from cepbook.spark.names import TASK, TIME
from cepbook.spark.output import Output, always, told
from cepbook.spark.pipeline import Pipeline
from cepbook.spark.placement import Placement
from cepbook.spark.processor import DELIVERED, PACKED, Hosted, pack, unpack
from cepbook.spark.result import SparkRun
from cepbook.spark.schema import kinds_of

STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_AT = "at"


def stream(
    runtime: Runtime,
    frames: Mapping[str, Any],
    time: str | Mapping[str, str] | None,
    sequence: str | Mapping[str, str] | None,
    statements: Sequence[str] | None,
    start: int | None,
    delay: str,
    session: SparkSession | None,
    initial: Initial | None = None,
) -> SparkRun:
    """See `cepbook.spark.stream`."""
    if runtime.config.second != 1000:
        raise UsageError("a stream's watermark counts milliseconds, but the engine's clock microseconds")
    check_delay(delay)
    begun = partial(_placed, frames=frames, catalog=runtime.catalog, initial=initial)
    jobs, placements, tagged, session = planned(
        runtime, frames, time, sequence, statements, start or 0, None, session, begun
    )
    if session.conf.get(STORE, "") != ROCKSDB:  # the only one that has what stateful processors need
        session.conf.set(STORE, ROCKSDB)
    warn_of_order(placements)
    if start is None and initial is None:
        _warn_of_years(jobs)
    if isinstance(initial, str | bytes | os.PathLike):
        jobs = [replace(job, program=whole(job.program, runtime)) for job in jobs]
    jobs = [_marked(job) for job in jobs]
    made = []
    for job in jobs:
        begin = None
        if initial is not None and job.placement.path != "native":
            begin = states(initial, job, runtime, tagged, session).groupBy(TASK)
        elif waking := awake(job.program, job.placement, DIVISIONS):
            begin = session.createDataFrame(waking, INITIAL).groupBy(TASK)
        made.append((job.program, always(_hosted(job, delay, sequence is not None, begin))))
    return SparkRun(session, made, placements, tagged.order, certain=tagged.certain, persist=False)


def _placed(
    found: Placement, line: Pipeline, frames: Mapping[str, Any], catalog: Catalog, initial: Initial | None
) -> Placement:
    """How a statement runs as a stream. Errors: UsageError for one that no events of the frames would ever reach."""
    if line.inputs:
        return placed(found, line, catalog, initial)
    made = {insert.target for reader in line.readers for insert in reader.inserts} | set(catalog.stores)
    lacking = [each for each in dict.fromkeys(types_read((line.readers, line.contexts))) if each not in made]
    if lacking:
        raise UsageError(
            f"`{line.target}` reads no events of {' or '.join(frames)}, so that as a stream it would never deliver "
            f"anything\n  hint: give events of {' or '.join(lacking)}, too, or leave it out"
        )
    raise UsageError(
        f"`{line.target}` reads no events, and those that a statement reads move its clock in a stream: it would "
        "never deliver anything\n  hint: leave it out, or run it over a batch"
    )


class EarlyWarning(UserWarning):
    """A statement delivers by the clock alone, from 1970 on."""


def _warn_of_years(jobs: Sequence[Job]) -> None:
    """Say which statements have something due before any event, where nobody said when the clock starts."""
    for job in jobs:
        runtime, collected = load(job.program) if job.placement.path != "native" else (None, {})
        if runtime is not None and any(each.timed.due < NEVER for each in runtime.statements.values()):
            names = " and ".join(f"`{name}`" for name in collected)
            deliver = "delivers" if len(collected) == 1 else "deliver"
            warnings.warn(
                f"{names} {deliver} by the clock alone, which starts in 1970 where nobody says when: what is due up to "
                "the first event may be very much\n"
                "  hint: say when the clock is to start: `start=`, of a job --start",
                EarlyWarning,
                stacklevel=outside(),
            )


def _marked(job: Job) -> Job:
    """With the mark of its state."""
    return replace(job, program=replace(job.program, mark=mark_of(job.program, job.placement, DIVISIONS)))


def _hosted(job: Job, delay: str, sequenced: bool, begin: Any) -> Output:
    """What the statements of a job deliver, as a stream."""
    if job.placement.path == "native":
        return job.output()
    timed = job.stream.withColumn(_AT, F.timestamp_millis(TIME)).withWatermark(_AT, delay).drop(_AT)
    divided = timed.mapInArrow(pack, PACKED).groupBy(TASK)
    delivered = divided.transformWithState(Hosted(job.program, sequenced), DELIVERED, "Append", "EventTime", begin)
    found = delivered.mapInArrow(unpack(job.program), kinds_of(output_schema(job.program)))
    return told(Derived(found), job.program)
