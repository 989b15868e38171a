"""What flows out of a statement: records, rows and, where user code gets to see them, `Delta`.

A **row** is a tuple of column values, or of statements with a wildcard one dict. A **record** is a row of a delivery as
a flat tuple ``(mark, time, v0, …)`` (with a wildcard ``(mark, time, row)``); its mark tells where it stands:

- `INSERT` an insert row that begins a delivery, `MORE` a further one,
- `REMOVE` a remove row that begins a delivery, as there is no insert row, `GONE` any other,
- `EMPTY` a delivery without rows; the values are None.

So a delivery is a record with an even mark and the records with odd ones that follow. Several records travel *flat*, as
one list of their values end to end: nothing is made for one of them, and every n-th value is a column. A slice of which
each event is a delivery of one insert row (`InsertColumns`) travels as columns.

Where somebody wants to know what the deliveries of a slice are due to, the mark that begins one carries the number of
its cause as well, ``mark + CAUSE * number``: that costs nothing per delivery. `DeliveryCauses` says what the numbers
mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

INSERT, MORE, REMOVE, GONE, EMPTY = range(5)
CAUSE_FACTOR = 8  # even: odd marks stay odd

Row = dict[str, Any]
Record = tuple[Any, ...]
# rows of one side of a delivery as generated code makes them, tuples or dicts; None for no rows
Rows = list[Any] | None
EmitRecord = Callable[[Record], object]
EmitRows = Callable[[int, Rows, Rows], object]
# What a delivery of a slice is due to: (place of the causing event, 1: itself / timers before it: 0 at its own time,
# less by as much as the clock stops earlier, steps of insert into, the way: who made it, which row). In their order
# deliveries are those of event-by-event sending.
CauseKey = tuple[int, int, int, tuple[Any, ...]]


@dataclass(slots=True)
class DeliveryCauses:
    """What the deliveries of a slice are due to, by number: first the events, from 1, then all else.

    `places` are those of the events, `keys` theirs where they are derived ones; `others` follow.
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
        """The number of a cause that is none of the events."""
        if not self.others or self.others[-1] is not other:
            self.others.append(other)
        return len(self.places) + len(self.others)


class InsertColumns(NamedTuple):
    """Deliveries of one insert row each: times, and the columns of the rows. Nobody changes the lists any more."""

    times: list[int]
    columns: tuple[list[Any], ...]

    @property
    def flat(self) -> list[Any]:
        """Their records, end to end."""
        count, width = len(self.times), 2 + len(self.columns)
        found: list[Any] = [INSERT] * (count * width)
        for at, column in enumerate((self.times, *self.columns), 1):
            found[at::width] = column
        return found


class DeliveryPorts(NamedTuple):
    """Where deliveries go: `out` takes the record of one that is one insert row, `push` the rows of any other."""

    out: EmitRecord
    push: EmitRows


class Delta(NamedTuple):
    """One atomic delivery of one statement: what one event or one advance of time caused.

    `time` is engine time in ms. `insert` and `remove` are lists of rows (column name -> value), or None for no
    rows; both None is the empty delivery that forced updates make. The rows are the listener's own: it may change them
    and what is in them.
    """

    time: int
    insert: list[Row] | None
    remove: list[Row] | None


class Sink(Protocol):
    """What the fast path feeds."""

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row], /) -> None:
        """Before anything else: the columns of the rows (None: rows are dicts); `fresh` makes a dict of a row."""

    def one(self, record: Record, /) -> None:
        """A delivery of one insert row."""

    def extend(self, flat: list[Any], /) -> None:
        """The records of any other delivery, or of the many of a batch, in order and flat."""


@runtime_checkable
class RowSink(Sink, Protocol):
    """A sink that takes rows as they are, where a delivery is more than one insert row."""

    def push(self, time: int, insert: Rows, remove: Rows, /) -> None:
        """Any delivery."""


@runtime_checkable
class ColumnSink(Sink, Protocol):
    """A sink that takes columns as they are, where each delivery of a slice is one insert row."""

    def extend_columns(self, times: list[int], columns: Sequence[list[Any]], /) -> None:
        """As `extend`; nobody changes the lists any more."""


@runtime_checkable
class TracingSink(Sink, Protocol):
    """A sink that is told what each delivery of a slice is due to."""

    def traced(self, flat: list[Any], causes: DeliveryCauses, /) -> None:
        """As `extend`, for the deliveries of a slice; their marks carry the numbers of their causes."""

    def traced_columns(self, plain: InsertColumns, numbers: Sequence[int], causes: DeliveryCauses, /) -> None:
        """As `traced`, where each delivery of a slice is one insert row; `numbers` are those of its causes."""


Listener = Callable[[Delta], None]
