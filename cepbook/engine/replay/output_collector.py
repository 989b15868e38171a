"""Input and output of a statement within a batch: derived events, pending deliveries and collected output."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from operator import length_hint
from typing import Any

from cepbook.engine.delivery.delta import (
    CAUSE_FACTOR,
    GONE,
    INSERT,
    MORE,
    REMOVE,
    CauseKey,
    DeliveryCauses,
    EmitRows,
    InsertColumns,
    Record,
    Row,
    Rows,
)
from cepbook.engine.delivery.row_layout import RowLayout, split_deliveries
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.vectorized.column_batch import ColumnBatch

EmitRecords = Callable[[Sequence[Any]], object]
AFTER_BATCH = 1 << 62  # a position after all events of the batch, and a time that is never reached
UNORDERED_CAUSE: CauseKey = (0, 1, 0, ())  # for events that meet no others, so their order is known


class DerivedEvents:
    """The events of type `type` that a statement inserts within a batch, with their causes if needed.

    They are kept as flat records or columns, and converted to dicts or columns when a reader needs these.
    """

    __slots__ = ("_events", "_flat", "_layout", "_plain", "keys", "type")

    def __init__(
        self,
        type_name: str = "",
        layout: RowLayout | None = None,
        flat: list[Any] | None = None,
        keys: Sequence[CauseKey] = (),
        plain: InsertColumns | None = None,
    ) -> None:
        self.type = type_name
        self._flat = flat or []
        self._plain = plain
        self.keys = keys
        self._layout = layout
        self._events: list[tuple[int, Row]] | None = None

    @property
    def events(self) -> list[tuple[int, Row]]:
        """The events as (time, event)."""
        layout = self._layout
        if layout is None:
            return []
        if self._events is None and self._plain is not None:
            rows = map(layout.event, zip(*self._plain.columns, strict=True))
            self._events = list(zip(self._plain.times, rows, strict=True))
        if self._events is None:
            self._events = [(record[1], layout.event(layout.row(record))) for record in layout.records(self._flat)]
        return self._events

    def columns(self, names: Iterable[str]) -> ColumnBatch | None:
        """Return the events as columns, or None if they lack one of these properties."""
        if self._layout is None or self._layout.columns is None or not (self._flat or self._plain):
            return None
        places = {name: i for i, name in enumerate(self._layout.columns)}
        if not places.keys() >= set(names):
            return None
        if self._plain is not None:
            return ColumnBatch(
                self.type, self._plain.times, {name: list(self._plain.columns[places[name]]) for name in names}
            )
        flat, width = self._flat, self._layout.width
        return ColumnBatch(self.type, flat[1::width], {name: flat[2 + places[name] :: width] for name in names})


class PendingDelivery:
    """One delivery that may still grow: as flat records in `flat`, or, once there are other rows, in `rows`."""

    __slots__ = ("_layout", "flat", "rows")

    def __init__(self, layout: RowLayout) -> None:
        self._layout = layout
        self.flat: list[Any] = []
        self.rows: tuple[int, list[Any], list[Any]] | None = None

    def one(self, record: Record) -> None:
        """Add the row of one match."""
        if self.rows is not None:
            self.push(record[1], [self._layout.row(record)], None)
        elif self.flat:
            self.flat += (MORE, *record[1:])
        else:
            self.flat += record

    def push(self, time: int, insert: Rows, remove: Rows) -> None:
        """Add the rows of one match or timer."""
        if self.rows is None:
            rows = list(map(self._layout.row, self._layout.records(self.flat)))
            self.rows, self.flat = (time, rows, []), []
        self.rows[1].extend(insert or ())
        self.rows[2].extend(remove or ())

    def deliver(self, flat: EmitRecords, push: EmitRows) -> None:
        """Complete the delivery, if there is one."""
        if self.flat:
            records, self.flat = self.flat, []
            flat(records)
        elif self.rows is not None:
            (time, insert, remove), self.rows = self.rows, None
            push(time, insert or None, remove or None)


# the marks of the records of either side
_SIDES = {"istream": {INSERT, MORE}, "rstream": {REMOVE, GONE}, "irstream": {INSERT, MORE, REMOVE, GONE}}


class OutputCollector:
    """Collects the deliveries of one statement within a batch: `one` and `push` for events, `expired` for timers.

    It keeps no bound methods of its own, which would be a reference cycle: its content is freed as soon as the batch is
    done.
    """

    __slots__ = ("_causes", "_slices", "_statement", "flat", "key", "keyed", "numbers", "plain")

    def __init__(self, statement: RunningStatement, slices: Iterable[ColumnBatch], keyed: bool) -> None:
        self._statement = statement
        self._slices = slices
        self.flat: list[Any] = []  # records
        self.keyed = keyed
        self.key: CauseKey = (0, 1, 0, ())
        self._causes = DeliveryCauses()
        self.plain: InsertColumns | None = None  # all deliveries, if each is one insert row
        self.numbers: Sequence[int] = ()  # numbers of their causes, if needed

    @property
    def one(self) -> EmitRecords:
        """Takes one record, or several, flat."""
        return self._one if self.keyed else self.flat.extend

    @property
    def push(self) -> EmitRows:
        """Takes a delivery of rows."""
        return self._push if self.keyed else self.taken

    @property
    def expired(self) -> EmitRows:
        """Takes the delivery of a timer."""
        return self._expired if self.keyed else self.taken

    @property
    def emit_one_expired(self) -> EmitRecords:
        """Takes the record of a timer."""
        return self._one_expired if self.keyed else self.flat.extend

    @property
    def timer_cause(self) -> Callable[[int], int] | None:
        """Returns the cause to put into the mark of a delivery of a timer, by its time; None: causes are not needed."""
        return self._of_timer if self.keyed else None

    @property
    def causes(self) -> DeliveryCauses | None:
        """The causes of the deliveries by the numbers in their marks; None if they are not needed."""
        return self._causes if self.keyed else None

    def begin_batch(
        self, batch: ColumnBatch, keys: Sequence[CauseKey]
    ) -> tuple[Iterator[int], Sequence[int], Callable[[], CauseKey]]:
        """Return a batch's times, causes for the marks, and a function for the cause of the latest event."""
        times, count = iter(batch.times), len(batch.times)
        self._causes = causes = DeliveryCauses(batch.places, keys)

        def present_cause() -> CauseKey:
            return causes[max(count - length_hint(times), 1)]

        return times, range(CAUSE_FACTOR, CAUSE_FACTOR * (count + 1), CAUSE_FACTOR), present_cause

    def take(self, output: InsertColumns, kept: Sequence[bool] | None) -> None:
        """Take the columns that a batch produced; if they cover all events, those that were `kept` (None: all)."""
        count = len(output.times)
        numbers: Sequence[int] = range(1, count + 1)
        if kept is not None:
            output = InsertColumns(
                list(compress(output.times, kept)),
                tuple(list(compress(c, kept)) if len(c) == count else c for c in output.columns),
            )
            numbers = list(compress(numbers, kept)) if self.keyed else ()
        self.take_columns(output, numbers)

    def take_columns(self, output: InsertColumns, numbers: Sequence[int]) -> None:
        """Take the columns that a batch produced, or one column of rows that are dicts. `numbers` are those of the
        events of the rows, from 1 on.
        """
        if not output.times:
            return
        self.plain, self.numbers = output, numbers if self.keyed else ()
        if self.flat or self._statement.outlet.layout.columns is None:
            self._settle(len(self.flat))

    def take_deliveries(self, output: InsertColumns, begins: Any) -> None:
        """Take the rows that a batch produced; those that do not begin a delivery belong to that of the row before."""
        if begins.all():
            self.take_columns(output, ())
            return
        flat = output.flat
        flat[:: self._statement.outlet.layout.width] = [INSERT if first else MORE for first in begins]
        self.flat += flat

    def taken(self, time: int, insert: Rows, remove: Rows, mark: int = 0) -> None:
        """Take a delivery of rows; `mark` carries its cause."""
        self._settle(0)
        self.flat += self._statement.outlet.layout.flat(time, insert, remove, mark)

    def _settle(self, at: int) -> None:
        if self.plain is not None:
            flat, self.plain = self.plain.flat, None
            if self.keyed:
                marks = (CAUSE_FACTOR * number for number in self.numbers)  # of insert rows
                flat[:: self._statement.outlet.layout.width] = list(marks)
            self.flat[at:at] = flat

    def _one(self, records: Sequence[Any]) -> None:
        at = len(self.flat)
        self.flat.extend(records)
        self.flat[at] += CAUSE_FACTOR * self._causes.number(self.key)

    def _push(self, time: int, insert: Rows, remove: Rows) -> None:
        self.taken(time, insert, remove, CAUSE_FACTOR * self._causes.number(self.key))

    def _one_expired(self, records: Sequence[Any]) -> None:
        at = len(self.flat)
        self.flat.extend(records)
        self.flat[at] += self._of_timer(records[1])

    def _expired(self, time: int, insert: Rows, remove: Rows) -> None:
        self.taken(time, insert, remove, self._of_timer(time))

    def _of_timer(self, time: int) -> int:
        return CAUSE_FACTOR * self._causes.number(self.timer_key(time))

    def timer_key(self, time: int) -> CauseKey:
        """Return the cause of a delivery that a timer makes at `time`."""
        ahead = [(s.places[i], s.times[i]) for s in self._slices if (i := bisect_left(s.times, time)) < len(s.times)]
        place, at = min(ahead, default=(AFTER_BATCH, AFTER_BATCH))
        return place, time - at, 0, ()

    def derived(self) -> DerivedEvents:
        """Return the rows that `insert into` passes on."""
        insert, order = self._statement.steps.emit.insert, self._statement.order
        if insert is None:
            return DerivedEvents()
        layout = self._statement.outlet.layout
        if self.keyed:
            self._settle(0)
        if self.plain is not None:
            return DerivedEvents(insert.target, layout, plain=self.plain)
        marks = _SIDES[self._statement.steps.insert_selector]
        if not self.keyed and marks.issuperset(self.flat[:: layout.width]):
            return DerivedEvents(insert.target, layout, self.flat)
        passed_on: list[Any] = []
        keys: list[CauseKey] = []
        for records in split_deliveries(layout.records(self.flat)):
            place, phase, steps, way = self._causes[records[0][0] // CAUSE_FACTOR] if self.keyed else UNORDERED_CAUSE
            for number, record in enumerate(r for r in records if r[0] % CAUSE_FACTOR in marks):
                passed_on += record
                if self.keyed:
                    keys.append((place, phase, steps + 1, (*way, order, number)))
        return DerivedEvents(insert.target, layout, passed_on, keys)
