"""StatementView: a running statement in the notebook, live: stream, window, context partitions, and partial matches.

The browser keeps the last `keep` rows of the stream. A frame carries the rows that it lacks, as binary columns, and
leaves when the last frame was drawn (see `frame_scheduler`). Messages from the browser only set flags, because the
thread in which they arrive differs by ipykernel version. The engine is read by the loop that runs it, or inside
`flush`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args

import traitlets

from cepbook.display import format_time, unused_name
from cepbook.errors import CepbookError, UsageError, printable
from cepbook.feeds import Feed
from cepbook.session import Workbench
from cepbook.session.inspect.match_record import KEPT as RECORDED_DELIVERIES
from cepbook.session.inspect.partition_selectors import NO_ROWS_TEXT
from cepbook.widgets.base.column_encoding import BinaryBuffers, ViewColumn, encode_rows, encode_values
from cepbook.widgets.base.live_widget import CLIENTS, FeedView, widget_asset, widget_script
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.live_view.download import MAX_DOWNLOADS, Download, DownloadRequest
from cepbook.widgets.live_view.partition_rows import (
    bar_column,
    columns_of,
    line_columns,
    match_lines,
    partial_rows,
    partition_columns,
    size_column_count,
)
from cepbook.widgets.live_view.partition_tree import FoldState
from cepbook.widgets.live_view.row_filter import FoundRows
from cepbook.widgets.live_view.static_view import ViewState, dropped_picture, last_picture, static_view
from cepbook.widgets.live_view.stream_sheet import MAX_ROWS, StreamRequest, StreamSheet, stream_page
from cepbook.widgets.live_view.table_search import TableSearch
from cepbook.widgets.live_view.view_source import Rows, ViewSource, WorkbenchSource

WINDOW_ROWS = 1_000
PARTITION_ROWS = 500
VIEW_ROWS = 2_000  # the latest stream rows that a view has
LIVE_ROWS = 500  # most stream rows of one frame while a replay runs
ASKED = 50  # deliveries whose matches a page waits for
FOLDS = 1_000  # nodes of a tree that a reader may have folded or unfolded
ROWS_SHOWN = 300  # most rows of a window or of a list of partitions in one message
REPLAY_INTERVAL = 0.5  # seconds between two looks at the replay that a view follows

Pane = Literal["stream", "window", "events", "partitions", "waiting"]
_PANES: dict[object, Pane] = {pane: pane for pane in get_args(Pane)}


class StatementView(FeedView):
    """The live view of one statement.

    `keep` is the number of stream rows that the browser holds (and the maximum of one frame), `rate` the maximum of
    frames per second. Call `flush()` where Python code runs for long without returning to the event loop.
    """

    _esm = widget_script(
        __file__, "tree.js", "export.js", "columns.js", "selection.js", "store.js", "panes.js", "view.js"
    )
    _css = widget_asset(__file__, "view.css")
    info = traitlets.Dict().tag(sync=True)
    _state: ViewState

    def __init__(
        self,
        source: ViewSource,
        *,
        keep: int = VIEW_ROWS,
        rate: float = 20.0,
        now: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._source = source
        self._keep = keep
        self._columns: tuple[ViewColumn, ...] = tuple(source.columns)
        self._epl = source.epl
        self._others: tuple[Feed, ...] = ()
        self._client_panes: dict[str, Pane] = {}
        self._partition: int | None = None
        self._request = StreamRequest()  # the rows of the pane that is shown
        self._sheet: StreamSheet | None = None  # while a page searches or sorts the stream
        self._search = TableSearch()  # likewise of rows, or events of the window
        self._folds = FoldState()  # of the tree of partitions
        self._visible_range = range(ROWS_SHOWN)  # where in the table those are that are in sight
        self._sent: dict[int, int] = {}
        self._match_requests: dict[int, int] = {}  # delivery -> the frame with its matches, 0: none yet
        self._why: tuple[int, int, bool] | None = None  # the row that a page asks about
        self._answered_why: tuple[object, int] = (None, 0)  # the last answered request, and its frame
        self._requested_files: list[DownloadRequest] = []  # files that pages want
        self._downloads: list[Download] = []  # those on their way
        self._problem = ""  # why replays could not be repeated
        self._watching = False
        self._next = 0
        self._cut = False  # whether the page lacks rows that it could keep
        self._clock = source.clock()
        self._picture: StaticPicture | None = None
        super().__init__(rate=rate, now=now, spent=spent, info=self._describe())
        if keep < 1:
            raise UsageError(f"a view needs to keep at least 1 row, not {keep}")
        self._follow_source()
        source.on_glance(self._on_glance)
        source.on_glance(self._follow_source, to_replays=True)

    @property
    def state(self) -> ViewState:
        """The state in the header: ``ready`` before the first row, ``live``, ``paused``, ``finished``, ``dropped``."""
        return self._state

    @state.setter
    def state(self, state: ViewState) -> None:
        if state not in get_args(ViewState):
            raise UsageError(f"no such state of a view: {state}")
        self._state = state
        self._pump.touch()

    def flush(self, *, urgent: bool = False) -> bool:
        """Send a frame as `LiveWidget` does; also notice that the clock moved, or that the statement was replaced or
        dropped.
        """
        if self._pump.is_open and not (urgent or self._pump.is_due):
            return False
        self._follow_source()
        if self._source.clock() != self._clock:
            self._pump.touch()
        return super().flush(urgent=urgent)

    def freeze(self) -> StaticPicture:
        """Return the present state as plain HTML and text: the same for the same state of the engine.

        The last picture of a dropped statement stays: cleaning up at the end of a notebook empties no output.
        """
        self._follow_source()
        if self._state == "dropped" and self._picture is not None:
            return last_picture(self._source.name, self._picture)
        self._picture = static_view(self._source, self._state) if self._state != "dropped" else None
        return self._picture if self._picture is not None else dropped_picture(self._source.name)

    def close(self) -> None:
        """End the subscription and the widget; the page keeps what it displays."""
        for download in self._downloads:
            download.cancel()
        self._watch(False)
        self._stop_following()
        self._feed = None
        super().close()

    def _mark(self) -> object:
        self._follow_source()
        if self._state == "dropped" or self._feed is None:
            return self._state
        source = self._source
        return source.clock(), source.ticking, self._feed.deliveries, self._feed.rows, self._epl, source.pulse()

    def _describe(self) -> dict[str, object]:
        return {
            "name": printable(self._source.name),
            "epl": printable(self._epl),
            "keep": self._keep,
            "context": self._source.partitioned,
            "levels": list(self._source.levels),
            "traced": self._source.traced,
            "waits": self._source.tags is not None,
            "keeps": self._source.keeps_rows,
            "results": self._source.results,
            "delivers": self._source.delivers,
            "nothing": self._empty_text(),
            "columns": [c.describe() for c in self._columns],
            "added": [unused_name(name, [c.name for c in self._columns]) for name in ("time", "kind")],
        }

    def _empty_text(self) -> str:
        """Return the text for an empty table of rows."""
        if not self._source.delivers:
            return "The table is empty."
        return "The window is empty." if self._source.keeps_rows else f"The statement {NO_ROWS_TEXT}."

    def _follow_source(self) -> None:
        if self.comm is None:  # nobody looks any more
            return
        try:
            feed, epl, columns = self._source.feed, self._source.epl, tuple(self._source.columns)
        except CepbookError:
            if self._state != "dropped":
                self.state = "dropped"
            return
        if self._state == "dropped":
            self._state = "ready"
        self._follow_current_replay()
        if (epl, columns) != (self._epl, self._columns):
            self._epl, self._columns = epl, columns
            self.info = self._describe()
        if feed is not self._feed:
            self._stop_following()
            self._feed = feed
            self._feed_number += 1
            self._state = "ready"
            self._next = 0
            self._sent.clear()
            self._match_requests.clear()
            if self._watching:
                self._source.watch(True)
            self._others = tuple(self._source.fed_by)
            endings = [other.subscribe(self._on_feed_changed) for other in (feed, *self._others)]
            self._unsubscribe = lambda: [end() for end in endings]
            self._pump.touch()

    def _on_feed_changed(self) -> None:
        self._follow_current_replay()
        if not self._pump.is_open:
            self._watch(False)
        super()._on_feed_changed()

    def _watch(self, looking: bool) -> None:
        """Record which matches make a delivery while a page displays the statement, and only then."""
        if not looking:
            self._source.count(False)
        if looking != self._watching and (not looking or self._source.traced):
            self._watching = looking
            self._source.watch(looking)

    def _follow_current_replay(self) -> None:
        replay = self._source.replay()
        if replay is not None and replay is not self._replay:
            self.follow(replay)

    def _receive(self, content: dict[str, Any]) -> bool | None:
        match content:
            case {"kind": "ack", "n": int(number)}:
                self._next = max(self._next, self._sent.get(number, 0))
                self._match_requests = {
                    delivery: frame_number
                    for delivery, frame_number in self._match_requests.items()
                    if not 0 < frame_number <= number
                }
                if self._answered_why[0] == self._why and self._answered_why[1] <= number:
                    self._why = None
            case {"kind": "hello"}:
                self._next = 0
                self._sent.clear()
                self._match_requests.clear()
            case {"kind": "expand", "delivery": int(delivery)}:
                if len(self._match_requests) < ASKED:
                    self._match_requests[delivery] = 0
                self._pump.touch()
            case {"kind": "why", "delivery": int(delivery), "behind": int(behind), "insert": bool(insert)}:
                self._why = delivery, behind, insert
                self._pump.touch()
            case {"kind": "again"}:
                self._pump.soon(lambda: self._source.replay_again(self._report_repetition))
            case {"kind": "take"} if (request := DownloadRequest.of(content)) is not None:
                self._requested_files = [*self._requested_files, request][-MAX_DOWNLOADS:]
                self._pump.soon(self._start_downloads)
                self._pump.touch()
            case {"kind": "cancel", "id": str(id_)}:
                for download in self._downloads:
                    if download.request.id == id_:
                        download.cancel()
            case {"kind": "show", "client": str(client), "pane": str(pane)} if pane in _PANES:
                if client in self._client_panes or len(self._client_panes) < CLIENTS:
                    self._client_panes[client] = _PANES[pane]
                partition = content.get("partition")
                self._partition = partition if isinstance(partition, int) else None
                self._request = StreamRequest.of(content)
                if not self._request.choice:
                    self._search.forget()
                self._folds = FoldState(_node_numbers(content.get("opened")), _node_numbers(content.get("shut")))
                self._visible_range = _visible_range(content.get("first"), content.get("rows"))
                self._pump.hurry()
            case {"kind": "prepare"}:
                self._pump.soon(self._prepare_search)
            case {"kind": "bye", "client": str(client)}:
                self._client_panes.pop(client, None)
                self._pump.soon(self._on_page_closed)
            case _:
                return False
        return True

    def _report_repetition(self, problem: str) -> None:
        self._problem = problem
        self._pump.touch()

    def _on_page_closed(self) -> None:
        if not self._pump.is_open:
            self._watch(False)
            self._search.forget()

    def _build(self, number: int) -> bool:
        """Make and send frame `number`: everything since the last acknowledged frame; the newest rows have priority."""
        self._follow_source()
        if self._state != "dropped":
            self._watch(True)
        self._start_downloads()
        buffers = BinaryBuffers()
        self._clock = self._source.clock()
        once = self._why is not None or bool(self._match_requests)  # sent again until it was drawn
        frame = {**self._frame(number, answer=once), "clock": format_time(self._clock)}
        frame["feed"] = self._feed_number
        feed = self._feed
        for other in self._others:  # it tells again when it was read
            other.heard()
        if self._why is not None:
            frame["why"] = {"row": list(self._why), "html": self._source.why(*self._why)}
            self._answered_why = self._why, number
        if feed is not None:
            if not self._client_panes or "stream" in self._client_panes.values():
                frame["stream"] = self._stream(feed, number, buffers)
            else:  # it tells again when it was read
                feed.heard()
            if (page := self._found_rows(buffers)) is not None:
                frame["found"] = page
            # Counters are read after the deliveries: they may only be ahead of what is shown, never behind.
            frame["counts"] = {"inserted": feed.total_insert, "removed": feed.total_remove}
            if self._match_requests:
                frame["matches"] = [self._match_answer(feed, delivery) for delivery in self._match_requests]
                self._match_requests = {delivery: sent or number for delivery, sent in self._match_requests.items()}
            before = 0 if self._state == "ready" else self._ended
            if self._state in ("ready", "finished") and feed.deliveries > before and not self._source.past:
                self._state = "live"
        if self._replay is not None:  # a paused replay makes no slices that would tell
            self._take_state(self._replay.progress)
            self._pump.remind(REPLAY_INTERVAL)
        elif self._source.ticking:
            self._pump.remind(REPLAY_INTERVAL)
        frame["state"] = "past" if self._source.past and self._state != "dropped" else self._state
        frame["replaying"] = self._replay is not None and self._replay.progress.state == "running"
        if self._state != "dropped" and feed is not None and not feed.deliveries and (missed := self._source.missed()):
            frame["missed"] = {"text": f"No rows yet: {missed}.", "again": self._source.repeatable}
        if self._problem:
            frame["problem"] = self._problem
        panes = set(self._client_panes.values()) - {"stream"}
        if panes and self._state != "dropped":
            try:
                self._add_panes(frame, panes, buffers)
            except CepbookError as error:
                frame["problem"] = str(error)
        self.send(frame, buffers.parts)
        return True

    def _stream(self, feed: Feed, number: int, buffers: BinaryBuffers) -> dict[str, object]:
        """Return the rows that the page lacks: during a replay as many as are readable, at rest all that it keeps."""
        live = self._replay is not None and self._replay.progress.state == "running"
        most = min(self._keep, LIVE_ROWS) if live else self._keep
        if self._cut and not live:
            self._next, self._cut = 0, False
        first = max(self._next, feed.deliveries - most)
        deliveries = feed.columns(first, most)
        self._cut = self._cut or (live and first > self._next)
        numbers, cursor = deliveries.numbers, deliveries.cursor
        self._sent = {n: end for n, end in self._sent.items() if n > self._pump.acked}
        self._sent[number] = cursor
        return {
            "full": self._next == 0,
            "first": cursor - len(feed),
            "from": numbers[0] if numbers else cursor,
            "to": cursor,
            "count": len(numbers),
            "time": encode_values(self._source.all_ms(deliveries.times), buffers),
            "insert": encode_values(deliveries.inserts, buffers),
            "delivery": encode_values(numbers, buffers),
            "columns": [encode_values(deliveries.column(column.name), buffers) for column in self._columns],
        }

    def _found_rows(self, buffers: BinaryBuffers) -> dict[str, object] | None:
        """Return the rows of the stream that a page searches or sorts: of all that the kernel has."""
        if not self._request or "stream" not in self._client_panes.values() or self._state == "dropped":
            self._sheet = None
            return None
        feed, until = self._source.recorded
        names = [column.name for column in self._columns]
        if self._sheet is None or self._sheet.feed is not feed or list(self._sheet.names) != names:
            timed = [column.name for column in self._columns if column.kind == "time"]
            self._sheet = StreamSheet(feed, names, timed, self._source.second)
            self._sheet.begin(self._pump.hurry)
        if not self._sheet.is_read:
            return None
        self._sheet.refresh()
        return stream_page(self._sheet, self._request, until, self._visible_range, buffers)

    def _start_downloads(self) -> None:
        """Begin with the files that pages want. The rows are taken now, on the loop that runs the engine."""
        requests, self._requested_files = self._requested_files, []
        for request in requests:
            self._downloads = [download for download in self._downloads if download.runs]
            try:
                if len(self._downloads) >= MAX_DOWNLOADS:
                    raise UsageError(
                        f"{MAX_DOWNLOADS} downloads of this view are under way: wait for one, or cancel it"
                    )
                download = Download(request, self._source.name, self._source.file_rows(request), self.send)
            except CepbookError as error:
                self.send({"kind": "download", "id": request.id, "problem": printable(str(error))})
                continue
            self._downloads.append(download)
            download.start()

    def _match_answer(self, feed: Feed, number: int) -> dict[str, object]:
        """Return the events behind delivery `number`, as lines of text per match; `rows`: a match per insert row."""
        record = self._source.matches_of(number)
        delivery = next((d for d in feed.since(number).deliveries if d.number == number), None)
        rows = delivery.insert or [] if delivery is not None else []
        matches: Sequence[Mapping[str, object]] = () if record is None else record.matches
        tags = self._source.tags or ()
        if record is None and rows and any(isinstance(rows[0].get(tag), dict) for tag in tags):
            matches = [{tag: row.get(tag) for tag in tags} for row in rows]  # the rows hold the events themselves
        return {
            "delivery": number,
            "rows": len(matches) == len(rows),
            "total": len(matches) if record is None else record.total,
            "matches": [match_lines(match, self._source.times) for match in matches],
            "nothing": "Unknown: the events behind a row are recorded only while a view of the statement is open, "
            f"for the latest {RECORDED_DELIVERIES:,} deliveries."
            if record is None
            else "No events: the row is due to time or to a changed window.",
        }

    def _add_panes(self, frame: dict[str, object], panes: set[Pane], buffers: BinaryBuffers) -> None:
        if "partitions" in panes:
            frame["partitions"] = self._partition_pane(buffers) if self._source.partitioned else None
        if "waiting" in panes:
            waiting = self._source.partials(self._partition)
            columns, rows, lines = partial_rows(waiting, self._source.times)
            frame["waiting"] = {
                "total": waiting.total,
                "count": len(rows),
                "partition": self._partition,
                "names": [c.describe() for c in columns],
                "columns": encode_rows(rows, columns, buffers),
                "lines": lines,
            }
        if "window" in panes:
            frame["window"] = self._rows(self._columns, buffers)
        if "events" in panes:
            frame["events"] = self._window_events(buffers)

    def _rows(self, columns: tuple[ViewColumn, ...], buffers: BinaryBuffers) -> dict[str, object]:
        """Return the visible rows of the iterator: the newest, or those that the reader asked for."""
        if not self._request.choice:
            total, rows = self._source.latest(WINDOW_ROWS, self._partition, self._visible_range)
            return self._row_range(total, None, rows, columns, buffers)
        sheet = self._source.every(self._partition)
        choice, visible = self._request.choice, self._visible_range
        matches, chosen = self._search.rows(choice, visible, sheet, columns, declared=True)
        return self._row_range(len(sheet), matches, chosen, columns, buffers)

    def _window_events(self, buffers: BinaryBuffers) -> dict[str, object]:
        """Return the visible events of the window, likewise."""
        if not self._request.choice:
            total, names, rows = self._source.events(WINDOW_ROWS, self._partition, self._visible_range)
            columns = columns_of(names, rows, self._source.times)
            return {"names": [c.describe() for c in columns], **self._row_range(total, None, rows, columns, buffers)}
        sheet = self._source.every_event(self._partition)
        times, choice, visible = self._source.times, self._request.choice, self._visible_range
        named = columns_of(sheet.names, (), times)
        matches, chosen = self._search.rows(choice, visible, sheet, named, declared=False)
        columns = columns_of(sheet.names, chosen or sheet.rows(range(min(1, len(sheet)))), times)
        return {
            "names": [c.describe() for c in columns],
            **self._row_range(len(sheet), matches, chosen, columns, buffers),
        }

    def _prepare_search(self) -> None:
        """Read the columns of the rows before a word is typed."""
        self._follow_source()
        if self._state != "dropped" and "window" in self._client_panes.values() and not self._request.choice:
            with suppress(CepbookError):  # the search will report it
                self._search.prepare(self._source.every(self._partition), self._columns, declared=True)

    def _row_range(
        self,
        total: int,
        found: FoundRows | None,
        kept: Rows,
        columns: Sequence[ViewColumn],
        buffers: BinaryBuffers,
    ) -> dict[str, object]:
        """Return rows of a table of `count` rows, from `first` on."""
        searched = {} if found is None else {"found": len(found.places), "problems": found.problems}
        return {
            "total": total,
            **searched,
            "count": min(total, WINDOW_ROWS) if found is None else min(len(found.places), MAX_ROWS),
            "first": self._visible_range.start,
            "partition": self._partition,
            "columns": encode_rows(kept, columns, buffers),
        }

    def _partition_pane(self, buffers: BinaryBuffers) -> dict[str, object]:
        self._source.count(True)
        since = self._source.counted_since
        pane = self._partition_tree_rows(buffers) if self._source.levels else self._partition_table(buffers)
        return {**pane, "since": None if since is None else format_time(since)}

    def _partition_table(self, buffers: BinaryBuffers) -> dict[str, object]:
        choice = self._request.choice
        total, rows, matches = self._source.partitions(PARTITION_ROWS, choice, self._visible_range)
        columns = partition_columns(rows)
        return {
            "total": total,
            **({"found": matches} if choice.words else {}),
            "count": min(matches, PARTITION_ROWS),
            "first": self._visible_range.start,
            "names": [c.describe() for c in columns],
            "sizes": size_column_count(columns),
            "bar": bar_column(columns, choice.by),
            "columns": encode_rows(rows, columns, buffers),
        }

    def _partition_tree_rows(self, buffers: BinaryBuffers) -> dict[str, object]:
        """Return the visible lines of the partitions of a nested context."""
        choice = self._request.choice
        tree = self._source.outline(choice, self._folds, self._visible_range)
        lines = tree.lines
        columns = line_columns(lines[0].row if lines else ("id", "partition", "partitions"))
        parts: dict[str, list[int] | list[bool]] = {
            "number": [line.number for line in lines],
            "depth": [line.depth for line in lines],
            "opened": [line.opened for line in lines],
            "place": [line.place + 1 for line in lines],
            "siblings": [line.siblings for line in lines],
        }
        return {
            "total": tree.total,
            **({"found": tree.matching} if choice.words else {}),
            "count": tree.count,
            "first": self._visible_range.start,
            "names": [c.describe() for c in columns],
            "sizes": size_column_count(columns),
            "bar": bar_column(columns, choice.by),
            "columns": encode_rows([line.row for line in lines], columns, buffers),
            "tree": {name: encode_values(values, buffers) for name, values in parts.items()},
            "levels": [[name, count] for name, count in zip(self._source.levels, tree.levels, strict=False)],
        }


def _node_numbers(numbers: object) -> frozenset[int]:
    """Return the numbers in a message, no more than a reader can have clicked."""
    some = numbers[:FOLDS] if isinstance(numbers, list) else ()
    return frozenset(number for number in some if isinstance(number, int))


def _visible_range(first: object, rows: object) -> range:
    """Return the rows of a table that a page can display, as it reports; the first ones if it reports nothing."""
    if not (isinstance(first, int) and isinstance(rows, int)):
        return range(ROWS_SHOWN)
    return range(max(0, first), max(0, first) + max(1, min(rows, ROWS_SHOWN)))


def view(workbench: Workbench, name: str, *, keep: int = VIEW_ROWS, rate: float = 20.0) -> StatementView:
    """Return the live view of statement `name` of `workbench`. Raises UsageError if there is no such statement."""
    statement_view = StatementView(WorkbenchSource(workbench, name), keep=keep, rate=rate)
    workbench.glance.choose(name)
    return statement_view
