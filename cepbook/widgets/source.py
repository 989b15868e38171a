"""What a statement view needs to know of a statement, and where it gets it from in a workbench."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cepbook.engine.contexts.tally import Tally
from cepbook.engine.looking import Held, Latest, every, every_event, held, holds_events, latest
from cepbook.errors import CepbookError
from cepbook.feeds import Feed
from cepbook.session.inspect.matches import Made, MatchRecord
from cepbook.session.inspect.partials import Partials, partials_of, tags_of
from cepbook.session.inspect.partitions import key_names, levels_of
from cepbook.session.inspect.stores import users_of
from cepbook.session.inspect.times import Times
from cepbook.session.running.sinks import changed_columns, rows_of_feed
from cepbook.widgets.choose import Choice, Sheet
from cepbook.widgets.encode import Column
from cepbook.widgets.listing import Figures, PartitionSheet
from cepbook.widgets.live import Controllable
from cepbook.widgets.outline import Folds, Lines, Outline
from cepbook.widgets.taken import Form, file_of
from cepbook.widgets.why import shown as answer

if TYPE_CHECKING:
    from cepbook.session import Workbench

Rows = Sequence[Mapping[str, object]]

ALL = Choice()
NO_ROWS = "keeps no rows: no data window"
_RESULTS = {"fully_aggregated": "Result", "fully_aggregated_grouped": "Groups"}


class Listed(NamedTuple):
    """`rows` are some of `total` context partitions, of which `found` are those that were asked for."""

    total: int
    rows: Rows
    found: int


class ViewSource(Protocol):
    """A statement as a view sees it. Reading never changes the statement; every member may be read at any time."""

    @property
    def name(self) -> str:
        """The statement's name."""

    @property
    def epl(self) -> str:
        """The statement's own text."""

    @property
    def columns(self) -> Sequence[Column]:
        """The output columns in order."""

    @property
    def times(self) -> frozenset[str]:
        """The properties of the events of its window that hold times in ms."""

    @property
    def feed(self) -> Feed:
        """The deliveries; a different object after the statement was deployed anew."""

    @property
    def delivers(self) -> bool:
        """Whether it has a stream: a table has rows only."""

    @property
    def fed_by(self) -> Sequence[Feed]:
        """The feeds of others whose deliveries tell that `rows` are others: of those who fill a table."""

    @property
    def keeps_rows(self) -> bool:
        """Whether `rows` can ever show any: not without a data window, unless all is aggregated to one row."""

    def clock(self) -> int:
        """The engine's time in ms."""

    @property
    def ticking(self) -> bool:
        """Whether real time drives the clock, so that it moves without events."""

    def ms(self, time: int) -> int:
        """A time of a delivery, which is in units of the clock, in ms."""

    def all_ms(self, times: Sequence[int]) -> Sequence[int]:
        """Times of deliveries in ms."""

    @property
    def results(self) -> str | None:
        """What the rows of the iterator are called where they are not the events of the window; None: they are."""

    def outline(self, choice: Choice, folds: Folds, shown: range) -> Lines:
        """The partitions of a nested context as lines of a tree, of which those at the places `shown`."""

    def every(self, partition: int | None = None) -> Sheet:
        """All rows that the statement's iterator shows now, of one context partition or of all."""

    def every_event(self, partition: int | None = None) -> Sheet:
        """Likewise all events of the window, where `results` are not these."""

    def latest(self, most: int, partition: int | None = None, shown: range | None = None) -> Latest:
        """Of the last `most` of these rows those with the places `shown` (None: all), at a cost that does not depend
        on how many there are."""

    def events(self, most: int, partition: int | None = None, shown: range | None = None) -> Held:
        """Likewise of the events of the window, where `results` are not these."""

    @property
    def levels(self) -> Sequence[str]:
        """The levels of a nested context, outermost first; none of any other."""

    @property
    def tags(self) -> Sequence[str] | None:
        """The tags of a pattern; None of a statement without one."""

    @property
    def traced(self) -> bool:
        """Whether it can be told which events made a row: those of a match of its pattern, or of its join."""

    @property
    def partitioned(self) -> bool:
        """Whether the statement has a context."""

    def partitions(self, most: int | None = None, choice: Choice = ALL, shown: range | None = None) -> Listed:
        """Of the first `most` context partitions (None: all) that were asked for, in that order or by id, those with
        the places `shown`: ``id``, properties (of a level as ``PerDay.symbol``), `SEEN` while events are counted, and
        of `SIZES` those that it has: ``events`` of windows, ``groups``, of a pattern ``waiting`` (partial matches).
        Keys have the names of their properties."""

    @property
    def counted_since(self) -> int | None:
        """Since when (ms) events of partitions are counted, if some may have come before; None: not, or all are."""

    def count(self, looking: bool) -> None:
        """Begin to count the events of context partitions, or end it: then it costs nothing."""

    def partials(self, partition: int | None = None) -> Partials:
        """What a pattern waits for, in one context partition or in all."""

    def pulse(self) -> object:
        """A value that changes when partitions or partial matches come or go, also where nothing is delivered."""

    def watch(self, looking: bool) -> None:
        """Begin to keep which matches make a delivery of a pattern, or end it: then it costs nothing."""

    def made(self, delivery: int) -> Made | None:
        """The matches behind a delivery; None when they were not kept."""

    def why(self, delivery: int, behind: int, insert: bool) -> str:
        """As HTML why a row was delivered: that of `delivery` behind which so many of its side follow there."""

    def taken(self, form: Form, *, stream: bool, partition: int | None = None) -> tuple[int, bytes]:
        """The rows of the `stream` that are known, or those of the iterator, as a file; and how many rows it has."""

    def replay(self) -> Controllable | None:
        """The replay that is under way, which the view then follows to its end."""

    @property
    def past(self) -> bool:
        """Whether all this is of a past instant: somebody scrubs."""

    def on_glance(self, method: Callable[[], object], *, to_replays: bool = False) -> None:
        """Call a bound method when the instant changes, or else when a replay was made."""


