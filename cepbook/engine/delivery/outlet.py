"""Outlets: the end of a statement, where deliveries reach listeners, sinks and the streams of `insert into`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from cepbook.engine.delivery.delivery_splitter import DeliverySplitter
from cepbook.engine.delivery.delta import (
    INSERT,
    MORE,
    ColumnSink,
    DeliveryCauses,
    DeliveryPorts,
    EmitRecord,
    EmitRows,
    InsertColumns,
    Listener,
    Record,
    Row,
    Rows,
    RowSink,
    Sink,
    TracingSink,
)
from cepbook.engine.delivery.row_layout import RowLayout
from cepbook.lang.plan.nodes import Insert, Selector

Precedence = Callable[[Row], tuple[int | None]]  # of an inserted event


@dataclass(slots=True)
class DeliveryServices:
    """The runtime's side of deliveries. `holds`: statements hold their rows until all of them have seen the event."""

    enqueue_rows: Callable[[str, list[Row], Any, Precedence | None], None]
    """Queue rows (type, rows, partition that produced them) until all statements have seen the present event."""

    hold: Callable[[DeliveryOutlet], None]
    """Note that an outlet has rows to release at the end of the present event or instant."""

    rewired: Callable[[], None]
    """Note that listeners changed."""

    holds: bool = False


class OutletSpec(NamedTuple):
    """Facts of a statement that decide where its rows go."""

    shown: Selector
    """The sides that listeners and sinks get."""

    fed: Selector
    """The sides that are inserted."""

    insert: Insert | None
    precedence: Precedence | None
    at_once: bool
    """Rows are never held: other members of the activation wait for them, or the statement that inserts the updated
    event delivers after them.
    """


