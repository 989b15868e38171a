"""ChartView: the numbers of a statement over time in the notebook, for any number of rows.

The kernel keeps the rows as columns (`SeriesRows`) and sends what the pixels of the page can display (`chart_frames`):
when rows came, when another range is shown, and when the page has another width. All charts of a workbench show the
same range, and the instant that the replay bar shows.
"""

from __future__ import annotations

import time as wall
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import traitlets

from cepbook.errors import CepbookError
from cepbook.session import Workbench
from cepbook.widgets.base.column_encoding import BinaryBuffers
from cepbook.widgets.base.live_widget import CLIENTS, FeedView, widget_asset, widget_script
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.charts.chart_frames import ChartKind, ChartOptions, ChartWindow, encoded_series
from cepbook.widgets.charts.chart_picture import chart_picture
from cepbook.widgets.charts.chart_source import ChartSource

COLUMNS, ROWS = 1_000, 260  # pixels of a page that has not said how many it has
MOST_COLUMNS, MOST_ROWS = 4_096, 2_160
MOST_TIME = 2**53  # ms, in messages of a page
REPLAY_INTERVAL = 0.5  # seconds between two looks at a replay that is paused


class ChartView(FeedView):
    """The live chart of the insert rows of a statement."""

    _esm = widget_script(__file__, "chart_axes.js", "chart_view.js")
    _css = widget_asset(__file__, "chart_view.css")
    info = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        source: ChartSource,
        options: ChartOptions | None = None,
        *,
        rate: float = 20.0,
        now: Callable[[], float] = wall.monotonic,
        spent: Callable[[], float] = wall.thread_time,
    ) -> None:
        self._source = source
        self._options = ChartOptions() if options is None else options
        self._problem = ""
        self._sizes: dict[str, tuple[int, int]] = {}
        self._orders: deque[Callable[[], object]] = deque(maxlen=100)
        self._requested: tuple[int, int, int] | None = None  # feed number, series and place of the row to tell
        self._picture: StaticPicture | None = None
        super().__init__(rate=rate, now=now, spent=spent, info=self._describe())
        self._glance = source.workbench.glance
        self._follow_source()
        self._glance.subscribe(self._on_glance)
        self._glance.subscribe(self._follow_source, to_replays=True)

    # ---- the statement

    def _follow_source(self) -> None:
        if self.comm is None:
            return
        source = self._source
        try:
            feed = source.feed
            if feed is not self._feed and self._feed is not None:
                source.begin()
        except CepbookError as error:
            self._state, self._problem = ("dropped", "") if source.dropped else ("ready", str(error))
            self._pump.touch()
            return
        if feed is not self._feed:
            self._stop_following()
            self._feed, self._unsubscribe = feed, feed.subscribe(self._on_feed_changed)
            self._feed_number += 1
            self._state, self._problem, self._ended = "ready", "", 0
            self._pump.touch()
        replay = source.workbench.replaying
        if replay is not None and replay is not self._replay:
            self.follow(replay)

    def flush(self, *, urgent: bool = False) -> bool:
        """Send a frame as `LiveWidget` does; run the orders of pages before."""
        if self._pump.is_open and not (urgent or self._orders or self._pump.is_due):
            return False
        self._run_orders()
        self._follow_source()
        return super().flush(urgent=urgent)

    def close(self) -> None:
        """End the subscription and the widget; the page keeps what it displays."""
        self._stop_following()
        self._feed = None
        super().close()

    # ---- pictures

    def freeze(self) -> StaticPicture:
        """Return the chart as a picture with a table of its figures. The last picture of a dropped statement stays."""
        self._follow_source()
        if self._picture is None or self._state != "dropped":
            self._read()
            source = self._source
            series, note = source.rows.series, self._note()
            self._picture = chart_picture(source.title, note, series, self._options, self._range(), source.second)
        return self._picture

    def _mark(self) -> object:
        self._follow_source()
        feed, dropped = self._feed, self._state == "dropped"
        return None if feed is None else (self._feed_number, feed.deliveries, self._glance.zoom, dropped)

    def _note(self) -> str:
        return "; ".join(filter(None, (self._problem, self._source.note)))

    def _describe(self) -> dict[str, object]:
        options = self._options
        described = {"kind": options.kind, "values": options.values, "thresholds": list(options.thresholds)}
        return {"title": self._source.title, **described}

    # ---- frames

    def _ms(self, time: int) -> float:
        return time * 1000 / self._source.second

    def _range(self) -> tuple[int, int] | None:
        """Return the times that are displayed."""
        return self._glance.zoom or self._source.rows.span

    def _read(self) -> None:
        if self._feed is not None and self._state != "dropped" and not self._problem:
            self._feed.heard()
            self._source.read(self._feed)
        if self.comm is not None and (info := self._describe()) != self.info:
            self.info = info

    def _build(self, number: int) -> bool:
        before = self._spent()
        self._follow_source()
        self._read()
        self._pump.share(self._spent() - before)
        if self._replay is not None:  # a paused replay makes no slices that would tell
            self._take_state(self._replay.progress)
            self._pump.remind(REPLAY_INTERVAL)
        elif self._feed is not None and self._state in ("ready", "finished") and self._feed.deliveries > self._ended:
            self._state = "live"
        rows, span, instant = self._source.rows, self._range(), self._glance.time
        frame: dict[str, Any] = {
            **self._frame(number, answer=self._requested is not None),
            "feed": self._feed_number,
            "state": "past" if instant is not None and self._state != "dropped" else self._state,
            "note": self._note(),
            "rows": len(rows),
            "all": None if rows.span is None else [self._ms(time) for time in rows.span],
            "range": None if span is None else [self._ms(time) for time in span],
            "zoomed": self._glance.zoom is not None,
            "instant": None if instant is None else self._ms(instant),
        }
        buffers = BinaryBuffers()
        if span is not None:
            sizes = list(self._sizes.values()) or [(COLUMNS, ROWS)]
            window = ChartWindow(*span, max(columns for columns, _ in sizes), max(height for _, height in sizes))
            frame |= encoded_series(rows.series, self._options, window, buffers)
        if self._requested is not None:
            frame["row"] = self._row(*self._requested)
            self._requested = None
        self.send(frame, buffers.parts)
        return True

    def _row(self, feed_number: int, series: int, place: int) -> dict[str, object]:
        """Return a row as texts, for the tooltip."""
        known = self._feed is not None and feed_number == self._feed_number
        cells = self._source.cells(self._feed, series, place) if known and self._feed is not None else []
        return {"series": series, "place": place, "cells": cells}

    # ---- messages of pages

    def _receive(self, content: dict[str, Any]) -> bool | None:
        match content:
            case {"kind": "hello" | "ack"}:
                pass
            case {"kind": "bye"}:
                self._sizes.pop(str(content.get("client")), None)
            case {"kind": "size", "client": str(client), "columns": int(columns), "rows": int(rows)}:
                if client in self._sizes or len(self._sizes) < CLIENTS:
                    self._sizes[client] = min(max(1, columns), MOST_COLUMNS), min(max(1, rows), MOST_ROWS)
                self._pump.touch()
            case {"kind": "zoom", "range": None}:
                self._order(lambda: self._glance.zoom_to(None))
            case {"kind": "zoom", "range": [start, end]} if _is_time(start) and _is_time(end) and start < end:
                self._order(lambda: self._zoom_to(start, end))
            case {"kind": "seek", "time": time} if _is_time(time):
                self._order(lambda: self._seek(time))
            case {"kind": "row", "feed": int(feed), "series": int(series), "place": int(place)}:
                if min(series, place) < 0:
                    return False
                self._requested = feed, series, place
                self._pump.touch()
            case _:
                return False
        return True

    def _order(self, order: Callable[[], object]) -> None:
        self._orders.append(order)
        self._pump.soon(self.flush)

    def _run_orders(self) -> None:
        while self._orders:
            self._orders.popleft()()

    def _seek(self, ms: float) -> None:
        with suppress(CepbookError):  # an instant that no snapshot restores
            self._glance.seek(int(ms * self._source.second / 1000))

    def _zoom_to(self, start: float, end: float) -> None:
        first, last = int(start * self._source.second / 1000), int(-(-end * self._source.second // 1000))
        self._glance.zoom_to((first, max(last, first + 1)))


def chart(
    workbench: Workbench,
    name: str,
    *,
    y: Sequence[str] = (),
    by: str | None = None,
    kind: ChartKind = "line",
    values: tuple[float, float] | None = None,
    thresholds: Sequence[float] = (),
) -> ChartView:
    """Return the live chart of statement `name`.

    `y` names the columns to draw, by default the first one with floats, else with whole numbers. `by` names the column
    whose values are series of their own, by default the first one of texts with at most 20 values. `values` are the
    ends of the axis of values; a line is drawn at each of the `thresholds`. Raises UsageError if there is no such
    statement, column or kind, or no number to draw.
    """
    options = ChartOptions(kind, values, tuple(thresholds))
    return ChartView(ChartSource(workbench, name, y, by), options)


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and -MOST_TIME < value < MOST_TIME  # type: ignore[operator]
