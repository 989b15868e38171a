"""From deployed statements and frames to Spark jobs: place the statements, feed the stream, host the engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from cepbook.argument_checks import caller_stacklevel
from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.lang.plan import expressions, nodes
from cepbook.lang.plan.catalog import Catalog, EventType
from cepbook.lang.plan.context import CategorySpec
from cepbook.lang.plan.dependencies import QueryStatement, StatementDependencies, dependencies_of, properties_read
from cepbook.spark.execution.function_shipping import check_functions_load, shipped_functions
from cepbook.spark.execution.key_assignment import (
    is_worth_balancing,
)
from cepbook.spark.execution.spark_run import RunInputs, SparkRun
from cepbook.spark.execution.task_input import KEY_GROUP_COUNT, assign_tasks, program_events, task_count, task_events
from cepbook.spark.execution.time_slices import (
    TimeSlice,
    counted_events,
    cut_slices,
    time_histogram,
)
from cepbook.spark.frames.job_output import JobOutput, task_output
from cepbook.spark.frames.native_batches import native_batches_output as batches
from cepbook.spark.frames.native_filter import delivery_metadata, native_filter_output
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.frames.tagged_stream import (
    TaggedStream,
    check_frame,
    column_name,
    tag_frames,
    time_column,
    until_time,
)
from cepbook.spark.plan import context_shards
from cepbook.spark.plan.lookback import Lookback
from cepbook.spark.plan.placement import NO_INPUT, Placement, bypass_engine, event_time_properties, place
from cepbook.spark.plan.predicate_pushdown import PredicateAlternatives, push_down, pushed_predicates
from cepbook.spark.session import local_session, quiet_pandas_warning
from cepbook.spark.task.program import DeploymentStep, TaskProgram
from cepbook.spark.task.stream_columns import (
    CLOCK,
    DELIVERY_COLUMN_NAMES,
    EVENT,
    TIME,
    Sql,
    sql_literal,
)
from cepbook.spark.task.task_runner import task_function, task_schema, vectorized_columns
from cepbook.spark.task.type_mapping import quote_identifier, spark_schema


@dataclass(frozen=True, slots=True)
class SparkJob:
    """Statements that run together: the program of each task, the events that the tasks are given, in order, and by
    statement the names of all that feeds it.
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
        """What the tasks deliver, of which at least what is `about` it (names of `DELIVERY_COLUMNS`) is told."""
        program, form = self.program, self.placement.form
        if self.placement.path == "native":
            return (
                native_filter_output(program, self.events)
                if form is None
                else batches(form, program, self.events, about)
            )
        schema = task_schema(program, about)
        rows = SqlQuery(self.stream.mapInArrow(task_function(program, about), spark_schema(schema)))
        return (
            task_output(rows, program, _in_full(program)) if form is None else _by_columns(rows, program, schema.names)
        )


def _in_full(program: TaskProgram) -> dict[str, Sql]:
    """What `DELIVERY_COLUMNS` is of rows with `COMPACT_COLUMNS`."""
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


def _by_columns(rows: SqlQuery, program: TaskProgram, columns: Sequence[str]) -> JobOutput:
    """What tasks calculate by columns: each row is all that an event led to."""
    ((name, _),) = program.outputs
    own = vectorized_columns(program)
    return JobOutput(
        rows,
        delivery_metadata(name),
        [[quote_identifier(each) for each in own]],
        failing=False,
        alone=own == list(columns),
    )


def execute(
    runtime: Runtime,
    frames: Mapping[str, Any],
    time: str | Mapping[str, str] | None,
    sequence: str | Mapping[str, str] | None,
    statements: Sequence[str] | None,
    start: int,
    until: int | None,
    session: SparkSession | None,
    persist: bool | None,
) -> SparkRun:
    """See `cepbook.spark.run`."""
    jobs, placements, tagged, session = plan_jobs(runtime, frames, time, sequence, statements, start, until, session)
    warn_of_placement(placements)
    made = [(job.program, job.output) for job in jobs]
    feeders = {name: own for job in jobs for name, own in job.feeders.items()}
    given = RunInputs(dict(frames), time, sequence, until, feeders)
    return SparkRun(session, made, placements, tagged.order, certain=tagged.certain, persist=persist, given=given)


