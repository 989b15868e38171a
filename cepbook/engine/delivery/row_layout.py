"""The layout of a statement's rows, and conversions between rows, records, events and rows for user code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from cepbook.engine.delivery.delta import CAUSE_FACTOR, EMPTY, GONE, INSERT, MORE, REMOVE, Delta, Record, Row, Rows
from cepbook.engine.expressions.primitives import deep_copied
from cepbook.lang.plan.nodes import Selector
from cepbook.lang.types import Type, is_hashable


class RowLayout:
    """The columns of a statement's rows; None with a wildcard, then rows are dicts.

    `fresh(row)` returns the row as a dict that the caller owns, without `hidden` columns. That costs one dict, and a
    deep copy of the lists and dicts in columns of arrays, maps, events and objects; values of other types are
    immutable.
    """

    def __init__(
        self, columns: tuple[str, ...] | None, types: Mapping[str, Type], hidden: Collection[str] = ()
    ) -> None:
        self.columns = columns
        maker = _maker(columns, types)
        self.fresh: Callable[[Any], Row] = _without(hidden, maker) if hidden else maker
        self.width = 2 + (1 if columns is None else len(columns))  # of a record

    def flat(self, time: int, insert: Rows, remove: Rows, cause: int = 0) -> list[Any]:
        """Return the flat records of one delivery. `cause` is added to the first mark."""
        records: list[Any] = []
        for rows, mark, further in ((insert, INSERT + cause, MORE), (remove, REMOVE + cause, GONE)):
            mark = further if records else mark
            for row in rows or ():
                records += mark, time
                records += (row,) if self.columns is None else row
                mark = further
        return records or [EMPTY + cause, time, *[None] * (self.width - 2)]

    def without_causes(self, flat: list[Any]) -> list[Any]:
        """The same records, with marks that carry no causes."""
        records = flat.copy()
        records[:: self.width] = [mark % CAUSE_FACTOR for mark in flat[:: self.width]]
        return records

    def records(self, flat: Sequence[Any]) -> list[Record]:
        """Return the records one by one."""
        return split_records(flat, self.width)

    def row(self, record: Record) -> Any:
        """Return the row of a record."""
        return record[2] if self.columns is None else record[2:]

    def sides(self, delivery: Sequence[Record]) -> tuple[list[Any], list[Any]]:
        """Return the insert and the remove rows of one delivery."""
        place = 2 if self.columns is None else slice(2, None)
        inserted = [record[place] for record in delivery if record[0] <= MORE]
        removed = [record[place] for record in delivery if REMOVE <= record[0] <= GONE]
        return inserted, removed

    def chosen(self, flat: list[Any], side: Selector) -> list[Any]:
        """Return the deliveries restricted to one side, as insert rows, with their causes. Empty ones stay."""
        if side == "irstream":
            return flat
        records: list[Any] = []
        for cause, delivery in self.caused(flat):
            insert, remove = self.sides(delivery)
            rows = insert if side == "istream" else remove
            if rows or delivery[0][0] == EMPTY:
                records += self.flat(delivery[0][1], rows, None, cause)
        return records

    def caused(self, flat: list[Any]) -> Iterator[tuple[int, Sequence[Record]]]:
        """Yield the cause and the records of each delivery."""
        for first, *more in split_deliveries(self.records(flat)):
            mark = first[0] % CAUSE_FACTOR
            yield first[0] - mark, [(mark, *first[1:]), *more]

    def delta(self, time: int, insert: Rows, remove: Rows) -> Delta:
        """Return a delivery for user code."""
        return Delta(time, list(map(self.fresh, insert or ())) or None, list(map(self.fresh, remove or ())) or None)

    def event(self, row: Any) -> Row:
        """Return the event that `insert into` makes of a row."""
        return row if self.columns is None else dict(zip(self.columns, row, strict=True))


def split_records(flat: Sequence[Any], width: int) -> list[Record]:
    """Split a flat list into records of `width` values."""
    return list(zip(*[iter(flat)] * width, strict=True))


def split_deliveries(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Yield the records of each delivery."""
    start = 0
    for at in range(1, len(records)):
        if not records[at][0] % 2:
            yield records[start:at]
            start = at
    if records:
        yield records[start:]


def _maker(columns: tuple[str, ...] | None, types: Mapping[str, Type]) -> Callable[[Any], Row]:
    changeable = [name for name, of in types.items() if not is_hashable(of) and (columns is None or name in columns)]
    if columns is None:
        return deep_copied if changeable else dict

    def plain(row: Any) -> Row:
        return dict(zip(columns, row, strict=True))

    def deep(row: Any) -> Row:
        fresh = dict(zip(columns, row, strict=True))
        for name in changeable:
            fresh[name] = deep_copied(fresh[name])
        return fresh

    return deep if changeable else plain


def _without(hidden: Collection[str], maker: Callable[[Any], Row]) -> Callable[[Any], Row]:
    def visible(row: Any) -> Row:
        return {name: value for name, value in maker(row).items() if name not in hidden}

    return visible
