"""From deployed statements and frames to Spark jobs: place the statements, feed the stream, host the engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cepbook.arguments import outside
from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.lang import expr, plan
from cepbook.lang.catalog import Catalog, EventType
from cepbook.lang.contexts import Category
from cepbook.spark.frames.casts import Sql
from cepbook.spark.frames.derived import Derived
from cepbook.spark.frames.inputs import Tagged, check_frame, column_name, tag_frames, time_column, union, upto
from cepbook.spark.frames.native import delivered, meta_of
from cepbook.spark.frames.native_batches import delivered as batches
from cepbook.spark.frames.output import Output, told
from cepbook.spark.plan import parts
from cepbook.spark.plan.pipeline import Pipeline, Query, pipeline, properties_read
from cepbook.spark.plan.placement import UNFED, Placement, clocks_of, place, without_engine
from cepbook.spark.plan.reach import Reach
from cepbook.spark.plan.wanted import Alternatives, dropped, wanted
from cepbook.spark.running.dealing import evenly, is_large, key_columns, task_of
from cepbook.spark.running.result import Given, SparkRun
from cepbook.spark.running.slices import Slice, counted, cut, inside, lasts, tasks_of
from cepbook.spark.running.travelling import check_arrival, functions_in
from cepbook.spark.session import local_session, quiet_pandas_warning
from cepbook.spark.task.hosted import Program, Step, form_columns, host, host_schema
from cepbook.spark.task.names import ABOUT, CLOCK, EVENT, SEQ, STOPS, TAG, TASK, TICK, TIME, text
from cepbook.spark.task.schema import kinds_of, quote
from cepbook.spark.task.stops import PACKED, pack


@dataclass(frozen=True, slots=True)
class Job:
    """Statements that run together: the program of each task, the events that the tasks are given, in order, and by
    statement the names of all that feeds it.
    """

    program: Program
    events: Derived
    placement: Placement
    feeders: Mapping[str, tuple[str, ...]]

    @property
    def stream(self) -> DataFrame:
        """The events as a DataFrame."""
        return self.events.frame

    def output(self, about: Collection[str] = ABOUT) -> Output:
        """What the tasks deliver, of which at least what is `about` it (names of `META`) is told."""
        program, form = self.program, self.placement.form
        if self.placement.path == "native":
            return delivered(program, self.events) if form is None else batches(form, program, self.events, about)
        schema = host_schema(program, about)
        rows = Derived(self.stream.mapInArrow(host(program, about), kinds_of(schema)))
        return told(rows, program, _in_full(program)) if form is None else _by_columns(rows, program, schema.names)


def _in_full(program: Program) -> dict[str, Sql]:
    """What `META` is of rows with `BRIEF`."""
    name, *others = map(text, program.names)
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


def _by_columns(rows: Derived, program: Program, columns: Sequence[str]) -> Output:
    """What tasks calculate by columns: each row is all that an event led to."""
    ((name, _),) = program.outputs
    own = form_columns(program)
    return Output(rows, meta_of(name), [[quote(each) for each in own]], failing=False, alone=own == list(columns))


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
    jobs, placements, tagged, session = planned(runtime, frames, time, sequence, statements, start, until, session)
    warn_of_order(placements)
    made = [(job.program, job.output) for job in jobs]
    feeders = {name: own for job in jobs for name, own in job.feeders.items()}
    given = Given(dict(frames), time, sequence, until, feeders)
    return SparkRun(session, made, placements, tagged.order, certain=tagged.certain, persist=persist, given=given)


class OneTaskWarning(UserWarning):
    """A statement needs all events in one order, so that one task has to do all of its work."""


class UnfedWarning(UserWarning):
    """A statement reads none of the events that were given."""


def warn_of_order(placements: Mapping[str, Placement]) -> None:
    """Say which statements run in one task, why, and what would change that; and which have nothing to read."""
    for name, placement in placements.items():
        if placement.reason == UNFED:
            warnings.warn(f"`{name}`: {UNFED}", UnfedWarning, stacklevel=outside())
        if placement.path == "ordered":
            why = f"{placement.reason}\n  hint: {placement.advice}" if placement.advice else placement.reason
            warnings.warn(f"`{name}` runs in one task: {why}", OneTaskWarning, stacklevel=outside())


def planned(
    runtime: Runtime,
    frames: Mapping[str, Any],
    time: str | Mapping[str, str] | None,
    sequence: str | Mapping[str, str] | None,
    statements: Sequence[str] | None,
    start: int,
    until: int | None,
    session: SparkSession | None,
    streams: Callable[[Placement, Pipeline], Placement] | None = None,
) -> tuple[list[Job], dict[str, Placement], Tagged, SparkSession]:
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
    lines = {name: pipeline(name, plans, runtime.catalog, frames) for name in _targets(plans, statements)}
    clocks = clocks_of({name: time_column(time, types[name]) for name in frames}, runtime.catalog)
    placements = {name: place(line, runtime.catalog, clocks) for name, line in lines.items()}
    config = runtime.config
    if streams is None:
        placements = {n: without_engine(p, lines[n], runtime.catalog, config, clocks) for n, p in placements.items()}
    else:
        placements = {name: streams(_without_slices(found), lines[name]) for name, found in placements.items()}
    read = _read_by_any(lines.values(), frames, runtime.catalog)
    tagged = tag_frames(session, frames, types, read, time, sequence, config.second, streams is not None)
    if until is not None:
        tagged = upto(tagged, until)
    by_key = streams is None and tasks_in(session) > 1 and any(p.path == "by key" for p in placements.values())
    even = by_key and is_large(session, frames.values())
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
        program, tasks = replace(program, stops=stops), tasks_in(session) if streams is None else DIVISIONS
        slices: list[Slice] = []
        if placement.parts is not None:
            program = replace(program, shares=_shares(program, placement.parts, tasks))
        elif placement.reach is not None:
            slices = _slices(tagged, program, placement.reach, runtime, tasks)
            program = replace(program, begins=tuple(each.begin for each in slices))
        if streams is not None and placement.path != "native":
            events = divided(of_program(tagged, program), program, placement, tasks)
        else:
            events = of_program(tagged, program)
            if placement.path != "native" and (stops or not placement.ticks):
                events = dropped(events, _wanted(together, runtime.catalog, placement), program.inputs)
            events = _stream(tagged, events, program, placement, until, tasks, slices, even)
        jobs.append(Job(program, events, placement, {name: lines[name].feeders for name in group}))
    check_arrival(session, {name: f for job in jobs for name, f in job.program.functions.items()})
    return jobs, placements, tagged, session


def _with_times(program: Program, types: Mapping[str, EventType], time: str | Mapping[str, str] | None) -> Program:
    """Properties that are the times of their events travel as these."""
    found = []
    for tag, name, properties, columns in program.inputs:
        clock, of = time_column(time, types[name]), types[name].properties
        pairs = zip(properties, columns, strict=True)
        found.append(
            (tag, name, properties, tuple(TIME if p == clock and of[p].name == "long" else c for p, c in pairs))
        )
    return replace(program, inputs=tuple(found))


def _wanted(lines: Sequence[Pipeline], catalog: Catalog, placement: Placement) -> Mapping[str, Alternatives]:
    """What to drop events by; a form lets nobody look at them again."""
    form = placement.form
    if form is None:
        return wanted(lines, catalog, placement.ticks)
    return {} if form.filter is None else {form.event_type: (tuple(expr.conjuncts(form.filter)),)}


def _of_form(program: Program, placement: Placement) -> Program:
    """What needs no engine reads events of one type; others of a context do nothing."""
    form = placement.form
    assert form is not None
    inputs = tuple(each for each in program.inputs if each[1] == form.event_type)
    return replace(program, inputs=inputs, form=form if placement.path != "native" else None)


def program_alone(runtime: Runtime, target: str) -> tuple[Program, str]:
    """The program of one statement that reads one event type, and that type. Errors: UsageError where it reads others.

    Who has no stream of several types, nor keys, hands it the history that it is to have.
    """
    catalog = runtime.catalog
    plans = [statement for deployment in runtime.deployments.values() for statement in deployment.plan.statements]
    (name,) = _targets(plans, [target])
    line = pipeline(name, plans, catalog, catalog.event_types)
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


def _shares(program: Program, dealt: parts.Parts, tasks: int) -> dict[int, tuple[plan.ModulePlan, ...]]:
    """The modules of each task that are not the same for all, by the places of their steps."""
    if not isinstance(dealt.spec, Category):
        return {}
    own = [(place, step.module) for place, step in enumerate(program.steps) if _is_context(step, dealt.context)]
    return {place: tuple(parts.shared(m, dealt, task, tasks) for task in range(tasks)) for place, m in own}


def _is_context(step: Step, name: str) -> bool:
    created = [s for s in step.module.statements if isinstance(s, plan.CreateContextTreeStatement)]
    return any(s.context.name == name for s in created)


def _slices(tagged: Tagged, program: Program, reach: Reach, runtime: Runtime, tasks: int) -> list[Slice]:
    """Where to cut the stream: a job over the times of all events."""
    if tasks < 2:
        return [Slice(None, None, None)]
    wanted = lasts(reach)
    buckets = counted(tagged.stream, program.inputs, wanted, runtime.catalog)
    return cut(buckets, reach, wanted, tasks, runtime.config.second / 1000)


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


def _targets(plans: Sequence[plan.StatementPlan], wanted: Sequence[str] | None) -> list[str]:
    selects = [p.name for p in plans if isinstance(p, Query)]
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
    lines: Sequence[Pipeline],
    runtime: Runtime,
    frames: Mapping[str, Any],
    read: Mapping[str, tuple[str, ...]],
    start: int,
) -> Program:
    targets = {line.target for line in lines}
    needed = {id(s) for line in lines for s in (*line.contexts, *line.readers, *line.variables, *line.stores)}
    modules = [d.plan for d in runtime.deployments.values()]
    found = [(p, m) for m in modules for p in m.statements]
    found = [(p, m) for p, m in found if id(p) in needed or isinstance(p, plan.CreateExpressionStatement)]
    chosen = [p for p, _ in found]
    wanted = {id(p) for p in chosen if isinstance(p, Query) and p.name in targets}  # what does not run may be called so
    steps = tuple(Step(p.name, replace(m, statements=(p,)), id(p) in wanted) for p, m in found)
    inserts = [insert for p in chosen if isinstance(p, plan.Reader) for insert in p.inserts]
    created = {insert.target for insert in inserts if insert.creates}
    created |= {p.store.name for p in chosen if isinstance(p, plan.CreateWindowStatement | plan.CreateTableStatement)}
    known = runtime.catalog.event_types
    types = tuple(t for t in known.values() if t.name not in created)
    used = {name for line in lines for name in line.inputs}
    inputs = tuple(
        (tag, name, read[name], tuple(column_name(tag, i) for i in range(len(read[name]))))
        for tag, name in enumerate(frames)
        if name in used
    )
    selects = [p for p in chosen if isinstance(p, Query)]
    outputs = tuple((p.name, p.output_type) for p in selects if p.name in targets)
    texts = [d.source for d in runtime.deployments.values() if any(p in chosen for p in d.plan.statements)]
    functions = functions_in(runtime, "\n".join(texts))
    nested: dict[str, EventType] = dict(known)
    variables = runtime.given_variables()
    return Program(steps, types, inputs, outputs, nested, runtime.config, start, functions, variables)


DIVISIONS = 32
"""How many parts the keys of a stream are divided into: the same everywhere, so that a checkpoint fits a session with
any number of tasks. A part costs some 3 ms of each micro-batch that has events of it."""


def tasks_in(session: SparkSession) -> int:
    """How many tasks the keys of a batch are divided among."""
    return max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 1))


def of_program(tagged: Tagged, program: Program) -> Derived:
    """The events of the types that the program reads."""
    tags = [tag for tag, _, _, _ in program.inputs]
    if len(tags) == len(tagged.read):
        return tagged.events
    return tagged.events.where(f"{TAG} IN ({', '.join(map(str, tags))})" if tags else "FALSE")


def divided(
    events: Derived,
    program: Program,
    placement: Placement,
    tasks: int,
    slices: Sequence[Slice] = (),
    even: bool = False,
) -> Derived:
    """The program's events, with the number of the task that gets each; where several get it, once for each."""
    own = TAG, TIME, SEQ, *_read(program)
    several = parts.tasks_of(placement.parts, program.inputs, tasks) if placement.parts is not None else None
    several = tasks_of(slices) if len(slices) > 1 and several is None else several
    if several is not None:
        return Derived(events.frame.select(*own, F.explode(several).alias(TASK)))
    number = task_of(program.inputs, placement, tasks, _dealt(events, program, placement, tasks, even))
    return events.select(*own, f"{number} AS {TASK}")


