"""`Delta`: the only thing that flows out of a statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

Row = dict[str, Any]
Rows = list[Row] | None
# (time in ms, insert rows or None, remove rows or None): what sinks are fed, without an object per delivery
RawDelta = tuple[int, Rows, Rows]


class Delta(NamedTuple):
    """One atomic delivery of one statement: what one event or one advance of time caused.

    `time` is engine time in ms. `insert` and `remove` are lists of rows (column name -> value), or None for no
    rows; both None is the empty delivery that forced updates make. Rows must not be changed by listeners:
    `insert into` hands the same dicts on.
    """

    time: int
    insert: Rows
    remove: Rows


class Sink(Protocol):
    """What the fast path feeds: one delivery, or the many of a batch, in order."""

    def push(self, time: int, insert: Rows, remove: Rows, /) -> None: ...

    def extend(self, deltas: list[RawDelta], /) -> None: ...


Listener = Callable[[Delta], None]
