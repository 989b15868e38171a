"""How the rows of a statement look, and what is made of them: records, events, rows for user code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cepbook.engine.delivery.delta import CAUSE_FACTOR, EMPTY, GONE, INSERT, MORE, REMOVE, Delta, Record, Row, Rows
from cepbook.engine.expressions.primitives import deep_copied
from cepbook.lang.plan.nodes import Selector
from cepbook.lang.types import Type, is_hashable


class RowLayout:
    """`columns` are those of the rows of a statement; None with a wildcard, then rows are dicts.

    ``fresh(row)`` is the row as a dict that belongs to who gets it. That costs one dict; of columns of arrays, maps,
    events and objects also a copy of each list and dict in them, however deep. Values of other types cannot be changed.
    """

    def __init__(self, columns: tuple[str, ...] | None, types: Mapping[str, Type]) -> None:
        self.columns = columns
        self.fresh: Callable[[Any], Row] = _maker(columns, types)
        self.width = 2 + (1 if columns is None else len(columns))  # of a record

    def flat(self, time: int, insert: Rows, remove: Rows, cause: int = 0) -> list[Any]:
        """The records of one delivery of rows; its first mark has `cause` added to it."""
        found: list[Any] = []
        for rows, mark, further in ((insert, INSERT + cause, MORE), (remove, REMOVE + cause, GONE)):
            mark = further if found else mark
            for row in rows or ():
                found += mark, time
                found += (row,) if self.columns is None else row
                mark = further
        return found or [EMPTY + cause, time, *[None] * (self.width - 2)]

    def without_causes(self, flat: list[Any]) -> list[Any]:
        """The same records, with marks that carry no causes."""
        found = flat.copy()
        found[:: self.width] = [mark % CAUSE_FACTOR for mark in flat[:: self.width]]
        return found

    def records(self, flat: Sequence[Any]) -> list[Record]:
        """One by one."""
        return split_records(flat, self.width)

    def row(self, record: Record) -> Any:
        """The row of a record."""
        return record[2] if self.columns is None else record[2:]

    def sides(self, delivery: Sequence[Record]) -> tuple[list[Any], list[Any]]:
        """The insert and remove rows of the records of one delivery."""
        place = 2 if self.columns is None else slice(2, None)
        inserted = [record[place] for record in delivery if record[0] <= MORE]
        removed = [record[place] for record in delivery if REMOVE <= record[0] <= GONE]
        return inserted, removed

    def chosen(self, flat: list[Any], side: Selector) -> list[Any]:
        """The records of deliveries of one side only, as insert rows; those without any rows stay. Causes, too."""
        if side == "irstream":
            return flat
        found: list[Any] = []
        for cause, each in self.caused(flat):
            insert, remove = self.sides(each)
            rows = insert if side == "istream" else remove
            if rows or each[0][0] == EMPTY:
                found += self.flat(each[0][1], rows, None, cause)
        return found

    def caused(self, flat: list[Any]) -> Iterator[tuple[int, Sequence[Record]]]:
        """The records of each delivery, and what their first mark carried."""
        for first, *more in split_deliveries(self.records(flat)):
            mark = first[0] % CAUSE_FACTOR
            yield first[0] - mark, [(mark, *first[1:]), *more]

    def delta(self, time: int, insert: Rows, remove: Rows) -> Delta:
        """A delivery for user code."""
        return Delta(time, list(map(self.fresh, insert or ())) or None, list(map(self.fresh, remove or ())) or None)

    def event(self, row: Any) -> Row:
        """The event that ``insert into`` makes of a row."""
        return row if self.columns is None else dict(zip(self.columns, row, strict=True))


def split_records(flat: Sequence[Any], width: int) -> list[Record]:
    """The records of a flat list, each of `width` values."""
    return list(zip(*[iter(flat)] * width, strict=True))


def split_deliveries(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """The records of each delivery."""
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
        made = dict(zip(columns, row, strict=True))
        for name in changeable:
            made[name] = deep_copied(made[name])
        return made

    return deep if changeable else plain