class OneTaskWarning(UserWarning):
    """A statement needs all events in one order, so that one task has to do all of its work."""


class UnfedWarning(UserWarning):
    """A statement reads none of the events that were given."""


def warn_of_placement(placements: Mapping[str, Placement]) -> None:
    """Say which statements run in one task, why, and what would change that; and which have nothing to read."""
    for name, placement in placements.items():
        if placement.reason == NO_INPUT:
            warnings.warn(f"`{name}`: {NO_INPUT}", UnfedWarning, stacklevel=caller_stacklevel())
        if placement.path == "ordered":
            why = f"{placement.reason}\n  hint: {placement.advice}" if placement.advice else placement.reason
            warnings.warn(f"`{name}` runs in one task: {why}", OneTaskWarning, stacklevel=caller_stacklevel())


def plan_jobs(
    runtime: Runtime,
    frames: Mapping[str, Any],
    time: str | Mapping[str, str] | None,
    sequence: str | Mapping[str, str] | None,
    statements: Sequence[str] | None,
    start: int,
    until: int | None,
    session: SparkSession | None,
    streams: Callable[[Placement, StatementDependencies], Placement] | None = None,
) -> tuple[list[SparkJob], dict[str, Placement], TaggedStream, SparkSession]:
    """The jobs that run the statements, how each is placed, the events, and the session.

    Of streams the events are divided, and neither put in order nor told of the clock; `streams` says how a statement is
    placed there.
    """
    _check_frames(frames, runtime.catalog, time, streams is not None)
    quiet_pandas_warning()
    if session is None:
        session = next((f.sparkSession for f in frames.values() if isinstance(f, DataFrame)), None) or local_session()
    plans = [statement for deployment in runtime.deployments.values() for statement in deployment.plan.statements]
    types = runtime.catalog.event_types
    lines = {name: dependencies_of(name, plans, runtime.catalog, frames) for name in _targets(plans, statements)}
    clocks = event_time_properties({name: time_column(time, types[name]) for name in frames}, runtime.catalog)
    placements = {name: place(line, runtime.catalog, clocks) for name, line in lines.items()}
    config = runtime.config
    if streams is None:
        placements = {n: bypass_engine(p, lines[n], runtime.catalog, config, clocks) for n, p in placements.items()}
    else:
        placements = {name: streams(_without_slices(found), lines[name]) for name, found in placements.items()}
    read = _read_by_any(lines.values(), frames, runtime.catalog)
    tagged = tag_frames(session, frames, types, read, time, sequence, config.second, streams is not None)
    if until is not None:
        tagged = until_time(tagged, until)
    by_key = streams is None and task_count(session) > 1 and any(p.path == "by key" for p in placements.values())
    even = by_key and is_worth_balancing(session, frames.values())
    jobs, told = [], set(lines)
    for group in _alike(placements):
        together = [lines[name] for name in group]
        placement = replace(placements[group[0]], ticks=any(placements[name].ticks for name in group))
        program = _program(together, runtime, frames, read, start)
        if streams is None and (placement.path != "native" or placement.form):  # else files are asked for times
            program = _with_times(program, types, time)
        if placement.form is not None:
            program = _of_form(program, placement)
        elif placement.path != "native":  # which nothing feeds
            others = dict.fromkeys(name for line in together for name in line.feeders if name not in told)
            program = replace(program, others=tuple(others))
            told |= set(others)
        unread = any(tag not in {i[0] for i in program.inputs} for tag in range(len(frames)))
        stops = streams is None and placement.ticks and (placement.path == "by key" or unread)
        program, tasks = replace(program, stops=stops), task_count(session) if streams is None else KEY_GROUP_COUNT
        slices: list[TimeSlice] = []
        if placement.parts is not None:
            program = replace(program, shares=_shares(program, placement.parts, tasks))
        elif placement.reach is not None:
            slices = _slices(tagged, program, placement.reach, runtime, tasks)
            program = replace(program, begins=tuple(each.begin for each in slices))
        if streams is not None and placement.path != "native":
            events = assign_tasks(program_events(tagged, program), program, placement, tasks)
        else:
            events = program_events(tagged, program)
            if placement.path != "native" and (stops or not placement.ticks):
                events = push_down(events, _wanted(together, runtime.catalog, placement), program.inputs)
            events = task_events(tagged, events, program, placement, until, tasks, slices, even)
        jobs.append(SparkJob(program, events, placement, {name: lines[name].feeders for name in group}))
    check_functions_load(session, {name: f for job in jobs for name, f in job.program.functions.items()})
    return jobs, placements, tagged, session


