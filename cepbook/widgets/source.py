"""What a statement view needs to know of a statement, and where it gets it from in a workbench."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cepbook.engine.contexts.tally import Tally
from cepbook.engine.looking import Held, Latest, held, holds_events, latest
from cepbook.errors import CepbookError
from cepbook.feeds import Feed
from cepbook.session.matches import Made, MatchRecord
from cepbook.session.partials import Partials, partials_of, tags_of
from cepbook.session.partitions import described, key_names, levels_of
from cepbook.session.selectors import ById
from cepbook.session.stores import users_of
from cepbook.widgets.encode import Column
from cepbook.widgets.live import Controllable
from cepbook.widgets.why import shown as answer

if TYPE_CHECKING:
    from cepbook.session import Workbench

Rows = Sequence[Mapping[str, object]]

NO_ROWS = "keeps no rows: no data window"
SIZES = ("events", "groups", "waiting")
SEEN = ("last event", "arrived", "per second")
_RESULTS = {"fully_aggregated": "Result", "fully_aggregated_grouped": "Groups"}


class Listed(NamedTuple):
    """`rows` are some of `total` context partitions."""

    total: int
    rows: Rows


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
    def feed(self) -> Feed:
        """The deliveries; a different object after the statement was deployed anew."""

    @property
    def fed_by(self) -> Sequence[Feed]:
        """The feeds of others whose deliveries tell that `rows` are others: of those who fill a table."""

    @property
    def keeps_rows(self) -> bool:
        """Whether `rows` can ever show any: not without a data window, unless all is aggregated to one row."""

    def clock(self) -> int:
        """The engine's time in ms."""

    def ms(self, time: int) -> int:
        """A time of a delivery, which is in units of the clock, in ms."""

    @property
    def results(self) -> str | None:
        """What the rows of the iterator are called where they are not the events of the window; None: they are."""

    def rows(self, partition: int | None = None) -> Rows:
        """What the statement's iterator shows now, of one context partition or of all."""

    def latest(self, most: int, partition: int | None = None) -> Latest:
        """The last `most` of these rows, at a cost that does not depend on how many there are."""

    def events(self, most: int, partition: int | None = None) -> Held:
        """The last `most` events of the window, where `results` are not these."""

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

    def partitions(self, most: int | None = None) -> Listed:
        """The first `most` context partitions by id (None: all): ``id``, properties (of a level as ``PerDay.symbol``),
        `SEEN` while events are counted, and of `SIZES` those that it has: ``events`` of windows, ``groups``, of a
        pattern ``waiting`` (partial matches). Keys have the names of their properties."""

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

    def replay(self) -> Controllable | None:
        """The replay that is under way, which the view then follows to its end."""

    @property
    def past(self) -> bool:
        """Whether all this is of a past instant: somebody scrubs."""

    def on_glance(self, method: Callable[[], object]) -> None:
        """Call a bound method when the instant changes."""


class WorkbenchSource:
    """A `ViewSource` over statement `name` of a workbench. Raises UsageError when there is no such statement."""

    def __init__(self, workbench: Workbench, name: str) -> None:
        self._workbench = workbench
        self._statement = name
        self._record: MatchRecord | None = None
        self._tally: tuple[Any, Tally] | None = None
        self._was: tuple[Workbench, Feed] | None = None
        self._runtime.statement(name)

    @property
    def _runtime(self) -> Any:
        return (self._workbench.glance.workbench or self._workbench).runtime  # `reset` makes a new one

    @property
    def past(self) -> bool:
        return self._workbench.glance.workbench is not None

    def on_glance(self, method: Callable[[], object]) -> None:
        self._workbench.glance.subscribe(method)

    @property
    def name(self) -> str:
        return self._statement

    @property
    def epl(self) -> str:
        return str(self._runtime.statement(self._statement).epl)

    @property
    def columns(self) -> Sequence[Column]:
        properties = self._runtime.statement(self._statement).output_type.properties
        return tuple(Column(name, str(kind)) for name, kind in properties.items())

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
    def fed_by(self) -> Sequence[Feed]:
        store = self._runtime.statement(self._statement).owned
        if store is None or store.type.kind != "table":
            return ()
        users = users_of(self._runtime, store)
        return [self._workbench.feed(name) for name in dict.fromkeys((*users["filled"], *users["changed"]))]

    @property
    def keeps_rows(self) -> bool:
        return self._workbench.keeps_rows(self._statement)

    def clock(self) -> int:
        return self.ms(self._runtime.now)

    def ms(self, time: int) -> int:
        return time * 1000 // int(self._runtime.config.second)

    def rows(self, partition: int | None = None) -> Rows:
        if partition is None:
            return list(self._runtime.iterate(self._statement))
        found = self._runtime.iterate_partitions(self._statement, ById(partition))
        return [row for _, rows in found for row in rows]

    @property
    def results(self) -> str | None:
        statement = self._runtime.statement(self._statement)
        return _RESULTS.get(statement.steps.kind, "Rows") if holds_events(statement) else None

    def latest(self, most: int, partition: int | None = None) -> Latest:
        return latest(self._runtime.statement(self._statement), most, None if partition is None else (partition,))

    def events(self, most: int, partition: int | None = None) -> Held:
        return held(self._runtime.statement(self._statement), most, None if partition is None else (partition,))

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

    def partitions(self, most: int | None = None) -> Listed:
        context = self._context
        if context is None:
            return Listed(0, [])
        running = self._runtime.context(context)
        shown = list(islice(running.identities(), most))
        ids = None if most is None else {partition.id for partition in shown}
        names = key_names(self._runtime, context)
        sizes = self._sizes(ids)
        seen = self._seen(running)
        rows = [{"id": p.id, **_named(described(p), names), **seen(p.id), **sizes[p.id]} for p in shown]
        return Listed(len(running.partitions), rows)

    def _sizes(self, ids: set[int] | None) -> dict[int, dict[str, int]]:
        """By partition id: events of windows where there are any, groups, partial matches."""
        statement, found = self._runtime.statement(self._statement), {}
        windows = bool(statement.steps.windows or statement.steps.inputs)
        for state in self._runtime.state(self._statement, ids, partials=0):
            sizes = found[state["partition"]] = {"events": state["retained"]} if windows else {}
            if state["groups"] is not None:
                sizes["groups"] = state["groups"]
            if "partials" in state:
                sizes["waiting"] = state["partials"]["total"]
        return found

    def _seen(self, running: Any) -> Callable[[int], dict[str, object]]:
        """What is known of the events of a partition, since they are counted."""
        if self._tally is None or self._tally[0] is not running:
            return lambda _: {}  # of the past only what is held is known
        tally = self._tally[1]
        tally.forget_ended()
        counts = {p.id: n for p, n in tally.counts.items() if p is not None}
        last = {p.id: time for p, time in tally.last.items() if p is not None}
        seconds = (self._runtime.now - tally.since) / self._runtime.config.second

        def seen(id_: int) -> dict[str, object]:
            arrived, time = counts.get(id_, 0), last.get(id_)
            rate = arrived / seconds if seconds > 0 else None
            return dict(zip(SEEN, (None if time is None else self.ms(time), arrived, rate), strict=True))

        return seen

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
            self._tally = running, Tally(self._runtime.now)
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

    def replay(self) -> Controllable | None:
        return self._workbench.replaying


def _named(properties: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Built-in properties by the names that people know; one may be called as a size is."""
    shown = ((names.get(name, name), value) for name, value in properties.items())
    return {f"{name}_" if name in (*SIZES, *SEEN) else name: value for name, value in shown}
