"""What a statement view needs to know of a statement, and where it gets it from in a workbench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cepbook.feeds import Feed
from cepbook.session.matches import Made, MatchRecord
from cepbook.session.partials import Partials, partials_of, tags_of
from cepbook.session.partitions import described, levels_of
from cepbook.session.selectors import ById
from cepbook.session.stores import users_of
from cepbook.widgets.encode import Column
from cepbook.widgets.live import Controllable

if TYPE_CHECKING:
    from cepbook.session import Workbench

Rows = Sequence[Mapping[str, object]]

NO_ROWS = "keeps no rows: no data window"
SIZES = ("rows", "waiting")


class Listed(NamedTuple):
    """`total` context partitions, of which `rows` are the first."""

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

    def rows(self, partition: int | None = None) -> Rows:
        """What the statement's iterator shows now, of one context partition or of all."""

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

    def partitions(self, most: int) -> Listed:
        """The first `most` context partitions by id: ``id``, properties (of a level as ``PerDay.key1``), and `SIZES`:
        ``rows`` (how many the iterator shows), of a pattern ``waiting`` (partial matches)."""

    def partials(self, partition: int | None = None) -> Partials:
        """What a pattern waits for, in one context partition or in all."""

    def pulse(self) -> object:
        """A value that changes when partitions or partial matches come or go, also where nothing is delivered."""

    def watch(self, looking: bool) -> None:
        """Begin to keep which matches make a delivery of a pattern, or end it: then it costs nothing."""

    def made(self, delivery: int) -> Made | None:
        """The matches behind a delivery; None when they were not kept."""

    def replay(self) -> Controllable | None:
        """The replay that is under way, which the view then follows to its end."""


class WorkbenchSource:
    """A `ViewSource` over statement `name` of a workbench. Raises UsageError when there is no such statement."""

    def __init__(self, workbench: Workbench, name: str) -> None:
        self._workbench = workbench
        self._statement = name
        self._record: MatchRecord | None = None
        self._runtime.statement(name)

    @property
    def _runtime(self) -> Any:
        return self._workbench.runtime  # `reset` makes a new one

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
        return feed

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

    def partitions(self, most: int) -> Listed:
        context = self._context
        if context is None:
            return Listed(0, [])
        running = self._runtime.context(context)
        shown = list(islice(running.identities(), most))
        ids = [partition.id for partition in shown]
        chosen = self._runtime.iterate_partitions(self._statement, ById(*ids))
        sizes = {number: {"rows": len(rows)} for number, rows in chosen}
        if self.tags is not None:
            for state in self._runtime.state(self._statement, set(ids), partials=0):
                sizes[state["partition"]]["waiting"] = state["partials"]["total"]
        return Listed(len(running.partitions), [{"id": p.id, **_named(described(p)), **sizes[p.id]} for p in shown])

    def partials(self, partition: int | None = None) -> Partials:
        return partials_of(self._runtime, self._statement, partition)

    def pulse(self) -> object:
        statement, context = self._runtime.statement(self._statement), self._context
        partitions = {} if context is None else self._runtime.context(context).partitions
        newest = next(reversed(partitions.values())).id if partitions else None  # in order of allocation
        return len(partitions), newest, statement.pulse(), sum(feed.deliveries for feed in self.fed_by)

    def watch(self, looking: bool) -> None:
        record, self._record = self._record, None
        if record is not None:
            record.end()
        if looking:
            self._record = MatchRecord(self._runtime.statement(self._statement), self.feed)
            self._record.begin()

    def made(self, delivery: int) -> Made | None:
        return None if self._record is None else self._record.of(delivery)

    def replay(self) -> Controllable | None:
        return self._workbench.replaying


def _named(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Built-in properties; what an event is called in EPL may be the name of a size."""
    return {f"{name}_" if name in SIZES else name: value for name, value in properties.items()}
