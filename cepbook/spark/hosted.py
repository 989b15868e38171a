"""The row engine inside a Spark task: batches of tagged events in, batches of delivered rows out.

What travels to the workers is data: EPL texts, event types, column names (`Program`), never a compiled statement, a
session or a lock. A worker compiles a program once and keeps the plans for its later tasks. A task has one runtime;
its state lives from the task's first batch to its last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cepbook.engine.delta import EMPTY, GONE, MORE, Record, Row
from cepbook.engine.layout import records
from cepbook.engine.runtime import Config, Runtime, Statement
from cepbook.errors import EventError, StatementError
from cepbook.lang.catalog import EventType
from cepbook.lang.plan import ModulePlan
from cepbook.lang.types import Type
from cepbook.spark.names import SEQ, TAG, TICK, TIME
from cepbook.spark.schema import Shape, shape_of, to_array

_Cause = tuple[int, int, str, int, str, int]  # time, sequence, trigger, delivery, kind, position in it

CLOCK, EVENT = "clock", "event"
META: tuple[tuple[str, str, pa.DataType], ...] = (
    ("statement", "string", pa.string()),
    ("time", "bigint", pa.int64()),
    ("sequence", "bigint", pa.int64()),
    ("trigger", "string", pa.string()),
    ("delivery", "bigint", pa.int64()),
    ("kind", "string", pa.string()),
    ("row", "bigint", pa.int64()),
    ("error", "string", pa.string()),
)
ROWS_PER_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Step:
    """One statement to deploy: its `name` in the workbench, its own EPL text (of another dialect the whole text that it
    is a part of), and whether its rows are wanted.
    """

    name: str
    epl: str
    collect: bool


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that a task needs. `inputs` are (type name, properties, stream columns) by tag, `outputs` the
    columns of the collected statements, `types` the event types that no step creates, `functions` the registered ones
    with their result types, `variables` what `Runtime.define_variable` takes, with the values at the start.
    """

    steps: tuple[Step, ...]
    types: tuple[EventType, ...]
    inputs: tuple[tuple[int, str, tuple[str, ...], tuple[str, ...]], ...]
    outputs: tuple[tuple[str, EventType], ...]
    nested: Mapping[str, EventType]
    config: Config
    start: int
    functions: Mapping[str, tuple[Callable[..., Any], Any]] = field(default_factory=dict)
    variables: tuple[tuple[str, Type, Any, bool], ...] = ()

    @property
    def fingerprint(self) -> str:
        """Equal programs have equal fingerprints; functions count by name, since plans refer to them by name."""
        types = [(t.name, list(t.properties.items()), t.supertypes, t.time_property) for t in self.types]
        functions = sorted((n, str(f[1])) for n, f in self.functions.items())
        known = (self.steps, types, self.config, functions, self.variables)
        return hashlib.sha256(repr(known).encode()).hexdigest()


def output_schema(program: Program) -> tuple[str, pa.Schema]:
    """The columns of a task's output, as Spark DDL and for Arrow: `META`, then one struct per statement (s0, s1, …)."""
    ddl = [f"{name} {spark}" for name, spark, _ in META]
    fields = [pa.field(name, arrow) for name, _, arrow in META]
    for number, shapes in enumerate(_shapes(program)):
        inner = ", ".join(f"c{i}: {s.ddl}" for i, s in enumerate(shapes))
        ddl.append(f"s{number} struct<{inner}>")
        fields.append(pa.field(f"s{number}", _struct_type(shapes)))
    return ", ".join(ddl), pa.schema(fields)


def host(program: Program) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow``. Its input must be sorted by time, sequence and tag."""

    def run_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _Task(program)
        for batch in batches:
            task.consume(batch)
            yield from task.drain()

    return run_task


_PLANS: dict[str, list[ModulePlan]] = {}  # of this worker process, by fingerprint


def load(program: Program) -> tuple[Runtime, dict[str, Statement]]:
    """A fresh runtime with the program's statements, and the collected ones by name."""
    runtime = Runtime(program.config, start=program.start)
    for name, (function, returns) in program.functions.items():
        runtime.register_function(name, function, returns=returns)
    for event_type in program.types:
        runtime.define(event_type)
    for name, of, value, constant in program.variables:
        runtime.define_variable(name, of, value, constant=constant)
    key = program.fingerprint
    plans = _PLANS.get(key)
    compiled: list[ModulePlan] = []
    collected: dict[str, Statement] = {}
    for number, step in enumerate(program.steps):
        plan = plans[number] if plans is not None else _compile(runtime, step)
        compiled.append(plan)
        deployment = runtime.deploy(plan)
        if step.collect:
            collected[step.name] = deployment.statements[0]
    _PLANS[key] = compiled
    return runtime, collected


