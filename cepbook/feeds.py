"""Feed: the bounded buffer between a running statement and everything that shows its output.

A statement pushes deliveries (one atomic insert/remove pair each) and forgets them; widgets, `Workbench.changes`
and tests read them later, at their own rate. Pushing appends one tuple; counting and trimming are amortised.
A feed knows neither engine nor user interface.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, NamedTuple

from cepbook.errors import UsageError

Row = dict[str, Any]
Rows = list[Row] | None
_Taken = tuple[int, Rows, Rows]

UNCOUNTED = 512  # deliveries that may wait for counting; more would not make a push measurably cheaper


class Delivery(NamedTuple):
    """One atomic delivery. `number` counts deliveries of the feed from 0; `time` is the clock in ms."""

    number: int
    time: int
    insert: Rows
    remove: Rows


class Slice(NamedTuple):
    """What `Feed.since` found: the deliveries, the cursor for the next call, and how many were dropped unread."""

    deliveries: list[Delivery]
    cursor: int
    missed: int


class Feed:
    """The latest deliveries of one statement, at most about `capacity` rows (insert and remove rows together).

    The oldest deliveries are dropped whole; a reader never sees more than `capacity` rows, except that the newest
    delivery is always kept, however large. Between reads up to `UNCOUNTED` deliveries wait uncounted (fewer when
    deliveries are large) and as many wait to be dropped. Reading is safe from any thread; `push` and `extend`
    belong to the one thread that runs the engine.
    """

    __slots__ = (
        "_batch", "_dropped", "_kept", "_lock", "_next", "_pending", "_rows", "_segments", "_subscribers",
        "_total_insert", "_total_remove", "_usual_batch", "capacity",
    )  # fmt: skip

    def __init__(self, capacity: int = 100_000) -> None:
        if capacity < 1:
            raise UsageError(f"a feed needs a capacity of at least 1 row, not {capacity}")
        self.capacity = capacity
        self._pending: list[_Taken] = []  # never rebound: push may hold it while a reader settles
        self._segments: deque[tuple[list[_Taken], int]] = deque()  # what was settled together, with its rows
        self._kept = 0
        self._rows = 0
        self._next = 0  # number of the next delivery that is settled
        self._total_insert = 0
        self._total_remove = 0
        self._dropped = 0
        self._usual_batch = UNCOUNTED
        self._batch = UNCOUNTED  # 0 while a subscriber waits for news, so that push needs one comparison only
        self._subscribers: list[Callable[[], object]] = []
        self._lock = Lock()

    def push(self, time: int, insert: Rows, remove: Rows) -> None:
        """Take one delivery at clock time `time` (ms). The lists are kept, not copied."""
        pending = self._pending
        pending.append((time, insert, remove))
        if len(pending) >= self._batch:
            self._news()

    def extend(self, deliveries: Iterable[_Taken]) -> None:
        """Take many deliveries in order; the batch entry of the engine uses it."""
        pending = self._pending
        pending.extend(deliveries)
        if len(pending) >= self._batch:
            self._news()

    def subscribe(self, fn: Callable[[], object]) -> Callable[[], None]:
        """Call `fn()` when there is something new, then not again until someone reads (`since`, `snapshot`).

        `fn` runs inside the engine's call: it should only set a flag or schedule a read. Returns the function
        that ends the subscription.
        """
        self._subscribers.append(fn)
        self._batch = 0

        def unsubscribe() -> None:
            if fn in self._subscribers:
                self._subscribers.remove(fn)
            self._rearm()

        return unsubscribe

    def wake(self) -> None:
        """Tell the subscribers although nothing was delivered: the statement was replaced or dropped."""
        for fn in tuple(self._subscribers):
            fn()

    def since(self, cursor: int = 0) -> Slice:
        """The kept deliveries with a number of at least `cursor` (0: from the first), oldest first."""
        with self._lock:
            self._settle()
            self._trim_exactly()
            end = self._next
            start = min(max(cursor, end - self._kept), end)
            latest: list[list[_Taken]] = []
            count = 0
            for segment, _ in reversed(self._segments):
                if count >= end - start:
                    break
                latest.append(segment)
                count += len(segment)
        self._rearm()
        taken = [one for segment in reversed(latest) for one in segment][count - (end - start) :]
        found = [Delivery(start + i, *one) for i, one in enumerate(taken)]
        return Slice(found, end, max(0, start - max(cursor, 0)))

    def snapshot(self) -> list[Delivery]:
        """All kept deliveries, oldest first."""
        return self.since(0).deliveries

    def clear(self) -> None:
        """Forget the kept deliveries and set all counters to zero except the numbering, so cursors stay valid."""
        with self._lock:
            self._settle()
            self._segments.clear()
            self._kept = self._rows = 0
            self._total_insert = self._total_remove = self._dropped = 0
        self._rearm()

    @property
    def total_insert(self) -> int:
        """Insert rows delivered since the start or the last `clear`, kept or not."""
        self._count()
        return self._total_insert

    @property
    def total_remove(self) -> int:
        """Remove rows delivered since the start or the last `clear`, kept or not."""
        self._count()
        return self._total_remove

    @property
    def deliveries(self) -> int:
        """Deliveries since the feed was made; also the cursor that `since` would return now."""
        self._count()
        return self._next

    @property
    def dropped(self) -> int:
        """Deliveries that were dropped because of `capacity`."""
        self._count()
        return self._dropped

    @property
    def rows(self) -> int:
        """Rows that are kept now."""
        self._count()
        return self._rows

    def __len__(self) -> int:
        """Deliveries that are kept now."""
        self._count()
        return self._kept

    def __bool__(self) -> bool:
        """A feed is true even when it is empty, so that ``feed or default`` does what it says."""
        return True

    def __repr__(self) -> str:
        return f"Feed({self.total_insert} insert, {self.total_remove} remove, {self.dropped} deliveries dropped)"

    def _news(self) -> None:
        with self._lock:
            self._settle()
            tell = self._batch == 0
            self._batch = self._usual_batch
        if tell:
            for fn in tuple(self._subscribers):
                fn()

    def _count(self) -> None:
        with self._lock:
            self._settle()
            self._trim_exactly()

    def _rearm(self) -> None:
        self._batch = 0 if self._subscribers else self._usual_batch

    def _settle(self) -> None:
        """Count what is pending and drop whole segments beyond capacity. The caller holds the lock."""
        pending = self._pending
        waiting = len(pending)
        if not waiting:
            return
        segment = pending[:waiting]
        del pending[:waiting]
        inserted = removed = 0
        for _, insert, remove in segment:
            if insert:
                inserted += len(insert)
            if remove:
                removed += len(remove)
        segments = self._segments
        segments.append((segment, inserted + removed))
        self._next += waiting
        self._total_insert += inserted
        self._total_remove += removed
        self._kept += waiting
        self._rows += inserted + removed
        while segments and max(self._rows - segments[0][1], self._kept - len(segments[0][0])) >= self.capacity:
            oldest, rows = segments.popleft()
            self._rows -= rows
            self._kept -= len(oldest)
            self._dropped += len(oldest)
        average = 1 + (inserted + removed) // waiting
        self._usual_batch = max(1, min(UNCOUNTED, self.capacity // (4 * average)))
        if self._batch:
            self._batch = self._usual_batch

    def _trim_exactly(self) -> None:
        """Drop single deliveries until the bound holds: at most `capacity` rows and as many deliveries."""
        while self._kept > 1 and max(self._rows, self._kept) > self.capacity:
            segment, rows = self._segments.popleft()
            gone = 0
            while self._kept > 1 and gone < len(segment) and max(self._rows, self._kept) > self.capacity:
                less = len(segment[gone][1] or ()) + len(segment[gone][2] or ())
                self._rows -= less
                rows -= less
                self._kept -= 1
                gone += 1
            self._dropped += gone
            if gone < len(segment):
                self._segments.appendleft((segment[gone:], rows))
