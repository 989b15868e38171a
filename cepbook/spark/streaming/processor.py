"""The row engine as a stateful processor of Spark's streams: what a Python worker runs.

Events travel to it, and what is delivered from it, packed: a row holds many, as Arrow's stream format, so that neither
costs anything per event on the way. One processor has one runtime for each division of the stream. Its state is a
snapshot of the runtime (`engine.snapshot`), and the events that the watermark has not passed yet.

What happens when: an event is replayed as soon as the watermark has passed its time, in the order of time and sequence;
then nothing can come before it any more. An event that comes when the watermark has passed its time is late: it is left
out, and a row of kind ``error`` tells of it. The clock stops at the times of events and whenever something is due, so
what expires is delivered with the time at which it did, once the watermark has passed that.
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
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.state_check import check_fingerprint
from cepbook.spark.task.stream_columns import EVENT, SEQ, TAG, TASK, TIME
from cepbook.spark.task.task_runner import TaskRunner, failure_batch, load_runtime, output_schema

PACKED_ROWS = f"{TASK} int, payload binary"
PACKED_DELIVERIES = "payload binary"
_STATE = "saved binary, passed bigint, due bigint, waiting binary, count bigint, mark string"


def pack_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: the rows of each task as one row."""
    for batch in batches:
        if not batch.num_rows:
            continue
        tasks = batch.column(TASK).to_numpy(zero_copy_only=False)
        rows = batch.drop_columns([TASK])
        found = [(int(task), to_ipc_bytes(rows.filter(pa.array(tasks == task)))) for task in np.unique(tasks)]
        names, rows_of = zip(*found, strict=True)
        columns = [pa.array(names, pa.int32()), pa.array(rows_of, pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=[TASK, "payload"])


def unpack_rows(program: TaskProgram) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow``: the delivered rows that `EngineProcessor` packed."""
    schema = output_schema(program)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column("payload").to_pylist():
                for each in pa.ipc.open_stream(data):
                    yield pa.RecordBatch.from_arrays(each.columns, schema=schema)

    return run


def to_ipc_bytes(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Rows as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return bytes(sink.getvalue())


class EngineProcessor(StatefulProcessor):
    """A program over one division of a stream. Without `sequenced` events of one time count as they come in."""

    def __init__(self, program: TaskProgram, sequenced: bool) -> None:
        self._program = program
        self._sequenced = sequenced

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("engine", _STATE)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """What the division begins with, see `initial`; Spark calls it in the first micro-batch, before all else."""
        saved, passed, due, count = (initialState[name] for name in ("saved", "passed", "due", "count"))
        self._state.update((bytes(saved), passed, due, None, count, self._program.mark))
        self._wake(due, timerValues.getCurrentWatermarkInMs())

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """New events; Spark calls it once for each micro-batch that has some."""
        fresh = [pa.ipc.open_stream(bytes(row["payload"])).read_all() for row in rows]
        yield from self._go(_number(key), fresh, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """The watermark has passed the time of an event that waits, or one at which something is due."""
        yield from self._go(_number(key), [], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Nothing is held between two micro-batches."""

    def _go(self, number: int, fresh: list[pa.Table], watermark: int) -> Iterator[Row]:
        saved, passed, due, waiting, count = self._kept()
        if waiting:
            fresh = [pa.ipc.open_stream(bytes(waiting)).read_all(), *fresh]
        rows = pa.concat_tables(fresh) if fresh else None
        made: list[pa.RecordBatch] = []
        if rows is not None and rows.column(TIME).null_count:
            timeless = pc.is_null(rows.column(TIME))
            made.append(rejected_events(self._program, rows.filter(timeless), passed))
            rows = rows.filter(pc.invert(timeless))
        if rows is not None and passed is not None:
            late = rows.column(TIME).to_numpy() <= passed
            if late.any():
                made.append(rejected_events(self._program, rows.filter(pa.array(late)), passed))
                rows = rows.filter(pa.array(~late))
        now = self._program.start if passed is None else passed
        if watermark > now:
            ready = None
            if rows is not None:
                before = rows.column(TIME).to_numpy() <= watermark
                ready, rows = self._ordered(rows.filter(pa.array(before)), count), rows.filter(pa.array(~before))
                count += len(ready)
            if saved is None or (due is not None and due <= watermark) or (ready is not None and len(ready)):
                runtime, collected = load_runtime(replace(self._program, start=now), number)
                if saved is not None:
                    restore_state(runtime, bytes(saved))
                made += TaskRunner(self._program, (runtime, collected)).follow(ready, watermark)
                saved, due = runtime.snapshot(), runtime.next_due
            passed = watermark
        kept = to_ipc_bytes(rows) if rows is not None and len(rows) else None
        self._state.update((saved, passed, due, kept, count, self._program.mark))
        times = [] if rows is None or kept is None else [int(rows.column(TIME).to_numpy().min())]
        wanted = min([*times, *([] if due is None else [due])], default=None)
        self._wake(wanted, watermark)
        for batch in made:
            yield Row(payload=to_ipc_bytes(batch))

    def _kept(self) -> tuple[Any, ...]:
        """What is known of the division. Errors: SnapshotError for what another program keeps."""
        if not self._state.exists():
            return None, None, None, None, 0
        *kept, mark = cast("tuple[Any, ...]", self._state.get())
        check_fingerprint(self._program.mark, mark)
        return tuple(kept)

    def _ordered(self, rows: pa.Table, count: int) -> pa.Table:
        """In total order; numbered by it where the events have no sequence of their own."""
        rows = rows.sort_by([(name, "ascending") for name in (TIME, SEQ, TAG)])
        if self._sequenced:
            return rows
        at = rows.schema.get_field_index(SEQ)
        return rows.set_column(at, SEQ, pa.array(np.arange(count, count + len(rows))))

    def _wake(self, at: int | None, watermark: int) -> None:
        """Have Spark call when the watermark passes `at`, and at no other time; it never looks back behind one."""
        at = None if at is None else max(at, watermark + 1)
        for timer in list(self._handle.listTimers()):
            if timer != at:
                self._handle.deleteTimer(timer)
        if at is not None:
            self._handle.registerTimer(at)


def _number(key: Any) -> int:
    """The number of the division, which Spark gives by itself or as the one of a tuple."""
    return int(key if isinstance(key, int) else key[0])


def rejected_events(program: TaskProgram, rows: pa.Table, passed: int | None) -> pa.RecordBatch:
    """Rows of kind ``error`` that tell, by type, of events without a time, or of late ones; `passed`: the watermark."""
    tags, times = rows.column(TAG).to_pylist(), rows.column(TIME).to_pylist()
    found = []
    for tag, name, _, _ in program.inputs:
        own = [time for each, time in zip(tags, times, strict=True) if each == tag]
        if not own:
            continue
        at = program.start if passed is None else passed
        one, many = f"an event of {name}", format_count(len(own), f"event of {name}", f"events of {name}")
        if own[0] is None:
            message = f"{one} was" if len(own) == 1 else f"{many} were"
            message += " left out: the time is missing"
        else:
            first = format_time(min(own), millis=True)
            message = f"{one} at {first} was" if len(own) == 1 else f"{many}, the first at {first}, were"
            message += f" left out: the watermark had passed {format_time(at, millis=True)}"
        found += [(output, at, -1, EVENT, 0, "error", 0, message) for output, _ in program.outputs]
    return failure_batch(program, found)