def _compile(runtime: Runtime, step: Step) -> ModulePlan:
    module = runtime.compile(step.epl)
    (statement,) = [each for each in module.statements if each.name == step.name] or module.statements
    # an unnamed statement was numbered among its module's, so it must be told its name
    return replace(module, statements=(replace(statement, name=step.name),))


class _Stimulus:
    """What the runtime is being given at the moment: all rows delivered meanwhile are due to it."""

    __slots__ = ("sequence", "trigger")

    def __init__(self) -> None:
        self.sequence = 0
        self.trigger = CLOCK


class _Collector:
    """The sink of one statement: keeps its rows with what caused them."""

    __slots__ = ("_columns", "_number", "_position", "_seen", "_stimulus", "_taken")

    def __init__(self, stimulus: _Stimulus) -> None:
        self._columns: tuple[str, ...] | None = None
        self._taken: list[tuple[_Cause, Record]] = []
        self._stimulus = stimulus
        self._seen: tuple[int, str] = (-1, "")
        self._number = self._position = 0

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row]) -> None:
        self._columns = columns

    def one(self, record: Record) -> None:
        self._begin()
        self._take(record, "insert")

    def extend(self, flat: list[Any]) -> None:
        kind = ""
        for record in records(flat, 2 + (1 if self._columns is None else len(self._columns))):
            mark = record[0]
            if not mark % 2:
                self._begin()
            if mark != EMPTY:
                if not mark % 2 or (mark == GONE and kind == "insert"):
                    self._position = 0
                kind = "insert" if mark <= MORE else "remove"
                self._take(record, kind)

    def _begin(self) -> None:
        """A delivery."""
        now = (self._stimulus.sequence, self._stimulus.trigger)
        self._number = self._number + 1 if now == self._seen else 0
        self._seen = now
        self._position = 0

    def _take(self, record: Record, kind: str) -> None:
        self._taken.append(((record[1], *self._seen, self._number, kind, self._position), record))
        self._position += 1

    def drain(self, names: Iterable[str]) -> Iterator[tuple[list[_Cause], list[list[Any]]]]:
        """What was taken since the last call, in parts: causes and the columns `names`."""
        taken, self._taken = self._taken, []
        for start in range(0, len(taken), ROWS_PER_BATCH):
            part = taken[start : start + ROWS_PER_BATCH]
            columns = [list(values) for values in zip(*(record[2:] for _, record in part), strict=True)]
            if self._columns is None:
                found = [[row.get(name) for row in columns[0]] for name in names]
            else:
                by_name = dict(zip(self._columns, columns, strict=True))
                found = [by_name.get(name, [None] * len(part)) for name in names]
            yield [cause for cause, _ in part], found