def _with_times(
    program: TaskProgram, types: Mapping[str, EventType], time: str | Mapping[str, str] | None
) -> TaskProgram:
    """Properties that are the times of their events travel as these."""
    found = []
    for tag, name, properties, columns in program.inputs:
        clock, of = time_column(time, types[name]), types[name].properties
        pairs = zip(properties, columns, strict=True)
        found.append(
            (tag, name, properties, tuple(TIME if p == clock and of[p].name == "long" else c for p, c in pairs))
        )
    return replace(program, inputs=tuple(found))


def _wanted(
    lines: Sequence[StatementDependencies], catalog: Catalog, placement: Placement
) -> Mapping[str, PredicateAlternatives]:
    """What to drop events by; a form lets nobody look at them again."""
    form = placement.form
    if form is None:
        return pushed_predicates(lines, catalog, placement.ticks)
    return {} if form.filter is None else {form.event_type: (tuple(expressions.conjuncts(form.filter)),)}


def _of_form(program: TaskProgram, placement: Placement) -> TaskProgram:
    """What needs no engine reads events of one type; others of a context do nothing."""
    form = placement.form
    assert form is not None
    inputs = tuple(each for each in program.inputs if each[1] == form.event_type)
    return replace(program, inputs=inputs, form=form if placement.path != "native" else None)


def single_statement_program(runtime: Runtime, target: str) -> tuple[TaskProgram, str]:
    """The program of one statement that reads one event type, and that type. Errors: UsageError where it reads others.

    Who has no stream of several types, nor keys, hands it the history that it is to have.
    """
    catalog = runtime.catalog
    plans = [statement for deployment in runtime.deployments.values() for statement in deployment.plan.statements]
    (name,) = _targets(plans, [target])
    line = dependencies_of(name, plans, catalog, catalog.event_types)
    made = {insert.target for s in line.readers for insert in s.inserts if insert.creates}
    made |= set(catalog.stores)
    kinds = [kind for kind in line.inputs if kind not in made]
    if len(kinds) != 1:
        raise UsageError(f"`{name}` reads {' and '.join(kinds) or 'no events'}, but a table holds events of one type")
    line = replace(line, inputs=(kinds[0],))
    read = _read_by_any([line], {kinds[0]: None}, catalog)
    program = _program([line], runtime, {kinds[0]: None}, read, runtime.now)
    return replace(program, others=line.feeders), kinds[0]


def _alike(placements: Mapping[str, Placement]) -> list[list[str]]:
    """The statements that one job can run together: the same path with the same division into tasks."""
    found: dict[tuple[object, ...], list[str]] = {}
    for name, placement in placements.items():
        alone = name if placement.path == "native" or placement.form is not None else None
        group = (placement.path, placement.keys, placement.parts, placement.reach, alone)
        found.setdefault(group, []).append(name)
    return list(found.values())


def _without_slices(placement: Placement) -> Placement:
    """Of a stream, which has no end that could be seen before it begins."""
    if placement.reach is None:
        return placement
    reason = "slices of time are cut of what is complete, which a stream never is"
    return replace(placement, path="ordered", reach=None, reason=reason)


def _shares(
    program: TaskProgram, dealt: context_shards.ContextShards, tasks: int
) -> dict[int, tuple[nodes.ModulePlan, ...]]:
    """The modules of each task that are not the same for all, by the places of their steps."""
    if not isinstance(dealt.spec, CategorySpec):
        return {}
    own = [(place, step.module) for place, step in enumerate(program.steps) if _is_context(step, dealt.context)]
    return {
        place: tuple(context_shards.shard_module(m, dealt, task, tasks) for task in range(tasks)) for place, m in own
    }


def _is_context(step: DeploymentStep, name: str) -> bool:
    created = [s for s in step.module.statements if isinstance(s, nodes.CreateContextTreeStatement)]
    return any(s.context.name == name for s in created)


