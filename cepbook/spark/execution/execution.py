"""Plan and run jobs: place the statements, divide the stream, and run the engine in the tasks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from cepbook.argument_checks import caller_stacklevel
from cepbook.engine.runtime import Runtime
from cepbook.engine.time.clock import check_unit
from cepbook.errors import EventError, UsageError
from cepbook.lang.plan import expressions, nodes
from cepbook.lang.plan.catalog import Catalog, EventType
from cepbook.lang.plan.dependencies import QueryStatement, StatementDependencies, dependencies_of, properties_read
from cepbook.spark.execution.function_shipping import check_functions_load, shipped_functions
from cepbook.spark.execution.key_assignment import is_worth_balancing
from cepbook.spark.execution.spark_actions import run_action
from cepbook.spark.execution.spark_run import RunRequest, SparkRun
from cepbook.spark.execution.task_input import KEY_GROUP_COUNT, assign_tasks, program_events, task_count, task_events
from cepbook.spark.execution.time_slices import TimeSlice, counted_events, cut_slices, time_histogram
from cepbook.spark.frames.job_output import JobOutput, task_output
from cepbook.spark.frames.native_batches import native_batches_output as batches
from cepbook.spark.frames.native_filter import delivery_metadata, native_filter_output
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.frames.tagged_stream import (
    FrameReading,
    TaggedStream,
    check_frame,
    column_name,
    open_frame,
    tag_frames,
    time_column,
    until_time,
)
from cepbook.spark.plan.context_shards import ContextShards, shard_module
from cepbook.spark.plan.lookback import Lookback
from cepbook.spark.plan.placement import NO_INPUT, Placement, bypass_engine, event_time_properties, place
from cepbook.spark.plan.predicate_pushdown import Alternatives, push_down, pushed_predicates
from cepbook.spark.plan.vectorized_windows import aggregating_statement
from cepbook.spark.spark_session import local_session, quiet_pandas_warning
from cepbook.spark.task.program import DeploymentStep, TaskProgram
from cepbook.spark.task.stream_columns import CLOCK, DELIVERY_COLUMN_NAMES, EVENT, TIME, Sql, sql_literal
from cepbook.spark.task.task_runner import task_function, task_schema, vectorized_columns
from cepbook.spark.task.type_mapping import quote_identifier, spark_schema


@dataclass(frozen=True, slots=True)
class SparkJob:
    """Statements that run together: the program of each task, and the events that the tasks get, in order.

    `feeders` gives by statement the names of all that feeds it.
    """

    program: TaskProgram
    events: SqlQuery
    placement: Placement
    feeders: Mapping[str, tuple[str, ...]]

    @property
    def stream(self) -> DataFrame:
        """The events as a DataFrame."""
        return self.events.frame

    def output(self, about: Collection[str] = DELIVERY_COLUMN_NAMES) -> JobOutput:
        """Return the output of the tasks, with at least the metadata that `about` names."""
        program, form = self.program, self.placement.window
        if self.placement.path == "native":
            return (
                native_filter_output(program, self.events)
                if form is None
                else batches(form, program, self.events, about)
            )
        schema = task_schema(program, about)
        rows = SqlQuery(self.stream.mapInArrow(task_function(program, about), spark_schema(schema)))
        return (
            task_output(rows, program, _full_metadata(program))
            if form is None
            else _vectorized_output(rows, program, schema.names)
        )


def _full_metadata(program: TaskProgram) -> dict[str, Sql]:
    """Return the `DELIVERY_COLUMNS` as SQL over `COMPACT_COLUMNS`."""
    name, *others = map(sql_literal, program.names)
    several = " ".join(f"WHEN what >> 2 = {number} THEN {other}" for number, other in enumerate(others, 1))
    return {
        "statement": f"CASE {several} ELSE {name} END" if others else name,
        "time": "time",
        "sequence": "sequence",
        "trigger": f"CASE WHEN what & 1 = 0 THEN '{CLOCK}' ELSE '{EVENT}' END",
        "delivery": "CAST(delivery AS BIGINT)",
        "kind": "CASE WHEN error IS NOT NULL THEN 'error' WHEN what & 2 = 0 THEN 'insert' ELSE 'remove' END",
        "row": "CAST(row AS BIGINT)",
        "error": "error",
    }


def _vectorized_output(rows: SqlQuery, program: TaskProgram, columns: Sequence[str]) -> JobOutput:
    """Return the output of a vectorized window, whose rows are each the whole delivery of an event."""
    ((name, _),) = program.outputs
    own_columns = vectorized_columns(program)
    return JobOutput(
        rows,
        delivery_metadata(name),
        [[quote_identifier(column) for column in own_columns]],
        failing=False,
        alone=own_columns == list(columns),
    )


def execute(runtime: Runtime, request: RunRequest, *, persist: bool | None = None) -> SparkRun:
    """See `cepbook.spark.run`."""
    jobs, placements, tagged, session = plan_jobs(runtime, request)
    _check_units(session, request, runtime)
    warn_of_placement(placements)
    outputs = [(job.program, job.output) for job in jobs]
    feeders = {name: names for job in jobs for name, names in job.feeders.items()}
    request = replace(request, frames=dict(request.frames))
    return SparkRun(session, outputs, placements, tagged, persist=persist, request=request, feeders=feeders)


def _check_units(session: SparkSession, request: RunRequest, runtime: Runtime) -> None:
    """Raise `EventError` for a column of numbers that can only be times in another unit.

    A job reads one number of the column. Only if this one looks so, a job over the column finds the range of all.
    """
    for name, source in request.frames.items():
        frame = open_frame(session, source)
        column = time_column(request.time, runtime.catalog.event_types[name])
        if not isinstance(frame, DataFrame) or not isinstance(frame.schema[column].dataType, NumericType):
            continue
        numbers = frame.select(F.col(quote_identifier(column)).cast("bigint").alias(TIME)).where(f"{TIME} IS NOT NULL")
        check = partial(check_unit, f"time column `{column}` of `{name}`", column, now=request.start or 0, spark=True)
        for number in run_action(partial(numbers.take, 1)):
            try:
                check(first=number[0], last=number[0], second=runtime.config.second)
            except EventError:
                low, high = run_action(numbers.agg(F.min(TIME), F.max(TIME)).collect)[0]
                check(first=low, last=high, second=runtime.config.second)


class OneTaskWarning(UserWarning):
    """A statement needs all events in one order, so that one task has to do all of its work."""


class UnfedWarning(UserWarning):
    """A statement reads none of the events that were given."""


def warn_of_placement(placements: Mapping[str, Placement]) -> None:
    """Warn of statements that run in one task, with the reason and what would change it, and of those without input."""
    for name, placement in placements.items():
        if placement.reason == NO_INPUT:
            warnings.warn(f"`{name}`: {NO_INPUT}", UnfedWarning, stacklevel=caller_stacklevel())
        if placement.path == "ordered":
            why = f"{placement.reason}\n  hint: {placement.advice}" if placement.advice else placement.reason
            warnings.warn(f"`{name}` runs in one task: {why}", OneTaskWarning, stacklevel=caller_stacklevel())


StreamPlacement = Callable[[Placement, StatementDependencies], Placement]  # adapts a placement to a stream


def _place_statements(
    runtime: Runtime, request: RunRequest, streams: StreamPlacement | None
) -> tuple[dict[str, StatementDependencies], dict[str, Placement]]:
    """Return the dependencies and the placement of each statement of the request."""
    catalog, frames = runtime.catalog, request.frames
    plans = runtime.plans
    dependencies = {name: dependencies_of(name, plans, catalog, frames) for name in _targets(plans, request.statements)}
    columns = {name: time_column(request.time, catalog.event_types[name]) for name in frames}
    clocks = event_time_properties(columns, catalog)
    placements = {name: place(deps, catalog, clocks) for name, deps in dependencies.items()}
    for name, placement in placements.items():
        if streams is None:
            placements[name] = bypass_engine(placement, dependencies[name], catalog, runtime.config, clocks)
        else:
            placements[name] = streams(_without_slices(placement), dependencies[name])
    return dependencies, placements


def plan_jobs(
    runtime: Runtime, request: RunRequest, streams: StreamPlacement | None = None
) -> tuple[list[SparkJob], dict[str, Placement], TaggedStream, SparkSession]:
    """Return the jobs that run the statements, how each statement is placed, the events, and the session.

    The events of a stream are divided, but neither ordered nor accompanied by ticks; `streams` adapts the placement of
    a statement to it.
    """
    frames, time, until, leap = request.frames, request.time, request.until, request.leap
    _check_frames(frames, runtime.catalog, time, streams is not None)
    # before the session starts, which takes seconds: this may raise
    dependencies, placements = _place_statements(runtime, request, streams)
    quiet_pandas_warning()
    session = request.session
    if session is None:
        session = next((f.sparkSession for f in frames.values() if isinstance(f, DataFrame)), None) or local_session()
    types, config = runtime.catalog.event_types, runtime.config
    read = _properties_read(dependencies.values(), frames, runtime.catalog)
    reading = FrameReading(time, request.sequence, config.second, config.time_zone)
    tagged = tag_frames(session, frames, types, read, reading, streams=streams is not None)
    if until is not None:
        tagged = until_time(tagged, until)
    by_key = streams is None and task_count(session) > 1 and any(p.path == "by key" for p in placements.values())
    even = by_key and is_worth_balancing(session, frames.values())
    jobs = []
    for group in _group_jobs(placements):
        together = [dependencies[name] for name in group]
        placement = replace(placements[group[0]], ticks=any(placements[name].ticks for name in group))
        program = _program(together, runtime, frames, read, request.start or 0)
        if streams is None and (placement.path != "native" or placement.window):  # else files are asked for times
            program = _with_times(program, types, time)
        if placement.window is not None:
            program = _for_vectorized_window(program, placement)
        elif placement.path != "native":  # which nothing feeds
            others = dict.fromkeys(name for deps in together for name in deps.feeders if name not in group)
            program = replace(program, upstream=tuple(others))
        unread = any(tag not in {i[0] for i in program.inputs} for tag in range(len(frames)))
        stops = leap and placement.ticks and (placement.path == "by key" or unread)
        program = replace(program, leaps=leap, has_ticks=stops)
        tasks = task_count(session) if streams is None else KEY_GROUP_COUNT
        slices: list[TimeSlice] = []
        if placement.shards is not None:
            program = replace(program, task_modules=_task_modules(program, placement.shards, tasks))
        elif placement.lookback is not None:
            slices = _cut_by_time(tagged, program, placement.lookback, runtime, tasks)
            program = replace(program, slice_starts=tuple(slice_.begin for slice_ in slices))
        if streams is not None and placement.path != "native":
            events = assign_tasks(program_events(tagged, program), program, placement, tasks)
        else:
            events = program_events(tagged, program)
            if placement.path != "native" and (stops or not (leap and placement.ticks)):
                events = push_down(events, _predicates(together, runtime.catalog, placement), program.inputs)
            events = task_events(tagged, events, program, placement, until, tasks, slices, even)
        jobs.append(SparkJob(program, events, placement, {name: dependencies[name].feeders for name in group}))
    check_functions_load(session, {name: f for job in jobs for name, f in job.program.functions.items()})
    return jobs, placements, tagged, session


def _with_times(
    program: TaskProgram, types: Mapping[str, EventType], time: str | Mapping[str, str] | None
) -> TaskProgram:
    """Let properties that are the event time travel as the event time."""
    inputs = []
    for tag, name, properties, columns in program.inputs:
        clock, properties_of_type = time_column(time, types[name]), types[name].properties
        pairs = zip(properties, columns, strict=True)
        inputs.append(
            (
                tag,
                name,
                properties,
                tuple(TIME if p == clock and properties_of_type[p].name == "long" else c for p, c in pairs),
            )
        )
    return replace(program, inputs=tuple(inputs))


def _predicates(
    dependencies: Sequence[StatementDependencies], catalog: Catalog, placement: Placement
) -> Mapping[str, Alternatives]:
    """Return the predicates that Spark pushes down. Of a vectorized window it is the whole filter: no engine checks
    again.
    """
    form = placement.window
    if form is None:
        return pushed_predicates(dependencies, catalog, placement.ticks)
    return {} if form.filter is None else {form.event_type: (tuple(expressions.conjuncts(form.filter)),)}


def _for_vectorized_window(program: TaskProgram, placement: Placement) -> TaskProgram:
    """Restrict a program to the events of its one type, as others of its context have no effect, and to the statement
    that computes the aggregates of its window.
    """
    form = placement.window
    assert form is not None
    inputs = tuple(input_ for input_ in program.inputs if input_[1] == form.event_type)
    if placement.path == "native":
        return replace(program, inputs=inputs)
    (step,) = (step for step in program.steps if step.collect)
    (statement,) = step.module.statements
    properties = program.nested[form.event_type].properties
    aggregating = aggregating_statement(cast(nodes.SelectStatement, statement), form, properties)
    module = replace(step.module, statements=(aggregating,))
    return replace(program, inputs=inputs, window=form, steps=(replace(step, module=module),))


def single_statement_program(runtime: Runtime, target: str) -> tuple[TaskProgram, str]:
    """Return the program of one statement that reads one event type, and that type, for a caller that provides its
    history.

    Errors: UsageError if the statement reads several types.
    """
    catalog = runtime.catalog
    plans = runtime.plans
    (name,) = _targets(plans, [target])
    deps = dependencies_of(name, plans, catalog, catalog.event_types)
    derived = {insert.target for s in deps.readers for insert in s.inserts if insert.creates}
    derived |= set(catalog.stores)
    kinds = [kind for kind in deps.inputs if kind not in derived]
    if len(kinds) != 1:
        raise UsageError(f"`{name}` reads {' and '.join(kinds) or 'no events'}, but a table holds events of one type")
    deps = replace(deps, inputs=(kinds[0],))
    read = _properties_read([deps], {kinds[0]: None}, catalog)
    program = _program([deps], runtime, {kinds[0]: None}, read, runtime.now)
    return replace(program, upstream=deps.feeders), kinds[0]


def _group_jobs(placements: Mapping[str, Placement]) -> list[list[str]]:
    """Return the statements that one job can run together: the same path, divided among tasks in the same way."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, placement in placements.items():
        alone = name if placement.path == "native" or placement.window is not None else None
        group = (placement.path, placement.keys, placement.shards, placement.lookback, alone)
        groups.setdefault(group, []).append(name)
    return list(groups.values())


