"""Where the clock of the whole stream stops, for tasks that see a part of the events: packed, a few rows for all.

A stop is a time at which there is an event, with the least sequence number of the events of that time. Each task of the
source packs the stops of what it reads, without a shuffle, into blocks of ascending times; a row carries a block, and
stands in the stream in front of the first of the events that it is about. Blocks of several tasks may overlap;
who reads them brings them together. Light: Spark's workers load it.

Which of them a task will need only its engine knows, which goes from one that is due to the next (`engine.flow`) and
passes over the others. So every task gets all: some 2 bytes and 10 ns a stop, where an event takes microseconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cepbook.spark.names import SEQ, STOPS, TAG, TICK, TIME

PACKED = f"{TAG} int, {TIME} bigint, {SEQ} bigint, {STOPS} binary"
NONE = np.empty(0, np.int64)
_GATHERED = 500_000  # stops that are sorted at once
_BLOCK = 4096
_HEAD = 4  # numbers in front of a block's steps
Whole = npt.NDArray[np.int64]


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: the stops of the events with `TIME` and `SEQ`, in blocks."""
    gathered, count = [(NONE, NONE)], 0
    for batch in batches:
        times, numbers = (batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in (TIME, SEQ))
        gathered.append(_distinct(times, numbers))
        count += len(gathered[-1][0])
        if count >= _GATHERED:
            yield from _blocks(gathered)
            gathered, count = [(NONE, NONE)], 0
    yield from _blocks(gathered)


def _blocks(gathered: list[tuple[Whole, Whole]]) -> Iterator[pa.RecordBatch]:
    times, numbers = _joined(gathered)
    starts = range(0, len(times), _BLOCK)
    if not starts:
        return
    blocks = [packed(times[at : at + _BLOCK], numbers[at : at + _BLOCK]) for at in starts]
    columns = [
        pa.array([TICK] * len(blocks), pa.int32()),
        pa.array(times[::_BLOCK]),
        pa.array(numbers[::_BLOCK]),
        pa.array(blocks, pa.binary()),
    ]
    yield pa.RecordBatch.from_arrays(columns, names=[TAG, TIME, SEQ, STOPS])


def _joined(parts: list[tuple[Whole, Whole]]) -> tuple[Whole, Whole]:
    return _distinct(*_chained(parts))


def as_sequence(stops: Whole) -> Sequence[int]:
    """Stops for who looks at few of them: made in no time, where a list takes as long as unpacking."""
    found = array("q")
    found.frombytes(stops.tobytes())
    return found


def _chained(parts: list[tuple[Whole, Whole]]) -> tuple[Whole, Whole]:
    times, numbers = zip(*parts, strict=True)
    return np.concatenate(times), np.concatenate(numbers)


def _overlap(parts: list[tuple[Whole, Whole]]) -> bool:
    """Whether stops of one part are among or behind those of a later one: not where tasks read one after the other."""
    return any(before[-1] >= times[0] for (before, _), (times, _) in pairwise(parts))


def _distinct(times: Whole, numbers: Whole) -> tuple[Whole, Whole]:
    """Each time once, ascending, with the least of its numbers."""
    order = np.lexsort((numbers, times))
    times, numbers = times[order], numbers[order]
    first = np.ones(len(times), bool)
    first[1:] = times[1:] != times[:-1]
    return times[first], numbers[first]


def packed(times: Whole, numbers: Whole) -> bytes:
    """One block: of both columns the first element and how wide the steps from one to the next are, then the steps."""
    steps = [_narrow(np.diff(each)) for each in (times, numbers)]
    head = np.array([times[0], numbers[0], *(each.itemsize for each in steps)], np.int64)
    return b"".join(each.tobytes() for each in (head, *steps))


def _narrow(values: Whole) -> npt.NDArray[np.signedinteger[Any]]:
    """As the shortest whole numbers that hold them."""
    low, high = (values.min(), values.max()) if len(values) else (0, 0)
    fits = (kind for kind in (np.int8, np.int16, np.int32) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return values.astype(next(fits, np.int64))


def unpacked(block: bytes) -> tuple[Whole, Whole]:
    """The times of a block, ascending, and their sequence numbers."""
    time, number, wide, wider = np.frombuffer(block, np.int64, _HEAD).tolist()
    start = _HEAD * 8
    count = (len(block) - start) // (wide + wider)
    found = []
    for first, width, at in ((time, wide, start), (number, wider, start + count * wide)):
        own = np.empty(count + 1, np.int64)
        own[0], own[1:] = first, np.frombuffer(block, f"i{width}", count, at)
        found.append(np.cumsum(own))
    return found[0], found[1]


class Stops:
    """Stops that a task was told of and that are still to come, ascending, each once."""

    __slots__ = ("_numbers", "_times")

    def __init__(self) -> None:
        self._times, self._numbers = NONE, NONE

    def tell(self, rows: pa.RecordBatch) -> None:
        """Take rows of `TICK`: blocks, or single stops."""
        parts = [(self._times, self._numbers)] if len(self._times) else []
        blocks = rows.column(STOPS).to_pylist() if STOPS in rows.schema.names else [None] * rows.num_rows
        for at, block in enumerate(blocks):
            if block is not None:
                parts.append(unpacked(block))
            else:
                time, number = (rows.column(name)[at].as_py() for name in (TIME, SEQ))
                parts.append((np.array([time]), np.array([number])))
        self._times, self._numbers = _joined(parts) if _overlap(parts) else _chained(parts)

    def upto(self, time: int | None) -> tuple[Whole, Whole]:
        """The stops up to `time`, all without one, and their sequence numbers; they are not to come any more."""
        end = len(self._times) if time is None else int(np.searchsorted(self._times, time, side="right"))
        found = self._times[:end], self._numbers[:end]
        self._times, self._numbers = self._times[end:], self._numbers[end:]
        return found
