"""The row engine inside a Spark task: batches of tagged events in, batches of delivered rows out, columns on both ends.

What travels to the workers is data: bound plans, event types, column names (`Program`), never a compiled statement, a
session, a lock, or text that had to be parsed. A task has one runtime; its state lives from the task's first batch to
its last. Batches go through the engine as slices of a replay do (`engine.batch`).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import StatementError
from cepbook.spark.task.arrow_columns import ArrowEvents
from cepbook.spark.task.clock_ticks import NO_TICKS, ClockTicks, TickSequences, as_sequence
from cepbook.spark.task.delivery_columns import ARROW_TYPES, CauseSequences, DeliveryCollector, Int64Array
from cepbook.spark.task.input_validation import InputValidator
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import (
    CLOCK,
    COMPACT_COLUMNS,
    DELIVERY_COLUMN_NAMES,
    DELIVERY_COLUMNS,
    EVENT,
    SEQ,
    TASK,
    TICK,
    TIME,
)
from cepbook.spark.task.type_mapping import TypeMapping, to_array, type_mapping_of, unique_names
from cepbook.spark.task.windowed_aggregates import KeyedWindows

_GATHERED = 2**16  # rows that are taken at once by columns, at least


def output_schema(program: TaskProgram, compact: bool = False) -> pa.Schema:
    """The columns of a task's output: `DELIVERY_COLUMNS`, or `COMPACT_COLUMNS`, then one struct per statement (s0,
    s1, …).
    """
    fields = [pa.field(name, ARROW_TYPES[of]) for name, of in (COMPACT_COLUMNS if compact else DELIVERY_COLUMNS)]
    fields += [pa.field(f"s{number}", _struct_type(shapes)) for number, shapes in enumerate(_shapes(program))]
    return pa.schema(fields)


def task_schema(program: TaskProgram, about: Collection[str] = DELIVERY_COLUMN_NAMES) -> pa.Schema:
    """The columns that `host` gives of rows that are to tell what is `about` them (names of `DELIVERY_COLUMNS`).

    `COMPACT_COLUMNS`, as far as it is asked for or says what failed, and a struct per statement; of a form `TIME`,
    `SEQ` and
    `vectorized_columns`.
    """
    if program.form is None:
        schema = output_schema(program, compact=True)
        unasked = {name for name, _ in COMPACT_COLUMNS} & (set(DELIVERY_COLUMN_NAMES) - {*about, "error"})
    else:
        schema = _form_schema(program)
        unasked = {name for name, told in ((TIME, "time"), (SEQ, "sequence")) if told not in about}
        unasked -= set(vectorized_columns(program))
    return pa.schema([each for each in schema if each.name not in unasked])


def _form_schema(program: TaskProgram) -> pa.Schema:
    """All that a task by columns can give."""
    shapes = zip(vectorized_columns(program), _shapes(program)[0], strict=True)
    own = [pa.field(name, shape.arrow) for name, shape in shapes if name != TIME]
    return pa.schema([pa.field(TIME, pa.int64()), pa.field(SEQ, pa.int64()), *own])


def vectorized_columns(program: TaskProgram) -> list[str]:
    """Where the columns of the statement with a form are in what `host` gives: under their names, unless others have
    these, and what is the time of the event in `TIME`.
    """
    assert program.form is not None
    place, ((_, output),) = _places(program), program.outputs
    names = unique_names(tuple(output.properties), (TIME, SEQ))
    return [
        TIME if isinstance(column, str) and place[column] == TIME else name
        for column, name in zip(program.form.columns, names, strict=True)
    ]


def _places(program: TaskProgram) -> dict[str, str]:
    ((_, _, properties, columns),) = program.inputs
    return dict(zip(properties, columns, strict=True))


def task_function(
    program: TaskProgram, about: Collection[str] = DELIVERY_COLUMN_NAMES
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow``; it gives what `task_schema` says. Its input is sorted by time, sequence and
    tag.
    """
    told = task_schema(program, about).names

    def run_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _settle()
        task: TaskRunner | VectorizedTaskRunner | None = None
        begin = None
        for batch in batches:
            if task is None and batch.num_rows:
                number = batch.column(TASK)[0].as_py() if program.numbered else 0
                begin = program.begins[number] if program.begins else None
                task = (
                    TaskRunner(program, number=number, compact=True)
                    if program.form is None
                    else VectorizedTaskRunner(program)
                )
            if task is not None:
                yield from told_of(begin, task.take(batch))
        if task is not None:
            yield from told_of(begin, task.finish())

    def told_of(begin: int | None, delivered: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.select(told) for batch in _since(begin, delivered))

    return run_task


