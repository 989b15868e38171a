"""Where the clock of the whole stream stops, for tasks that see a part of the events: packed, a few rows for all.

A stop is a time at which there is an event, with the least sequence number of the events of that time. Each task of the
source packs the stops of what it reads, without a shuffle, into blocks of ascending times; a row carries a block, and
stands in the stream in front of the first of the events that it is about. Blocks of several tasks may overlap;
who reads them brings them together. Light: Spark's workers load it.

Which of them a task will need only its engine knows, which goes from one that is due to the next (`engine.flow`) and
passes over the others. So every task gets all: some 2 bytes and 4 ns a stop (twice the time where many deliveries are
due to stops), where an event takes microseconds.
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
_GATHERED = 500_000  # stops that are sorted at once
_BLOCK = 16384
_HEAD = 4  # numbers in front of a block's steps
Int64Array = npt.NDArray[np.int64]


def pack_ticks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: the stops of the events with `TIME` and `SEQ`, in blocks."""
    gathered, count = [(NO_TICKS, NO_TICKS)], 0
    for batch in batches:
        times, numbers = (batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in (TIME, SEQ))
        if len(times) and times.max() > CLOCK_END:
            raise EventError(f"an event has the time {times.max()}, which is beyond the clock")
        gathered.append(_distinct(times, numbers))
        count += len(gathered[-1][0])
        if count >= _GATHERED:
            yield from _blocks(gathered)
            gathered, count = [(NO_TICKS, NO_TICKS)], 0
    yield from _blocks(gathered)


def _blocks(gathered: list[tuple[Int64Array, Int64Array]]) -> Iterator[pa.RecordBatch]:
    times, numbers = _joined(gathered)
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


def _joined(parts: list[tuple[Int64Array, Int64Array]]) -> tuple[Int64Array, Int64Array]:
    times, numbers = zip(*parts, strict=True)
    return _distinct(np.concatenate(times), np.concatenate(numbers))


def as_sequence(stops: Int64Array) -> Sequence[int]:
    """Stops for who looks at few of them, as they are: a list would take as long as unpacking them."""
    return stops.data


