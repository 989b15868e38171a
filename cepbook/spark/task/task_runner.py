"""The row engine inside a Spark task: batches of tagged events in, batches of delivered rows out.

A task has one runtime, whose state exists from the task's first batch to its last. Batches go through the engine like
the batches of a replay.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.engine.statements.state_limit import AFTER_THE_LAST
from cepbook.engine.time.clock_stops import leaps_from_epoch
from cepbook.engine.vectorized import kernel_library
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import EventError, StateLimitError, StatementError
from cepbook.spark.task.arrow_columns import ArrowEvents
from cepbook.spark.task.clock_ticks import NO_TICKS, ClockTicks, TickSequences, as_sequence
from cepbook.spark.task.delivery_columns import (
    ARROW_TYPES,
    CauseSequences,
    DeliveryCollector,
    Int64Array,
    delivered_array,
)
from cepbook.spark.task.input_validation import InputValidator
from cepbook.spark.task.program import TaskProgram, window_call_names
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
from cepbook.spark.task.type_mapping import TypeMapping, type_mapping_of, unique_names

_ROWS_AT_ONCE = 2**16  # rows that are taken at once by arrays, at least: each batch has a cost whatever its size


def output_schema(program: TaskProgram, compact: bool = False) -> pa.Schema:
    """Return the columns of a task's output: `DELIVERY_COLUMNS` or `COMPACT_COLUMNS`, then a struct per statement (s0,
    s1, …).
    """
    fields = [pa.field(name, ARROW_TYPES[type_]) for name, type_ in (COMPACT_COLUMNS if compact else DELIVERY_COLUMNS)]
    fields += [pa.field(f"s{number}", _struct_type(shapes)) for number, shapes in enumerate(_output_types(program))]
    return pa.schema(fields)


def task_schema(program: TaskProgram, about: Collection[str] = DELIVERY_COLUMN_NAMES) -> pa.Schema:
    """Return the columns of `task_function` for rows whose metadata `about` names.

    These are the `COMPACT_COLUMNS` that are asked for or that identify failures, and a struct per statement. A
    vectorized window has `TIME`, `SEQ` and `vectorized_columns`.
    """
    if program.window is None:
        schema = output_schema(program, compact=True)
        unasked = {name for name, _ in COMPACT_COLUMNS} & (set(DELIVERY_COLUMN_NAMES) - {*about, "error"})
    else:
        schema = _vectorized_schema(program)
        unasked = {name for name, meta in ((TIME, "time"), (SEQ, "sequence")) if meta not in about}
        unasked -= set(vectorized_columns(program))
    return pa.schema([field for field in schema if field.name not in unasked])


def _vectorized_schema(program: TaskProgram) -> pa.Schema:
    """Return all columns of the rows of a vectorized window."""
    shapes = zip(vectorized_columns(program), _output_types(program)[0], strict=True)
    fields = [pa.field(name, shape.arrow) for name, shape in shapes if name != TIME]
    return pa.schema([pa.field(TIME, pa.int64()), pa.field(SEQ, pa.int64()), *fields])


def vectorized_columns(program: TaskProgram) -> list[str]:
    """Return the names of a vectorized window's columns in the task's output.

    They are the statement's own, changed where they would repeat, and `TIME` for the event time.
    """
    assert program.window is not None
    column_of, ((_, output),) = _property_columns(program), program.outputs
    names = unique_names(tuple(output.properties), (TIME, SEQ))
    return [
        TIME if isinstance(column, str) and column_of[column] == TIME else name
        for column, name in zip(program.window.columns, names, strict=True)
    ]


def _property_columns(program: TaskProgram) -> dict[str, str]:
    ((_, _, properties, columns),) = program.inputs
    return dict(zip(properties, columns, strict=True))


def task_function(
    program: TaskProgram, about: Collection[str] = DELIVERY_COLUMN_NAMES
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for ``mapInArrow``; its output has `task_schema`, its input is sorted by time, sequence and
    tag.
    """
    columns = task_schema(program, about).names

    def run_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _freeze_modules()
        task: TaskRunner | None = None
        begin = None
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            if task is None:
                number = batch.column(TASK)[0].as_py() if program.numbered else 0
                begin = program.slice_starts[number] if program.slice_starts else None
                runner = TaskRunner if program.window is None else VectorizedTaskRunner
                task = runner(program, number=number, compact=True)
            waiting.append(batch)
            if sum(batch.num_rows for batch in waiting) >= task.rows_at_once:
                batch, waiting = _joined(waiting), []
                yield from told_of(begin, task.take(batch))
        if task is not None:
            yield from told_of(begin, task.take(_joined(waiting)) if waiting else ())
            yield from told_of(begin, task.finish())

    def told_of(begin: int | None, delivered: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.select(columns) for batch in _from_time(begin, delivered))

    return run_task


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one."""
    if len(batches) == 1:
        return batches[0]
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def _freeze_modules() -> None:
    """Exclude what a worker of Spark has loaded from garbage collection: modules, and later those of the kernels.

    A worker collects garbage after each task. With all the modules in memory that takes longer than many tasks.
    """
    global _frozen
    loaded = 1 if kernel_library.kernels() is None else 2
    if _frozen < loaded and "pyspark.worker" in sys.modules:
        _frozen = loaded
        gc.freeze()


_frozen = 0


def _from_time(begin: int | None, delivered: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Drop the rows before `begin`, which an earlier task delivers."""
    for batch in delivered:
        if begin is not None:
            is_own = batch.column("time").to_numpy() >= begin
            batch = batch if is_own.all() else batch.filter(pa.array(is_own))
        if batch.num_rows:
            yield batch


