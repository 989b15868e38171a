"""Validation of a task's input: the times of events, their sequence numbers and their order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from cepbook.display import format_time
from cepbook.errors import EventError
from cepbook.spark.task.delivery_columns import Int64Array
from cepbook.spark.task.stream_columns import CLOCK_END, SEQ, TAG, TICK, TIME, clock_range_message


class InputValidator:
    """Validates the batches of one task, which arrive in order. `types` has the event types by tag.

    The clock starts at `start` and has `second` units per second.
    """

    def __init__(self, types: Mapping[int, str], start: int, second: int) -> None:
        self._types, self._start, self._second = types, start, second
        self._last: tuple[int, int, int] | None = None

    def read(self, batch: pa.RecordBatch) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return tags, times and sequence numbers; the column of tags may be absent if all events have one type.

        Raises `EventError` if one is missing, for a time before the start of the clock, and for two events whose order
        is not defined.
        """
        times, sequences = (batch.column(name).to_numpy(zero_copy_only=False) for name in (TIME, SEQ))
        if TAG in batch.schema.names:
            tags = batch.column(TAG).to_numpy(zero_copy_only=False)
        else:
            tags = np.full(batch.num_rows, next(iter(self._types)))
        self._check(batch, tags, times, sequences)
        return tags, times, sequences

    def _check(self, batch: pa.RecordBatch, tags: Int64Array, times: Int64Array, sequences: Int64Array) -> None:
        if batch.column(TIME).null_count:
            at = batch.column(TIME).is_null().to_pylist().index(True)
            raise EventError(f"the time of an event of {self._type_name(int(tags[at]))} is missing")
        if batch.column(SEQ).null_count:
            at = batch.column(SEQ).is_null().to_pylist().index(True)
            raise EventError(f"the sequence number of an event of {self._type_name(int(tags[at]))} is missing")
        same = (times[1:] == times[:-1]) & (sequences[1:] == sequences[:-1]) & (tags[1:] == tags[:-1])
        same &= tags[1:] != TICK
        at = int(same.argmax()) if same.any() else 0
        first = int(times[at]), int(sequences[at]), int(tags[at])
        if same.any() or (first == self._last and first[2] != TICK):
            at_time = format_time(first[0], millis=True, second=self._second)
            raise EventError(
                f"two events of {self._type_name(first[2])} at {at_time} have the sequence number "
                f"{first[1]}: their order is not defined"
            )
        self._last = int(times[-1]), int(sequences[-1]), int(tags[-1])
        for time, _, tag in (first, self._last):
            if not self._start <= time <= CLOCK_END:
                raise EventError(clock_range_message(self._type_name(tag), time, self._start, self._second))

    def _type_name(self, tag: int) -> str:
        return self._types.get(tag, "another type")
