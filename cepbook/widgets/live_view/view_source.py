"""The data that a statement view displays, and its source in a workbench."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any, NamedTuple

from cepbook.display import format_count
from cepbook.engine.contexts.partition import PartitionCounts
from cepbook.engine.inspection.visible_rows import (
    LatestRows,
    WindowEvents,
    all_rows,
    all_window_events,
    has_window_events,
    latest_rows,
    window_events,
)
from cepbook.errors import CepbookError
from cepbook.feeds import Feed
from cepbook.session import Replay, ReplayResult, Workbench
from cepbook.session.inspect.match_record import DeliveryMatches, MatchRecord
from cepbook.session.inspect.partial_matches import PartialMatches, partial_matches, pattern_tags
from cepbook.session.inspect.partition_table import context_levels, key_names
from cepbook.session.inspect.store_table import store_users
from cepbook.session.inspect.time_columns import TimeColumns, statement_output
from cepbook.widgets.base.column_encoding import ViewColumn
from cepbook.widgets.base.static_picture import answer_picture as answer
from cepbook.widgets.live_view.download import DownloadRequest
from cepbook.widgets.live_view.file_rows import FileRows
from cepbook.widgets.live_view.partition_sheet import PartitionFigures, PartitionSheet
from cepbook.widgets.live_view.partition_tree import FoldState, PartitionTree, TreeLines
from cepbook.widgets.live_view.row_filter import NO_FILTER, RowFilter, RowSheet, SheetColumns

Rows = Sequence[Mapping[str, object]]

_RESULTS = {"fully_aggregated": "Result", "fully_aggregated_grouped": "Groups"}


class PartitionList(NamedTuple):
    """Some `rows` of `total` context partitions, `matching` of which match the request."""

    total: int
    rows: Rows
    matching: int


class WorkbenchSource:
    """Statement `name` of a workbench, as a view sees it. Raises UsageError if there is no such statement.

    Reading never changes the statement; every member may be read at any time.
    """

    def __init__(self, workbench: Workbench, name: str) -> None:
        self._workbench = workbench
        self._statement = name
        self._record: MatchRecord | None = None
        self._counting: tuple[Any, PartitionCounts] | None = None
        self._counted_from_start = True  # no partition lived when it began
        self._past_feed: tuple[Workbench, Feed] | None = None
        self._outline = PartitionTree()
        self._timed: tuple[object, tuple[frozenset[str], frozenset[str]]] | None = None
        self._repetition: asyncio.Future[ReplayResult] | None = None  # of replays
        self._runtime.statement(name)

    @property
    def _runtime(self) -> Any:
        return (self._workbench.glance.workbench or self._workbench).runtime  # `reset` makes a new one

    @property
    def past(self) -> bool:
        """True if everything is of a past instant, which the replay bar displays."""
        return self._workbench.glance.workbench is not None

    def on_glance(self, method: Callable[[], object], *, to_replays: bool = False) -> None:
        """Call a bound method when the instant changes, or else when a replay was made."""
        self._workbench.glance.subscribe(method, to_replays=to_replays)

    @property
    def name(self) -> str:
        """The statement's name."""
        return self._statement

    @property
    def epl(self) -> str:
        """The statement's own text."""
        return str(self._runtime.statement(self._statement).epl)

    @property
    def columns(self) -> Sequence[ViewColumn]:
        """The output columns in order."""
        properties = self._runtime.statement(self._statement).output_type.properties
        times = self._known_times[0]
        return tuple(ViewColumn(name, str(kind), name in times) for name, kind in properties.items())

    @property
    def times(self) -> frozenset[str]:
        """The properties of the events of its window that hold times in ms."""
        return self._known_times[1]

    @property
    def _known_times(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the columns, and the properties of the events that it reads, that hold times in ms."""
        runtime = self._runtime
        if self._timed is None or self._timed[0] != (runtime, runtime.version):
            times = TimeColumns(runtime, ms=True)
            names = times.of_statement(self._statement), times.of_events(self._statement)
            self._timed = (runtime, runtime.version), names
        return self._timed[1]

    @property
    def feed(self) -> Feed:
        """The deliveries; a different object after the statement was deployed anew."""
        feed: Feed = self._workbench.feed(self._statement)
        glance = self._workbench.glance
        if glance.workbench is None or glance.time is None:
            self._past_feed = None
            return feed
        if self._past_feed is None or self._past_feed[0] is not glance.workbench:
            until = feed.until(glance.time)
            self._past_feed = glance.workbench, until
        return self._past_feed[1]

    @property
    def delivers(self) -> bool:
        """True if it has a stream; a table has rows only."""
        return bool(self._runtime.statement(self._statement).delivers)

    @property
    def fed_by(self) -> Sequence[Feed]:
        """The feeds whose deliveries announce changes of the rows: those of statements that fill a table."""
        if self.delivers:
            return ()
        users = store_users(self._runtime, self._runtime.statement(self._statement).owned)
        return [self._workbench.feed(name) for name in dict.fromkeys((*users["filled"], *users["changed"]))]

    @property
    def keeps_rows(self) -> bool:
        """True if there can be rows: the statement has a data window, or aggregates all events to one row."""
        return self._workbench.keeps_rows(self._statement)

    def clock(self) -> int:
        """Return the engine's time in ms."""
        return self.ms(self._runtime.now)

    @property
    def ticking(self) -> bool:
        """True if real time drives the clock, so that it moves without events."""
        return self._workbench.live_clock is not None and not self.past

    def ms(self, time: int) -> int:
        """Return a time of a delivery, which is in clock units, in ms."""
        return time * 1000 // int(self._runtime.config.second)

    def all_ms(self, times: Sequence[int]) -> Sequence[int]:
        """Return times of deliveries in ms."""
        second = int(self._runtime.config.second)
        return times if second == 1000 else [time * 1000 // second for time in times]

    def every(self, partition: int | None = None) -> RowSheet:
        """Return all rows of the statement's iterator, of one context partition or of all."""
        return all_rows(self._runtime.statement(self._statement), None if partition is None else (partition,))

    def every_event(self, partition: int | None = None) -> RowSheet:
        """Return likewise all events of the window, if `results` are not these."""
        return all_window_events(self._runtime.statement(self._statement), None if partition is None else (partition,))

    @property
    def results(self) -> str | None:
        """The title of the rows of the iterator if they are not the events of the window; else None."""
        statement = self._runtime.statement(self._statement)
        return _RESULTS.get(statement.steps.kind, "Rows") if has_window_events(statement) else None

    def latest(self, most: int, partition: int | None = None, shown: range | None = None) -> LatestRows:
        """Return those of the last `most` rows at the places `shown` (None: all), at a cost that does not grow with
        their number.
        """
        selector = None if partition is None else (partition,)
        return latest_rows(self._runtime.statement(self._statement), most, selector, shown)

    def events(self, most: int, partition: int | None = None, shown: range | None = None) -> WindowEvents:
        """Return likewise events of the window, if `results` are not these."""
        selector = None if partition is None else (partition,)
        return window_events(self._runtime.statement(self._statement), most, selector, shown)

    @property
    def _context(self) -> str | None:
        context: str | None = self._runtime.statement(self._statement).steps.context
        return context

    @property
    def levels(self) -> Sequence[str]:
        """The levels of a nested context, outermost first; none for any other context."""
        return () if self._context is None else context_levels(self._runtime, self._context)

    @property
    def tags(self) -> Sequence[str] | None:
        """The tags of a pattern; None for a statement without one."""
        return pattern_tags(self._runtime, self._statement)

    @property
    def traced(self) -> bool:
        """True if it is known which events made a row: those of a match of its pattern, or of its join."""
        return self.tags is not None or self._runtime.statement(self._statement).steps.join is not None

    @property
    def partitioned(self) -> bool:
        """True if the statement has a context."""
        return self._context is not None

    def partitions(
        self, most: int | None = None, choice: RowFilter = NO_FILTER, shown: range | None = None
    ) -> PartitionList:
        """Return those of the first `most` matching context partitions (None: all) at the places `shown`.

        They are in the requested order, or by id. A row has ``id``, properties (of a level as ``PerDay.symbol``),
        `EVENT_COLUMNS` while events are counted, and those of `SIZE_COLUMNS` that apply: ``events`` of windows,
        ``groups``, of a pattern ``waiting`` (partial matches). Keys have the names of their properties.
        """
        context = self._context
        if context is None:
            return PartitionList(0, [], 0)
        running = self._runtime.context(context)
        sheet = PartitionSheet(running, key_names(self._runtime, context), self._figures(running))
        columns = SheetColumns(sheet)
        places = choice.found(columns, sheet.texts).places
        visible = choice.first(columns, places, len(places) if most is None else most).tolist()
        return PartitionList(
            len(sheet), sheet.rows(visible if shown is None else visible[shown.start : shown.stop]), len(places)
        )

    def outline(self, choice: RowFilter, folds: FoldState, shown: range) -> TreeLines:
        """Return the lines at the places `shown` of the tree of a nested context's partitions."""
        context = self._context
        assert context is not None
        running = self._runtime.context(context)
        figures = self._figures(running)
        return self._outline.look(running, key_names(self._runtime, context), figures, choice, folds, shown)

    def _figures(self, running: Any) -> PartitionFigures:
        """Return figures about the events of partitions, and their sizes."""
        tally = self._counting[1] if self._counting is not None and self._counting[0] is running else None
        statement = self._runtime.statement(self._statement)
        return PartitionFigures(statement, self._runtime.now, tally, int(self._runtime.config.second))

    @property
    def counted_since(self) -> int | None:
        """The time (ms) since which events of partitions are counted, if earlier ones may be missing; else None."""
        if self._counting is None or self.past or self._counted_from_start:
            return None
        return self._counting[1].since * 1000 // int(self._runtime.config.second)

    def count(self, looking: bool) -> None:
        """Start to count the events of context partitions, or stop; then it costs nothing."""
        if looking and self.past:
            return
        context = self._context if looking else None
        running = None if context is None else self._runtime.context(context)
        if self._counting is not None and self._counting[0] is not running:
            counted, tally = self._counting
            self._counting = None
            counted.event_counters.remove(tally)
            self._runtime.rewired()
        if running is not None and self._counting is None:
            living = *running.partitions.values(), *(running.outer_nodes() if self.levels else ())
            self._counting, self._counted_from_start = (running, PartitionCounts(self._runtime.now, living)), not living
            running.event_counters.append(self._counting[1])
            self._runtime.rewired()

    def partials(self, partition: int | None = None) -> PartialMatches:
        """Return the partial matches of a pattern, in one context partition or in all."""
        return partial_matches(self._runtime, self._statement, partition)

    def pulse(self) -> object:
        """Return a value that changes when partitions or partial matches come or go, even if nothing is delivered."""
        statement, context = self._runtime.statement(self._statement), self._context
        partitions = {} if context is None else self._runtime.context(context).partitions
        newest = next(reversed(partitions.values())).id if partitions else None  # in order of allocation
        return len(partitions), newest, statement.pulse(), sum(feed.deliveries for feed in self.fed_by)

    def watch(self, looking: bool) -> None:
        """Start to record which matches make a delivery of a pattern, or stop; then it costs nothing."""
        record = self._record
        if looking and (self.past or (record is not None and record.is_of(self._runtime.statement(self._statement)))):
            return
        self._record = None
        if record is not None:
            record.end()
        if looking:
            self._record = MatchRecord(self._runtime.statement(self._statement), self.feed)
            self._record.begin()

    def matches_of(self, delivery: int) -> DeliveryMatches | None:
        """Return the matches behind a delivery; None if they were not recorded."""
        return None if self._record is None else self._record.of(delivery)

    def why(self, delivery: int, behind: int, insert: bool) -> str:
        """Return HTML that explains why a row was delivered; `behind` rows of its side follow it in `delivery`."""
        try:
            return answer(self._workbench.why_row(self._statement, delivery, behind, insert=insert)).html
        except CepbookError as error:
            return f"<div>{escape(str(error))}</div>"

    @property
    def recorded(self) -> tuple[Feed, int | None]:
        """All deliveries, and the clock time of the instant that is displayed; None: now."""
        return self._workbench.feed(self._statement), self._workbench.glance.time

    @property
    def second(self) -> int:
        """Units of the clock per second."""
        return int(self._runtime.config.second)

    def file_rows(self, request: DownloadRequest) -> Callable[[], FileRows]:
        """Return the function that reads the rows for a file. It may be called in any thread."""
        types, time = statement_output(self._runtime, self._statement)
        timed, rows = self._known_times[0], request.rows
        if request.stream:
            feed, until = self.recorded
            return partial(rows.of_stream, feed, until, types, time, timed, self.second)
        return partial(rows.of_sheet, self.every(request.partition), types, timed)

    def missed(self) -> str:
        """Return the reason why there are no rows if all events came before the statement was deployed, else ""."""
        events = 0 if self.past or not self.delivers else self._workbench.events_before(self._statement)
        return f"{format_count(events, 'event')} came before this statement was deployed" if events else ""

    @property
    def repeatable(self) -> bool:
        """True if `replay_again` can repeat what was replayed."""
        return not self._workbench.not_repeatable

    def replay_again(self, ended: Callable[[str], object]) -> None:
        """Rewind the workbench and repeat its replays on the event loop. Call `ended` with the error, or ""."""

        def report(task: asyncio.Future[ReplayResult]) -> None:
            failure = None if task.cancelled() else task.exception()
            ended("" if failure is None else str(failure))

        self._repetition = asyncio.ensure_future(self._workbench.replay_again())
        self._repetition.add_done_callback(report)

    def replay(self) -> Replay[Any] | None:
        """Return the running replay, which the view then follows to its end."""
        return self._workbench.replaying


ViewSource = WorkbenchSource
"""The type of a view's source; anything with the same members will do."""
