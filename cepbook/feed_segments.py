"""Segments of a feed: deliveries in columns (`Segment`), and the file of dropped ones (`SpillFile`)."""

from __future__ import annotations

import os
import pickle
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate, compress
from operator import itemgetter
from typing import IO, Any, NamedTuple
from weakref import finalize

INSERT, MORE, REMOVE, GONE, EMPTY = range(5)  # marks of records
BEGIN = (INSERT, REMOVE, EMPTY)  # marks that begin a delivery
_BEGINS = bytes(mark % 2 == 0 for mark in range(256))  # by mark: 1 if it begins a delivery


class Segment(NamedTuple):
    """Whole deliveries that were settled together, as columns of records."""

    marks: bytes
    times: list[int]
    values: list[list[Any]]

    @property
    def deliveries(self) -> int:
        return sum(map(self.marks.count, BEGIN))

    @property
    def rows(self) -> int:
        return len(self.marks) - self.marks.count(EMPTY)

    @property
    def starts(self) -> list[int]:
        """The indexes of the first records of deliveries."""
        return list(compress(range(len(self.marks)), self.marks.translate(_BEGINS)))

    @property
    def plain(self) -> bool:
        """True if each delivery is one insert row, by far the most common case."""
        return self.marks.count(INSERT) == len(self.marks)

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


class SpillFile:
    """Dropped segments of a feed in an anonymous file, deleted with the feed: at most `most` bytes, all or nothing.

    Once there is more, or a segment cannot be written or read, the file is `lost`: it stays empty from then on. A
    forked process reads the file of its parent and appends to a copy. Reading does not depend on the position of the
    file, which both processes share.
    """

    __slots__ = ("__weakref__", "_close", "_file", "_process", "_totals", "lost", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.lost = most <= 0
        self._file: IO[bytes] | None = None
        self._close: Callable[[], object] = int  # nothing to close
        self._process = 0  # that the file belongs to
        self._totals = [(0, 0, 0)]  # bytes, deliveries and rows up to each segment

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
        if not self.lost:
            try:
                self._append(segment)
            except Exception:  # noqa: BLE001  a full disk or file, or a Python value that cannot be pickled: see `lost`
                self._lose()

    def _append(self, segment: Segment) -> None:
        data = pickle.dumps(tuple(segment), pickle.HIGHEST_PROTOCOL)
        start, deliveries, rows = self._totals[-1]
        end = start + len(data)
        if end > self.most:
            raise OSError(f"more than {self.most} bytes")
        file = self._own_file(start)
        file.seek(start)
        if file.write(data) < len(data):
            raise OSError("the disk is full")
        self._totals.append((end, deliveries + segment.deliveries, rows + segment.rows))

    def at(self, index: int) -> Segment | None:
        """Return a segment, None if the file is lost."""
        if self.lost:
            return None
        (start, _, _), (end, _, _) = self._totals[index : index + 2]
        try:
            return Segment(*pickle.loads(self._read(start, end)))
        except Exception:  # noqa: BLE001  a failing disk, or a Python value that cannot be unpickled
            self._lose()
            return None

    def _read(self, start: int, end: int) -> bytes:
        assert self._file is not None
        if hasattr(os, "pread"):
            return os.pread(self._file.fileno(), end - start, start)
        self._file.seek(start)  # a system without `fork`
        return self._file.read(end - start)

    def _own_file(self, size: int) -> IO[bytes]:
        """Return a file of this process with the first `size` bytes."""
        if self._file is None or self._process != os.getpid():
            file: IO[bytes] = tempfile.TemporaryFile(prefix="cepbook-feed-", buffering=0)  # noqa: SIM115
            close = finalize(self, file.close)
            for start in range(0, size, 1 << 20):
                file.write(self._read(start, min(start + (1 << 20), size)))
            self._close()
            self._file, self._close, self._process = file, close, os.getpid()
        return self._file

    def _lose(self) -> None:
        self._close()
        self._totals = [(0, 0, 0)]
        self.lost = True
