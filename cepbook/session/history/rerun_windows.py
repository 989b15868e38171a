"""A rerun of a statement that reports when each event entered and left its data window.

Beside the statement runs a *shadow* of its from-clause: ``select irstream *`` without where, group by and output. The
rows of the shadow are the event objects themselves, so events are recognized by identity. In a context the rows hold
the event beside the id of the partition, because one event may be in several partitions.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cepbook.display import unused_name
from cepbook.engine.contexts.partition_listeners import PartitionNotice
from cepbook.engine.delivery.delta import Delta, Listener, Row
from cepbook.engine.runtime import Runtime
from cepbook.feeds import Delivery
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.types import INT, OBJECT
from cepbook.session.history.event_log import EventLog
from cepbook.session.history.rerun_statement import IdentitySink, StatementRerun

_Stay = tuple[int, int | None]  # identity of the event, id of the context partition
# columns of shadows in a context
_EVENT = nodes.OutputColumn("event", x.EventOf(OBJECT, 0))
_PARTITION = nodes.OutputColumn("partition", x.ContextProp(INT, "id"))


@dataclass(slots=True)
class MarbleArrival:
    """An event that reached the statement: number (from 0), time (ms), event, keys of its partition or group."""

    number: int
    time: int
    event: Row
    group: tuple[object, ...] = ()


@dataclass(slots=True)
class WindowStay:
    """The stay of one event in the window, all times in ms.

    The event `arrived`, `entered` (None: it is still being collected in a batch) and `left` (None: it is still there).
    `number` is the number of its arrival; for an event that a derived-value window made, of the arrival that caused it.
    """

    number: int
    event: Row
    group: tuple[object, ...]
    arrived: int
    entered: int | None
    left: int | None
    ended: int = field(default=0, repr=False)  # number of events that had arrived when it left

    @property
    def collected(self) -> bool:
        """True if the event waited in a batch before it entered."""
        return self.entered is None or self.entered > self.arrived


@dataclass(frozen=True, slots=True)
class MatchRun:
    """The rows of a match of match_recognize that was delivered at `time`: numbers of arrivals with their variables."""

    time: int
    rows: tuple[tuple[int, str], ...]


class WindowRerun(StatementRerun):
    """One statement with everything that feeds it, and the contents of its window over time."""

    target: nodes.SelectStatement

    def __init__(self, runtime: Runtime, event_log: EventLog, statement: nodes.SelectStatement) -> None:
        self.arrivals: list[MarbleArrival] = []
        self.bars: list[WindowStay] = []
        self.deliveries: list[tuple[int, Delivery]] = []  # with the number of arrivals so far
        self.runs: list[MatchRun] = []
        super().__init__(runtime, event_log, statement)
        self.stream = nodes.stage(self.target.root, nodes.Windowed)  # those nearest to the select-clause are drawn
        names = {s.name for s in self._pipeline.selects}
        derived = self.stream is not None and self.stream.derivation is not None
        self._in_partitions = self.target.context is not None and not derived
        self._tags, self._reached, self._window = (unused_name(name, names) for name in ("tags", "reached", "window"))
        if self._in_partitions:
            self.runtime.add_partition_listener(None, self._partition)
        self._group, self.grouped_by = self._group_columns()
        self._by_event: dict[_Stay, MarbleArrival] = {}  # `arrivals` keeps the events alive
        self._open: dict[_Stay, deque[WindowStay]] = {}
        self._ended: dict[int | None, int] = {}  # ended partitions with the time
        self._current: Row = {}
        self._made: list[Row] = []  # derived rows, kept alive so that their identity is not reused

    def _group_columns(self) -> tuple[tuple[nodes.OutputColumn, ...], tuple[str, ...]]:
        """Return the columns that identify the partition and the groupwin group of an event, with names."""
        keys_by_name: list[tuple[str, x.BoundExpr]] = []
        if self.target.context is not None:
            context = self._origin.catalog.contexts[self.target.context]
            keys = {f"key{i}": key for i, key in enumerate(context.keys.get(self.target.source.event_type, ()), 1)}
            for name in list(keys) or [name for name in ("label", "id") if name in context.properties][:1]:
                key = keys.get(name)
                label = "" if key is None else key.property_name
                keys_by_name.append((label or f"context.{name}", x.ContextProp(context.properties[name], name)))
        if self.stream is not None and self.stream.derivation is None:
            groups = [w for w in self.stream.windows if w.row.grouping]
            for number, key in enumerate((key for w in groups for key in w.args), 1):
                keys_by_name.append((key.property_name or f"group key {number}", key))
        columns = tuple(nodes.OutputColumn(f"k{i}", value) for i, (_, value) in enumerate(keys_by_name))
        return columns, tuple(name for name, _ in keys_by_name)

    def _shadow(self, name: str, root: nodes.Projection, **changes: Any) -> nodes.SelectStatement:
        fixed: dict[str, Any] = {"kind": "unaggregated", "insert": None, "output": None, "drop": False, "into": None}
        if self.target.created_store is not None:
            fixed["fill"] = None
        return replace(self.target, name=name, named=True, root=root, **{**fixed, **changes})

    def _listen(self, shadow: nodes.SelectStatement, listener: Listener) -> None:
        statement = self._deploy(shadow)
        assert statement is not None
        statement.add_sink(IdentitySink(statement.outlet.layout, listener))

    def _begin(self) -> None:
        if self.target.source.store is None:
            self._tag(None)

    def _tag(self, context: str | None) -> None:
        source = replace(self.target.source, filter=None)
        root = nodes.Projection(source, (), wildcard=True)
        priority = 1 + max(s.priority for s in self._pipeline.selects)
        first = {"context": context, "selector": "istream", "priority": priority, "subqueries": ()}
        self._listen(self._shadow(self._tags, root, **first), self._saw)

    def _deploy_target(self) -> None:
        source = self.target.source
        if source.store is not None:
            self._tag(self.target.context)
        last = _PARTITION if self._in_partitions else nodes.OutputColumn("k", x.Const(OBJECT, None))
        several = (_EVENT,) if self.target.lots else ()  # simultaneous events identify themselves
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
        arrived = {event: arrival.number for (event, _), arrival in self._by_event.items()}
        rows: list[tuple[int, str]] = []
        for name, value in match.items():
            events = value if isinstance(value, list) else [] if value is None else [value]
            rows += [(arrived[id(event)], name) for event in events if id(event) in arrived]
        if rows:
            self.runs.append(MatchRun(self.runtime.now, tuple(sorted(rows))))

    def _event_and_stay(self, row: Row) -> tuple[Row, _Stay]:
        if not self._in_partitions:
            return row, (id(row), None)
        event: Row = row[_EVENT.name]
        return event, (id(event), row[_PARTITION.name])

    def _moved(self, delta: Delta) -> None:
        for row in delta.insert or ():
            event, stay = self._event_and_stay(row)
            arrival = self._by_event.get(stay)
            if arrival is None:
                self._made.append(event)
                bar = WindowStay(len(self.arrivals) - 1, event, (), delta.time, delta.time, None)
            else:
                bar = WindowStay(arrival.number, event, arrival.group, arrival.time, delta.time, None)
            self.bars.append(bar)
            if (
                stay[1] in self._ended
            ):  # the event itself ended the partition; the tagging statement has higher priority
                self._close(bar, self._ended[stay[1]])
            else:
                self._open.setdefault(stay, deque()).append(bar)
        for row in delta.remove or ():
            event, stay = self._event_and_stay(row)
            waiting = self._open.get(stay) or self._like(event)
            if waiting:
                self._close(waiting.popleft(), delta.time)

    def _close(self, bar: WindowStay, time: int) -> None:
        bar.left, bar.ended = time, len(self.arrivals)

    def _partition(self, notice: PartitionNotice) -> None:
        if notice.context != self.target.context:
            return
        if notice.kind == "allocated":  # ids restart with the context
            self._ended.pop(notice.partition, None)
        elif notice.kind == "deallocated" and notice.partition is not None:
            self._ended[notice.partition] = notice.time
            for (_, partition), bars in self._open.items():
                while partition == notice.partition and bars:
                    self._close(bars.popleft(), notice.time)

    def _like(self, row: Row) -> deque[WindowStay] | None:
        derived_stays = (self._open[id(event), None] for event in self._made)
        return next((stays for stays in derived_stays if stays and rows_equal(stays[0].event, row)), None)

    def _delivered(self, delta: Delta) -> None:
        delivery = Delivery(len(self.deliveries), delta.time, delta.insert, delta.remove)
        self.deliveries.append((len(self.arrivals), delivery))

    def caught_up(self, first: int) -> bool:
        """Return True if all unknown events had left before arrival number `first`, as far as can be seen.

        The oldest known event had left, and the rerun holds as many events in as many partitions as the running
        statement.
        """
        if self.stream is not None and not any(bar.number == 0 and 0 < bar.ended <= first for bar in self.bars):
            return False
        retained, known = (
            [partition["retained"] for partition in runtime.state(self.target.name)]
            for runtime in (self._origin, self.runtime)
        )
        return sorted(retained) == sorted(known)

    def run(self) -> None:
        """Play the whole log, up to the present."""
        self._begin()
        super().run()
        self._still_collected()

    def _still_collected(self) -> None:
        if self.stream is None:
            return
        entered = {bar.number for bar in self.bars}
        window = self.runtime.statement(self._window)
        for row in (row for _, rows in window.iterated(self.runtime.now) for row in rows):
            event, stay = self._event_and_stay(window.outlet.layout.event(row))
            arrival = self._by_event.get(stay)
            if arrival is not None and arrival.number not in entered:
                self.bars.append(WindowStay(arrival.number, event, arrival.group, arrival.time, None, None))
        self.bars.sort(key=lambda bar: bar.number)


def rows_equal(one: Row, other: Row) -> bool:
    """Return True if two rows have the same columns and values. Floats may differ in their last digits."""
    return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
