"""Feed: the bounded buffer between a running statement and everything that shows its output.

A statement hands over records (see `cepbook.engine.delivery.delta`) and forgets them. Widgets, `Workbench.changes` and
tests read deliveries later, at their own rate.

     statement ── one/extend ──> pending records ── settle ──> segments (columns) ── overflow ──> spill file
                                                                  └── since, columns ──> readers

Taking a record appends it to a short list. Now and then the list is *settled*: counted and turned into columns. Rows
become dicts only for readers of deliveries; `columns` returns columns. A feed knows neither the engine nor any user
interface.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, islice, repeat
from sys import maxsize
from threading import Lock
from typing import Any, NamedTuple

from cepbook.errors import UsageError
from cepbook.feed_segments import ANONYMOUS, EMPTY, GONE, INSERT, MORE, REMOVE, Segment, SpillFile, SpillMedium
from cepbook.interrupts import InterruptGuard
from cepbook.locks import survives_fork

Row = dict[str, Any]
Rows = list[Row] | None
Record = tuple[Any, ...]

SPILL_LIMIT = 1 << 28  # bytes of one spill file: some five million rows of four columns
MAX_PENDING = 1024  # records that may wait for settling; more would not make taking one measurably cheaper


class Delivery(NamedTuple):
    """One atomic delivery. `number` counts the deliveries of the feed from 0; `time` is the clock in ms."""

    number: int
    time: int
    insert: Rows
    remove: Rows


class FeedRead(NamedTuple):
    """The result of `Feed.since`: the deliveries, the cursor for the next call, and the number dropped unread."""

    deliveries: list[Delivery]
    cursor: int
    missed: int


class FeedColumns(NamedTuple):
    """Rows in order, insert rows of a delivery before its remove rows, as lists of equal length.

    `numbers` are delivery numbers, `times` clock times in ms, `inserts` is True for insert rows. Deliveries without
    rows are left out. `cursor` is for the next call. The values of `column` belong to the engine: lists and dicts among
    them must not be changed.
    """

    numbers: list[int]
    times: list[int]
    inserts: list[bool]
    cursor: int
    names: tuple[str, ...] | None
    values: list[list[Any]]  # of `names`; without names the rows as dicts
    lost: int = 0  # rows before these that nothing has any more; `Feed.whole` counts them

    def column(self, name: str) -> list[Any]:
        """Return the values of a column, None in rows that lack it."""
        if self.names is None:
            return [row.get(name) for row in self.values[0]]
        return self.values[self.names.index(name)] if name in self.names else [None] * len(self.times)


def rows_limit(capacity: int | None) -> int:
    """Return a capacity in rows as a number. Raises UsageError below 1."""
    if capacity is not None and capacity < 1:
        raise UsageError(f"a feed needs a capacity of at least 1 row, not {capacity}")
    return maxsize if capacity is None else capacity


class Feed:
    """The latest deliveries of one statement, at most about `capacity` rows (insert and remove rows together).

    The oldest deliveries are dropped whole. A reader never sees more than `capacity` rows, except that the newest
    delivery is always kept, however large. Between reads up to `MAX_PENDING` records wait uncounted (fewer if
    `capacity` is small), and as many wait to be dropped. Reading is safe from any thread; `describe`, `one`, `extend`
    and `push` belong to the thread that runs the engine. Readers own the rows that they get.
    """

    __slots__ = (
        "_batch", "_dropped", "_fresh", "_lock", "_log", "_next", "_pending", "_retained", "_rows", "_segments",
        "_subscribers", "_total_insert", "_total_remove", "_width", "capacity", "names",
    )  # fmt: skip

    def __init__(self, capacity: int | None = 100_000, log: int = 0, medium: SpillMedium = ANONYMOUS) -> None:
        """Create a feed. A `capacity` of None keeps everything; `log` is the size limit of the spill file in bytes,
        which is in `medium`.
        """
        self.capacity = rows_limit(capacity)
        self.names: tuple[str, ...] | None = None
        self._fresh: Callable[[Any], Row] = dict
        # concatenated records, the cheapest form to take and to split; never rebound, since `one` may hold the list
        # while a reader settles
        self._pending: list[Any] = []
        self._width = 3  # values per record
        self._segments: deque[tuple[Segment, int, int]] = deque()  # with the numbers of deliveries and rows
        self._retained = 0
        self._rows = 0
        self._next = 0  # number of the next settled delivery
        self._total_insert = 0
        self._total_remove = 0
        self._dropped = 0
        self._log = SpillFile(log, medium)
        self._batch = self._usual_batch  # 0 while a subscriber waits, so that `one` needs only one comparison
        self._subscribers: list[Callable[[], object]] = []
        self._lock = survives_fork(Lock())

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row]) -> None:
        """Set the layout of rows before any record: tuples of the values of `columns`, or dicts (None, and by default).

        ``fresh(row)`` makes a dict for a reader.
        """
        self.names, self._fresh = columns, fresh
        self._width = 2 + (1 if columns is None else len(columns))
        self._rearm()

    def resize(self, capacity: int) -> None:
        """Change the capacity. Rows beyond a smaller one go to the spill file."""
        self.capacity = capacity
        self._settle_under_lock()
        self._rearm()

    def one(self, record: Record) -> None:
        """Take a delivery of one row, or of none."""
        pending = self._pending
        pending += record
        if len(pending) >= self._batch:
            self._news()

    def extend(self, flat: list[Any]) -> None:
        """Take the records of whole deliveries, in order, concatenated."""
        if len(flat) >= self._usual_batch:  # many records are not copied first
            self._news(self._segment(flat))
            return
        pending = self._pending
        pending += flat  # in one step: a reader in another thread sees all or none
        if len(pending) >= self._batch:
            self._news()

    def extend_columns(self, times: list[int], columns: Sequence[Any]) -> None:
        """Take deliveries of one insert row each, as columns (lists or `StoredValues`), which belong to the feed."""
        self._news(Segment(bytes(len(times)), times, [*columns]))

    def push(self, time: int, insert: list[Any] | None, remove: list[Any] | None) -> None:
        """Take one delivery of rows, at clock time `time` (ms)."""
        flat: list[Any] = []
        for mark, rows in (MORE, insert or ()), (GONE, remove or ()):
            if self.names is None:
                for row in rows:
                    flat += mark, time, row
            else:
                for row in rows:
                    flat += mark, time
                    flat += row
        if flat:
            flat[0] = INSERT if insert else REMOVE
        pending = self._pending
        pending += flat or [EMPTY, time, *([None] * (self._width - 2))]  # in one step, as in `extend`
        if len(pending) >= self._batch:
            self._news()

    def subscribe(self, fn: Callable[[], object]) -> Callable[[], None]:
        """Call `fn()` when something new arrives, then not again until somebody reads (`since`, `columns`) or calls
        `heard`.

        `fn` runs inside the engine's call, so it should only set a flag or schedule a read. Return the function that
        ends the subscription.
        """
        self._subscribers.append(fn)
        self._batch = 0

        def unsubscribe() -> None:
            if fn in self._subscribers:
                self._subscribers.remove(fn)
            self._rearm()

        return unsubscribe

    def heard(self) -> None:
        """Acknowledge a notification without reading, so that the next news are notified again."""
        self._rearm()

    def wake(self) -> None:
        """Notify the subscribers without a delivery: the statement was replaced or dropped."""
        for fn in tuple(self._subscribers):
            fn()

    def since(self, cursor: int = 0) -> FeedRead:
        """Return the kept deliveries with a number of at least `cursor` (0: all), oldest first."""
        segments, start, end = self._read(cursor)
        deliveries: list[Delivery] = []
        fresh = self._fresh
        for segment in segments:
            number = start + len(deliveries)
            rows: Iterable[Any] = segment.values[0] if self.names is None else zip(*segment.values, strict=True)
            if self.names == ():
                rows = repeat((), segment.rows)
            if segment.plain:
                timed_rows = zip(segment.times, rows, strict=True)
                numbered = enumerate(timed_rows, number)
                deliveries += [Delivery(n, time, [fresh(row)], None) for n, (time, row) in numbered]
            else:
                deliveries += _deliveries(number, segment, iter(rows), fresh)
        return FeedRead(deliveries, end, max(0, start - max(cursor, 0)))

    def columns(self, cursor: int = 0, limit: int | None = None) -> FeedColumns:
        """Return the rows of the kept deliveries with a number of at least `cursor`, at most the `limit` newest.

        Cheaper than `since`: no object is made per row.
        """
        segments, number, end = self._read(cursor)
        pieces: list[FeedColumns] = []
        beyond = 0 if limit is None else sum(segment.rows for segment in segments) - limit
        for segment in segments:
            if not pieces and beyond >= segment.rows:
                beyond -= segment.rows
            else:
                skipped = max(0, beyond) if not pieces and segment.plain else 0
                beyond -= skipped
                pieces.append(self._rows_of(segment.behind(skipped), number + skipped, end))
            number += segment.deliveries
        return self._joined(pieces, end, slice(max(0, beyond), None))

    def everything(self, cursor: int = 0) -> Iterator[FeedColumns]:
        """Yield all rows since the start or the last `clear` that are not `lost`: the spill file, then what is kept.

        With a `cursor`, those of the deliveries with a number of at least `cursor`.
        """
        with self._lock:
            self._settle()
            self._trim_exactly()
            end, number = self._next, self._next - self._retained
            segments: list[tuple[Segment, int]] = []
            for segment, deliveries, _ in self._segments:
                if number + deliveries > cursor:
                    segments.append((segment, number))
                number += deliveries
            spilled = end - self._retained - self._log.deliveries
            skipped = self._log.segment_of(cursor - spilled)
            spilled += self._log.deliveries_before(skipped)
            earlier = self._spilled(skipped)
        for segment in earlier:
            yield self._from(segment, spilled, cursor, end)
            spilled += segment.deliveries
        for segment, number in segments:
            yield self._from(segment, number, cursor, end)

    def _from(self, segment: Segment, number: int, cursor: int, end: int) -> FeedColumns:
        """Return the rows of a segment that begins with delivery `number`, from delivery `cursor` on."""
        if number < cursor:
            segment, number = segment.behind(segment.starts[cursor - number]), cursor
        return self._rows_of(segment, number, end)

    def spilled(self) -> Iterator[Segment]:
        """Return the contents of the spill file, to be read one by one."""
        with self._lock:
            return self._spilled()

    def _spilled(self, first: int = 0) -> Iterator[Segment]:
        log, count = self._log, len(self._log)

        def segments() -> Iterator[Segment]:
            for index in range(first, count):
                with self._lock:
                    segment = log.at(index, self._width - 2)
                if segment is None:
                    return  # lost meanwhile
                yield segment

        return segments()

    def whole(self, until: int | None = None) -> FeedColumns:
        """Return the rows of `everything` with the number of lost ones, up to and including clock time `until`."""
        pieces = list(self.everything())
        beyond = None if until is None else sum(bisect_right(piece.times, until) for piece in pieces)
        return self._joined(pieces, self._next, slice(beyond))._replace(lost=self.lost)

    def _joined(self, pieces: Iterable[FeedColumns], end: int, rows: slice) -> FeedColumns:
        columns: list[list[Any]] = [[], [], [], *([] for _ in ((None,) if self.names is None else self.names))]
        for piece in pieces:
            more: list[list[Any]] = [piece.numbers, piece.times, piece.inserts, *piece.values]
            for column, added in zip(columns, more, strict=True):
                column += added
        numbers, times, inserts, *values = (column[rows] for column in columns)
        return FeedColumns(numbers, times, inserts, end, self.names, values)

    def _rows_of(self, segment: Segment, number: int, end: int) -> FeedColumns:
        marks, times, numbers, values = segment.marks, segment.times, list(segment.numbers(number)), segment.columns
        if segment.plain:
            return FeedColumns(numbers, times, [True] * len(marks), end, self.names, values)
        if EMPTY in marks:
            chosen = [mark != EMPTY for mark in marks]
            numbers, times, *values = (list(compress(column, chosen)) for column in (numbers, times, *values))
            marks = marks.replace(bytes([EMPTY]), b"")
        return FeedColumns(numbers, times, [mark <= MORE for mark in marks], end, self.names, values)

    def snapshot(self) -> list[Delivery]:
        """Return all kept deliveries, oldest first."""
        return self.since(0).deliveries

    def saved(self) -> list[Any]:
        """Return what is in memory as plain data, and the counters, for `load` of a feed of the same statement."""
        with self._lock:
            return self._saved()

    def saved_and_stored(self) -> tuple[list[Any], tuple[str, int] | None]:
        """Return `saved`, with the path and size of the spill file at this moment; None if it is empty.

        Raises OSError if the disk is full.
        """
        with self._lock:
            return self._saved(), self._log.stored()

    def _saved(self) -> list[Any]:
        self._settle()
        self._trim_exactly()
        counters = [self._next, self._total_insert, self._total_remove, self._dropped]
        segments = [(segment.marks, segment.times, segment.columns) for segment, _, _ in self._segments]
        return [self.names, counters, segments]

    def load(self, saved: list[Any], spilled: SpillFile | None = None) -> None:
        """Continue from the `saved` data and the spill file of another feed.

        Raises UsageError if its rows have other columns.
        """
        names, counters, segments = saved
        if names != self.names:
            raise UsageError(f"a feed of other columns: {names}, not {self.names}")
        with self._lock:
            self._settle()
            loaded = [Segment(*segment) for segment in segments]
            self._segments = deque((segment, segment.deliveries, segment.rows) for segment in loaded)
            self._retained = sum(segment.deliveries for segment in loaded)
            self._rows = sum(segment.rows for segment in loaded)
            self._next, self._total_insert, self._total_remove, self._dropped = counters
            self._spill_into(SpillFile(self._log.most) if spilled is None else spilled)
            self._trim_exactly()

    def _spill_into(self, spilled: SpillFile) -> None:
        spilled.medium = self._log.medium
        self._log = spilled

    @property
    def spill_file(self) -> SpillFile:
        """The file of the rows that were dropped."""
        return self._log

    @spill_file.setter
    def spill_file(self, spilled: SpillFile) -> None:
        with self._lock:
            self._spill_into(spilled)

    @property
    def medium(self) -> SpillMedium:
        """The place of the spill file from its next row on."""
        return self._log.medium

    @medium.setter
    def medium(self, medium: SpillMedium) -> None:
        with self._lock:
            self._log.medium = medium

    def until(self, time: int) -> Feed:
        """Return a copy that ends with the last kept delivery at or before `time`, with the counters of that moment."""
        names, (following, inserted, removed, dropped), segments = self.saved()
        earlier = []
        for marks, times, values in segments:
            at = bisect_right(times, time)
            later = Segment(marks[at:], [], [])
            following -= later.deliveries
            inserted, removed = inserted - later.inserted, removed - (later.rows - later.inserted)
            if at:
                earlier.append((marks[:at], times[:at], [column[:at] for column in values]))
        copy = Feed(self.capacity)
        copy.describe(names, self._fresh)
        copy.load([names, [following, inserted, removed, dropped], earlier])
        return copy

    def clear(self) -> None:
        """Drop the kept deliveries and reset all counters except the numbering, so cursors stay valid."""
        with self._lock:
            self._settle()
            self._segments.clear()
            self._spill_into(SpillFile(self._log.most))
            self._retained = self._rows = 0
            self._total_insert = self._total_remove = self._dropped = 0
        self._rearm()

    @property
    def total_insert(self) -> int:
        """Insert rows delivered since the start or the last `clear`, kept or not."""
        self._settle_under_lock(exactly=False)
        return self._total_insert

    @property
    def total_remove(self) -> int:
        """Remove rows delivered since the start or the last `clear`, kept or not."""
        self._settle_under_lock(exactly=False)
        return self._total_remove

    @property
    def deliveries(self) -> int:
        """Deliveries since the feed was created; also the cursor that `since` would return now."""
        self._settle_under_lock(exactly=False)
        return self._next

    @property
    def dropped(self) -> int:
        """Deliveries dropped because of `capacity`."""
        self._settle_under_lock()
        return self._dropped

    @property
    def rows(self) -> int:
        """Rows that are kept now."""
        self._settle_under_lock()
        return self._rows

    @property
    def lost(self) -> int:
        """Rows since the start or the last `clear` that are neither kept nor in the spill file."""
        return max(0, self.total_insert + self.total_remove - self.rows - self._log.rows)

    def __len__(self) -> int:
        """Deliveries that are kept now."""
        self._settle_under_lock()
        return self._retained

    def __bool__(self) -> bool:
        """A feed is true even if it is empty, so that ``feed or default`` works as expected."""
        return True

    def __repr__(self) -> str:
        return f"Feed({self.total_insert} insert, {self.total_remove} remove, {self.dropped} deliveries dropped)"

    def _read(self, cursor: int) -> tuple[list[Segment], int, int]:
        with self._lock:
            self._settle()
            if self._segments and cursor < self._next - self._retained + self._segments[0][1]:
                self._trim_exactly()  # drops nothing behind the first segment
            end = self._next
            start = min(max(cursor, end - self._retained), end)
            latest: list[Segment] = []
            more = end - start
            for segment, deliveries, _ in reversed(self._segments):
                if more <= 0:
                    break
                latest.append(segment if deliveries <= more else segment.behind(segment.starts[deliveries - more]))
                more -= deliveries
        self._rearm()
        return latest[::-1], start, end

    def _news(self, segment: Segment | None = None) -> None:
        with self._lock:
            self._settle()
            if segment is not None and segment.marks:
                self._add(segment)
            tell = self._batch == 0
            self._batch = self._usual_batch
        if tell:
            self.wake()

    def _settle_under_lock(self, *, exactly: bool = True) -> None:
        with self._lock:
            self._settle()
            if exactly:
                self._trim_exactly()

    @property
    def _usual_batch(self) -> int:
        return max(1, min(MAX_PENDING, self.capacity // 4)) * self._width

    def _rearm(self) -> None:
        self._batch = 0 if self._subscribers else self._usual_batch

    def _settle(self) -> None:
        waiting = len(self._pending)
        if waiting:
            self._add(self._segment(self._pending[:waiting]), waiting)

    def _segment(self, flat: list[Any]) -> Segment:
        width = self._width
        return Segment(bytes(flat[::width]), flat[1::width], [flat[at::width] for at in range(2, width)])

    def _add(self, segment: Segment, waiting: int = 0) -> None:
        """Add a segment, of which `waiting` values are pending. After a failure they are still pending."""
        deliveries, rows = segment.deliveries, segment.rows
        inserted = segment.inserted
        segments = self._segments
        with InterruptGuard():
            before = self._next, self._retained, self._rows, self._total_insert, self._total_remove
            segments.append((segment, deliveries, rows))
            try:
                self._next, self._retained = self._next + deliveries, self._retained + deliveries
                self._rows += rows
                self._total_insert, self._total_remove = before[3] + inserted, before[4] + rows - inserted
                del self._pending[:waiting]
            except BaseException:
                segments.pop()
                self._next, self._retained, self._rows, self._total_insert, self._total_remove = before
                raise
            while max(self._rows - segments[0][2], self._retained - segments[0][1]) >= self.capacity:
                oldest, deliveries, rows = segments.popleft()
                self._log.take(oldest)
                self._rows, self._retained = self._rows - rows, self._retained - deliveries
                self._dropped += deliveries

    def _trim_exactly(self) -> None:
        while self._retained > 1 and max(self._rows, self._retained) > self.capacity:
            with InterruptGuard():
                segment, deliveries, rows = self._segments.popleft()
                starts, filled = [*segment.starts, len(segment.marks)], segment.rows_before
                beyond = max(self._retained - self.capacity, bisect_left(filled, self._rows - self.capacity))
                gone = min(beyond, deliveries, self._retained - 1)
                self._rows -= filled[gone]
                self._retained -= gone
                self._dropped += gone
                self._log.take(segment.before(starts[gone]))
                if gone < deliveries:
                    self._segments.appendleft((segment.behind(starts[gone]), deliveries - gone, rows - filled[gone]))


class SinkFeed(Feed):
    """An unbounded feed that calls `full` from time to time so that it is read."""

    __slots__ = ("_asking", "_cursor", "_full")

    def __init__(self, full: Callable[[], None]) -> None:
        super().__init__(None)
        self._full = full
        self._asking = False
        self._cursor = 0

    def _news(self, segment: Segment | None = None) -> None:
        super()._news(segment)
        if not self._asking:
            self._asking = True
            try:
                self._full()
            finally:
                self._asking = False

    @property
    def number(self) -> int:
        """The number of the next delivery."""
        return self.deliveries

    def begin_at(self, number: int) -> None:
        """Number deliveries from `number` on; before the first one."""
        self._next = self._cursor = number

    def peek(self) -> FeedColumns:
        """Return the rows that were not forgotten."""
        return self.columns(self._cursor)

    def forget(self, columns: FeedColumns) -> None:
        """Forget rows that `peek` returned."""
        self._forget(columns.cursor)

    def take_deliveries(self) -> list[Delivery]:
        """Return the deliveries since the last call."""
        read = self.since(self._cursor)
        self._forget(read.cursor)
        return read.deliveries

    def _forget(self, cursor: int) -> None:
        self._cursor = cursor
        with self._lock:
            while self._segments and self._next - self._retained + self._segments[0][1] <= cursor:
                _, deliveries, rows = self._segments.popleft()
                self._retained -= deliveries
                self._rows -= rows


def _deliveries(number: int, segment: Segment, rows: Iterator[Any], fresh: Callable[[Any], Row]) -> list[Delivery]:
    deliveries: list[Delivery] = []
    bounds = [*segment.starts, len(segment.marks)]
    for i, start in enumerate(bounds[:-1]):
        marks = segment.marks[start : bounds[i + 1]]
        taken = list(islice(rows, len(marks)))
        inserted = marks.count(INSERT) + marks.count(MORE)
        dicts = [] if marks[0] == EMPTY else [fresh(row) for row in taken]
        insert, remove = dicts[:inserted] or None, dicts[inserted:] or None
        deliveries.append(Delivery(number + i, segment.times[start], insert, remove))
    return deliveries
