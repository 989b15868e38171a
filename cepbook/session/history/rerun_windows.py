"""When each event entered and left the window of a statement that runs again (`session.past.relived`).

Beside it runs a shadow of its from-clause, ``select irstream *`` without where, group by and output. The rows of the
shadow are the very event objects (in a context they hold them, beside the id of the partition: an event may be in
several), which is how it is known when each entered and left.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cepbook.engine.contexts.partition_listeners import PartitionNotice
from cepbook.engine.delivery.delta import Delta, Listener, Row
from cepbook.engine.runtime import Runtime
from cepbook.feeds import Delivery
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.types import INT, OBJECT
from cepbook.session.history.event_log import EventLog
from cepbook.session.history.rerun_statement import IdentitySink, StatementRerun
from cepbook.session.io.result_frames import unused_name

_Stay = tuple[int, int | None]  # identity of the event, id of the context partition
# columns of shadows in a context
_EVENT = nodes.OutputColumn("event", x.EventOf(OBJECT, 0))
_PARTITION = nodes.OutputColumn("partition", x.ContextProp(INT, "id"))


@dataclass(slots=True)
class MarbleArrival:
    """One event that reached the statement: number (from 0), time (ms), the event, its partition's or group's keys."""

    number: int
    time: int
    event: Row
    group: tuple[object, ...] = ()


@dataclass(slots=True)
class WindowStay:
    """The stay of one event in the window, all times in ms.

    It `arrived`, `entered` (None: not yet, it is being collected) and `left` (None: it is still there). `number` is
    that of its arrival; of an event that a derived-value window made, that of the arrival that caused it.
    """

    number: int
    event: Row
    group: tuple[object, ...]
    arrived: int
    entered: int | None
    left: int | None
    ended: int = field(default=0, repr=False)  # how many events had arrived when it left

    @property
    def collected(self) -> bool:
        """Whether it had to wait before it entered."""
        return self.entered is None or self.entered > self.arrived


@dataclass(frozen=True, slots=True)
class MatchRun:
    """The rows of a match of match_recognize, told of at `time`: numbers of their arrivals, each with its variable."""

    time: int
    rows: tuple[tuple[int, str], ...]


def drawn_windows(root: nodes.Projection) -> nodes.Windowed | None:
    """The data windows whose contents are drawn: those nearest to the select-clause."""
    return next((node for node in nodes.chain(root) if isinstance(node, nodes.Windowed)), None)


class WindowRerun(StatementRerun):
    """One statement with all that feeds it, and what its window held when."""

    target: nodes.SelectStatement

    def __init__(self, runtime: Runtime, record: EventLog, statement: nodes.SelectStatement) -> None:
        self.arrivals: list[MarbleArrival] = []
        self.bars: list[WindowStay] = []
        self.deliveries: list[tuple[int, Delivery]] = []  # with the number of arrivals so far
        self.runs: list[MatchRun] = []
        super().__init__(runtime, record, statement)
        self.stream = drawn_windows(self.target.root)
        names = {s.name for s in self._line.selects}
        derived = self.stream is not None and isinstance(self.stream.input, nodes.Derivation)
        self._in_partitions = self.target.context is not None and not derived
        self._tags, self._reached, self._window = (unused_name(name, names) for name in ("tags", "reached", "window"))
        if self._in_partitions:
            self.runtime.add_partition_listener(None, self._partition)
        self._group, self.grouped_by = self._group_columns()
        self._by_event: dict[_Stay, MarbleArrival] = {}  # the events live as long as `arrivals`
        self._open: dict[_Stay, deque[WindowStay]] = {}
        self._ended: dict[int | None, int] = {}  # partitions, and when
        self._current: Row = {}
        self._made: list[Row] = []  # keeps rows that are no arrivals, so that their identity stays theirs

    # ---- shadows
    def _group_columns(self) -> tuple[tuple[nodes.OutputColumn, ...], tuple[str, ...]]:
        """What tells the context partition and the groupwin group of an event, and how it is called."""
        found: list[tuple[str, x.BoundExpr]] = []
        if self.target.context is not None:
            context = self._origin.catalog.contexts[self.target.context]
            keys = {f"key{i}": key for i, key in enumerate(context.keys.get(self.target.source.event_type, ()), 1)}
            for name in list(keys) or [name for name in ("label", "id") if name in context.properties][:1]:
                key = keys.get(name)
                shown = key.name if isinstance(key, x.Prop) else f"context.{name}"
                found.append((shown, x.ContextProp(context.properties[name], name)))
        if self.stream is not None and isinstance(self.stream.input, nodes.SourceNode):
            groups = [w for w in self.stream.windows if w.row.grouping]
            for number, key in enumerate((key for w in groups for key in w.args), 1):
                found.append((key.name if isinstance(key, x.Prop) else f"group key {number}", key))
        columns = tuple(nodes.OutputColumn(f"k{i}", value) for i, (_, value) in enumerate(found))
        return columns, tuple(name for name, _ in found)

    def _shadow(self, name: str, root: nodes.Projection, **changes: Any) -> nodes.SelectStatement:
        """A statement like the target, of another select- and from-clause, which nobody else hears of."""
        fixed: dict[str, Any] = {"kind": "unaggregated", "insert": None, "output": None, "drop": False, "into": None}
        if isinstance(self.target, nodes.CreateWindowStatement):
            fixed["fill"] = None
        return replace(self.target, name=name, named=True, root=root, **{**fixed, **changes})

    def _listen(self, shadow: nodes.SelectStatement, listener: Listener) -> None:
        statement = self._deploy(shadow)
        assert statement is not None
        statement.add_sink(IdentitySink(statement.outlet.layout, listener))

    def _begin(self) -> None:
        """The statement that sees every event of the source's type first; of a named window when there is one."""
        if self.target.source.store is None:
            self._tag(None)

    def _tag(self, context: str | None) -> None:
        source = replace(self.target.source, filter=None)
        root = nodes.Projection(source, (), wildcard=True)
        priority = 1 + max(s.priority for s in self._line.selects)
        first = {"context": context, "selector": "istream", "priority": priority, "subqueries": ()}
        self._listen(self._shadow(self._tags, root, **first), self._saw)

    def _deploy_target(self) -> None:
        source = self.target.source
        if source.store is not None:
            self._tag(self.target.context)
        last = _PARTITION if self._in_partitions else nodes.OutputColumn("k", x.Const(OBJECT, None))
        several = (_EVENT,) if self.target.lots else ()  # arrive together, and tell themselves which they are
        root = nodes.Projection(source, (*self._group, last, *several))
        self._listen(self._shadow(self._reached, root, selector="istream"), self._arrived)
        if self.stream is not None:
            columns = (_EVENT, _PARTITION) if self._in_partitions else ()
            root = nodes.Projection(self.stream, columns, wildcard=not columns)
            self._listen(self._shadow(self._window, root, selector="irstream"), self._moved)
        target = self._deploy(self.target)
        assert target is not None
        target.add_listener(self._delivered)
        target.add_match_listener(self._matched)

    # ---- what they tell
    def _saw(self, delta: Delta) -> None:
        for row in delta.insert or ():
            self._current = row

    def _arrived(self, delta: Delta) -> None:
        for row in delta.insert or ():
            group = tuple(row[column.name] for column in self._group)
            event = row.get(_EVENT.name, self._current)
            arrival = MarbleArrival(len(self.arrivals), delta.time, event, group)
            self.arrivals.append(arrival)
            self._by_event[id(event), row.get(_PARTITION.name)] = arrival

    def _matched(self, match: Mapping[str, Any]) -> None:
        """A match was told of, by the very events that arrived."""
        arrived = {event: arrival.number for (event, _), arrival in self._by_event.items()}
        rows: list[tuple[int, str]] = []
        for name, value in match.items():
            events = value if isinstance(value, list) else [] if value is None else [value]
            rows += [(arrived[id(event)], name) for event in events if id(event) in arrived]
        if rows:
            self.runs.append(MatchRun(self.runtime.now, tuple(sorted(rows))))

    def _held(self, row: Row) -> tuple[Row, _Stay]:
        """The event of a row of the window's shadow, and whose stay it is."""
        if not self._in_partitions:
            return row, (id(row), None)
        event: Row = row[_EVENT.name]
        return event, (id(event), row[_PARTITION.name])

    def _moved(self, delta: Delta) -> None:
        for row in delta.insert or ():
            event, stay = self._held(row)
            arrival = self._by_event.get(stay)
            if arrival is None:
                self._made.append(event)
                bar = WindowStay(len(self.arrivals) - 1, event, (), delta.time, delta.time, None)
            else:
                bar = WindowStay(arrival.number, event, arrival.group, arrival.time, delta.time, None)
            self.bars.append(bar)
            if stay[1] in self._ended:  # by the event itself, which a statement of higher priority sees before
                self._close(bar, self._ended[stay[1]])
            else:
                self._open.setdefault(stay, deque()).append(bar)
        for row in delta.remove or ():
            event, stay = self._held(row)
            waiting = self._open.get(stay) or self._like(event)
            if waiting:
                self._close(waiting.popleft(), delta.time)

    def _close(self, bar: WindowStay, time: int) -> None:
        bar.left, bar.ended = time, len(self.arrivals)

    def _partition(self, notice: PartitionNotice) -> None:
        """The windows of a partition that ends are gone, without any rows."""
        if notice.context != self.target.context:
            return
        if notice.kind == "allocated":  # ids begin anew when the context does
            self._ended.pop(notice.partition, None)
        elif notice.kind == "deallocated" and notice.partition is not None:
            self._ended[notice.partition] = notice.time
            for (_, partition), bars in self._open.items():
                while partition == notice.partition and bars:
                    self._close(bars.popleft(), notice.time)

    def _like(self, row: Row) -> deque[WindowStay] | None:
        """The stays of a derived event with the values of `row`, which need not be the same object."""
        of_made = (self._open[id(made), None] for made in self._made)
        return next((some for some in of_made if some and rows_equal(some[0].event, row)), None)

    def _delivered(self, delta: Delta) -> None:
        delivery = Delivery(len(self.deliveries), delta.time, delta.insert, delta.remove)
        self.deliveries.append((len(self.arrivals), delivery))

    # ---- what is lost
    def caught_up(self, first: int) -> bool:
        """Whether all that is not known had left before arrival number `first`, by all signs.

        The oldest event that is known had, and the statement holds as many events, in as many partitions, as the one
        that runs.
        """
        if self.stream is not None and not any(bar.number == 0 and 0 < bar.ended <= first for bar in self.bars):
            return False
        held, known = (
            [partition["retained"] for partition in runtime.state(self.target.name)]
            for runtime in (self._origin, self.runtime)
        )
        return sorted(held) == sorted(known)

    # ---- running
    def run(self) -> None:
        """Let happen what happened, up to the present."""
        self._begin()
        super().run()
        self._still_collected()

    def _still_collected(self) -> None:
        """Events that a batch holds, and has not released."""
        if self.stream is None:
            return
        entered = {bar.number for bar in self.bars}
        window = self.runtime.statement(self._window)
        for row in (row for _, rows in window.iterated(self.runtime.now) for row in rows):
            event, stay = self._held(window.outlet.layout.event(row))
            arrival = self._by_event.get(stay)
            if arrival is not None and arrival.number not in entered:
                self.bars.append(WindowStay(arrival.number, event, arrival.group, arrival.time, None, None))
        self.bars.sort(key=lambda bar: bar.number)


def rows_equal(one: Row, other: Row) -> bool:
    """Whether two rows have the same columns and values, floats up to their last digits."""
    return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
