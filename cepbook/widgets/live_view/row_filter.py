"""Filter and sort a large table for the browser: rows that contain some words and pass conditions, ordered by a column.

The kernel searches all rows, because the page has only those that were sent. It works on columns, and makes a row only
if it is visible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from cepbook.errors import UsageError, printable
from cepbook.widgets.live_view.column_conditions import column_test
from cepbook.widgets.live_view.column_texts import Array, is_in_numbers
from cepbook.widgets.live_view.time_texts import is_in_times
from cepbook.widgets.live_view.value_columns import ValueColumn, value_column

Row = Mapping[str, object]

MAX_CONDITIONS = 200
MANY_TEXTS = 5_000  # different texts that are looked at twice


class RowSheet(Protocol):
    """The rows of a large table, which are made only when they are read."""

    @property
    def names(self) -> Sequence[str]:
        """The columns in order."""

    def __len__(self) -> int: ...

    def column(self, name: str, start: int = 0) -> Sequence[object]:
        """Return the values of a column by row, from position `start`; null where a row lacks it."""

    def rows(self, places: Iterable[int]) -> Sequence[Row]:
        """Return the rows at these places; they belong to the caller."""

    def dropped_since(self, earlier: Any) -> int | None:
        """Return how many first rows of a sheet that was read earlier are gone, if this one certainly begins with the
        others, else None.
        """


class NamedColumns:
    """The columns of a table in numpy, by name."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, name: str) -> ValueColumn:
        raise NotImplementedError

    def containing(self, name: str, word: str) -> Array:
        """Return where a word in lower case is part of a value of column `name`."""
        return self[name].containing(word)


