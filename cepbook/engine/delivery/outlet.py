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
    DeliveryCauses,
    DeliveryPorts,
    EmitRecord,
    EmitRows,
    InsertColumns,
    Listener,
    Record,
    Row,
    Rows,
    Sink,
    TracingSink,
    takes_causes,
    takes_columns,
    takes_rows,
)
from cepbook.engine.delivery.row_layout import RowLayout
from cepbook.lang.plan.nodes import Insert, Selector

Precedence = Callable[[Row], tuple[int | None]]  # of an inserted event


@dataclass(slots=True)
class DeliveryServices:
    """The runtime's side of deliveries."""

    enqueue_rows: Callable[[str, list[Row], Any, Precedence | None], None]
    """Queue rows (type, rows, partition that produced them) until all statements have seen the present event."""

    request_release: Callable[[DeliveryOutlet], None]
    """Note that an outlet has rows to release at the end of the present event or instant."""

    rewired: Callable[[], None]
    """Note that listeners of matches changed."""

    relistened: Callable[[], None]
    """Note that listeners of deliveries changed, which leaves the functions that take events the same."""

    holds: bool = False
    """Statements hold their rows until all of them have seen the event."""


class OutletSpec(NamedTuple):
    """Facts of a statement that decide where its rows go."""

    listener_side: Selector
    """The sides that listeners and sinks get."""

    insert_side: Selector
    """The sides that are inserted."""

    insert: Insert | None
    precedence: Precedence | None
    at_once: bool
    """Rows are never held. So it is for members of an activation, which read the rows of each other, and for `update
    istream`, which delivers before the statement that inserts the updated event (recorded).
    """