class WorkbenchSource:
    """A `ViewSource` over statement `name` of a workbench. Raises UsageError when there is no such statement."""

    def __init__(self, workbench: Workbench, name: str) -> None:
        self._workbench = workbench
        self._statement = name
        self._record: MatchRecord | None = None
        self._tally: tuple[Any, Tally] | None = None
        self._counts_all = True  # no partition lived when it began
        self._was: tuple[Workbench, Feed] | None = None
        self._outline = Outline()
        self._timed: tuple[object, tuple[frozenset[str], frozenset[str]]] | None = None
        self._runtime.statement(name)

    @property
    def _runtime(self) -> Any:
        return (self._workbench.glance.workbench or self._workbench).runtime  # `reset` makes a new one

    @property
    def past(self) -> bool:
        return self._workbench.glance.workbench is not None

    def on_glance(self, method: Callable[[], object], *, to_replays: bool = False) -> None:
        self._workbench.glance.subscribe(method, to_replays=to_replays)

    @property
    def name(self) -> str:
        return self._statement

    @property
    def epl(self) -> str:
        return str(self._runtime.statement(self._statement).epl)

    @property
    def columns(self) -> Sequence[Column]:
        properties = self._runtime.statement(self._statement).output_type.properties
        times = self._known_times[0]
        return tuple(Column(name, str(kind), name in times) for name, kind in properties.items())

    @property
    def times(self) -> frozenset[str]:
        return self._known_times[1]

    @property
    def _known_times(self) -> tuple[frozenset[str], frozenset[str]]:
        """Of its columns, and of the properties of the events that it reads, those that hold times in ms."""
        runtime = self._runtime
        if self._timed is None or self._timed[0] != (runtime, runtime.version):
            times = Times(runtime, ms=True)
            found = times.of_statement(self._statement), times.of_events(self._statement)
            self._timed = (runtime, runtime.version), found
        return self._timed[1]

    @property
    def feed(self) -> Feed:
        feed: Feed = self._workbench.feed(self._statement)
        glance = self._workbench.glance
        if glance.workbench is None or glance.time is None:
            self._was = None
            return feed
        if self._was is None or self._was[0] is not glance.workbench:
            until = feed.until(glance.time)
            self._was = glance.workbench, until
        return self._was[1]

    @property
    def delivers(self) -> bool:
        store = self._runtime.statement(self._statement).owned
        return store is None or store.type.kind != "table"

    @property
    def fed_by(self) -> Sequence[Feed]:
        if self.delivers:
            return ()
        users = users_of(self._runtime, self._runtime.statement(self._statement).owned)
        return [self._workbench.feed(name) for name in dict.fromkeys((*users["filled"], *users["changed"]))]

    @property
    def keeps_rows(self) -> bool:
        return self._workbench.keeps_rows(self._statement)

    def clock(self) -> int:
        return self.ms(self._runtime.now)

    @property
    def ticking(self) -> bool:
        return self._workbench.live_clock is not None and not self.past

    def ms(self, time: int) -> int:
        return time * 1000 // int(self._runtime.config.second)

    def all_ms(self, times: Sequence[int]) -> Sequence[int]:
        second = int(self._runtime.config.second)
        return times if second == 1000 else [time * 1000 // second for time in times]

    def every(self, partition: int | None = None) -> Sheet:
        return every(self._runtime.statement(self._statement), None if partition is None else (partition,))

    def every_event(self, partition: int | None = None) -> Sheet:
        return every_event(self._runtime.statement(self._statement), None if partition is None else (partition,))

    @property
    def results(self) -> str | None:
        statement = self._runtime.statement(self._statement)
        return _RESULTS.get(statement.steps.kind, "Rows") if holds_events(statement) else None

    def latest(self, most: int, partition: int | None = None, shown: range | None = None) -> Latest:
        wanted = None if partition is None else (partition,)
        return latest(self._runtime.statement(self._statement), most, wanted, shown)

    def events(self, most: int, partition: int | None = None, shown: range | None = None) -> Held:
        wanted = None if partition is None else (partition,)
        return held(self._runtime.statement(self._statement), most, wanted, shown)

    @property
    def _context(self) -> str | None:
        context: str | None = self._runtime.statement(self._statement).steps.context
        return context

    @property
    def levels(self) -> Sequence[str]:
        return () if self._context is None else levels_of(self._runtime, self._context)

    @property
    def tags(self) -> Sequence[str] | None:
        return tags_of(self._runtime, self._statement)

    @property
    def traced(self) -> bool:
        return self.tags is not None or self._runtime.statement(self._statement).steps.join is not None

    @property
    def partitioned(self) -> bool:
        return self._context is not None

    def partitions(self, most: int | None = None, choice: Choice = ALL, shown: range | None = None) -> Listed:
        context = self._context
        if context is None:
            return Listed(0, [], 0)
        running = self._runtime.context(context)
        sheet = PartitionSheet(running, key_names(self._runtime, context), self._figures(running))
        found = choice.found(sheet, sheet.texts)
        kept = choice.first(sheet, found, len(found) if most is None else most)
        return Listed(len(sheet), sheet.rows(kept if shown is None else kept[shown.start : shown.stop]), len(found))

    def outline(self, choice: Choice, folds: Folds, shown: range) -> Lines:
        context = self._context
        assert context is not None
        running = self._runtime.context(context)
        figures = self._figures(running)
        return self._outline.look(running, key_names(self._runtime, context), figures, choice, folds, shown)

    def _figures(self, running: Any) -> Figures:
        """What is known of the events of partitions, and how large these are."""
        tally = self._tally[1] if self._tally is not None and self._tally[0] is running else None
        statement = self._runtime.statement(self._statement)
        return Figures(statement, self._runtime.now, tally, int(self._runtime.config.second))

    @property
    def counted_since(self) -> int | None:
        if self._tally is None or self.past or self._counts_all:
            return None
        return self._tally[1].since * 1000 // int(self._runtime.config.second)

    def count(self, looking: bool) -> None:
        if looking and self.past:
            return
        context = self._context if looking else None
        running = None if context is None else self._runtime.context(context)
        if self._tally is not None and self._tally[0] is not running:
            counted, tally = self._tally
            self._tally = None
            counted.tallies.remove(tally)
            self._runtime.rewired()
        if running is not None and self._tally is None:
            living = *running.partitions.values(), *(running.around_all() if self.levels else ())
            self._tally, self._counts_all = (running, Tally(self._runtime.now, living)), not living
            running.tallies.append(self._tally[1])
            self._runtime.rewired()

    def partials(self, partition: int | None = None) -> Partials:
        return partials_of(self._runtime, self._statement, partition)

    def pulse(self) -> object:
        statement, context = self._runtime.statement(self._statement), self._context
        partitions = {} if context is None else self._runtime.context(context).partitions
        newest = next(reversed(partitions.values())).id if partitions else None  # in order of allocation
        return len(partitions), newest, statement.pulse(), sum(feed.deliveries for feed in self.fed_by)

    def watch(self, looking: bool) -> None:
        record = self._record
        if looking and (self.past or (record is not None and record.is_of(self._runtime.statement(self._statement)))):
            return
        self._record = None
        if record is not None:
            record.end()
        if looking:
            self._record = MatchRecord(self._runtime.statement(self._statement), self.feed)
            self._record.begin()

    def made(self, delivery: int) -> Made | None:
        return None if self._record is None else self._record.of(delivery)

    def why(self, delivery: int, behind: int, insert: bool) -> str:
        try:
            return answer(self._workbench.why_row(self._statement, delivery, behind, insert=insert)).html
        except CepbookError as error:
            return f"<div>{escape(str(error))}</div>"

    def taken(self, form: Form, *, stream: bool, partition: int | None = None) -> tuple[int, bytes]:
        types = dict(self._runtime.statement(self._statement).output_type.properties)
        if stream:
            changed = rows_of_feed(self.feed, types)
            return len(changed), file_of(changed, changed_columns(types), form, self._statement)
        sheet = self.every(partition)
        rows = list(zip(*map(sheet.column, types), strict=True))
        return len(rows), file_of(rows, types, form, self._statement)

    def replay(self) -> Controllable | None:
        return self._workbench.replaying
