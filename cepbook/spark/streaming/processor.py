"""The row engine as a stateful processor of Spark's streams: what a Python worker runs.

Events travel to it packed, as do the rows that it delivers: one row of Spark holds many, as an Arrow stream, so that
neither costs anything per event on the way. A processor has one runtime per key group. Its state is a snapshot of the
runtime, and the events that the watermark has not passed yet.

* An event is replayed as soon as the watermark has passed its time, in the order of time and sequence. Nothing can come
  before it then.
* An event that arrives after the watermark has passed its time is late: it is left out, and a row of kind ``error``
  reports it.
* The clock stops at the times of events and whenever something is due. So rows for expired events have the time of
  their expiry, and are delivered when the watermark has passed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from cepbook.display import format_count, format_time
from cepbook.engine.snapshot.runtime_snapshot import restore_state
from cepbook.spark.task.program import TaskProgram, check_fingerprint
from cepbook.spark.task.stream_columns import EVENT, SEQ, TAG, TASK, TIME
from cepbook.spark.task.task_runner import TaskRunner, failure_batch, load_runtime, output_schema

PACKED_ROWS = f"{TASK} int, payload binary"
PACKED_DELIVERIES = "payload binary"
# The snapshot of the runtime, the watermark that it has passed, its next due time, waiting events, the number of
# events so far, the fingerprint of the program
_STATE_COLUMNS = "saved binary, passed bigint, due bigint, waiting binary, count bigint, mark string"


def pack_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: pack the rows of each task into one row."""
    for batch in batches:
        if not batch.num_rows:
            continue
        tasks = batch.column(TASK).to_numpy(zero_copy_only=False)
        rows = batch.drop_columns([TASK])
        packed_rows = [(int(task), to_ipc_bytes(rows.filter(pa.array(tasks == task)))) for task in np.unique(tasks)]
        names, rows_of = zip(*packed_rows, strict=True)
        columns = [pa.array(names, pa.int32()), pa.array(rows_of, pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=[TASK, "payload"])


def unpack_rows(program: TaskProgram) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for ``mapInArrow`` that unpacks the rows which `EngineProcessor` packed."""
    schema = output_schema(program)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column("payload").to_pylist():
                for piece in pa.ipc.open_stream(data):
                    yield pa.RecordBatch.from_arrays(piece.columns, schema=schema)

    return run


def to_ipc_bytes(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Return rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return bytes(sink.getvalue())


class EngineProcessor(StatefulProcessor):
    """A program over one key group of a stream. Unless `sequenced`, events of one time count as they arrive."""

    def __init__(self, program: TaskProgram, sequenced: bool) -> None:
        self._program = program
        self._sequenced = sequenced

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("engine", _STATE_COLUMNS)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Store the state with which the key group begins; Spark calls this first, in the first micro-batch."""
        saved, passed, due, count = (initialState[name] for name in ("saved", "passed", "due", "count"))
        self._state.update((bytes(saved), passed, due, None, count, self._program.fingerprint))
        self._set_timer(due, timerValues.getCurrentWatermarkInMs())

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Process new events; Spark calls this once per micro-batch with events."""
        arrived = [pa.ipc.open_stream(bytes(row["payload"])).read_all() for row in rows]
        yield from self._process(_key_group_of(key), arrived, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Continue when the watermark has passed the time of a waiting event, or a time at which something is due."""
        yield from self._process(_key_group_of(key), [], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Do nothing: no resource is held between two micro-batches."""

    def _process(self, number: int, arrived: list[pa.Table], watermark: int) -> Iterator[Row]:
        saved, passed, due, waiting, count = self._stored_state()
        if waiting:
            arrived = [pa.ipc.open_stream(bytes(waiting)).read_all(), *arrived]
        rows = pa.concat_tables(arrived) if arrived else None
        batches: list[pa.RecordBatch] = []
        if rows is not None and rows.column(TIME).null_count:
            timeless = pc.is_null(rows.column(TIME))
            batches.append(rejected_events(self._program, rows.filter(timeless), passed))
            rows = rows.filter(pc.invert(timeless))
        if rows is not None and passed is not None:
            late = rows.column(TIME).to_numpy() <= passed
            if late.any():
                batches.append(rejected_events(self._program, rows.filter(pa.array(late)), passed))
                rows = rows.filter(pa.array(~late))
        now = self._program.start if passed is None else passed
        if watermark > now:
            ready = None
            if rows is not None:
                before = rows.column(TIME).to_numpy() <= watermark
                ready, rows = self._in_total_order(rows.filter(pa.array(before)), count), rows.filter(pa.array(~before))
                count += len(ready)
            if saved is None or (due is not None and due <= watermark) or (ready is not None and len(ready)):
                runtime, collected = load_runtime(replace(self._program, start=now), number)
                if saved is not None:
                    restore_state(runtime, bytes(saved))
                events = None if ready is None else next(iter(ready.combine_chunks().to_batches()), None)
                batches += TaskRunner(self._program, (runtime, collected)).follow(events, watermark)
                saved, due = runtime.snapshot(), runtime.next_due
            passed = watermark
        waiting_bytes = to_ipc_bytes(rows) if rows is not None and len(rows) else None
        self._state.update((saved, passed, due, waiting_bytes, count, self._program.fingerprint))
        times = [] if rows is None or waiting_bytes is None else [int(rows.column(TIME).to_numpy().min())]
        next_time = min([*times, *([] if due is None else [due])], default=None)
        self._set_timer(next_time, watermark)
        for batch in batches:
            yield Row(payload=to_ipc_bytes(batch))

    def _stored_state(self) -> tuple[Any, ...]:
        """Return the stored state of the key group. Errors: SnapshotError for the state of another program."""
        if not self._state.exists():
            return None, None, None, None, 0
        *fields, fingerprint = cast("tuple[Any, ...]", self._state.get())
        check_fingerprint(self._program.fingerprint, fingerprint)
        return tuple(fields)

    def _in_total_order(self, rows: pa.Table, count: int) -> pa.Table:
        """Return events in total order, numbered by it if they have no sequence of their own."""
        rows = rows.sort_by([(name, "ascending") for name in (TIME, SEQ, TAG)])
        if self._sequenced:
            return rows
        at = rows.schema.get_field_index(SEQ)
        return rows.set_column(at, SEQ, pa.array(np.arange(count, count + len(rows))))

    def _set_timer(self, at: int | None, watermark: int) -> None:
        """Let Spark call when the watermark passes `at`, and at no other time; it never fires at or before the
        watermark.
        """
        at = None if at is None else max(at, watermark + 1)
        for timer in list(self._handle.listTimers()):
            if timer != at:
                self._handle.deleteTimer(timer)
        if at is not None:
            self._handle.registerTimer(at)


def _key_group_of(key: Any) -> int:
    """Return the number of the key group, which Spark passes alone or in a tuple."""
    return int(key if isinstance(key, int) else key[0])


def rejected_events(program: TaskProgram, rows: pa.Table, passed: int | None) -> pa.RecordBatch:
    """Return rows of kind ``error`` that report events without a time, or late ones; `passed` is the watermark."""
    tags, times = rows.column(TAG).to_pylist(), rows.column(TIME).to_pylist()
    failed = []
    for tag, name, _, _ in program.inputs:
        times_of_type = [time for tag_, time in zip(tags, times, strict=True) if tag_ == tag]
        if not times_of_type:
            continue
        at = program.start if passed is None else passed
        one, many = f"an event of {name}", format_count(len(times_of_type), f"event of {name}", f"events of {name}")
        if times_of_type[0] is None:
            message = f"{one} was" if len(times_of_type) == 1 else f"{many} were"
            message += " left out: the time is missing"
        else:
            first = format_time(min(times_of_type), millis=True)
            message = f"{one} at {first} was" if len(times_of_type) == 1 else f"{many}, the first at {first}, were"
            message += f" left out: the watermark had passed {format_time(at, millis=True)}"
        failed += [(output, at, -1, EVENT, 0, "error", 0, message) for output, _ in program.outputs]
    return failure_batch(program, failed)
