"""Collectors: which rows of an output interval are delivered (facts recorded from the reference,
``tests/corpus/output``).

Rows of grouped statements come as (key, row) pairs. The key is that of the group, with rollup (level, key). The row is
None if the having clause rejects it. Collectors do not look into rows.

Rows that read the clock, variables or properties of the context do so when they are delivered (recorded:
keyed_start_end_time_props). They come as `DeferredRow`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from cepbook.engine.state import State, created, initial

Rows = list[Any]
KeyedRows = Sequence[tuple[Any, Any]]
KeyedItems = Sequence[tuple[Any, Any, Any]]


class DeferredRow(State):
    """A row that is made at delivery, by the generated function `maker` from the `values` of its event."""

    maker: Callable[..., Any]
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RowFactory:
    """The generated functions that make rows at output; no rows if the having clause rejects them."""

    group_rows: Callable[[Any, Any, int], Rows]  # (S, key, now): the present row of a group, which may be empty
    event_rows: Callable[[Any, Any, Any, int], Rows]  # (S, key, item, now): the present row of an event of a group
    snapshot_rows: Callable[[Any, int], Rows]  # (S, now)


class RowCollector(State):
    """Collects the rows of one output interval. `keeps` is True if rows before the end of ``after`` count, too
    (recorded for ``all`` and ``last``).
    """

    keeps: bool = initial(False)

    @property
    def waiting(self) -> int:
        """The number of rows that wait for the end of the interval."""
        return 0

    def add(self, state: Any, now: int, ins: Rows, rem: Rows) -> None:
        """Add the rows of one change that moved events; there may be none."""
        raise NotImplementedError

    def take(self, state: Any, now: int) -> tuple[Rows, Rows]:
        """Return the insert and remove rows of the interval and begin the next one."""
        raise NotImplementedError


class BufferingCollector(RowCollector):
    """Collects rows themselves."""

    _ins: Any = created(list)
    _rem: Any = created(list)

    @property
    def waiting(self) -> int:
        return len(self._ins) + len(self._rem)


class EveryRow(BufferingCollector):
    """Collect all rows."""

    keeps: bool

    def add(self, state: Any, now: int, ins: Rows, rem: Rows) -> None:
        self._ins += ins
        self._rem += rem

    def take(self, state: Any, now: int) -> tuple[Rows, Rows]:
        rows = self._ins, self._rem
        self._ins, self._rem = [], []
        return rows


class EveryGroupedRow(EveryRow):
    """Collect all rows of groups that pass the having clause."""

    keeps: bool = initial(False)

    def add(self, state: Any, now: int, ins: KeyedRows, rem: KeyedRows) -> None:
        self._ins += [row for _, row in ins if row is not None]
        self._rem += [row for _, row in rem if row is not None]


class EveryAggregate(BufferingCollector):
    """Collect all rows of a statement of one row. After an interval without events its present row is repeated."""

    keeps: bool
    make: RowFactory
    removes: bool
    _moved: bool = initial(False)

    def add(self, state: Any, now: int, ins: Rows, rem: Rows) -> None:
        self._moved = True
        self._ins += ins
        self._rem += rem

    def take(self, state: Any, now: int) -> tuple[Rows, Rows]:
        if not self._moved:
            present = self.make.group_rows(state, None, now)
            return present, list(present) if self.removes else []
        rows = self._ins, self._rem
        self._ins, self._rem, self._moved = [], [], False
        return rows


class LastAggregate(RowCollector):
    """Collect the present row of a statement of one row; its remove row is the one before the interval. With having
    that is the first former row that passes (recorded: output_last_having_by_events).
    """

    make: RowFactory
    removes: bool
    keeps: bool = initial(True)
    _former: Rows = created(list)
    _moved: bool = initial(False)

    def add(self, state: Any, now: int, ins: Rows, rem: Rows) -> None:
        self._moved = True
        if not self._former:
            self._former = list(rem)

    def take(self, state: Any, now: int) -> tuple[Rows, Rows]:
        present = self.make.group_rows(state, None, now)
        former = self._former if self._moved else present
        self._moved, self._former = False, []
        return present, list(former) if self.removes else []


class LastRow(EveryRow):
    """Collect the last row of each side."""

    keeps: bool = initial(True)

    def add(self, state: Any, now: int, ins: Rows, rem: Rows) -> None:
        self._ins = ins[-1:] or self._ins
        self._rem = rem[-1:] or self._rem


class LastRowOfGroups(BufferingCollector):
    """Collect the last row of each touched group, in the order of first touch, where rows stand for events."""

    keeps: bool = initial(True)
    _ins: dict[Any, Any] = created(dict)
    _rem: dict[Any, Any] = created(dict)

    def add(self, state: Any, now: int, ins: KeyedRows, rem: KeyedRows) -> None:
        self._ins.update(pair for pair in ins if pair[1] is not None)
        self._rem.update(pair for pair in rem if pair[1] is not None)

    def take(self, state: Any, now: int) -> tuple[Rows, Rows]:
        rows = list(self._ins.values()), list(self._rem.values())
        self._ins, self._rem = {}, {}
        return rows


class EveryRowOfGroups(BufferingCollector):
    """Collect all rows of events, then repeat a row for the last event of each group without one. Rows come as (key,
    row, item of the event). With `leaving` a change that removes events of a group adds one insert row for the group:
    that of the event that entered last (recorded: output_all_when_several_events_leave_at_once).
    """

    make: RowFactory
    leaving: bool
    keeps: bool = initial(True)
    _last: dict[Any, Any] = created(dict)  # the item by group
    _touched: set[Any] = created(set)

    def add(self, state: Any, now: int, ins: KeyedItems, rem: KeyedItems) -> None:
        self._last.update((key, item) for key, _, item in ins)
        self._ins += [row for _, row, _ in ins if row is not None]
        self._rem += [row for _, row, _ in rem if row is not None]
        self._touched.update(key for key, _, _ in ins)
        for key, item in {key: item for key, _, item in rem}.items() if self.leaving else ():
            self._touched.add(key)
            self._ins += self.make.event_rows(state, key, self._last.setdefault(key, item), now)

    def take(self, state: Any, now: int) -> tuple[Rows, Rows]:
        ins, rem = self._ins, self._rem
        for key, item in self._last.items():
            if key not in self._touched:
                ins += self.make.event_rows(state, key, item, now)
        self._ins, self._rem, self._touched = [], [], set()
        return ins, rem


class PresentGroupRows(RowCollector):
    """Collect the present row of each touched group, in the order of first touch, where rows stand for groups. With
    `every`, of each group so far. The remove row of a group is its row before the interval, or its present row if it
    was not touched. With `levels`, rows are ordered by level.
    """

    make: RowFactory
    every: bool
    levels: bool
    removes: bool
    keeps: bool = initial(True)
    _known: dict[Any, None] = created(dict)
    touched: dict[Any, Any] = created(dict)  # former row by key, None if rejected or not needed

    def add(self, state: Any, now: int, ins: KeyedRows, rem: KeyedRows) -> None:
        former = dict(reversed(rem))
        for key, _ in ins or rem:
            self.touched.setdefault(key, former.get(key))

    def take(self, state: Any, now: int) -> tuple[Rows, Rows]:
        touched, self.touched = self.touched, {}
        if self.every:
            self._known.update(dict.fromkeys(touched))
        keys: list[Any] = list(self._known if self.every else touched)
        if self.levels:
            keys.sort(key=itemgetter(0))
        ins: Rows = []
        rem: Rows = []
        for key in keys:
            present = self.make.group_rows(state, key, now)
            ins += present
            if self.removes and key not in touched:
                rem += present
            elif self.removes and touched[key] is not None:
                rem.append(touched[key])
        return ins, rem


class SnapshotRows(RowCollector):
    """Return the rows of the iterator at delivery, and never remove rows."""

    make: RowFactory
    keeps: bool = initial(False)
    touched: dict[Any, Any] = created(dict)  # keys of groups, which start the clock of the output

    def add(self, state: Any, now: int, ins: Rows, rem: Rows) -> None: ...

    def take(self, state: Any, now: int) -> tuple[Rows, Rows]:
        self.touched = {}
        return self.make.snapshot_rows(state, now), []


@dataclass(frozen=True, slots=True)
class CollectorOptions:
    """The properties of a statement that decide how its rows are collected (see `SelectStatement`)."""

    kind: str
    which: str | None
    selector: str
    levels: bool  # rollup, cube or grouping sets
    deferred: bool = False  # rows are made at delivery
    having: bool = False
    releases: bool = False  # a window of the statement is a batch window
    leaving: bool = False  # rows of left events are insert rows

    @property
    def removes(self) -> bool:
        return self.selector != "istream"

    @property
    def grouped(self) -> bool:
        return self.kind.endswith("_grouped")


def make_collector(form: CollectorOptions, make: RowFactory) -> RowCollector:
    """Return the collector for `form`, which is not ``output first``."""
    every = form.which == "all"
    if form.which == "snapshot":
        return SnapshotRows(make)
    if form.kind == "fully_aggregated_grouped":
        return EveryGroupedRow() if form.which is None else PresentGroupRows(make, every, form.levels, form.removes)
    if form.kind == "aggregated_grouped":
        if form.which is None:
            return EveryGroupedRow()
        return EveryRowOfGroups(make, form.leaving) if every else LastRowOfGroups()
    if form.kind == "fully_aggregated":
        last = form.which == "last"
        return LastAggregate(make, form.removes) if last else EveryAggregate(every, make, form.removes)
    return LastRow() if form.which == "last" else EveryRow(every)