def _slices(
    tagged: TaggedStream, program: TaskProgram, reach: Lookback, runtime: Runtime, tasks: int
) -> list[TimeSlice]:
    """Where to cut the stream: a job over the times of all events."""
    if tasks < 2:
        return [TimeSlice(None, None, None)]
    wanted = counted_events(reach)
    buckets = time_histogram(tagged.stream, program.inputs, wanted, runtime.catalog)
    return cut_slices(buckets, reach, wanted, tasks, runtime.config.second / 1000)


def _check_frames(
    frames: Mapping[str, Any], catalog: Catalog, time: str | Mapping[str, str] | None, streams: bool
) -> None:
    """What can be told now, and not after the seconds that a Spark session takes to start."""
    if not frames:
        raise UsageError("no frames were given; say which DataFrame holds the events of which type: {'Tick': ticks}")
    for name, frame in frames.items():
        if name not in catalog.event_types:
            known = ", ".join(catalog.event_types) or "none"
            raise UsageError(f"there is no event type {name}; known are: {known}")
        check_frame(frame, catalog.event_types[name], time, streams)


def _targets(plans: Sequence[nodes.StatementPlan], wanted: Sequence[str] | None) -> list[str]:
    selects = [p.name for p in plans if isinstance(p, QueryStatement)]
    if wanted is None:
        if not selects:
            raise UsageError("no select statement is deployed, so there is nothing to run")
        return selects
    for name in wanted:
        if name not in selects:
            raise UsageError(f"there is no select statement {name}; deployed are: {', '.join(selects) or 'none'}")
    return [name for name in selects if name in set(wanted)]


def _read_by_any(lines: Any, frames: Mapping[str, Any], catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """For each frame's type the properties that any of the pipelines reads, in declaration order."""
    seen: dict[str, set[str]] = {name: set() for name in frames}
    for line in lines:
        for name, properties in properties_read(line, catalog).items():
            seen[name] |= set(properties)
    return {n: tuple(p for p in catalog.event_types[n].properties if p in seen[n]) for n in frames}


def _program(
    lines: Sequence[StatementDependencies],
    runtime: Runtime,
    frames: Mapping[str, Any],
    read: Mapping[str, tuple[str, ...]],
    start: int,
) -> TaskProgram:
    targets = {line.target for line in lines}
    needed = {id(s) for line in lines for s in (*line.contexts, *line.readers, *line.variables, *line.stores)}
    modules = [d.plan for d in runtime.deployments.values()]
    found = [(p, m) for m in modules for p in m.statements]
    found = [(p, m) for p, m in found if id(p) in needed or isinstance(p, nodes.CreateExpressionStatement)]
    chosen = [p for p, _ in found]
    wanted = {
        id(p) for p in chosen if isinstance(p, QueryStatement) and p.name in targets
    }  # what does not run may be called so
    steps = tuple(DeploymentStep(p.name, replace(m, statements=(p,)), id(p) in wanted) for p, m in found)
    inserts = [insert for p in chosen if isinstance(p, nodes.StreamStatement) for insert in p.inserts]
    created = {insert.target for insert in inserts if insert.creates}
    created |= {p.store.name for p in chosen if isinstance(p, nodes.CreateWindowStatement | nodes.CreateTableStatement)}
    known = runtime.catalog.event_types
    types = tuple(t for t in known.values() if t.name not in created)
    used = {name for line in lines for name in line.inputs}
    inputs = tuple(
        (tag, name, read[name], tuple(column_name(tag, i) for i in range(len(read[name]))))
        for tag, name in enumerate(frames)
        if name in used
    )
    selects = [p for p in chosen if isinstance(p, QueryStatement)]
    outputs = tuple((p.name, p.output_type) for p in selects if p.name in targets)
    texts = [d.source for d in runtime.deployments.values() if any(p in chosen for p in d.plan.statements)]
    functions = shipped_functions(runtime, "\n".join(texts))
    nested: dict[str, EventType] = dict(known)
    variables = runtime.external_variables()
    return TaskProgram(steps, types, inputs, outputs, nested, runtime.config, start, functions, variables)
