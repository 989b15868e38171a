"""What Spark's tasks deliver of a history that the kernel has had, without Spark: by the task's function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import eq, ge, gt, le, lt, ne
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from cepbook.errors import EventError
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.dependencies import dependencies_of
from cepbook.lang.plan.nodes import CycleStatement, SelectStatement
from cepbook.spark.execution.execution import (
    _for_vectorized_window,
    _predicates,
    _program,
    _properties_read,
    _task_modules,
)
from cepbook.spark.execution.time_slices import TimeBucket, TimeSlice, counted_events, slices_at
from cepbook.spark.plan.context_shards import hash_buckets, hashed_properties
from cepbook.spark.plan.placement import Placement, bypass_engine, place
from cepbook.spark.plan.predicate_pushdown import Alternatives
from cepbook.spark.task.clock_ticks import pack_block
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import SEQ, TAG, TASK, TICK, TICKS, TIME
from cepbook.spark.task.task_runner import task_function, vectorized_columns
from cepbook.spark.task.type_mapping import to_array, type_mapping_of
from cepbook.testing.engines import RowsEngine

TASKS = 3
WHOLE = TimeSlice(None, None, None)


class Recorded(RowsEngine):
    """The engine of a case, with what it was given and what its statements delivered."""

    def __init__(self, start: int, options: Mapping[str, Any]) -> None:
        super().__init__(start, options)
        self.start = start
        self.events: list[tuple[str, int, dict[str, Any]]] = []
        self.stops: list[int] = []
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.failed: Counter[str] | None = None  # by statement; None: nobody counts failures
        self.odd = ""  # why this is more than a history of events
        self.steps = False  # whether the clock stops at due times

    def count_failures(self) -> None:
        """Count them from now on, as in tasks: they end nothing."""
        failed = self.failed = Counter()
        self.runtime.add_error_listener(lambda error: failed.update([error.statement]))

    def deploy(self, epl: str, deployment_id: str) -> Sequence[str]:
        names = super().deploy(epl, deployment_id)
        self._follow(names)
        return names

    def deploy_query(self, dialect: str, name: str, text: str) -> None:
        before = set(self.runtime.statements)
        super().deploy_query(dialect, name, text)
        self._follow([each for each in self.runtime.statements if each not in before])

    def _follow(self, names: Sequence[str]) -> None:
        self.odd = self.odd or ("deployed later" if self.events or self.stops else "")
        for name in names:
            rows = self.rows[name] = []
            if name in self.runtime.statements:
                self.runtime.statements[name].add_listener(lambda delta, rows=rows: rows.extend(_flat(delta)))

    def send(self, event_type: str, event: dict[str, Any]) -> None:
        known = self.properties(event_type) or {}
        if not known.keys() >= event.keys():
            self.odd = "properties that are not declared"
        self.events.append((event_type, self.runtime.now, dict(event)))
        super().send(event_type, event)

    def advance(self, time: int, *, stepping: bool) -> None:
        if stepping or time <= self.runtime.now:
            self.odd = "a clock that steps, goes back or is told the same time again"
        self.steps = self.steps or stepping
        self.stops.append(time)
        super().advance(time, stepping=stepping)

    def _change(self, *_: Any) -> None:
        self.odd = "changed from outside"

    def undeploy(self, deployment_id: str) -> None:
        self._change()
        super().undeploy(deployment_id)

    def send_together(self, events: Any) -> None:
        self._change()
        super().send_together(events)

    def query(self, epl: str) -> Any:
        self._change()
        return super().query(epl)

    def set_variable(self, name: str, value: Any) -> None:
        self._change()
        super().set_variable(name, value)

    def replace_table(self, name: str, rows: Any) -> None:
        self._change()
        super().replace_table(name, rows)


def _flat(delta: Any) -> list[tuple[int, str, dict[str, Any]]]:
    sides = (("insert", delta.insert), ("remove", delta.remove))
    return [(delta.time, kind, row) for kind, rows in sides for row in rows or ()]


def within(own: TimeSlice, time: int) -> bool:
    return (own.first is None or time >= own.first) and (own.end is None or time < own.end)


def divided(program: TaskProgram, at: Placement, engine: Recorded) -> list[list[int]]:
    """The numbers of the events that each task gets."""
    tags = {name: tag for tag, name, _, _ in program.inputs}
    keys, found = dict(at.keys), [[] for _ in range(1 if at.path == "ordered" else TASKS)]  # type: ignore[var-annotated]
    for number, (name, _, event) in enumerate(engine.events):
        if name in tags:
            own = tuple(str(event.get(p)) for p in keys.get(name, ()))
            places = [(crc32(repr(own).encode()) if at.path == "by key" else number) % len(found)]
            if at.shards is not None and at.shards.categories is not None:
                own_of = (at.shards.categories.categories[task::TASKS] for task in range(TASKS))
                places = [i for i, own_ in enumerate(own_of) if any(passes(c, event) for _, c in own_)]
            elif at.shards is not None:
                columns = [[event.get(p)] for p in hashed_properties(at.shards, name)]
                places = [hash_buckets(at.shards, name, columns)[0] % TASKS]
            for place_ in places:
                found[place_].append(number)
    return found


def sliced(program: TaskProgram, at: Placement, engine: Recorded) -> list[TimeSlice]:
    """A slice for each time."""
    assert at.lookback is not None
    tags = {name for _, name, _, _ in program.inputs}
    wanted, found = counted_events(at.lookback), {}
    catalog = engine.runtime.catalog
    for name, time, event in engine.events:
        counted = [catalog.is_a(name, w.event_type) and passes(w.filter, event) for w in wanted]
        known = found.get(time, TimeBucket(time, time, 0, (0,) * len(wanted)))
        numbers = tuple(a + b for a, b in zip(known.counted, counted, strict=True))
        found[time] = TimeBucket(time, time, known.events + (name in tags), numbers)
    for time in engine.stops:
        found.setdefault(time, TimeBucket(time, time, 0, (0,) * len(wanted)))
    return slices_at(sorted(found)[1:], [found[time] for time in sorted(found)], at.lookback, wanted, 1.0)


def passes(condition: Any, event: Mapping[str, Any]) -> bool:
    """What Spark makes of a filter that it expresses itself."""
    if condition is None:
        return True
    if isinstance(condition, x.Logic):
        return (all if condition.op == "and" else any)(passes(each, event) for each in condition.operands)
    if isinstance(condition, x.BooleanCheck):
        return passes(condition.operand, event)
    if isinstance(condition, x.Prop):
        return bool(event.get(condition.name))
    if isinstance(condition, x.RangeTest):
        value = event.get(condition.operand.name)
        above, below = (ge if condition.include_low else gt), (le if condition.include_high else lt)
        return value is not None and above(value, condition.low.value) and below(value, condition.high.value)
    left, right = (event.get(e.name) if isinstance(e, x.Prop) else e.value for e in (condition.left, condition.right))
    if isinstance(condition, x.Is):
        return (left is None) is not condition.negated
    if left is None or right is None:
        return False
    return bool(_COMPARED[condition.op](left, right))


_COMPARED = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def batch(
    program: TaskProgram, at: Placement, engine: Recorded, numbers: Sequence[int], own: TimeSlice = WHOLE, task: int = 0
) -> pa.RecordBatch:
    """What a task is given: its events, and where the clock stops if it must know."""
    types = engine.runtime.catalog.event_types
    tags = {name: tag for tag, name, _, _ in program.inputs}
    chosen = [(tags[n], t, number, e) for number in numbers for n, t, e in [engine.events[number]]]
    columns: dict[str, list[Any]] = {TAG: [], TIME: [], SEQ: [], TICKS: []}
    times = sorted({*engine.stops, *(t for _, t, _ in engine.events)})
    times = [t for t in times if within(own, t)]
    if at.ticks and times and program.leaps:
        chosen.insert(0, (TICK, times[0], -1, {}))
    elif at.ticks and times:
        last = engine.stops[-1] if own.end is None else own.end - 1
        chosen = [(TICK, times[0], -1, {}), *chosen, (TICK, last, 1 << 40, {})]
    columns = {name: [row[i] for row in chosen] for i, name in enumerate((TAG, TIME, SEQ))}
    block = pack_block(np.array(times, np.int64), np.full(len(times), -1))
    columns[TICKS] = [block if tag == TICK and program.leaps else None for tag, *_ in chosen]
    kinds = [pa.int32(), pa.int64(), pa.int64(), pa.binary()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns.values(), kinds, strict=True)]
    names = list(columns)
    for tag, name, properties, read in program.inputs:
        for p, column in zip(properties, read, strict=True):
            shape = type_mapping_of(types[name].properties[p], types)
            of = types[name].properties[p]
            if shape.json or of.event or of.name in ("zoneddatetime", "localtime"):  # these would be structs and texts
                raise EventError("no fixed shape")
            arrays.append(to_array([e.get(p) if t == tag else None for t, _, _, e in chosen], shape, p))
            names.append(column)
    arrays.append(pa.array([task] * len(chosen), pa.int32()))
    return pa.RecordBatch.from_arrays(arrays, names=[*names, TASK])


def shown(rows: Sequence[Any], of: Any, types: Any) -> Counter[str]:
    """Rows as their arrays show them."""
    columns = []
    for p, t in of.properties.items():
        columns.append(to_array([row.get(p) for _, _, row in rows], type_mapping_of(t, types), p).to_pylist())
    values = list(zip(*columns, strict=True)) if columns else [()] * len(rows)
    return Counter(repr((t, k, v)) for (t, k, _), v in zip(rows, values, strict=True))


def clock_of(engine: Recorded, name: str) -> str | None:
    """A property that is the time of all events of a type."""
    own = [(time, event) for n, time, event in engine.events if n == name]
    of = engine.runtime.catalog.event_types[name].properties
    return next((p for p in of if of[p].name == "long" and all(e.get(p) == time for time, e in own)), None)


def is_wanted(chosen: Mapping[str, Alternatives], name: str, event: Mapping[str, Any]) -> bool:
    """Whether Spark lets a task have the event."""
    return name not in chosen or any(all(passes(part, event) for part in way) for way in chosen[name])


def delivered(out: pa.RecordBatch, program: TaskProgram) -> list[tuple[Any, ...]]:
    """The time, kind and values of rows."""
    rows = out.to_pylist()
    if "what" not in out.schema.names:
        columns = vectorized_columns(program)
        return [(r["time"], "insert", tuple(r[column] for column in columns)) for r in rows]
    kinds = ("insert", "remove")
    return [(r["time"], kinds[r["what"] >> 1 & 1], tuple(r["s0"].values())) for r in rows if r["error"] is None]


def failures(out: pa.RecordBatch, program: TaskProgram) -> list[str]:
    """The statements, or contexts, whose failures are among what was delivered."""
    if "what" not in out.schema.names:
        return []
    return [program.names[r["what"] >> 2] for r in out.select(["what", "error"]).to_pylist() if r["error"] is not None]


def differences(engine: Recorded, only: set[str] | None = None, size: int = 0) -> tuple[list[str], Counter[str]]:
    """Where tasks deliver something else than the kernel; how many statements ran on each path, and events dropped.

    Batches have `size` rows (0: all).
    """
    runtime, paths, wrong = engine.runtime, Counter[str](), []
    types = runtime.catalog.event_types
    plans = [p for d in runtime.deployments.values() for p in d.plan.statements]
    frames = dict.fromkeys(dict.fromkeys(name for name, _, _ in engine.events))
    clocks = {name: clock for name in frames if (clock := clock_of(engine, name)) is not None}
    for each in plans:
        chosen = isinstance(each, SelectStatement | CycleStatement) and each.name in runtime.statements
        if not chosen or (only is not None and each.name not in only):
            continue
        line = dependencies_of(each.name, plans, runtime.catalog, frames)
        placed = place(line, runtime.catalog, clocks)
        at = bypass_engine(placed, line, runtime.catalog, runtime.config, clocks)
        at = placed if at.path == "native" else at  # as tasks would
        read = _properties_read([line], frames, runtime.catalog)
        program = _program([line], runtime, frames, read, engine.start)
        leaps = not engine.steps
        program = replace(
            program, leaps=leaps, has_ticks=at.ticks and leaps, upstream=line.feeders if at.window is None else ()
        )
        if at.window is not None:
            program = _for_vectorized_window(program, at)
            paths["by columns"] += 1
        chosen_by = _predicates([line], runtime.catalog, at)
        found, failed, before = Counter[str](), Counter[str](), paths["dropped"]
        try:
            slices = sliced(program, at, engine) if at.lookback is not None else [WHOLE] * TASKS
            program = replace(program, slice_starts=tuple(s.begin for s in slices) if at.lookback is not None else ())
            if at.shards is not None:
                program = replace(program, task_modules=_task_modules(program, at.shards, TASKS))
            events = divided(program, at, engine)
            if at.lookback is not None:
                everything = sorted(number for each in events for number in each)
                events = [[n for n in everything if within(each, engine.events[n][1])] for each in slices]
                paths["slices"] += len(slices)
            for number, numbers in enumerate(events):
                own = [n for n in numbers if is_wanted(chosen_by, *engine.events[n][::2])]
                paths["dropped"] += len(numbers) - len(own)
                given = batch(program, at, engine, own, slices[number], number)
                pieces = [given.slice(i, size) for i in range(0, len(given), size)] if size else [given]
                for out in task_function(program)(pieces):
                    found.update(map(repr, delivered(out, program)))
                    failed.update(failures(out, program))
            expected = shown(engine.rows[each.name], each.output_type.delivered, types)
        except EventError:  # values without a shape that tasks could be given
            paths["no fixed shape"] += 1
            continue
        paths[at.path] += 1
        title = f"{each.name} {at.path}"
        wrong += otherwise(title, found, expected)
        if engine.failed is not None and at.window is None:
            # contexts look at events that no statement wants, too, and nobody complains of those that travel nowhere
            wrong += failing_otherwise(title, failed, engine.failed, program, fewer=paths["dropped"] != before)
    return wrong, paths


def otherwise(title: str, found: Counter[str], expected: Counter[str]) -> list[str]:
    """What tasks deliver otherwise than the engine."""
    return [] if found == expected else [f"{title}: lacks {expected - found}, has {found - expected}"[:600]]


def failing_otherwise(
    title: str, failed: Counter[str], here: Mapping[str, int], program: TaskProgram, *, fewer: bool = False
) -> list[str]:
    """The failures that tasks have otherwise than the engine; `fewer`: they may have less of them."""
    counted = Counter({name: n for name, n in here.items() if name in program.names})
    wrong = failed - counted if fewer else counted != failed
    return [f"{title}: failed {dict(counted)}, here {dict(failed)}"] if wrong else []
