"""Deliveries of a statement for ``async for`` (`DeliveryStream`)."""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import AsyncIterator, Callable
from threading import Lock
from weakref import WeakSet, ref

from cepbook.display import format_count
from cepbook.engine.runtime import RunningStatement
from cepbook.errors import MissingRowsWarning, UsageError
from cepbook.feeds import Delivery, SinkFeed
from cepbook.locks import survives_fork
from cepbook.session.io.output.sinks import Attach


class DeliveryStream(AsyncIterator[Delivery]):
    """``async for delivery in cep.stream("alerts")``: the deliveries of a statement from now on, in order.

    At most `capacity` deliveries wait. While that many wait, live sources take no further event
    (`replay.live_ingestion`). Deliveries of `send` or a replay then push out the oldest ones, counted in `missed`. A
    MissingRowsWarning tells the reader. The stream ends with `close`, when the statement is dropped, and when nothing
    refers to the stream any more, as after ``break``. The engine keeps a stream alive only while a reader waits.
    """

    def __init__(self, name: str, attach: Attach, streams: WeakSet[DeliveryStream], capacity: int) -> None:
        if capacity < 1:
            raise UsageError(f"a stream needs room for at least 1 delivery, not {capacity}")
        self.statement, self.capacity = name, capacity
        self.missed = self._warned = 0
        self._waiting: deque[Delivery] = deque()
        self._draining = survives_fork(Lock())
        self._closed = False
        self._news: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._keeping: list[DeliveryStream] = []  # this stream while a reader waits
        self._tap, self._leave = _attach_weakly(ref(self), self._keeping, attach)
        self._streams = streams
        streams.add(self)

    def _successor(self, statement: RunningStatement | None) -> None:
        self._drain()
        if statement is None:
            self.close()

    def _drain(self) -> None:
        with self._draining:  # the thread that sends and that of the reader may both do it
            self._waiting.extend(self._tap.take_deliveries())
            while len(self._waiting) > self.capacity:
                self._waiting.popleft()
                self.missed += 1

    @property
    def is_full(self) -> bool:
        """True if as many deliveries wait as may."""
        self._drain()
        return len(self._waiting) >= self.capacity and not self._closed

    def _poke(self) -> None:
        loop, news = self._loop, self._news
        if loop is not None and news is not None and not loop.is_closed():
            loop.call_soon_threadsafe(news.set)

    async def __anext__(self) -> Delivery:
        self._loop = asyncio.get_running_loop()
        while True:
            self._news = asyncio.Event()
            self._drain()
            if self.missed > self._warned:
                fact = (
                    f"the reader of the stream is slow: {format_count(self.missed, 'delivery', 'deliveries')} dropped"
                )
                hint = f"`cep.stream(…, capacity={2 * self.capacity})`, or `cep.sink` writes all rows to a file"
                warnings.warn(f"{fact}\n  hint: {hint}", MissingRowsWarning, stacklevel=2)
                self._warned = self.missed
            if self._waiting:
                return self._waiting.popleft()
            if self._closed:
                raise StopAsyncIteration
            self._keeping.append(self)
            try:
                await self._news.wait()
            finally:
                self._keeping.remove(self)

    def close(self) -> None:
        """End the stream. Waiting deliveries can still be read."""
        if not self._closed:
            self._closed = True
            self._leave()
            self._streams.discard(self)
        self._poke()


def _attach_weakly(
    this: ref[DeliveryStream], keeping: list[DeliveryStream], attach: Attach
) -> tuple[SinkFeed, Callable[[], None]]:
    """Attach the feed of a stream so that the statement keeps `keeping` alive, but not the stream.

    When the stream is gone, the feed leaves the statement at one of the next deliveries.
    """

    def drain(_: list[DeliveryStream] = keeping) -> None:
        stream = this()
        if stream is not None:
            stream._drain()
        else:
            leave()

    def wake() -> None:
        stream = this()
        if stream is not None:
            stream._poke()

    def follow(statement: RunningStatement | None) -> None:
        stream = this()
        if stream is not None:
            stream._successor(statement)

    feed = SinkFeed(drain)
    feed.subscribe(wake)
    leave = attach(feed, follow)
    return feed, leave