def _input_validator(program: TaskProgram) -> InputValidator:
    return InputValidator({tag: name for tag, name, _, _ in program.inputs}, program.start, program.config.second)


def load_runtime(program: TaskProgram, number: int = 0) -> tuple[Runtime, dict[str, RunningStatement]]:
    """Return a new runtime with the program's statements as task `number` has them, and the collected ones by name."""
    runtime = Runtime(program.config, start=program.start)
    for name, (function, signature) in program.functions.items():  # names were checked when they were registered
        runtime.functions[name], runtime.catalog.functions[name] = function, signature
    for event_type in program.types:
        runtime.define(event_type)
    for name, type_, value, constant in program.variables:
        runtime.define_variable(name, type_, value, constant=constant)
    collected: dict[str, RunningStatement] = {}
    for position, step in enumerate(program.steps):
        module = program.task_modules[position][number] if position in program.task_modules else step.module
        deployment = runtime.deploy(module)
        if step.collect:
            collected[step.name] = deployment.statements[0]
    return runtime, collected


class TaskRunner:
    """A runtime over the batches of one task; with `loaded`, a runtime that continues from a saved state.

    The metadata of its rows is that of `DELIVERY_COLUMNS`, or that of `COMPACT_COLUMNS`.
    """

    def __init__(
        self,
        program: TaskProgram,
        loaded: tuple[Runtime, dict[str, RunningStatement]] | None = None,
        number: int = 0,
        compact: bool = False,
    ) -> None:
        self._program = program
        self._has_last_event = number >= len(program.slice_starts) - 1  # of its key, or of all events
        self._brief = compact
        self.runtime, collected = loaded or load_runtime(program, number)
        self._batch = self.runtime.batch([name for _, name, _, _ in program.inputs])
        self._failures: list[tuple[Any, ...]] = []
        self.runtime.add_error_listener(self._on_failure)
        self._collectors = {name: DeliveryCollector(lambda: self._batch.cause) for name in collected}
        for name, statement in collected.items():
            statement.add_sink(self._collectors[name])
        self._output_types = _output_types(program)
        self._input_validator = _input_validator(program)
        self._order = CauseSequences(NO_TICKS, NO_TICKS)
        self._stops = ClockTicks()
        self._by_arrays = any(statement.vectorized is not None for statement in collected.values())

    @property
    def rows_at_once(self) -> int:
        """The number of rows that are worth a call of `take`."""
        return _ROWS_AT_ONCE if self._by_arrays else 1

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Replay one batch, and yield the rows that are delivered. Errors: StateLimitError."""
        if not self._program.leaps:
            yield from self.follow(batch, self.runtime.now)
            return
        for piece in self._admitted(batch):
            yield from self._leap(piece)

    def _admitted(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the batch in pieces that are processed before the next count of `Config.state_limit`.

        If a statement keeps too much, the piece is a single row. Its time may evict rows from windows. Errors:
        StateLimitError if the statement keeps too much after that row, too.
        """
        limit, start = self.runtime.state_limit, 0
        if limit is None:
            yield batch
            return
        while start < batch.num_rows:
            try:
                count = limit.room(batch.num_rows - start)
            except StateLimitError:
                yield batch.slice(start, 1)
                limit.check()
                count = 1
            else:
                yield batch.slice(start, count)
            start += count

    def _leap(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Replay a batch whose rows have all stops of the clock."""
        if not batch.num_rows:
            return
        tags, times, sequences = self._input_validator.read(batch)
        ticks = tags == TICK
        if ticks.any():
            self._stops.add_rows(batch.filter(pa.array(ticks)))
            events = pa.array(~ticks)
            batch, upto = batch.filter(events), int(times[-1])
            tags, times, sequences = tags[~ticks], times[~ticks], sequences[~ticks]
        else:
            upto = int(times[-1])
        stops, numbers = self._stops.take_until(upto)
        due = cache(partial(self._due, stops, numbers, times, sequences))
        self._order = CauseSequences(times, sequences, due)
        slices = self._slices(batch, tags, times)
        own_stops = len(slices) == 1 and not self._program.has_ticks and not len(stops)
        self._batch.run(slices, None if own_stops else as_sequence(due()[0]))
        yield from self.drain()

    def follow(self, batch: pa.RecordBatch | None, upto: int) -> Iterator[pa.RecordBatch]:
        """Replay a batch in order, at least up to the time `upto`, and stop the clock whenever something is due.

        Rows with the tag `TICK` move the clock and are no events. What is due to the clock has no sequence number.
        Errors: StateLimitError.
        """
        rest = 0 if batch is None else batch.num_rows
        if batch is None or not rest:
            yield from self._follow(None, upto)
            return
        for piece in self._admitted(batch):
            rest -= piece.num_rows
            yield from self._follow(piece, self.runtime.now if rest else upto)

    def _follow(self, batch: pa.RecordBatch | None, upto: int) -> Iterator[pa.RecordBatch]:
        slices: list[ColumnBatch] = []
        if batch is not None:
            tags, times, sequences = self._input_validator.read(batch)
            first, upto = int(times[0]), max(upto, int(times[-1]))
            if leaps_from_epoch(self.runtime.now, first, self._program.config.second):
                self._batch.run([], [first])
            if (tags == TICK).any():
                is_event = tags != TICK
                batch = batch.filter(pa.array(is_event))
                tags, times, sequences = tags[is_event], times[is_event], sequences[is_event]
            self._order = CauseSequences(times, sequences)
            slices = self._slices(batch, tags, times)
        self._batch.run(slices, range(self.runtime.now, upto + 1))
        yield from self.drain()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Let the clock stop at the ticks behind the last event."""
        stops, numbers = self._stops.take_until(None)
        if len(stops):
            self._order = CauseSequences(NO_TICKS, NO_TICKS, lambda: (stops, numbers))
            self._batch.run([], as_sequence(stops))
            yield from self.drain()
        if self.runtime.state_limit is not None and self._has_last_event:
            self.runtime.state_limit.check(AFTER_THE_LAST)

    def _slices(self, batch: pa.RecordBatch, tags: Int64Array, times: Int64Array) -> list[ColumnBatch]:
        slices, known = [], self.runtime.catalog.event_types
        needed, alike = self._batch.columns, not (self._batch.reasons or self._batch.merged)
        for tag, name, properties, columns in self._program.inputs:
            positions = np.flatnonzero(tags == tag)
            if len(positions):
                alone = len(positions) == len(tags)
                own_times, own_columns = (
                    times if alone else times[positions],
                    batch.select([c for c in columns if c != TIME]),
                )
                own_columns = own_columns if alone else own_columns.filter(pa.array(tags == tag))
                events = ArrowEvents(own_columns, own_times, properties, columns, known[name], known)
                names = needed[name] if alike else [p for p in needed[name] if p in properties]
                slices.append(
                    ColumnBatch(name, events.times, events.read(names), None if alone else positions.tolist())
                )
        return slices

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows and failures since the last call."""
        for number, (name, event_type) in enumerate(self._program.outputs):
            rows = self._collectors[name].drain(event_type.properties, self._order)
            if rows is not None:
                meta = rows.compact(number) if self._brief else rows.meta(name)
                yield self._output_batch(number, name, meta, rows.columns)
        if self._failures:
            failed, self._failures = self._failures, []
            yield failure_batch(self._program, failed, self._brief)

    def _due(
        self, stops: Int64Array, numbers: TickSequences, times: Int64Array, sequences: Int64Array
    ) -> tuple[Int64Array, TickSequences]:
        """Return the ticks of a batch, and the sequence numbers of the events for which the clock stops."""
        if not self._program.has_ticks:
            fresh = np.ones(len(times), bool)
            fresh[1:] = times[1:] != times[:-1]
            return np.concatenate([times[fresh], stops]), numbers.behind(sequences[fresh])
        if len(times) and (not len(stops) or times[0] < stops[0]):  # the clock is there already
            return np.concatenate([times[:1], stops]), numbers.behind(sequences[:1])
        return stops, numbers

    def _output_batch(
        self, number: int, name: str, meta: list[pa.Array], columns: Sequence[Sequence[Any]]
    ) -> pa.RecordBatch:
        event_type = self._program.outputs[number][1]
        values = [
            delivered_array(column, shape, f"{name}.{property_}")
            for property_, column, shape in zip(event_type.properties, columns, self._output_types[number], strict=True)
        ]
        struct_type = _struct_type(self._output_types[number])
        struct = (
            pa.StructArray.from_arrays(values, fields=list(struct_type))
            if values
            else pa.array([{}] * len(meta[0]), struct_type)
        )
        return _assemble_batch(self._output_types, meta, {number: struct}, self._brief)

    def _on_failure(self, error: StatementError) -> None:
        """Record the failure of a statement as a row of its own; it ends nothing, as in a notebook."""
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


class VectorizedTaskRunner(TaskRunner):
    """A task of a vectorized window: yields for each event its time, its sequence number and its row.

    The engine computes the aggregates; the properties among the columns are those of the batch.
    """

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Replay one batch, and yield a row for each event. Errors: StateLimitError."""
        for piece in self._admitted(batch):
            self._events = piece
            yield from self._leap(piece)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the events in hand. Errors: EventError if the statement failed."""
        program, events = self._program, self._events
        if self._failures:
            raise EventError(self._failures[0][-1])
        assert program.window is not None
        ((name, output),) = program.outputs
        calls = window_call_names(program.window)
        rows = self._collectors[name].drain(calls, self._order)
        if rows is None or len(rows.times) != events.num_rows:
            raise AssertionError(f"`{name}` delivers another number of rows than of events")
        aggregates, column_of = iter(rows.columns), _property_columns(program)
        columns = {TIME: events.column(TIME), SEQ: events.column(SEQ)}
        shapes = zip(vectorized_columns(program), output.properties, self._output_types[0], strict=True)
        for column, (own, title, shape) in zip(program.window.columns, shapes, strict=True):
            if not isinstance(column, str):
                columns[own] = delivered_array(next(aggregates), shape, f"{name}.{title}")
            elif own != TIME:
                columns[own] = events.column(column_of[column]).cast(shape.arrow)
        schema = _vectorized_schema(program)
        yield pa.RecordBatch.from_arrays([columns[own] for own in schema.names], schema=schema)


def failure_batch(program: TaskProgram, failed: Sequence[tuple[Any, ...]], compact: bool = False) -> pa.RecordBatch:
    """Return failures as rows of `DELIVERY_COLUMNS` or `COMPACT_COLUMNS`."""
    if compact:
        numbers = {name: number for number, name in enumerate(program.names)}
        failed = [
            (4 * numbers[name] + (trigger == EVENT), time, sequence, delivery, row, error)
            for name, time, sequence, trigger, delivery, _, row, error in failed
        ]
    columns = zip(*failed, strict=True)
    about = COMPACT_COLUMNS if compact else DELIVERY_COLUMNS
    meta = [pa.array(values, type=ARROW_TYPES[type_]) for values, (_, type_) in zip(columns, about, strict=True)]
    return _assemble_batch(_output_types(program), meta, {}, compact)


def _assemble_batch(
    shapes: Sequence[tuple[TypeMapping, ...]], meta: Sequence[pa.Array], structs: Mapping[int, pa.Array], compact: bool
) -> pa.RecordBatch:
    arrays, fields = (
        list(meta),
        [
            pa.field(name, ARROW_TYPES[struct_type])
            for name, struct_type in (COMPACT_COLUMNS if compact else DELIVERY_COLUMNS)
        ],
    )
    for number, types in enumerate(shapes):
        struct_type = _struct_type(types)
        arrays.append(structs[number] if number in structs else pa.nulls(len(meta[0]), struct_type))
        fields.append(pa.field(f"s{number}", struct_type))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _output_types(program: TaskProgram) -> tuple[tuple[TypeMapping, ...], ...]:
    return tuple(tuple(type_mapping_of(t, program.nested) for t in of.properties.values()) for _, of in program.outputs)


def _struct_type(shapes: tuple[TypeMapping, ...]) -> pa.DataType:
    return pa.struct([pa.field(f"c{i}", shape.arrow) for i, shape in enumerate(shapes)])