class SheetColumns(NamedColumns):
    """The columns of a sheet, each made when it is first used. Columns in `timed` hold times in ms. `kinds` has the
    type of the values of some columns that are not null: int, float or str.
    """

    def __init__(self, sheet: RowSheet, timed: Collection[str] = (), kinds: Mapping[str, type] | None = None) -> None:
        self._sheet = sheet
        self._timed = timed
        self._kinds = {} if kinds is None else kinds
        self._columns: dict[str, ValueColumn] = {}
        self._texts: dict[str, tuple[Sequence[Any], set[Any]]] = {}  # values of columns to come, and the different ones

    def followed(self, sheet: RowSheet, timed: Collection[str], kinds: Mapping[str, type]) -> SheetColumns:
        """Return the columns of `sheet`, which was read later. What is known of rows that stayed is used again."""
        following = SheetColumns(sheet, timed, kinds)
        dropped = sheet.dropped_since(self._sheet) if timed == self._timed else None
        if dropped is not None:
            for name, column in self._columns.items():
                values = sheet.column(name, len(self) - dropped)
                remaining = column.without_first(dropped) if dropped else column
                following._columns[name] = remaining.extended(values) if values else remaining
            for name, (values, different) in self._texts.items():
                further = sheet.column(name, len(self) - dropped)
                following._texts[name] = [*values[dropped:], *further], different.union(further)
        return following

    def __len__(self) -> int:
        return len(self._sheet)

    def containing(self, name: str, word: str) -> Array:
        if name not in self._columns and self._lacks(name, word):
            return np.zeros(len(self), np.bool_)
        return super().containing(name, word)

    def _lacks(self, name: str, word: str) -> bool:
        """Return whether it is clear that no value contains a word before the column is made, which takes longer."""
        kind = self._kinds.get(name)
        if name in self._timed:
            return not is_in_times(word)
        if kind is str:
            if name not in self._texts:
                values = self._sheet.column(name)
                self._texts[name] = values, set(values)
            different = self._texts[name][1]
            return len(different) < MANY_TEXTS and not any(word in text.lower() for text in different if text)
        return kind is not None and not is_in_numbers(word)

    def __getitem__(self, name: str) -> ValueColumn:
        column = self._columns.get(name)
        if column is None:
            values = self._texts.pop(name)[0] if name in self._texts else self._sheet.column(name)
            kind = self._kinds.get(name)
            number = None if kind is str else kind
            column = self._columns[name] = value_column(values, timed=name in self._timed, kind=number)
        return column


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The reader's request: words in lower case, conditions by column, and the column that orders the table (None:
    unordered).
    """

    words: tuple[str, ...] = ()
    by: str | None = None
    down: bool = False
    conditions: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, content: Mapping[str, object]) -> RowFilter:
        """Return the request in a message of the browser, whatever the message holds."""
        match content:
            case {"filter": str(written)}:
                words = tuple(written.lower().split())
            case _:
                words = ()
        match content:
            case {"conditions": dict(conditions)}:
                some = list(conditions.items())[:MAX_CONDITIONS]
                texts = tuple((str(name), str(text)) for name, text in some if str(text).strip())
            case _:
                texts = ()
        by = content.get("by")
        return cls(words, by if type(by) is str else None, content.get("down") is True, texts)

    def __bool__(self) -> bool:
        return self.selects or self.by is not None

    @property
    def selects(self) -> bool:
        """True if rows may be left out."""
        return bool(self.words or self.conditions)

    def passing(self, table: NamedColumns, names: Collection[str], tested: Collection[str] = ()) -> FoundRows:
        """Return where rows contain all words, each in one of the columns `names`, and pass the conditions on columns
        `tested` (default: `names`).

        A condition that makes no sense leaves no row out, and is a problem of its column.
        """
        passing = np.ones(len(table), np.bool_)
        problems = {}
        for name, text in self.conditions:
            if name in (tested or names):
                try:
                    passing &= column_test(text)(table[name])
                except UsageError as error:
                    problems[name] = printable(str(error))
        for word in self.words:
            if not passing.any():
                break
            hits = np.zeros(len(table), np.bool_)
            for name in names:
                hits |= table.containing(name, word)
            passing &= hits
        return FoundRows(passing, problems)

    def found(self, table: NamedColumns, names: Collection[str]) -> FoundRows:
        """Return likewise the places of these rows."""
        passing, problems = self.passing(table, names)
        return FoundRows(np.flatnonzero(passing), problems)

    def first(self, table: NamedColumns, places: Array, most: int) -> Array:
        """Return the first `most` of `places` in the requested order; null comes last in both directions."""
        if self.by is None:
            return places[:most]
        return first_places(table[self.by], places, most, down=self.down)


NO_FILTER = RowFilter()


class FoundRows(NamedTuple):
    """The places of rows (or where they are), and by column why its condition makes no sense."""

    places: Array
    problems: Mapping[str, str]


def first_places(column: ValueColumn, places: Array, most: int, *, down: bool) -> Array:
    """Return the first `most` of `places` by their values; equal values keep their order.

    The order is numbers, NaN, texts, all else as text, or the reverse if `down`; null is always last.
    """
    order, null = column.order()[places], column.null[places]
    nan: Array = (order != order) & ~null
    groups = [np.flatnonzero(~(nan | null)), np.flatnonzero(nan)]
    chosen: list[Array] = []
    for group in (*(reversed(groups) if down else groups), np.flatnonzero(null)):
        remaining = most - sum(map(len, chosen))
        chosen.append(group[:remaining] if group is not groups[0] else _first_sorted(group, order, remaining, down))
    ordered: Array = places[np.concatenate(chosen)]
    return ordered


def _first_sorted(group: Array, order: Array, most: int, down: bool) -> Array:
    """Return the first `most` by their order. If these are few, only those are sorted that can be among them."""
    keys = order[group]
    if down:
        keys = ~keys if keys.dtype.kind == "i" else -keys
    if 0 < most < len(group) // 4:
        few = np.flatnonzero(keys <= np.partition(keys, most - 1)[most - 1])
        group, keys = group[few], keys[few]
    ordered: Array = group[np.argsort(keys, kind="stable")[:most]]
    return ordered
