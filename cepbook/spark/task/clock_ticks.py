"""Clock ticks: the times at which the clock of the whole stream stops, for tasks that see only a part of the events.

A tick is a time at which there is an event, with the least sequence number of the events of that time. Each task of the
source packs the ticks of what it reads, without a shuffle, into blocks of ascending times. A row carries a block and
stands in the stream before the first of the events that the block describes. Blocks of several tasks may overlap; the
reader merges them.

Only the engine of a task knows which ticks it needs: it goes from one due time to the next and skips the rest. So every
task gets all ticks. They cost some 2 bytes and 4 ns each (twice the time if many deliveries are due to ticks), where an
event takes microseconds. Light: Spark's workers load this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cepbook.errors import EventError
from cepbook.spark.task.stream_columns import CLOCK_END, SEQ, TAG, TICK, TICKS, TIME

PACKED_TICKS = f"{TAG} int, {TIME} bigint, {SEQ} bigint, {TICKS} binary"
NO_TICKS = np.empty(0, np.int64)
_SORTED_AT_ONCE = 500_000  # ticks that are sorted at once
_BLOCK = 16384
_HEADER = 4  # numbers in front of a block's steps
Int64Array = npt.NDArray[np.int64]


def pack_ticks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: pack the ticks of events with `TIME` and `SEQ` into blocks."""
    gathered, count = [(NO_TICKS, NO_TICKS)], 0
    for batch in batches:
        times, numbers = (batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in (TIME, SEQ))
        if len(times) and times.max() > CLOCK_END:
            raise EventError(f"an event has the time {times.max()}, which is beyond the clock")
        gathered.append(_distinct_ticks(times, numbers))
        count += len(gathered[-1][0])
        if count >= _SORTED_AT_ONCE:
            yield from _pack_blocks(gathered)
            gathered, count = [(NO_TICKS, NO_TICKS)], 0
    yield from _pack_blocks(gathered)


def _pack_blocks(gathered: list[tuple[Int64Array, Int64Array]]) -> Iterator[pa.RecordBatch]:
    times, numbers = _merge(gathered)
    starts = range(0, len(times), _BLOCK)
    if not starts:
        return
    blocks = [pack_block(times[at : at + _BLOCK], numbers[at : at + _BLOCK]) for at in starts]
    columns = [
        pa.array([TICK] * len(blocks), pa.int32()),
        pa.array(times[::_BLOCK]),
        pa.array(numbers[::_BLOCK]),
        pa.array(blocks, pa.binary()),
    ]
    yield pa.RecordBatch.from_arrays(columns, names=[TAG, TIME, SEQ, TICKS])


def _merge(parts: list[tuple[Int64Array, Int64Array]]) -> tuple[Int64Array, Int64Array]:
    times, numbers = zip(*parts, strict=True)
    return _distinct_ticks(np.concatenate(times), np.concatenate(numbers))


def as_sequence(stops: Int64Array) -> Sequence[int]:
    """Return ticks for a reader that looks at few of them; making a list would cost as much as unpacking them."""
    return stops.data


