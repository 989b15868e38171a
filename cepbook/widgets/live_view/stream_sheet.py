"""The rows of a stream as a table that is searched and ordered: all rows that the kernel keeps.

A feed has the latest rows in memory and earlier ones in its spill file. `StreamSheet` reads both once, then only what
is new. It costs memory, so a view has one only while a reader searches or sorts the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any

import numpy as np

from cepbook.display import unused_name
from cepbook.feeds import Feed, FeedColumns
from cepbook.widgets.base.column_encoding import BinaryBuffers, encode_values
from cepbook.widgets.live_view.column_texts import Array
from cepbook.widgets.live_view.row_filter import NO_FILTER, FoundRows, NamedColumns, RowFilter
from cepbook.widgets.live_view.value_columns import NumberValues, ValueColumn, value_column

READ_AT_ONCE = 50_000  # deliveries that are read while the page waits
MAX_ROWS = 700_000  # of one table: browsers cannot scroll further


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """The rows of the stream that a page wants: those of `choice` with one of these signs, in deliveries before
    `before` (None: all).

    `id` is repeated in the answer. With `tail` the last rows are visible, wherever they are.
    """

    id: str = ""
    choice: RowFilter = NO_FILTER
    plus: bool = True
    minus: bool = True
    before: int | None = None
    tail: bool = False

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> StreamRequest:
        """Return the request in a message of the browser, whatever the message holds."""
        before = content.get("before")
        signs = content.get("plus") is not False, content.get("minus") is not False
        bound = before if type(before) is int else None
        return cls(str(content.get("request"))[:64], RowFilter.of(content), *signs, bound, content.get("tail") is True)

    def __bool__(self) -> bool:
        return bool(self.choice) or not (self.plus and self.minus)


class StreamSheet(NamedColumns):
    """The rows of `feed`: its columns `names`, and the time of the deliveries as column `time`.

    Columns in `timed` hold times in ms. `second` is the number of clock units per second.
    """

    def __init__(self, feed: Feed, names: Sequence[str], timed: Collection[str], second: int = 1000) -> None:
        self.feed = feed
        self.names = tuple(names)
        self.time = unused_name("time", names)
        self._timed = frozenset(timed)
        self._second = second
        self._reader: Thread | None = None
        self._clear()

    def _clear(self) -> None:
        self._columns: dict[str, ValueColumn] = {name: value_column(()) for name in (self.time, *self.names)}
        self._cursor = 0  # the next delivery to read
        self._start = 0  # rows before it are no longer kept
        self.times = self.numbers = np.zeros(0, np.int64)  # clock times, and numbers of deliveries
        self.inserts = np.zeros(0, np.bool_)

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, name: str) -> ValueColumn:
        return self._columns[name]

    def begin(self, done: Callable[[], object]) -> None:
        """Read all rows. Many are read in a thread, which calls `done` at the end."""
        if self.feed.deliveries < READ_AT_ONCE:
            self.refresh()
            return

        def read() -> None:
            try:
                self.refresh()
            finally:
                self._reader = None
                done()

        self._reader = Thread(target=read, name="cepbook stream", daemon=True)
        self._reader.start()

    @property
    def is_read(self) -> bool:
        """False while `begin` reads."""
        return self._reader is None

    def refresh(self) -> None:
        """Read the rows that are new."""
        feed = self.feed
        rows = feed.columns(self._cursor) if self._cursor else feed.whole()
        count = feed.total_insert + feed.total_remove - feed.lost
        if (
            self._cursor and len(self) + len(rows.times) < count
        ):  # so many are new that memory has only the last of them
            self._clear()
            rows = feed.whole()
        self.add(rows)
        self._start = max(0, len(self) - count)

    def add(self, rows: FeedColumns) -> None:
        """Take rows behind these."""
        self._cursor = rows.cursor
        if not rows.times:
            return
        for name in self.names:
            values, before = rows.column(name), self._columns[name]
            timed = name in self._timed
            self._columns[name] = before.extended(values) if len(before) else value_column(values, timed=timed)
        self.times = np.concatenate([self.times, np.array(rows.times, np.int64)])
        self.numbers = np.concatenate([self.numbers, np.array(rows.numbers, np.int64)])
        self.inserts = np.concatenate([self.inserts, np.array(rows.inserts, np.bool_)])
        ms = self.times * 1000 // self._second
        self._columns[self.time] = NumberValues(ms, np.zeros(len(ms), np.bool_), int, timed=True)

    def kept(self, before: int | None = None, until: int | None = None) -> range:
        """Return the places of the rows in deliveries before `before`, up to clock time `until`."""
        stop = len(self) if until is None else int(np.searchsorted(self.times, until, "right"))
        if before is not None:
            stop = min(stop, int(np.searchsorted(self.numbers, before, "left")))
        return range(self._start, max(self._start, stop))

    def rows(self, request: StreamRequest, kept: range) -> FoundRows:
        """Return the rows among `kept` that were asked for, in the order of the stream."""
        if not kept:
            return FoundRows(np.zeros(0, np.int64), {})
        passing, problems = request.choice.passing(self, self.names, (self.time, *self.names))
        if not request.plus:
            passing &= ~self.inserts
        if not request.minus:
            passing &= self.inserts
        return FoundRows(np.flatnonzero(passing[kept.start : kept.stop]) + kept.start, problems)

    def behind(self, places: Array) -> Array:
        """Return for rows how many of their delivery and side follow them."""
        ends = np.searchsorted(self.numbers, self.numbers[places], "right")
        inserted = np.concatenate([[0], np.cumsum(self.inserts)])
        return np.where(self.inserts[places], inserted[ends] - inserted[places + 1], ends - places - 1)


def stream_page(
    sheet: StreamSheet, request: StreamRequest, until: int | None, visible: range, buffers: BinaryBuffers
) -> dict[str, object]:
    """Return for a page the rows that it asked for at the places `visible`, with their number."""
    bounds = sheet.kept(request.before, until)
    places, problems = sheet.rows(request, bounds)
    count = min(len(places), MAX_ROWS)
    first = max(0, count - len(visible)) if request.tail else min(visible.start, count)
    last = min(count, first + len(visible))
    if request.choice.by is None:
        visible_places = places[len(places) - count :][first:last]
    else:
        visible_places = request.choice.first(sheet, places, last)[first:]
    columns = {
        "time": sheet[sheet.time].values(visible_places),
        "insert": sheet.inserts[visible_places].tolist(),
        "delivery": sheet.numbers[visible_places].tolist(),
        "behind": sheet.behind(visible_places).tolist(),
    }
    return {
        "request": request.id,
        "total": len(bounds),
        "found": len(places),
        "count": count,
        "first": first,
        "problems": problems,
        **{name: encode_values(values, buffers) for name, values in columns.items()},
        "columns": [encode_values(sheet[name].values(visible_places), buffers) for name in sheet.names],
    }
