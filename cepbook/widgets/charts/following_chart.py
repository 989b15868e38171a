"""A chart of a statement that follows: new rows while events arrive, or the past instant that is displayed.

The chart is an output of its own that is replaced in place, so a saved notebook holds the last one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from cepbook.errors import CepbookError
from cepbook.feeds import Feed
from cepbook.session import Workbench
from cepbook.widgets.base.live_widget import Display, DisplayHandle
from cepbook.widgets.charts.builders import stream_chart
from cepbook.widgets.charts.offline_renderer import render

INTERVAL = 0.5  # seconds between two drawings, at least
SOON = 0.05  # seconds from a look at the past to its drawing
SHARE = 20  # and one that cost t seconds of processor time is followed by a rest of SHARE * t


class FollowingChart:
    """The insert stream of statement `name` over time (`stream_chart`), in an output that is kept up to date.

    Raises UsageError if there is no such statement, or no numeric column to draw. It is active until `close`, and
    subscribes to the statement's feed.
    """

    def __init__(self, workbench: Workbench, name: str, *, y: str | None = None, color: str | None = None) -> None:
        self._workbench, self._name = workbench, name
        self._chosen: dict[str, Any] = {"y": y, "color": color}
        self._handle: DisplayHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._earliest = 0.0
        self._feed: Feed | None = None
        self._end: Callable[[], None] | None = None
        self._first = self._chart()

    def show(self, display: Display) -> None:
        """Display the chart by `IPython.display.display`."""
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:  # nothing tells when there is time to draw: only a look at the past does
            self._loop = None
        self._handle = display(render(self._first.to_dict()), raw=True, display_id=True)
        self._workbench.glance.subscribe(self._on_glance)
        self._listen()

    watched = False  # no page tells

    def close(self) -> None:
        """Stop following; the last picture stays."""
        self._handle = None
        if self._end is not None:
            self._end()
        if self._timer is not None:
            self._timer.cancel()
        self._feed = self._end = self._timer = self._loop = None

    def _chart(self) -> Any:
        return stream_chart(self._workbench, self._name, **self._chosen)

    def draw(self) -> None:
        """Draw the present state, or that of the past instant that is displayed."""
        if self._handle is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        before = time.thread_time()
        self._listen()
        if self._feed is not None:  # which tells again when it was read
            self._feed.heard()
        try:
            chart = self._chart()
        except CepbookError:  # the statement was dropped, or has other columns: the last picture stays
            return
        past = self._workbench.glance.time is not None  # which no saved notebook needs a picture of
        self._handle.update(render(chart.to_dict(), picture=not past), raw=True)
        self._earliest = time.monotonic() + max(INTERVAL, SHARE * (time.thread_time() - before))

    def _listen(self) -> None:
        """To the feed that the statement has now."""
        try:
            feed = self._workbench.feed(self._name)
        except CepbookError:
            return
        if feed is not self._feed:
            if self._end is not None:
                self._end()
            self._feed, self._end = feed, feed.subscribe(self._on_feed_changed)

    def _on_glance(self) -> None:
        """Another instant is looked at: views come first, and of a drag only the end is drawn."""
        if self._loop is None or self._loop.is_closed():
            self.draw()
        else:
            self._loop.call_soon_threadsafe(self._soon)

    def _soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None:
            self._timer = self._loop.call_later(SOON, self.draw)

    def _on_feed_changed(self) -> None:
        """Something came: draw it when there is time. Called inside the engine, maybe in another thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._schedule)

    def _schedule(self) -> None:
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(max(0.0, self._earliest - time.monotonic()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._workbench.glance.time is None:  # the past does not change
            self.draw()
