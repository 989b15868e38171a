"""The feed between a statement and what takes its rows: a file (`sinks`) or a reader (`delivery_stream`)."""

from __future__ import annotations

from collections.abc import Callable

from cepbook.engine.delivery.delta import Sink
from cepbook.engine.runtime import RunningStatement
from cepbook.feed_segments import Segment
from cepbook.feeds import Delivery, Feed, FeedColumns

Successor = Callable[[RunningStatement | None], object]
Attach = Callable[[Sink, Successor], Callable[[], None]]  # the last step of `EngineHandle.attach_sink`


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
            while self._segments and self._next - self._kept + self._segments[0][1] <= cursor:
                _, deliveries, rows = self._segments.popleft()
                self._kept -= deliveries
                self._rows -= rows