def _settle() -> None:
    """In a worker of Spark: what has been loaded stays, so that nobody looks for garbage in it.

    A worker collects garbage after each task, too, which takes longer than many tasks: it has modules above all.
    """
    global _settled
    if not _settled and "pyspark.worker" in sys.modules:
        _settled = True
        gc.freeze()


_settled = False


def _since(begin: int | None, delivered: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What is delivered but by a task before: what has the time `begin`, or a later one."""
    for batch in delivered:
        if begin is not None:
            own = batch.column("time").to_numpy() >= begin
            batch = batch if own.all() else batch.filter(pa.array(own))
        if batch.num_rows:
            yield batch


def _arrivals(program: TaskProgram) -> InputValidator:
    return InputValidator({tag: name for tag, name, _, _ in program.inputs}, program.start, program.config.second)


def load_runtime(program: TaskProgram, number: int = 0) -> tuple[Runtime, dict[str, RunningStatement]]:
    """A fresh runtime with the program's statements as task `number` has them, and the collected ones by name."""
    runtime = Runtime(program.config, start=program.start)
    for name, (function, of) in program.functions.items():  # names were checked when they were registered
        runtime.functions[name], runtime.catalog.functions[name] = function, of
    for event_type in program.types:
        runtime.define(event_type)
    for name, type_, value, constant in program.variables:
        runtime.define_variable(name, type_, value, constant=constant)
    collected: dict[str, RunningStatement] = {}
    for place, step in enumerate(program.steps):
        module = program.shares[place][number] if place in program.shares else step.module
        deployment = runtime.deploy(module)
        if step.collect:
            collected[step.name] = deployment.statements[0]
    return runtime, collected


class TaskRunner:
    """A runtime over the batches of one task; or, with `loaded`, over those that go on from a state that was kept.

    What is about the rows is as in `DELIVERY_COLUMNS`, or in short as in `COMPACT_COLUMNS`.
    """

    def __init__(
        self,
        program: TaskProgram,
        loaded: tuple[Runtime, dict[str, RunningStatement]] | None = None,
        number: int = 0,
        compact: bool = False,
    ) -> None:
        self._program = program
        self._brief = compact
        self.runtime, collected = loaded or load_runtime(program, number)
        self._batch = self.runtime.batch([name for _, name, _, _ in program.inputs])
        self._failures: list[tuple[Any, ...]] = []
        self.runtime.add_error_listener(self._failed)
        self._collectors = {name: DeliveryCollector(lambda: self._batch.cause) for name in collected}
        for name, statement in collected.items():
            statement.add_sink(self._collectors[name])
        self._shapes = _shapes(program)
        self._arrivals = _arrivals(program)
        self._order = CauseSequences(NO_TICKS, NO_TICKS, NO_TICKS, NO_TICKS.take)
        self._stops = ClockTicks()

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Replay one batch; what is delivered meanwhile, in batches of the declared schema."""
        if not batch.num_rows:
            return
        tags, times, sequences = self._arrivals.read(batch)
        ticks = tags == TICK
        if ticks.any():
            self._stops.tell(batch.filter(pa.array(ticks)))
            events = pa.array(~ticks)
            batch, upto = batch.filter(events), int(times[-1])
            tags, times, sequences = tags[~ticks], times[~ticks], sequences[~ticks]
        else:
            upto = int(times[-1])
        stops, numbers = self._due(upto, times, sequences)
        self._order = CauseSequences(times, sequences, stops, numbers)
        slices = self._slices(batch, tags, times)
        own_stops = len(slices) == 1 and not self._program.stops and stops[-1:].tolist() == times[-1:].tolist()
        self._batch.run(slices, None if own_stops else as_sequence(stops))
        yield from self.drain()

    def follow(self, events: pa.Table | None, upto: int) -> Iterator[pa.RecordBatch]:
        """Replay events that are in order, up to the time `upto`; the clock stops whenever something is due, too."""
        stops = range(self.runtime.now, upto + 1)
        slices: list[ColumnBatch] = []
        if events is not None and len(events):
            (batch,) = events.combine_chunks().to_batches()
            tags, times, sequences = self._arrivals.read(batch)
            own, first = np.unique(times, return_index=True)
            self._order = CauseSequences(times, sequences, own, sequences[first].take)
            slices = self._slices(batch, tags, times)
        self._batch.run(slices, stops)
        yield from self.drain()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The stops of the clock behind the last event."""
        stops, numbers = self._stops.upto(None)
        if len(stops):
            self._order = CauseSequences(NO_TICKS, NO_TICKS, stops, numbers)
            self._batch.run([], as_sequence(stops))
            yield from self.drain()

    def _slices(self, batch: pa.RecordBatch, tags: Int64Array, times: Int64Array) -> list[ColumnBatch]:
        slices, known = [], self.runtime.catalog.event_types
        needed, alike = self._batch.columns, not (self._batch.reasons or self._batch.merged)
        for tag, name, properties, columns in self._program.inputs:
            found = np.flatnonzero(tags == tag)
            if len(found):
                alone = len(found) == len(tags)
                own, part = times if alone else times[found], batch.select([c for c in columns if c != TIME])
                part = part if alone else part.filter(pa.array(tags == tag))
                events = ArrowEvents(part, own, properties, columns, known[name], known)
                names = needed[name] if alike else [p for p in needed[name] if p in properties]
                slices.append(ColumnBatch(name, events.times, events.read(names), None if alone else found.tolist()))
        return slices

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Everything delivered since the last call."""
        for number, (name, event_type) in enumerate(self._program.outputs):
            found = self._collectors[name].drain(event_type.properties, self._order)
            if found is not None:
                meta = found.compact(number) if self._brief else found.meta(name)
                yield self._delivered(number, name, meta, found.columns)
        if self._failures:
            failed, self._failures = self._failures, []
            yield failure_batch(self._program, failed, self._brief)

    def _due(self, upto: int, times: Int64Array, sequences: Int64Array) -> tuple[Int64Array, TickSequences]:
        """The stops of the clock up to `upto`, and the sequence numbers of the events that it goes there for."""
        stops, found = self._stops.upto(upto)
        if not self._program.stops:
            fresh = np.ones(len(times), bool)
            fresh[1:] = times[1:] != times[:-1]
            return np.concatenate([times[fresh], stops]), found.behind(sequences[fresh])
        if len(times) and (not len(stops) or times[0] < stops[0]):  # the clock is there already
            return np.concatenate([times[:1], stops]), found.behind(sequences[:1])
        return stops, found

    # -------------------------------------------------------------- what goes out
    def _delivered(self, number: int, name: str, meta: list[pa.Array], columns: list[list[Any]]) -> pa.RecordBatch:
        event_type = self._program.outputs[number][1]
        values = [
            to_array(column, shape, f"{name}.{own}")
            for own, column, shape in zip(event_type.properties, columns, self._shapes[number], strict=True)
        ]
        of = _struct_type(self._shapes[number])
        own = pa.StructArray.from_arrays(values, fields=list(of)) if values else pa.array([{}] * len(meta[0]), of)
        return _assembled(self._shapes, meta, {number: own}, self._brief)

    def _failed(self, error: StatementError) -> None:
        """Failures of statements at run time are rows of their own: as in a notebook they end nothing."""
        if error.statement not in self._program.names:  # its own job reports it, or another that it feeds
            return
        place, phase = self._batch.cause[:2]
        trigger, time, order = EVENT, self.runtime.now, self._order
        if phase == 1 and place < len(order.times):
            time, sequence = int(order.times[place]), int(order.sequences[place])
        else:
            trigger = CLOCK
            sequence = int(order.cause_sequences(*(np.array([v]) for v in (place, 0, time)))[0])
        self._failures.append((error.statement, time, sequence, trigger, 0, "error", len(self._failures), str(error)))


class VectorizedTaskRunner:
    """A task of a statement with a `form`: for each event its time, sequence number and row."""

    def __init__(self, program: TaskProgram) -> None:
        assert program.form is not None
        self._windows = KeyedWindows(program.form, _places(program))
        self._arrivals = _arrivals(program)
        self._schema = _form_schema(program)
        self._shown = [i for i, name in enumerate(vectorized_columns(program)) if name != TIME]
        self._waiting: list[pa.RecordBatch] = []
        self._count = 0

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take one batch; what is delivered as soon as enough rows have come."""
        if batch.num_rows:
            self._arrivals.read(batch)
            self._waiting.append(batch)
            self._count += batch.num_rows
            if self._count >= max(_GATHERED, self._windows.held):  # so that no row is held up for few others
                yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What is delivered due to the rows that wait."""
        if self._waiting:
            rows, self._waiting, self._count = pa.Table.from_batches(self._waiting).combine_chunks(), [], 0
            found = self._windows.take(rows)
            arrays = [rows.column(name).combine_chunks() for name in (TIME, SEQ)]
            own = list(self._schema)[len(arrays) :]
            arrays += [found[place].cast(field.type) for place, field in zip(self._shown, own, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def failure_batch(program: TaskProgram, found: Sequence[tuple[Any, ...]], compact: bool = False) -> pa.RecordBatch:
    """Rows of `DELIVERY_COLUMNS` alone, or as `COMPACT_COLUMNS` has them."""
    if compact:
        numbers = {name: number for number, name in enumerate(program.names)}
        found = [
            (4 * numbers[name] + (trigger == EVENT), time, sequence, delivery, row, error)
            for name, time, sequence, trigger, delivery, _, row, error in found
        ]
    columns = zip(*found, strict=True)
    about = COMPACT_COLUMNS if compact else DELIVERY_COLUMNS
    meta = [pa.array(values, type=ARROW_TYPES[of]) for values, (_, of) in zip(columns, about, strict=True)]
    return _assembled(_shapes(program), meta, {}, compact)


def _assembled(
    shapes: Sequence[tuple[TypeMapping, ...]], meta: Sequence[pa.Array], own: Mapping[int, pa.Array], compact: bool
) -> pa.RecordBatch:
    arrays, fields = (
        list(meta),
        [pa.field(name, ARROW_TYPES[of]) for name, of in (COMPACT_COLUMNS if compact else DELIVERY_COLUMNS)],
    )
    for number, each in enumerate(shapes):
        of = _struct_type(each)
        arrays.append(own[number] if number in own else pa.nulls(len(meta[0]), of))
        fields.append(pa.field(f"s{number}", of))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _shapes(program: TaskProgram) -> tuple[tuple[TypeMapping, ...], ...]:
    return tuple(
        tuple(type_mapping_of(t, program.nested) for t in event_type.properties.values())
        for _, event_type in program.outputs
    )


def _struct_type(shapes: tuple[TypeMapping, ...]) -> pa.DataType:
    return pa.struct([pa.field(f"c{i}", shape.arrow) for i, shape in enumerate(shapes)])