def _distinct(times: Int64Array, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Each time once, ascending, with the least of its numbers."""
    order = np.lexsort((numbers, times))
    times, numbers = times[order], numbers[order]
    first = np.ones(len(times), bool)
    first[1:] = times[1:] != times[:-1]
    return times[first], numbers[first]


def pack_block(times: Int64Array, numbers: Int64Array) -> bytes:
    """One block: of both columns the first element and how wide the steps from one to the next are, then the steps."""
    steps = [_narrow(np.diff(each)) for each in (times, numbers)]
    head = np.array([times[0], numbers[0], *(each.itemsize for each in steps)], np.int64)
    return b"".join(each.tobytes() for each in (head, *steps))


def _narrow(values: Int64Array) -> npt.NDArray[np.signedinteger[Any]]:
    """As the shortest whole numbers that hold them."""
    low, high = (values.min(), values.max()) if len(values) else (0, 0)
    fits = (kind for kind in (np.int8, np.int16, np.int32) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return values.astype(next(fits, np.int64))


class TickBlock:
    """What `packed` gave, to be read: the first time and sequence number (`head`), and how many there are of each."""

    __slots__ = ("_block", "_wide", "_wider", "count", "head")

    def __init__(self, block: bytes) -> None:
        *self.head, self._wide, self._wider = np.frombuffer(block, np.int64, _HEAD).tolist()
        self.count = (len(block) - _HEAD * 8) // (self._wide + self._wider) + 1
        self._block = block

    def times(self, out: Int64Array) -> None:
        """Put its times, which ascend, into `out`."""
        self._sums(self.head[0], self._wide, _HEAD * 8, out)

    def numbers(self) -> Int64Array:
        """The sequence numbers of the times."""
        out = np.empty(self.count, np.int64)
        self._sums(self.head[1], self._wider, _HEAD * 8 + (self.count - 1) * self._wide, out)
        return out

    def _sums(self, first: int, width: int, at: int, out: Int64Array) -> None:
        out[0] = 0
        np.cumsum(np.frombuffer(self._block, f"i{width}", self.count - 1, at), out=out[1:])
        out += first


class SingleTick:
    """A stop that travels by itself, with the members of a `Block`."""

    __slots__ = ("count", "head")

    def __init__(self, time: int, number: int) -> None:
        self.head, self.count = [time, number], 1

    def times(self, out: Int64Array) -> None:
        out[0] = self.head[0]

    def numbers(self) -> Int64Array:
        return np.array(self.head[1:])


TickPart = TickBlock | SingleTick | Int64Array


class TickSequences:
    """The sequence numbers of stops: those of `head`, then what is in `parts` from place `begin` on.

    They are unpacked for who asks, a block at a time: few deliveries are due to stops.
    """

    __slots__ = ("_begin", "_head", "_parts")

    def __init__(self, parts: Sequence[TickPart], begin: int, head: Int64Array = NO_TICKS) -> None:
        self._parts, self._begin, self._head = parts, begin, head

    def behind(self, head: Int64Array) -> TickSequences:
        """With those of earlier stops in front."""
        return TickSequences(self._parts, self._begin, head)

    def __call__(self, places: Int64Array) -> Int64Array:
        """Those of the stops at `places`."""
        ends = np.cumsum([len(self._head), *map(_count, self._parts)])
        at = np.where(places < ends[0], places, places + self._begin)
        found, part_of = np.empty(len(at), np.int64), np.searchsorted(ends, at, side="right")
        for number in np.unique(part_of).tolist():
            part = self._parts[number - 1] if number else self._head
            values = part if isinstance(part, np.ndarray) else part.numbers()
            own = part_of == number
            found[own] = values[at[own] - (ends[number - 1] if number else 0)]
        return found


class ClockTicks:
    """Stops that a task was told of and that are still to come, ascending, each once."""

    __slots__ = ("_begin", "_parts", "_times")

    def __init__(self) -> None:
        self._times = NO_TICKS
        self._parts: list[TickPart] = []  # of the sequence numbers, from place `_begin` of them on
        self._begin = 0

    def tell(self, rows: pa.RecordBatch) -> None:
        """Take rows of `TICK`: blocks, or single stops."""
        blocks = rows.column(TICKS).to_pylist() if TICKS in rows.schema.names else [None] * rows.num_rows
        own = [
            SingleTick(*(rows.column(name)[at].as_py() for name in (TIME, SEQ))) if block is None else TickBlock(block)
            for at, block in enumerate(blocks)
        ]
        ends = np.cumsum([len(self._times), *(each.count for each in own)])
        times = np.empty(ends[-1], np.int64)
        times[: ends[0]] = self._times
        for each, begin, end in zip(own, ends[:-1], ends[1:], strict=True):
            each.times(times[begin:end])
        seams = ends[:-1][ends[:-1] > 0]
        self._parts += own
        if (times[seams - 1] >= times[seams]).any():  # stops of one are among those of another, or are the same
            times, numbers = _distinct(times, TickSequences(self._parts, self._begin)(np.arange(len(times))))
            self._parts, self._begin = [numbers], 0
        self._times = times

    def upto(self, time: int | None) -> tuple[Int64Array, TickSequences]:
        """The stops up to `time`, all without one, and their sequence numbers; they are not to come any more."""
        end = len(self._times) if time is None else int(np.searchsorted(self._times, time, side="right"))
        found = self._times[:end], TickSequences(tuple(self._parts), self._begin)
        self._times = self._times[end:]
        self._begin += end
        while self._parts and self._begin >= _count(self._parts[0]):
            self._begin -= _count(self._parts.pop(0))
        return found


def _count(part: TickPart) -> int:
    return len(part) if isinstance(part, np.ndarray) else part.count