def _stream(
    tagged: Tagged,
    events: Derived,
    program: Program,
    placement: Placement,
    until: int | None,
    tasks: int,
    slices: Sequence[Slice],
    even: bool,
) -> Derived:
    """The `events` of the program, divided into tasks as `placement` says and sorted inside each task."""
    if placement.path == "native":
        return events
    end = [_last_stop(tagged.stream, until)] if until is not None and placement.ticks else []
    if placement.parts is None and not slices and not program.stops and not end:
        return Derived(_alone(events, program, placement, tasks, even))
    events = divided(events, program, placement, tasks, slices, even)
    if placement.path == "by key":
        stops = [_stops(tagged.stream), *end] if program.stops else end
        every = f"explode(sequence(0, {tasks - 1})) AS {TASK}"
        found = [events.frame, *(each.selectExpr("*", every) for each in stops)]
        return Derived(_sorted(union(found).repartitionById(tasks, TASK), program, alone=len(found) == 1))
    count = max(1, len(slices))
    found = [events.frame]
    for number, each in enumerate(slices or [Slice(None, None, None)]) if program.stops else ():
        found.append(_stops(tagged.stream.where(inside(each))).withColumn(TASK, F.lit(number)))
    found += [each.withColumn(TASK, F.lit(count - 1)) for each in end]
    divided_ = union(found)
    divided_ = divided_.repartitionById(count, TASK) if count > 1 else divided_.repartition(1)
    return Derived(_sorted(divided_, program, alone=len(found) == 1))