def _without_slices(placement: Placement) -> Placement:
    """Return the placement for a stream, whose end is not known, so that it cannot be cut into time slices."""
    if placement.lookback is None:
        return placement
    reason = "slices of time are cut of what is complete, which a stream never is"
    return replace(placement, path="ordered", lookback=None, reason=reason)


def _task_modules(program: TaskProgram, shards: ContextShards, tasks: int) -> dict[int, tuple[nodes.ModulePlan, ...]]:
    """Return by position of a step its module in each task, where tasks differ."""
    if shards.categories is None:
        return {}
    modules = {}
    for at, module in enumerate(step.module for step in program.steps):
        created = [s for s in module.statements if isinstance(s, nodes.CreateContextTreeStatement)]
        if any(s.context.name == shards.context for s in created):
            modules[at] = tuple(shard_module(module, shards, task, tasks) for task in range(tasks))
    return modules


def _cut_by_time(
    tagged: TaggedStream, program: TaskProgram, reach: Lookback, runtime: Runtime, tasks: int
) -> list[TimeSlice]:
    """Return where to cut the stream, from a job over the times of all events."""
    if tasks < 2:
        return [TimeSlice(None, None, None)]
    counted = counted_events(reach)
    buckets = time_histogram(tagged.stream, program.inputs, counted, runtime.catalog)
    return cut_slices(buckets, reach, counted, tasks, runtime.config.second / 1000)