class DeliveryOutlet:
    """Passes the deliveries of one statement on. `wire` gives its generated code the ports, None while nobody listens.

    Listeners get a `Delta` of their own for each delivery, at once. Sinks get records; dicts are made when they are
    read. While the runtime holds rows, the rows of one event or instant become one delivery when it calls `release`. A
    listener that raises does not affect the others: `failed` reports it.
    """

    def __init__(
        self,
        host: DeliveryServices,
        layout: RowLayout,
        spec: OutletSpec,
        wire: Callable[[DeliveryPorts | None], None],
        failed: Callable[[Exception], None],
        parcels: DeliverySplitter | None = None,
    ) -> None:
        self.layout = layout
        self.failed = failed
        self.ports: DeliveryPorts | None = None
        self.push: EmitRows | None = None  # where rows go; None while nobody listens
        self._host = host
        self._inserts = spec.insert
        self._precedence = spec.precedence
        self._shown, self._fed = spec.shown, spec.fed
        self._at_once = spec.at_once
        self._wire = wire
        self._parcels = parcels
        self._listeners: list[Listener] = []
        self._sinks: list[Sink] = []
        self._column_sinks: list[Callable[[list[int], Sequence[list[Any]]], None]] = []
        self._flat_sinks: list[Callable[[list[Any]], None]] = []
        self._tracing_sinks: list[TracingSink] = []
        self._target: DeliveryPorts | None = None
        self._holdable: DeliveryPorts | None = None  # `_target` without insertion
        self._inserting: DeliveryPorts | None = None
        self._flat = False  # True if there are only sinks, which take insert rows as they are
        self._held: list[Any] = []  # flat records that become one delivery

    def add_listener(self, listener: Listener) -> None:
        """Call `listener(Delta)` for every delivery, synchronously."""
        self._listeners.append(listener)
        self.connect_listeners()

    def remove_listener(self, listener: Listener) -> None:
        """Stop calling `listener`. Errors: ValueError if it was not added."""
        self._listeners.remove(listener)
        self.connect_listeners()

    def add_sink(self, sink: Sink) -> None:
        """Feed `sink` the records of every delivery."""
        sink.describe(self.layout.columns, self.layout.fresh)
        self._sinks = [*self._sinks, sink]  # another list: a delivery may be on its way to the former
        self.connect_listeners()

    def remove_sink(self, sink: Sink) -> None:
        """Stop feeding `sink`. Errors: ValueError if it was not added."""
        sinks = self._sinks.copy()
        sinks.remove(sink)
        self._sinks = sinks
        self.connect_listeners()

    @property
    def has_listeners(self) -> bool:
        """True if a plain listener wants deliveries one by one, as they happen."""
        return bool(self._listeners)

    @property
    def traced(self) -> bool:
        """True if a sink wants the causes of the deliveries of a batch."""
        return bool(self._tracing_sinks)

    def connect_listeners(self) -> None:
        """Rebuild the ports after a listener or sink was added or removed."""
        self._column_sinks = [sink.extend_columns for sink in self._sinks if isinstance(sink, ColumnSink)]
        self._flat_sinks = [sink.extend for sink in self._sinks if not isinstance(sink, ColumnSink | TracingSink)]
        self._tracing_sinks = [sink for sink in self._sinks if isinstance(sink, TracingSink)]
        targets = [self._to_sink(sink) for sink in self._sinks]
        targets += [self._to_listener(listener) for listener in self._listeners]
        if self._parcels is not None:
            targets = [DeliveryPorts(ports.out, self._parcels.pushing(ports.push)) for ports in targets]
        targets = targets if self._shown == "irstream" else [_of_side(ports, self._shown) for ports in targets]
        self._holdable = _fan_out(targets)
        self._inserting = None
        if self._inserts is not None:  # an update of the inserted event delivers before this statement (recorded)
            self._inserting = _NOWHERE if self.inside else DeliveryPorts(self._insert_one, self._insert)
            targets.insert(len(targets) if self._inserts.table else 0, self._inserting)
        self._target = _fan_out(targets)
        self._flat = not (self._listeners or self._parcels is not None or self._inserts) and self._shown != "rstream"
        self.hold(self._host.holds)
        self._host.rewired()

    def close(self) -> None:
        """Stop all deliveries, because the statement stops."""
        self._target = self._holdable = None
        self._held.clear()
        self._connect(None)

    def _connect(self, ports: DeliveryPorts | None) -> None:
        self.ports = ports
        self.push = None if ports is None else ports.push
        self._wire(ports)

    @contextmanager
    def redirected(self, out: EmitRecord, push: EmitRows) -> Iterator[None]:
        """Within the block, deliver to `out` and `push` instead, unless nobody listens."""
        before = self.ports
        if before is not None:
            self._connect(DeliveryPorts(out, push))
        try:
            yield
        finally:
            if before is not None:
                self._connect(before)

    def hold(self, holds: bool) -> None:
        """Hold rows until all statements have seen the event, or deliver them as they come.

        Rows are inserted as they come in either case: what a statement reads does not depend on who holds rows.
        """
        if holds and self._holdable is not None and not self._at_once:
            first = [] if self._inserting is None else [self._inserting]
            self._connect(_fan_out([*first, self._holding()]))
        else:
            self._connect(self._target)

    def _holding(self) -> DeliveryPorts:
        buffer, request_release, flat = self._held, self._host.hold, self.layout.flat

        def out(record: Record) -> None:
            if not buffer:
                request_release(self)  # first: a fault between the two must not leave rows that nobody releases
            buffer.extend(record)

        def push(time: int, insert: Rows, remove: Rows) -> None:
            if not buffer:
                request_release(self)
            buffer.extend(flat(time, insert, remove))

        return DeliveryPorts(out, push)

    @property
    def holding(self) -> bool:
        """True while rows are held."""
        return bool(self._held)

    def release(self) -> None:
        """Deliver the held rows as one delivery."""
        records = self._held.copy()
        self._held.clear()
        target, width = self._holdable, self.layout.width
        if not records or target is None:
            return
        if len(records) == width and records[0] == INSERT:
            target.out(tuple(records))
        elif self._flat and not any(records[::width]):  # only insert rows, one record each: no need to split
            records[width::width] = [MORE] * (len(records) // width - 1)
            for sink in self._sinks:
                sink.extend(records)
        else:
            insert, remove = self.layout.sides(self.layout.records(records))
            target.push(records[1], insert or None, remove or None)

    def deliver_records(self, flat: list[Any], causes: DeliveryCauses | None = None) -> None:
        """Pass the deliveries of a replayed batch to the sinks; `causes` explains the numbers in their marks."""
        if not self._sinks:
            return
        flat = self.layout.chosen(flat, self._shown)
        if self._parcels is not None:
            flat = self._parcels.flat(flat)
        plain = flat if causes is None else None
        for sink in self._sinks:
            if causes is not None and isinstance(sink, TracingSink):
                sink.traced(flat, causes)
                continue
            plain = self.layout.without_causes(flat) if plain is None else plain
            sink.extend(plain)

    def deliver_columns(self, plain: InsertColumns, numbers: Sequence[int], causes: DeliveryCauses | None) -> None:
        """Pass a batch of deliveries of one insert row each to the sinks; `numbers` are those of their causes."""
        for sink in self._tracing_sinks:
            if causes is not None:
                sink.traced_columns(plain, numbers, causes)
            else:
                sink.extend(plain.flat)
        if self._flat_sinks:
            flat = plain.flat
            for extend in self._flat_sinks:
                extend(flat)
        for extend_columns in self._column_sinks:
            extend_columns(*plain)

    def _to_sink(self, sink: Sink) -> DeliveryPorts:
        if isinstance(sink, RowSink):
            return DeliveryPorts(sink.one, sink.push)
        flat, extend = self.layout.flat, sink.extend

        def push(time: int, insert: Rows, remove: Rows) -> None:
            extend(flat(time, insert, remove))

        return DeliveryPorts(sink.one, push)

    def _to_listener(self, listener: Listener) -> DeliveryPorts:
        layout, failed = self.layout, self.failed

        def push(time: int, insert: Rows, remove: Rows) -> None:
            try:
                call_listener(listener, layout, time, insert, remove)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                failed(failure)

        def out(record: Record) -> None:
            push(record[1], [layout.row(record)], None)

        return DeliveryPorts(out, push)

    def _insert_one(self, record: Record) -> None:
        assert self._inserts is not None
        if self._fed != "rstream":
            event = self.layout.event(self.layout.row(record))
            self._host.enqueue_rows(self._inserts.target, [event], None, self._precedence)

    def _insert(self, time: int, insert: Rows, remove: Rows) -> None:
        self.place(None, insert, remove)

    @property
    def inside(self) -> bool:
        """True if rows are inserted into the table of the context partition that produces them."""
        return self._inserts is not None and self._inserts.inside

    def place(self, partition: Any, insert: Rows, remove: Rows) -> None:
        """Insert the rows of a delivery, or those that one context partition produced."""
        rows = (() if self._fed == "rstream" else insert or (), () if self._fed == "istream" else remove or ())
        events = [self.layout.event(row) for side in rows for row in side]
        if events:
            assert self._inserts is not None
            self._host.enqueue_rows(self._inserts.target, events, partition, self._precedence)


def stream_inserter(
    host: DeliveryServices, targets: Sequence[str], precedences: Sequence[Precedence | None]
) -> Callable[[int, Row, Any], None]:
    """Return a function that inserts an event, made in the partition of a state, into one of the streams `targets`."""

    def put(number: int, event: Row, state: Any) -> None:
        host.enqueue_rows(targets[number], [event], state[0], precedences[number])

    return put


def _ignore(*_: object) -> None:
    """Ignore a delivery whose rows were inserted into the table of their partition where they were made."""


_NOWHERE = DeliveryPorts(_ignore, _ignore)


def call_listener(listener: Listener, layout: RowLayout, time: int, insert: Rows, remove: Rows) -> None:
    """Call a listener. Its frame in a traceback identifies the failure of a listener."""
    listener(layout.delta(time, insert, remove))


def _of_side(ports: DeliveryPorts, side: Selector) -> DeliveryPorts:
    def out(record: Record) -> None:
        if side == "istream":
            ports.out(record)

    def push(time: int, insert: Rows, remove: Rows) -> None:
        rows = insert if side == "istream" else remove
        if rows or not (insert or remove):
            ports.push(time, rows, None)

    return DeliveryPorts(out, push)


def _fan_out(targets: list[DeliveryPorts]) -> DeliveryPorts | None:
    if len(targets) < 2:
        return targets[0] if targets else None
    outs, pushes = tuple(ports.out for ports in targets), tuple(ports.push for ports in targets)

    def out(record: Record) -> None:
        for port in outs:
            port(record)

    def push(time: int, insert: Rows, remove: Rows) -> None:
        for port in pushes:
            port(time, insert, remove)

    return DeliveryPorts(out, push)