class _Task:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._stimulus = _Stimulus()
        self._runtime, collected = load(program)
        self._failures: list[tuple[Any, ...]] = []
        self._runtime.add_error_listener(self._failed)
        self._collectors: dict[str, _Collector] = {}
        for name, statement in collected.items():
            self._collectors[name] = _Collector(self._stimulus)
            statement.add_sink(self._collectors[name])
        self._senders = {tag: self._runtime.sender(name) for tag, name, _, _ in program.inputs}
        self._shapes = _shapes(program)
        self._schema = output_schema(program)[1]
        self._last: tuple[int, int, int] | None = None

    def consume(self, batch: pa.RecordBatch) -> None:
        """Replay one batch: before an event the clock advances to its time; a tick advances the clock only."""
        tags, times, sequences = (batch.column(name).to_numpy(zero_copy_only=False) for name in (TAG, TIME, SEQ))
        self._check(batch, tags, times, sequences)
        events = {tag: _events(batch, tags, tag, names, columns) for tag, _, names, columns in self._program.inputs}
        runtime, stimulus, senders = self._runtime, self._stimulus, self._senders
        now = runtime.now
        for tag, time, sequence in zip(tags.tolist(), times.tolist(), sequences.tolist(), strict=True):
            stimulus.sequence = sequence
            if time > now:
                stimulus.trigger = CLOCK
                runtime.advance(time)
                now = time
            if tag != TICK:
                stimulus.trigger = EVENT
                senders[tag](next(events[tag]))

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Everything delivered since the last call, in batches of the declared schema."""
        for number, (name, event_type) in enumerate(self._program.outputs):
            for causes, columns in self._collectors[name].drain(event_type.properties):
                yield self._batch(number, name, [(name, *cause, None) for cause in causes], columns)
        yield from self._errors()

    def _check(self, batch: pa.RecordBatch, tags: Any, times: Any, sequences: Any) -> None:
        if batch.column(TIME).null_count:
            at = batch.column(TIME).is_null().to_pylist().index(True)
            raise EventError(f"the time of an event of {self._type_name(int(tags[at]))} is missing")
        if batch.column(SEQ).null_count:
            at = batch.column(SEQ).is_null().to_pylist().index(True)
            raise EventError(f"the sequence number of an event of {self._type_name(int(tags[at]))} is missing")
        if not len(times):
            return
        order = np.stack([times, sequences, tags], axis=1)
        same = (order[1:] == order[:-1]).all(axis=1) & (tags[1:] != TICK)
        first = tuple(order[0].tolist())
        if same.any():
            first = tuple(order[int(same.argmax())].tolist())
        if same.any() or (first == self._last and first[2] != TICK):
            raise EventError(
                f"two events of {self._type_name(first[2])} at time {first[0]} have the sequence number {first[1]}: "
                "their order is not defined"
            )
        if first[0] < self._program.start:
            raise EventError(
                f"an event of {self._type_name(first[2])} has the time {first[0]}, "
                f"but the clock starts at {self._program.start}"
            )
        self._last = tuple(order[-1].tolist())

    def _type_name(self, tag: int) -> str:
        return next((name for number, name, _, _ in self._program.inputs if number == tag), "another type")

    def _batch(self, number: int, name: str, meta: list[tuple[Any, ...]], columns: list[list[Any]]) -> pa.RecordBatch:
        event_type = self._program.outputs[number][1]
        values = [
            to_array(column, shape, f"{name}.{own}")
            for own, column, shape in zip(event_type.properties, columns, self._shapes[number], strict=True)
        ]
        own = pa.StructArray.from_arrays(values, fields=list(_struct_type(self._shapes[number])))
        return self._assemble(meta, {number: own}, len(meta))

    def _errors(self) -> Iterator[pa.RecordBatch]:
        """Failures of statements at run time, as rows of their own: as in a notebook they end nothing."""
        found, self._failures = self._failures, []
        if found:
            yield self._assemble(found, {}, len(found))

    def _failed(self, error: StatementError) -> None:
        if error.statement in self._collectors:  # what only feeds others reports in its own job
            now = (self._runtime.now, self._stimulus.sequence, self._stimulus.trigger)
            self._failures.append((error.statement, *now, 0, "error", len(self._failures), str(error)))

    def _assemble(self, meta: list[tuple[Any, ...]], own: Mapping[int, pa.Array], count: int) -> pa.RecordBatch:
        columns = zip(*meta, strict=True)
        arrays = [pa.array(values, type=arrow) for values, (_, _, arrow) in zip(columns, META, strict=True)]
        for number, shapes in enumerate(self._shapes):
            arrays.append(own[number] if number in own else pa.nulls(count, _struct_type(shapes)))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _events(
    batch: pa.RecordBatch, tags: Any, tag: int, names: tuple[str, ...], columns: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """The events of one type in the batch, as dicts; a fresh dict each, since the engine keeps them."""
    chosen = tags == tag
    count = int(chosen.sum())
    if count == 0:
        return iter(())
    if not names:
        return ({} for _ in range(count))
    part = batch.select(list(columns))
    if count < len(tags):
        part = part.filter(pa.array(chosen))
    values = [column.to_pylist() for column in part.columns]
    return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def _shapes(program: Program) -> tuple[tuple[Shape, ...], ...]:
    return tuple(
        tuple(shape_of(t, program.nested) for t in event_type.properties.values()) for _, event_type in program.outputs
    )


def _struct_type(shapes: tuple[Shape, ...]) -> pa.DataType:
    return pa.struct([pa.field(f"c{i}", shape.arrow) for i, shape in enumerate(shapes)])