def _check_frames(
    frames: Mapping[str, Any], catalog: Catalog, time: str | Mapping[str, str] | None, streams: bool
) -> None:
    """Raise `UsageError` or `EventError` before a Spark session starts, which takes seconds."""
    if not frames:
        raise UsageError("no frames were given; say which DataFrame holds the events of which type: {'Tick': ticks}")
    for name, frame in frames.items():
        if name not in catalog.event_types:
            known = ", ".join(catalog.event_types) or "none"
            raise UsageError(f"there is no event type {name}; known are: {known}")
        check_frame(frame, catalog.event_types[name], time, streams)


def _targets(plans: Sequence[nodes.StatementPlan], names: Sequence[str] | None) -> list[str]:
    selects = [p.name for p in plans if isinstance(p, QueryStatement)]
    if names is None:
        if not selects:
            raise UsageError("no select statement is deployed, so there is nothing to run")
        return selects
    if not names:
        raise UsageError("`statements` names no statement\n  hint: leave it out to run all")
    for name in names:
        if name not in selects:
            raise UsageError(f"there is no select statement {name}; deployed are: {', '.join(selects) or 'none'}")
    return [name for name in selects if name in set(names)]


def _properties_read(dependencies: Any, frames: Mapping[str, Any], catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Return by frame's type the properties that any of the statements reads, in declaration order."""
    properties_seen: dict[str, set[str]] = {name: set() for name in frames}
    for deps in dependencies:
        for name, properties in properties_read(deps, catalog).items():
            properties_seen[name] |= set(properties)
    return {n: tuple(p for p in catalog.event_types[n].properties if p in properties_seen[n]) for n in frames}


def _program(
    dependencies: Sequence[StatementDependencies],
    runtime: Runtime,
    frames: Mapping[str, Any],
    read: Mapping[str, tuple[str, ...]],
    start: int,
) -> TaskProgram:
    targets = {deps.target for deps in dependencies}
    needed = {id(s) for deps in dependencies for s in (*deps.contexts, *deps.readers, *deps.variables, *deps.stores)}
    modules = [d.plan for d in runtime.deployments.values()]
    pairs = [(p, m) for m in modules for p in m.statements]
    pairs = [(p, m) for p, m in pairs if id(p) in needed or isinstance(p, nodes.CreateExpressionStatement)]
    chosen = [p for p, _ in pairs]
    collected = {
        id(p) for p in chosen if isinstance(p, QueryStatement) and p.name in targets
    }  # what does not run may be called so
    steps = tuple(DeploymentStep(p.name, replace(m, statements=(p,)), id(p) in collected) for p, m in pairs)
    inserts = [insert for p in chosen if isinstance(p, nodes.StreamStatement) for insert in p.inserts]
    created = {insert.target for insert in inserts if insert.creates}
    created |= {p.created_store.name for p in chosen if p.created_store is not None}
    known = runtime.catalog.event_types
    types = tuple(t for t in known.values() if t.name not in created)
    used = {name for deps in dependencies for name in deps.inputs}
    inputs = tuple(
        (tag, name, read[name], tuple(column_name(tag, i) for i in range(len(read[name]))))
        for tag, name in enumerate(frames)
        if name in used
    )
    selects = [p for p in chosen if isinstance(p, QueryStatement)]
    outputs = tuple((p.name, p.output_type.delivered) for p in selects if p.name in targets)
    texts = [d.source for d in runtime.deployments.values() if any(p in chosen for p in d.plan.statements)]
    functions = shipped_functions(runtime, "\n".join(texts))
    nested: dict[str, EventType] = dict(known)
    variables = runtime.external_variables()
    return TaskProgram(steps, types, inputs, outputs, nested, runtime.config, start, functions, variables)
