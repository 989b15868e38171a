"""Segments of a feed: deliveries in columns (`Segment`), and the file of dropped ones (`SpillFile`)."""

from __future__ import annotations

import os
import pickle
import struct
import tempfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, compress
from operator import itemgetter
from typing import IO, Any, NamedTuple, Protocol
from weakref import finalize

from cepbook.descriptors import read_at, to_disk

INSERT, MORE, REMOVE, GONE, EMPTY = range(5)  # marks of records
BEGIN = (INSERT, REMOVE, EMPTY)  # marks that begin a delivery
WAITING_ROWS = 100_000  # that a spill file holds in memory while the disk is full
_HEAD = struct.Struct("<IIII")  # length, deliveries, rows, checksum of these three and of what follows
_BEGINS = bytes(mark % 2 == 0 for mark in range(256))  # by mark: 1 if it begins a delivery


class StoredValues(Protocol):
    """Values of a column that are made into Python objects when they are read."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, rows: slice, /) -> StoredValues: ...

    def tolist(self) -> list[Any]:
        """Return the values."""

    def packed(self) -> list[Any] | PackedValues:
        """Return the values as plain data of the least size."""


# type code of the array, its bytes, those of an array of truth values (null), texts of which the array has positions
PackedValues = tuple[str, bytes, bytes | None, list[Any] | None]


class Segment(NamedTuple):
    """Whole deliveries that were settled together, as columns of records."""

    marks: bytes
    times: list[int]
    values: Sequence[list[Any] | StoredValues]

    @property
    def columns(self) -> list[list[Any]]:
        """The values as Python objects."""
        return [column if isinstance(column, list) else column.tolist() for column in self.values]

    @property
    def deliveries(self) -> int:
        return sum(map(self.marks.count, BEGIN))

    @property
    def rows(self) -> int:
        return len(self.marks) - self.marks.count(EMPTY)

    @property
    def inserted(self) -> int:
        """The number of insert rows."""
        return self.marks.count(INSERT) + self.marks.count(MORE)

    @property
    def starts(self) -> list[int]:
        """The indexes of the first records of deliveries."""
        return list(compress(range(len(self.marks)), self.marks.translate(_BEGINS)))

    @property
    def rows_before(self) -> list[int]:
        """The number of rows before each delivery, and at the end."""
        starts = [*self.starts, len(self.marks)]
        if EMPTY not in self.marks:
            return starts
        filled = list(accumulate((mark != EMPTY for mark in self.marks), initial=0))
        return [filled[at] for at in starts]

    @property
    def plain(self) -> bool:
        """True if each delivery is one insert row, by far the most common case."""
        return self.marks.count(INSERT) == len(self.marks)

    @property
    def counts(self) -> list[int]:
        """The numbers of deliveries and rows. Raises ValueError if the columns do not have one value per record."""
        if any(len(column) != len(self.marks) for column in (self.times, *self.values)):
            raise ValueError("columns of different lengths")
        return [self.deliveries, self.rows]

    def numbers(self, first: int) -> Iterable[int]:
        """Return the delivery number of each record; `first` is that of the first record."""
        if self.plain:
            return range(first, first + len(self.marks))
        return accumulate((not mark % 2 for mark in self.marks[1:]), initial=first)

    def before(self, end: int) -> Segment:
        """Return the records before index `end`."""
        return Segment(self.marks[:end], self.times[:end], [column[:end] for column in self.values])

    def behind(self, start: int) -> Segment:
        """Return the records from index `start` on."""
        return Segment(self.marks[start:], self.times[start:], [column[start:] for column in self.values])


def _unpacked(code: str, values: bytes, missing: bytes | None, texts: list[Any] | None) -> list[Any]:
    """Return the values of a column that was packed."""
    plain: list[Any] = list(struct.unpack(f"{len(values) // struct.calcsize(code)}{code}", values))
    if texts is not None:
        plain = [texts[at] for at in plain]
    for at in compress(range(len(plain)), missing or b""):
        plain[at] = None
    return plain


class SpillMedium:
    """The place of spill files: anonymous files, which are deleted with their feeds."""

    def create(self) -> IO[bytes]:
        """Return a new file without a buffer. Raises OSError."""
        return tempfile.TemporaryFile(prefix="cepbook-feed-", buffering=0)

    def unpickle(self, data: bytes) -> Any:
        """Return a value that was pickled by this process."""
        return pickle.loads(data)


ANONYMOUS = SpillMedium()


class SpillFile:
    """Dropped segments of a feed in a file of `medium`: at most `most` bytes, all or nothing.

    Each segment is a head with its length, its deliveries and rows and a checksum, then the pickled columns. The file
    grows at its end only. If the disk is full, segments wait in memory, at most `WAITING_ROWS`. Once there is more, or
    a segment cannot be pickled or read, the file is `lost`: it stays empty from then on.

    A process appends to files of its own. It reads the file of a parent process, of an earlier process (`reopened`) or
    of another medium, and appends to a copy. Reading does not depend on the position of the file, which forked
    processes share.
    """

    __slots__ = (
        "__weakref__", "_close", "_file", "_maker", "_process", "_totals", "_waiting", "lost", "medium", "most",
    )  # fmt: skip

    def __init__(self, most: int, medium: SpillMedium = ANONYMOUS) -> None:
        self.most = most
        self.medium = medium  # of the next file
        self.lost = most <= 0
        self._file: IO[bytes] | None = None
        self._maker = medium  # of the present file
        self._close: Callable[[], object] = int  # nothing to close
        self._process = 0  # that the file belongs to
        self._totals = [(0, 0, 0)]  # bytes, deliveries and rows up to each segment, also of those that wait
        self._waiting: list[Segment] = []

    @classmethod
    def reopened(cls, file: IO[bytes], size: int, most: int, medium: SpillMedium) -> SpillFile:
        """Return the first `size` bytes of a file of an earlier process, whose medium was equal.

        Raises ValueError if they are damaged.
        """
        spilled = cls(most, medium)
        spilled._file, spilled._close = file, finalize(spilled, file.close)
        end = deliveries = rows = 0
        while end < size:
            start, head = end + _HEAD.size, spilled._read(end, end + _HEAD.size)
            length, *counts, checksum = _HEAD.unpack(head) if len(head) == _HEAD.size else (size, 0, 0, 0)
            end = start + length
            if end > size or zlib.crc32(spilled._read(start, end), zlib.crc32(head[:-4])) != checksum:
                raise ValueError(f"damaged at byte {start - _HEAD.size:,}")
            deliveries, rows = deliveries + counts[0], rows + counts[1]
            spilled._totals.append((end, deliveries, rows))
        return spilled

    @property
    def deliveries(self) -> int:
        """The number of deliveries in the file."""
        return self._totals[-1][1]

    @property
    def rows(self) -> int:
        """The number of rows in the file."""
        return self._totals[-1][2]

    def __len__(self) -> int:
        return len(self._totals) - 1

    def segment_of(self, delivery: int) -> int:
        """Return the index of the segment with a delivery, counted from the first one in the file; or the number of
        segments.
        """
        return bisect_right(self._totals, delivery, 1, key=itemgetter(1)) - 1

    def deliveries_before(self, index: int) -> int:
        """Return the number of deliveries in the segments before a segment."""
        return self._totals[index][1]

    def take(self, segment: Segment) -> None:
        """Append a segment."""
        if self.lost:
            return
        end, deliveries, rows = self._totals[-1]
        self._totals.append((end, deliveries + segment.deliveries, rows + segment.rows))
        self._waiting.append(segment)
        try:
            self._write_waiting()
        except OSError:
            if sum(waiting.rows for waiting in self._waiting) > WAITING_ROWS:
                self._lose()
        except Exception:  # noqa: BLE001  a full file, or a Python value that cannot be pickled: see `lost`
            self._lose()

    def _write_waiting(self) -> None:
        while self._waiting:
            index = len(self._totals) - len(self._waiting)
            self._totals[index:] = self._written(index, self._waiting[0])
            del self._waiting[0]

    def _written(self, index: int, segment: Segment) -> list[tuple[int, int, int]]:
        """Write the segment with an index. Return the totals from there on."""
        columns = [column if isinstance(column, list) else column.packed() for column in segment.values]
        data = pickle.dumps((segment.marks, segment.times, columns), pickle.HIGHEST_PROTOCOL)
        head = _HEAD.pack(len(data), segment.deliveries, segment.rows, 0)[:-4]
        data = head + zlib.crc32(data, zlib.crc32(head)).to_bytes(4, "little") + data
        start = self._totals[index - 1][0]
        end = start + len(data)
        if end > self.most:
            raise ValueError(f"more than {self.most} bytes")
        file = self._own_file(start)
        file.seek(start)
        if file.write(data) < len(data):
            raise OSError("the disk is full")
        return [(end, deliveries, rows) for _, deliveries, rows in self._totals[index:]]

    def at(self, index: int, columns: int) -> Segment | None:
        """Return a segment, which has so many columns; None if the file is lost."""
        if self.lost:
            return None
        waiting = index - (len(self) - len(self._waiting))
        if waiting >= 0:
            return self._waiting[waiting]
        (start, *before), (end, *behind) = self._totals[index : index + 2]
        try:
            marks, times, packed = self._maker.unpickle(self._read(start + _HEAD.size, end))
            segment = Segment(marks, times, [c if isinstance(c, list) else _unpacked(*c) for c in packed])
            if [*segment.counts, len(segment.values)] != [behind[0] - before[0], behind[1] - before[1], columns]:
                raise ValueError("other rows than the head says")
            return segment
        except Exception:  # noqa: BLE001  a failing disk, or a Python value that cannot be unpickled
            self._lose()
            return None

    def stored(self) -> tuple[str, int] | None:
        """Return the path and size of the file in its medium, once the disk has it all; None if it is empty.

        Raises OSError if the disk is full.
        """
        self._write_waiting()
        size = self._totals[-1][0]
        if not size:
            return None
        if self._process == os.getpid() or self._maker is not self.medium:
            to_disk(self._own_file(size).fileno())
        assert self._file is not None
        return self._file.name, size

    def _read(self, start: int, end: int) -> bytes:
        assert self._file is not None
        return read_at(self._file.fileno(), end - start, start)

    def _own_file(self, size: int) -> IO[bytes]:
        """Return a file of this process and of the medium with the first `size` bytes."""
        if self._file is None or self._process != os.getpid() or self._maker is not self.medium:
            file = self.medium.create()
            try:
                for start in range(0, size, 1 << 20):
                    data = self._read(start, min(start + (1 << 20), size))
                    if not data or file.write(data) < len(data):
                        raise OSError("the disk is full")
            except BaseException:
                file.close()
                raise
            self._close()
            self._file, self._maker, self._process = file, self.medium, os.getpid()
            self._close = finalize(self, file.close)
        return self._file

    def _lose(self) -> None:
        self._close()
        self._totals = [(0, 0, 0)]
        self._waiting.clear()
        self.lost = True