def _distinct_ticks(times: Int64Array, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return each time once, ascending, with the least of its numbers."""
    order = np.lexsort((numbers, times))
    times, numbers = times[order], numbers[order]
    first = np.ones(len(times), bool)
    first[1:] = times[1:] != times[:-1]
    return times[first], numbers[first]


def pack_block(times: Int64Array, numbers: Int64Array) -> bytes:
    """Pack one block: of both columns the first element and the width of the steps, then the steps between elements."""
    steps = [_narrowest(np.diff(column)) for column in (times, numbers)]
    head = np.array([times[0], numbers[0], *(column.itemsize for column in steps)], np.int64)
    return b"".join(column.tobytes() for column in (head, *steps))


def _narrowest(values: Int64Array) -> npt.NDArray[np.signedinteger[Any]]:
    """Return the numbers in the narrowest integer type that holds them."""
    low, high = (values.min(), values.max()) if len(values) else (0, 0)
    fits = (kind for kind in (np.int8, np.int16, np.int32) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return values.astype(next(fits, np.int64))


class TickBlock:
    """A packed block. `head` has the first time and sequence number, `count` the number of ticks."""

    __slots__ = ("_block", "_wide", "_wider", "count", "head")

    def __init__(self, block: bytes) -> None:
        *self.head, self._wide, self._wider = np.frombuffer(block, np.int64, _HEADER).tolist()
        self.count = (len(block) - _HEADER * 8) // (self._wide + self._wider) + 1
        self._block = block

    def times(self, out: Int64Array) -> None:
        """Write the times, which ascend, into `out`."""
        self._sums(self.head[0], self._wide, _HEADER * 8, out)

    def numbers(self) -> Int64Array:
        """Return the sequence numbers of the times."""
        out = np.empty(self.count, np.int64)
        self._sums(self.head[1], self._wider, _HEADER * 8 + (self.count - 1) * self._wide, out)
        return out

    def _sums(self, first: int, width: int, at: int, out: Int64Array) -> None:
        out[0] = 0
        np.cumsum(np.frombuffer(self._block, f"i{width}", self.count - 1, at), out=out[1:])
        out += first


class SingleTick:
    """A tick that travels alone, with the interface of a `TickBlock`."""

    __slots__ = ("count", "head")

    def __init__(self, time: int, number: int) -> None:
        self.head, self.count = [time, number], 1

    def times(self, out: Int64Array) -> None:
        out[0] = self.head[0]

    def numbers(self) -> Int64Array:
        return np.array(self.head[1:])


TickPart = TickBlock | SingleTick | Int64Array


class TickSequences:
    """Sequence numbers of ticks: those of `head`, then those in `parts` from position `begin` on.

    They are unpacked on demand, one block at a time, because few deliveries are due to ticks.
    """

    __slots__ = ("_begin", "_head", "_parts")

    def __init__(self, parts: Sequence[TickPart], begin: int, head: Int64Array = NO_TICKS) -> None:
        self._parts, self._begin, self._head = parts, begin, head

    def behind(self, head: Int64Array) -> TickSequences:
        """Return these numbers with those of earlier ticks in front."""
        return TickSequences(self._parts, self._begin, head)

    def __call__(self, places: Int64Array) -> Int64Array:
        """Return the sequence numbers of the ticks at `places`."""
        ends = np.cumsum([len(self._head), *map(_count, self._parts)])
        at = np.where(places < ends[0], places, places + self._begin)
        numbers, part_of = np.empty(len(at), np.int64), np.searchsorted(ends, at, side="right")
        for number in np.unique(part_of).tolist():
            block = self._parts[number - 1] if number else self._head
            values = block if isinstance(block, np.ndarray) else block.numbers()
            selected = part_of == number
            numbers[selected] = values[at[selected] - (ends[number - 1] if number else 0)]
        return numbers


class ClockTicks:
    """Ticks that a task knows of and has not reached, ascending, each once."""

    __slots__ = ("_begin", "_parts", "_times")

    def __init__(self) -> None:
        self._times = NO_TICKS
        self._parts: list[TickPart] = []  # of the sequence numbers, from place `_begin` of them on
        self._begin = 0

    def add_rows(self, rows: pa.RecordBatch) -> None:
        """Add the ticks of rows with the tag `TICK`: blocks, or single ticks."""
        packed = rows.column(TICKS).to_pylist() if TICKS in rows.schema.names else [None] * rows.num_rows
        blocks = [
            SingleTick(*(rows.column(name)[at].as_py() for name in (TIME, SEQ))) if data is None else TickBlock(data)
            for at, data in enumerate(packed)
        ]
        ends = np.cumsum([len(self._times), *(block.count for block in blocks)])
        times = np.empty(ends[-1], np.int64)
        times[: ends[0]] = self._times
        for block, begin, end in zip(blocks, ends[:-1], ends[1:], strict=True):
            block.times(times[begin:end])
        seams = ends[:-1][ends[:-1] > 0]
        self._parts += blocks
        if (times[seams - 1] >= times[seams]).any():  # ticks of one block are among those of another, or are the same
            times, numbers = _distinct_ticks(times, TickSequences(self._parts, self._begin)(np.arange(len(times))))
            self._parts, self._begin = [numbers], 0
        self._times = times

    def take_until(self, time: int | None) -> tuple[Int64Array, TickSequences]:
        """Remove and return the ticks up to and including `time` (None: all), with their sequence numbers."""
        end = len(self._times) if time is None else int(np.searchsorted(self._times, time, side="right"))
        taken = self._times[:end], TickSequences(tuple(self._parts), self._begin)
        self._times = self._times[end:]
        self._begin += end
        while self._parts and self._begin >= _count(self._parts[0]):
            self._begin -= _count(self._parts.pop(0))
        return taken


def _count(block: TickPart) -> int:
    return len(block) if isinstance(block, np.ndarray) else block.count
