"""Output of a statement: records, rows and, where user code sees it, `Delta`.

A *row* is a tuple of column values, or one dict for a statement with a wildcard. A *record* is a row of a delivery as a
flat tuple `(mark, time, v0, …)` (with a wildcard `(mark, time, row)`). Its mark says where it stands:

- `INSERT` is an insert row that begins a delivery, `MORE` a further insert row.
- `REMOVE` is a remove row that begins a delivery without insert rows, `GONE` any other remove row.
- `EMPTY` is a delivery without rows; its values are None.

So a delivery is one record with an even mark and the records with odd marks that follow. Several records travel *flat*,
as one list of all their values: no object is made per record, and every n-th value is a column. A batch in which each
event causes one insert row travels as columns (`InsertColumns`).

::

    delivery 1: insert a, insert b        INSERT 10 a   MORE 10 b
    delivery 2: insert c, remove a        INSERT 20 c   GONE 20 a

If a sink wants the causes of the deliveries of a batch, the mark that begins a delivery also carries the number of its
cause, `mark + CAUSE_FACTOR * number`, at no cost per delivery. `DeliveryCauses` maps the numbers to causes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

INSERT, MORE, REMOVE, GONE, EMPTY = range(5)
CAUSE_FACTOR = 8  # even: odd marks stay odd

Row = dict[str, Any]
Record = tuple[Any, ...]
# rows of one side of a delivery, tuples or dicts; None without rows
Rows = list[Any] | None
EmitRecord = Callable[[Record], object]
EmitRows = Callable[[int, Rows, Rows], object]
# The cause of a delivery within a batch: position of the causing event; 1 for the event itself, 0 for timers at its own
# time, less for earlier stops of the clock; steps of insert into; the path (statements and row numbers). Sorted by this
# key, deliveries are in the order of event-by-event sending.
CauseKey = tuple[int, int, int, tuple[Any, ...]]


@dataclass(slots=True)
class DeliveryCauses:
    """Causes of the deliveries of a batch by number: first the events, from 1, then all others.

    `places` are the positions of the events, `keys` their causes if they are derived events; `others` follow.
    """

    places: Sequence[int] = ()
    keys: Sequence[CauseKey] = ()
    others: list[CauseKey] = field(default_factory=list)

    def __getitem__(self, number: int) -> CauseKey:
        at = number - 1 - len(self.places)
        if at >= 0:
            return self.others[at]
        return self.keys[number - 1] if self.keys else (self.places[number - 1], 1, 0, ())

    def number(self, other: CauseKey) -> int:
        """Return the number of a cause that is not an event of the batch."""
        if not self.others or self.others[-1] is not other:
            self.others.append(other)
        return len(self.places) + len(self.others)


class InsertColumns(NamedTuple):
    """Deliveries of one insert row each: times, and the columns of the rows, lists or `ArrayValues`. They are not
    modified any more.
    """

    times: list[int]
    columns: tuple[Sequence[Any], ...]

    @property
    def flat(self) -> list[Any]:
        """The records, flat."""
        count, width = len(self.times), 2 + len(self.columns)
        values: list[Any] = [INSERT] * (count * width)
        for at, column in enumerate((self.times, *self.columns), 1):
            values[at::width] = column
        return values


class DeliveryPorts(NamedTuple):
    """Receivers of deliveries: `out` takes the record of a delivery of one insert row, `push` the rows of any other."""

    out: EmitRecord
    push: EmitRows


class Delta(NamedTuple):
    """One atomic delivery of one statement: the result of one event or one advance of time.

    `time` is engine time in ms. `insert` and `remove` are lists of rows (column name -> value), or None without rows;
    both are None in the empty delivery of a forced update. The listener owns the rows and may modify them.
    """

    time: int
    insert: list[Row] | None
    remove: list[Row] | None


class Sink(Protocol):
    """A receiver of records: the fast path of deliveries."""

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row], /) -> None:
        """First call: the columns of the rows (None: rows are dicts) and `fresh`, which makes a dict of a row."""

    def one(self, record: Record, /) -> None:
        """Take a delivery of one insert row."""

    def extend(self, flat: list[Any], /) -> None:
        """Take the flat records of any other delivery, or of all deliveries of a batch, in order."""


@runtime_checkable
class RowSink(Sink, Protocol):
    """A sink that takes rows as they are if a delivery is more than one insert row."""

    def push(self, time: int, insert: Rows, remove: Rows, /) -> None:
        """Take any delivery."""


@runtime_checkable
class ColumnSink(Sink, Protocol):
    """A sink that takes columns as they are if each delivery of a batch is one insert row."""

    def extend_columns(self, times: list[int], columns: Sequence[Any], /) -> None:
        """Take the columns of a batch, lists or `ArrayValues`, which are not modified any more."""


@runtime_checkable
class TracingSink(Sink, Protocol):
    """A sink that takes the cause of each delivery of a batch."""

    def traced(self, flat: list[Any], causes: DeliveryCauses, /) -> None:
        """Take the flat records of a batch; their marks carry the numbers of their causes."""

    def traced_columns(self, plain: InsertColumns, numbers: Sequence[int], causes: DeliveryCauses, /) -> None:
        """Take the deliveries of a batch in which each is one insert row; `numbers` are those of their causes."""


@cache
def _conforms(sink: type, protocol: type) -> bool:
    return issubclass(sink, protocol)  # looks at all members of the protocol


def takes_rows(sink: Sink) -> TypeGuard[RowSink]:
    """Return whether `sink` is a `RowSink`."""
    return _conforms(type(sink), RowSink)


def takes_columns(sink: Sink) -> TypeGuard[ColumnSink]:
    """Return whether `sink` is a `ColumnSink`."""
    return _conforms(type(sink), ColumnSink)


def takes_causes(sink: Sink) -> TypeGuard[TracingSink]:
    """Return whether `sink` is a `TracingSink`."""
    return _conforms(type(sink), TracingSink)


Listener = Callable[[Delta], None]
