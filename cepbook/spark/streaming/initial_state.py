"""The state with which a stream begins: the end of a batch, or a saved workbench, divided into the stream's key groups.

* For a batch each key group gets the engine that the stream would have if it had seen the events of the batch. The
  clock stops whenever something is due, up to the batch's `until` or its last event, the same for all key groups.
* Of a saved workbench each key group gets the context partitions of its keys, if all state is in the partitions of one
  keyed context. State outside of them cannot be divided, so such statements run in one task.
* Without either, key groups with categories of a context begin with these: a category exists before its first event,
  and may deliver without one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cepbook.engine.runtime import Runtime
from cepbook.engine.snapshot.runtime_snapshot import restore_state
from cepbook.errors import SnapshotError, UsageError
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.context import KeyedStream
from cepbook.lang.plan.dependencies import StatementDependencies
from cepbook.spark.execution.execution import SparkJob
from cepbook.spark.execution.key_assignment import task_number_sql
from cepbook.spark.execution.spark_run import RunRequest, SparkRun
from cepbook.spark.execution.task_input import KEY_GROUP_COUNT, assign_tasks, program_events
from cepbook.spark.frames.tagged_stream import FrameReading, TaggedStream, check_frame, tag_frames, union, until_time
from cepbook.spark.plan.partitioning import partition_streams
from cepbook.spark.plan.placement import Placement
from cepbook.spark.task.program import DeploymentStep, TaskProgram
from cepbook.spark.task.stream_columns import SEQ, TAG, TASK, TICK, TIME
from cepbook.spark.task.task_runner import TaskRunner, load_runtime
from cepbook.spark.task.type_mapping import type_mapping_of

STATE_COLUMNS = f"{TASK} int, saved binary, passed bigint, due bigint, count bigint"
_COLUMN_TYPES = (pa.int32(), pa.binary(), pa.int64(), pa.int64(), pa.int64())
_SCHEMA = pa.schema(
    [(column.split()[0], kind) for column, kind in zip(STATE_COLUMNS.split(", "), _COLUMN_TYPES, strict=True)]
)
InitialState = SparkRun | str | os.PathLike[str] | bytes
UNDIVIDED_STATE = "the saved state that it begins with is not divided"
UNDIVIDED_STATE_ADVICE = (
    "that of statements of a context `partition by` is; a stream that begins with the end of a batch (`initial=batch`) "
    "is divided as its statements allow"
)


def place_with_initial_state(
    placement: Placement, line: StatementDependencies, catalog: Catalog, initial: InitialState | None
) -> Placement:
    """Return how a statement that begins with a state runs."""
    if initial is None or isinstance(initial, SparkRun) or placement.path in ("native", "row by row", "ordered"):
        return placement
    if placement.shards is None and is_in_partitions(line, catalog):
        return placement
    return replace(
        placement, path="ordered", keys=(), shards=None, reason=UNDIVIDED_STATE, advice=UNDIVIDED_STATE_ADVICE
    )


def is_in_partitions(line: StatementDependencies, catalog: Catalog) -> bool:
    """Return whether all state of the statements is in the partitions of one keyed context."""
    context = line.contexts[0] if len(line.contexts) == 1 else None
    if context is None or not context.spec.keyed_streams:
        return False
    keeping = (*line.readers, *(s for s in line.stores if s.created_store is not None))
    inside = all(getattr(s, "context", None) == context.context.name for s in keeping)
    return inside and all(_stream_of(context, name, catalog) is not None for name in line.inputs)


def _stream_of(context: nodes.ContextStatement, name: str, catalog: Catalog) -> KeyedStream | None:
    """Return the stream of a keyed context that events of the input type `name` belong to."""
    streams = partition_streams(context)
    return None if isinstance(streams, str) else next((s for s in streams if catalog.is_a(name, s.event_type)), None)


def states_due_at_start(program: TaskProgram, placement: Placement, groups: int) -> list[tuple[Any, ...]]:
    """Return the states of key groups in which something is due before any event.

    Their `passed` is not known, so that events at the very start are not late.
    """
    shards = placement.shards
    if shards is None or shards.categories is None:
        return []
    count = min(groups, len(shards.categories.categories))
    runtimes = ((number, load_runtime(program, number)[0]) for number in range(count))
    return [(n, runtime.snapshot(), None, due, 0) for n, runtime in runtimes if (due := runtime.next_due) is not None]


def initial_states(
    initial: InitialState, job: SparkJob, runtime: Runtime, tagged: TaggedStream, session: SparkSession
) -> DataFrame:
    """Return a row per key group of the job: the state with which it begins.

    Errors: UsageError for a batch that leaps or has other event types, and for a file that cannot be read;
    SnapshotError for a state that does not fit the statements.
    """
    if isinstance(initial, SparkRun):
        if initial.request is None:
            raise UsageError("initial= is a stream, which has no end; pass the run of a batch")
        if initial.request.leap:
            raise UsageError(
                "initial= is a batch whose clock leaps from event to event, but the clock of a stream stops whenever "
                "something is due: the stream would begin with another state than the batch ended with\n"
                "  hint: pass the run of a batch without leap=True"
            )
        return _states_of_batch(initial.request, job, runtime, tagged, session)
    saved = restore_saved(_read_bytes(initial), job.program, runtime)
    if job.placement.path != "by key":
        return session.createDataFrame([_state_row(0, saved)], STATE_COLUMNS)
    contexts = [
        s for step in job.program.steps for s in step.module.statements if isinstance(s, nodes.ContextStatement)
    ]
    groups = {context.context.name: partition_key_groups(saved, context, job, session) for context in contexts}
    return session.createDataFrame(split_saved_state(saved, job.program, groups, KEY_GROUP_COUNT), STATE_COLUMNS)


def _states_of_batch(
    request: RunRequest, job: SparkJob, runtime: Runtime, tagged: TaggedStream, session: SparkSession
) -> DataFrame:
    """Return the end of a batch, computed when the stream begins."""
    missing = [name for name in tagged.read if name not in request.frames]
    if missing or len(request.frames) != len(tagged.read):
        has, wants = ", ".join(request.frames), ", ".join(tagged.read)
        raise UsageError(f"the batch with which the stream begins reads events of {has}, the stream over {wants}")
    types, config = runtime.catalog.event_types, runtime.config
    frames = {name: request.frames[name] for name in tagged.read}  # the order in which ties are broken is the stream's
    for name, frame in frames.items():
        check_frame(frame, types[name], request.time)
    reading = FrameReading(request.time, request.sequence, config.second, config.time_zone)
    before = tag_frames(session, frames, types, tagged.read, reading)
    if request.until is not None:
        before = until_time(before, request.until)
    end = F.max(TIME) if request.until is None else F.lit(request.until)
    count = KEY_GROUP_COUNT if job.placement.path == "by key" else 1
    numbers = F.sequence(F.lit(0), F.lit(count - 1))
    last = before.stream.agg(end.cast("bigint").alias(TIME)).select(
        F.lit(TICK).alias(TAG),
        F.coalesce(F.col(TIME), F.lit(job.program.start)).cast("bigint").alias(TIME),
        F.lit(2**63 - 1).alias(SEQ),
        F.explode(numbers).alias(TASK),
    )
    assigned = assign_tasks(program_events(before, job.program), job.program, job.placement, KEY_GROUP_COUNT)
    events = union([assigned.frame, last]).repartitionById(count, TASK)
    return events.sortWithinPartitions(TIME, SEQ, TAG).mapInArrow(final_state_function(job.program), STATE_COLUMNS)


def final_state_function(program: TaskProgram) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for ``mapInArrow`` that gives the state of a task after its events, in order, and its last
    tick.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task, number, passed, count = None, 0, program.start, 0
        for batch in batches:
            if not batch.num_rows:
                continue
            if task is None:
                number = batch.column(TASK)[0].as_py()
                task = TaskRunner(program, load_runtime(program, number))
            tags = batch.column(TAG).to_numpy(zero_copy_only=False)
            passed = int(batch.column(TIME)[-1].as_py() or 0)
            events = batch.filter(pa.array(tags != TICK))
            if events.num_rows:
                count += events.num_rows
                for _ in task.follow(events, passed):
                    pass  # what the batch itself delivers
        if task is not None:
            for _ in task.follow(None, passed):
                pass
            runtime = task.runtime
            rows = [[number], [runtime.snapshot()], [passed], [runtime.next_due], [count]]
            arrays = [pa.array(values, kind) for values, kind in zip(rows, _COLUMN_TYPES, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)

    return run


def workbench_program(program: TaskProgram, runtime: Runtime) -> TaskProgram:
    """Return the program as a workbench has it, whose variables come from its own statements."""
    plans = [(s, d.plan) for d in runtime.deployments.values() for s in d.plan.statements]
    own_steps = {id(step.module.statements[0]): step for step in program.steps}  # names of what does not run may repeat
    steps, created = [], set()
    for statement, module in plans:
        if statement.created_variable is not None:
            step_ = DeploymentStep(statement.name, replace(module, statements=(statement,)), False)
            steps.append(own_steps.get(id(statement), step_))
            created.add(statement.created_variable.name)
        elif id(statement) in own_steps:
            steps.append(own_steps[id(statement)])
    return replace(program, steps=tuple(steps), variables=tuple(v for v in program.variables if v[0] not in created))


def restore_saved(data: bytes, program: TaskProgram, runtime: Runtime) -> Runtime:
    """Return what a workbench saved, without the statements that the stream does not run."""
    saved = Runtime.restored(data, runtime.functions)
    missing = [name for name, _ in program.outputs if name not in saved.statements]
    if missing:
        raise UsageError(f"the saved workbench has no statement {missing[0]}; it has {', '.join(saved.statements)}")
    _drop_unused(saved, program)
    try:
        restore_state(load_runtime(program)[0], saved.snapshot())
    except SnapshotError as wrong:
        raise SnapshotError(
            "the saved workbench has other statements than the stream, or others feed them: its state would not fit\n"
            "  hint: load the file into a workbench, and stream its statements; one without @name has its number"
        ) from wrong
    return saved


def _state_row(number: int, runtime: Runtime) -> tuple[Any, ...]:
    """Return the initial state of the key group `number`."""
    return number, runtime.snapshot(), runtime.now, runtime.next_due, 0


def partition_key_groups(
    saved: Runtime, context: nodes.ContextStatement, job: SparkJob, session: SparkSession
) -> dict[int, int]:
    """Return by partition id the key group of a keyed context's partition, as Spark divides events of these keys."""
    program = replace(job.program, inputs=job.program.inputs[:1])
    ((tag, name, properties, columns),) = program.inputs
    stream, property_types = _stream_of(context, name, saved.catalog), saved.catalog.event_types[name].properties
    assert stream is not None
    chosen, names = dict(job.placement.keys)[name], [key.property_name for key in stream.keys]
    fields = [f"{columns[properties.index(p)]} {type_mapping_of(property_types[p], {}).ddl}" for p in chosen]
    places = [names.index(p) for p in chosen]
    keys = [
        (identity.id, tag, *(identity.steps[0].key[at] for at in places))
        for identity in saved.context(context.context.name).identities()
    ]
    rows = session.createDataFrame(keys, f"id bigint, {TAG} int, {', '.join(fields)}")
    return dict(
        rows.selectExpr(
            "id", f"CAST({task_number_sql(program.inputs, job.placement, KEY_GROUP_COUNT)} AS INT)"
        ).collect()
    )