def _alone(events: Derived, program: Program, placement: Placement, tasks: int, even: bool) -> DataFrame:
    """Events that go to one task each, where nobody has to be told which, and no stops of the clock with them."""
    order = _order(program, True)
    found = events.select(*order, *_read(program)).frame
    if placement.path == "by key":
        counted = _dealt(events, program, placement, tasks, even)
        if keys := () if counted else key_columns(program.inputs, placement):
            found = found.repartition(tasks, *keys)
        else:
            found = found.repartitionById(tasks, F.expr(task_of(program.inputs, placement, tasks, counted)))
    elif placement.path != "row by row":
        found = found.repartition(1)
    return found.sortWithinPartitions(*order)


def _dealt(events: Derived, program: Program, placement: Placement, tasks: int, even: bool) -> Sequence[int]:
    """Of keys the hash decides, or, if they are to be divided `even`, how many events they have: a job counts these."""
    return evenly(events, program.inputs, placement, tasks) if even and placement.path == "by key" else ()


def _read(program: Program) -> list[str]:
    """The columns that hold properties."""
    return [c for _, _, _, columns in program.inputs for c in columns if c != TIME]


def _order(program: Program, alone: bool) -> tuple[str, ...]:
    """What tasks need events sorted by; of events `alone` that are of one type tags say nothing."""
    return (TIME, SEQ) if alone and len(program.inputs) == 1 else (TIME, SEQ, TAG)


def _sorted(events: DataFrame, program: Program, alone: bool) -> DataFrame:
    """In the order that tasks need, with what they need."""
    order = _order(program, alone)
    wanted = [*order, *([TASK] if program.numbered else []), *([STOPS] if program.stops else []), *_read(program)]
    return events.sortWithinPartitions(*order).selectExpr(*wanted)


def _stops(stream: DataFrame) -> DataFrame:
    """The times at which the clock stops, in blocks."""
    return stream.select(TIME, SEQ).mapInArrow(pack, PACKED)


def _last_stop(stream: DataFrame, until: int) -> DataFrame:
    """The advance to `until` that ends the replay, numbered behind the last event."""
    number = F.coalesce(F.max(SEQ) + 1, F.lit(0)).cast("bigint").alias(SEQ)
    return stream.agg(number).select(F.lit(TICK).alias(TAG), F.lit(until).cast("bigint").alias(TIME), SEQ)
