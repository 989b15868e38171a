"""What a statement view needs to know of a statement, and where it gets it from in a workbench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from cepbook.feeds import Feed
from cepbook.session.matches import Made, MatchRecord
from cepbook.session.partials import Partials, partials_of, tags_of
from cepbook.session.partitions import flat, levels_of
from cepbook.widgets.encode import Column
from cepbook.widgets.live import Controllable

if TYPE_CHECKING:
    from cepbook.session import Workbench

Rows = Sequence[Mapping[str, object]]

NO_ROWS = "keeps no rows: no data window"
SIZES = ("rows", "waiting")


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
    def keeps_rows(self) -> bool:
        """Whether `rows` can ever show any: not without a data window, unless all is aggregated to one row."""

    def clock(self) -> int:
        """The engine's time in ms."""

    def rows(self, partition: int | None = None) -> Rows:
        """What the statement's iterator shows now, of one context partition or of all."""

    @property
    def levels(self) -> Sequence[str]:
        """The levels of a nested context, outermost first; none of any other."""

    @property
    def tags(self) -> Sequence[str] | None:
        """The tags of a pattern; None of a statement without one."""

    def partitions(self) -> Rows | None:
        """One row per context partition: ``id``, its properties (of a level as ``PerDay.key1``), and its `SIZES`:
        ``rows`` (how many the iterator shows), of a pattern ``waiting`` (partial matches). None without a context."""

    def partials(self, partition: int | None = None) -> Partials:
        """What a pattern waits for, in one context partition or in all."""

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
    def keeps_rows(self) -> bool:
        return self._workbench.keeps_rows(self._statement)

    def clock(self) -> int:
        return int(self._runtime.now)

    def rows(self, partition: int | None = None) -> Rows:
        if partition is None:
            return list(self._runtime.iterate(self._statement))
        for number, rows in self._runtime.iterate_partitions(self._statement):
            if number == partition:
                return list(rows)
        return []

    @property
    def _context(self) -> str | None:
        context: str | None = self._runtime.statement(self._statement).plan.context
        return context

    @property
    def levels(self) -> Sequence[str]:
        return () if self._context is None else levels_of(self._runtime, self._context)

    @property
    def tags(self) -> Sequence[str] | None:
        return tags_of(self._runtime, self._statement)

    def partitions(self) -> Rows | None:
        context = self._context
        if context is None:
            return None
        levels = self.levels
        sizes = {number: len(rows) for number, rows in self._runtime.iterate_partitions(self._statement)}
        found = [
            {"id": partition["id"], **flat(partition, levels), "rows": sizes.get(partition["id"], 0)}
            for partition in self._runtime.partitions(context)
        ]
        if self.tags is not None:
            waiting = {state["partition"]: state["partials"]["total"] for state in self._runtime.state(self._statement)}
            return [{**partition, "waiting": waiting.get(partition["id"], 0)} for partition in found]
        return found

    def partials(self, partition: int | None = None) -> Partials:
        return partials_of(self._runtime, self._statement, partition)

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