def split_saved_state(
    saved: Runtime, program: TaskProgram, groups: Mapping[str, Mapping[int, int]], count: int
) -> list[tuple[Any, ...]]:
    """Return the states of all key groups, each with its own context partitions.

    Errors: UsageError for statements whose state depends on something outside of their context.
    """
    snapshots: dict[int, list[bytes]] = {number: [] for number in range(count)}
    for context, partitions in groups.items():
        for id_, number in partitions.items():
            snapshots[number].append(saved.snapshot((context, id_)))
    rows = []
    for number, pieces in snapshots.items():
        runtime = load_runtime(replace(program, start=saved.now), number)[0]
        for name, variable in saved.variables.items():
            runtime.variables[name].value = variable.value
        for snapshot_ in pieces:
            runtime.restore_partition(snapshot_)
        rows.append(_state_row(number, runtime))
    return rows


def _drop_unused(saved: Runtime, program: TaskProgram) -> None:
    """Undeploy everything that the program does not have, until nothing more can go."""
    names = {step.name for step in program.steps}
    contexts = {
        s.context.name
        for step in program.steps
        for s in step.module.statements
        if isinstance(s, nodes.ContextStatement)
    }

    def needless(statement: nodes.StatementPlan) -> bool:
        if isinstance(statement, nodes.ContextStatement):
            return statement.context.name not in contexts
        return isinstance(statement, _STATEFUL) and statement.name not in names

    changed = True
    while changed:
        changed = False
        for id_, deployment in reversed(list(saved.deployments.items())):
            statements = deployment.plan.statements
            if all(map(needless, statements)):
                changed |= _undeploy(saved, id_)
            else:
                gone = (s for s in reversed(statements) if needless(s) and saved.undeploy_statement(id_, s.name))
                changed |= next(gone, None) is not None


_STATEFUL = (nodes.StreamStatement, nodes.CreateWindowStatement, nodes.CreateTableStatement, nodes.CreateIndexStatement)


def _undeploy(saved: Runtime, id_: str) -> bool:
    try:
        saved.undeploy(id_)
    except UsageError:  # something that stays depends on it
        return False
    return True


def _read_bytes(initial: str | os.PathLike[str] | bytes) -> bytes:
    if isinstance(initial, bytes):
        return initial
    try:
        with open(os.path.expanduser(initial), "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"`{os.fspath(initial)}` cannot be read: {error.strerror or error}") from error