class DeliveryOutlet:
    """Passes the deliveries of one statement on. `wire` gives its generated code the ports, None while nobody listens.

    Listeners get a `Delta` of their own for each delivery, at once. Sinks get records; dicts are made when they are
    read. While the runtime holds rows, the rows of one event or instant become one delivery when it calls `release`. A
    listener or sink that raises does not affect the others, nor the insertion: `failed` reports it.
    """

    def __init__(
        self,
        host: DeliveryServices,
        layout: RowLayout,
        spec: OutletSpec,
        wire: Callable[[DeliveryPorts | None], None],
        failed: Callable[[Exception], None],
        splitter: DeliverySplitter | None = None,
    ) -> None:
        self.layout = layout
        self.failed = failed
        self.ports: DeliveryPorts | None = None
        self.push: EmitRows | None = None  # where rows go; None while nobody listens
        self._host = host
        self._inserts = spec.insert
        self._precedence = spec.precedence
        self._listener_side, self._insert_side = spec.listener_side, spec.insert_side
        self._at_once = spec.at_once
        self._wire = wire
        self._splitter = splitter
        self._listeners: list[Listener] = []
        self._sinks: list[Sink] = []
        self._column_sinks: list[Callable[[list[int], Sequence[Any]], None]] = []
        self._row_sinks: list[Callable[[list[Any]], None]] = []
        self._tracing_sinks: list[TracingSink] = []
        self._all_ports: DeliveryPorts | None = None
        self._ports_without_insertion: DeliveryPorts | None = None  # `_all_ports` without insertion
        self._insertion_ports: DeliveryPorts | None = None
        self._sinks_only = False  # True if there are only sinks, which take insert rows as they are
        self._buffer: list[Any] = []  # flat records that become one delivery

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
        self._tracing_sinks = [sink for sink in self._sinks if takes_causes(sink)]
        plain = [sink for sink in self._sinks if not takes_causes(sink)]
        self._column_sinks = [sink.extend_columns for sink in plain if takes_columns(sink)]
        self._row_sinks = [sink.extend for sink in plain if not takes_columns(sink)]
        targets = [self._to_sink(sink) for sink in self._sinks]
        targets += [self._to_listener(listener) for listener in self._listeners]
        if self._splitter is not None:
            targets = [DeliveryPorts(ports.out, self._splitter.pushing(ports.push)) for ports in targets]
        if self._listener_side != "irstream":
            targets = [_of_side(ports, self._listener_side) for ports in targets]
        self._ports_without_insertion = _fan_out(targets, self.failed)
        self._insertion_ports = None
        if self._inserts is not None:
            # An event is inserted before listeners are called, a row of a table after (both are recorded). A row for
            # the table of its own context partition was inserted where it was made.
            inside = self.inserts_into_own_partition
            self._insertion_ports = _NOWHERE if inside else DeliveryPorts(self._insert_one, self._insert)
            targets.insert(len(targets) if self._inserts.table else 0, self._insertion_ports)
        self._all_ports = _fan_out(targets, self.failed)
        others = self._listeners or self._splitter is not None or self._inserts
        self._sinks_only = not others and self._listener_side != "rstream"
        self.set_holding(self._host.holds)
        self._host.relistened()

    def close(self) -> None:
        """Stop all deliveries, because the statement stops. Rows that it holds are not delivered any more."""
        self._all_ports = self._ports_without_insertion = None
        self._buffer.clear()
        self._connect(None)

    def _connect(self, ports: DeliveryPorts | None) -> None:
        self.ports = ports
        self.push = None if ports is None else ports.push
        self._wire(ports)

    @contextmanager
    def redirected(self, out: EmitRecord, push: EmitRows) -> Iterator[None]:
        """Within the block, deliver to `out` and `push` instead, unless nobody listens."""
        before, redirected = self.ports, DeliveryPorts(out, push)
        if before is not None:
            self._connect(redirected)
        try:
            yield
        finally:
            if self.ports is redirected:  # no listener was added or removed meanwhile
                self._connect(before)

    def set_holding(self, holds: bool) -> None:
        """Hold rows until all statements have seen the event, or deliver them as they come.

        Rows are inserted as they come in either case: what a statement reads does not depend on who holds rows.
        """
        if holds and self._ports_without_insertion is not None and not self._at_once:
            first = [] if self._insertion_ports is None else [self._insertion_ports]
            self._connect(_fan_out([*first, self._holding()], self.failed))
        else:
            self._connect(self._all_ports)

    def _holding(self) -> DeliveryPorts:
        buffer, request_release, flat = self._buffer, self._host.request_release, self.layout.flat

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
        return bool(self._buffer)

    def release(self) -> None:
        """Deliver the held rows as one delivery."""
        records = self._buffer.copy()
        self._buffer.clear()
        target, width = self._ports_without_insertion, self.layout.width
        if not records or target is None:
            return
        if len(records) == width and records[0] == INSERT:  # one insert row
            target.out(tuple(records))
        elif self._sinks_only and not any(records[::width]):  # only insert rows, and each begins a delivery: merge them
            records[width::width] = [MORE] * (len(records) // width - 1)
            for sink in self._sinks:
                self._feed(sink.extend, records)
        else:  # changes of both sides, or listeners
            insert, remove = self.layout.sides(self.layout.records(records))
            target.push(records[1], insert or None, remove or None)

    def deliver_records(self, flat: list[Any], causes: DeliveryCauses | None = None) -> None:
        """Pass the deliveries of a replayed batch to the sinks; `causes` explains the numbers in their marks."""
        if not self._sinks:
            return
        flat = self.layout.chosen(flat, self._listener_side)
        if self._splitter is not None:
            flat = self._splitter.flat(flat)
        plain = flat if causes is None else None
        for sink in self._sinks:
            if causes is not None and takes_causes(sink):
                self._feed(sink.traced, flat, causes)
                continue
            plain = self.layout.without_causes(flat) if plain is None else plain
            self._feed(sink.extend, plain)

    def deliver_columns(self, plain: InsertColumns, numbers: Sequence[int], causes: DeliveryCauses | None) -> None:
        """Pass a batch of deliveries of one insert row each to the sinks; `numbers` are those of their causes."""
        for sink in self._tracing_sinks:
            if causes is not None:
                self._feed(sink.traced_columns, plain, numbers, causes)
            else:
                self._feed(sink.extend, plain.flat)
        if self._row_sinks:
            flat = plain.flat
            for extend in self._row_sinks:
                self._feed(extend, flat)
        for extend_columns in self._column_sinks:
            self._feed(extend_columns, *plain)

    def _feed(self, take: Callable[..., None], *deliveries: Any) -> None:
        """Pass deliveries to a sink. A failure is reported, and the others go on."""
        try:
            take(*deliveries)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)

    def _to_sink(self, sink: Sink) -> DeliveryPorts:
        if takes_rows(sink):
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
        if self._insert_side != "rstream":
            event = self.layout.event(self.layout.row(record))
            self._host.enqueue_rows(self._inserts.target, [event], None, self._precedence)

    def _insert(self, time: int, insert: Rows, remove: Rows) -> None:
        self.insert_rows(None, insert, remove)

    @property
    def inserts_into_own_partition(self) -> bool:
        """True if rows are inserted into the table of the context partition that produces them."""
        return self._inserts is not None and self._inserts.inside

    def insert_rows(self, partition: Any, insert: Rows, remove: Rows) -> None:
        """Insert the rows of a delivery, or those that one context partition produced."""
        rows = (
            () if self._insert_side == "rstream" else insert or (),
            () if self._insert_side == "istream" else remove or (),
        )
        events = [self.layout.event(row) for side in rows for row in side]
        if events:
            assert self._inserts is not None
            self._host.enqueue_rows(self._inserts.target, events, partition, self._precedence)


def stream_inserter(
    host: DeliveryServices, targets: Sequence[str], precedences: Sequence[Precedence | None]
) -> Callable[[int, Row, Any], None]:
    """Return a function that inserts an event, made in the partition of a state, into one of the streams `targets`."""

    def put(number: int, event: Row, state: Any) -> None:
        host.enqueue_rows(targets[number], [event], state.partition, precedences[number])

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


def _fan_out(targets: list[DeliveryPorts], failed: Callable[[Exception], None]) -> DeliveryPorts | None:
    """Return ports that pass deliveries to all `targets`. The failure of one is reported, and the others go on."""
    if len(targets) < 2:
        return targets[0] if targets else None
    outs, pushes = tuple(ports.out for ports in targets), tuple(ports.push for ports in targets)

    def out(record: Record) -> None:
        for port in outs:
            try:
                port(record)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                failed(failure)

    def push(time: int, insert: Rows, remove: Rows) -> None:
        for port in pushes:
            try:
                port(time, insert, remove)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                failed(failure)

    return DeliveryPorts(out, push)
