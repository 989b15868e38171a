"""The rows that a statement retains, as growing arrays: one for each property, and for arrival times or ordinals."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from cepbook.engine.vectorized.array_columns import StoredColumn, distinct, distinct_keys, is_null, with_nulls
from cepbook.engine.vectorized.array_values import ArrayValues
from cepbook.engine.vectorized.kernel_form import ARRAY_TYPES, ARRIVAL, EXACT, GROUP, NULL, NUMBER_TYPES, ORDINAL

Array = npt.NDArray[Any]
_SMALLEST = 1024  # rows for which a store has room at first
RELOADED = 4  # items that are loaded for each event since they were last loaded, at most
MOST_CODES = 100_000  # texts and groups, beside those of retained rows, after which stores begin anew
_PYTHON_TYPES: dict[str, set[type]] = {"float64": {float, type(None)}, "int64": {int, type(None)}, "bool": {bool}}
_KINDS = {"f": "float64", "i": "int64", "u": "int64", "b": "bool"}


def magnitude(values: Array) -> float:
    """Return the highest absolute value; 0 without values."""
    if values.dtype.kind == "i":
        low = int(values.min(initial=0))
        low = int(values.min(initial=0, where=values != NULL)) if low == NULL else low
        return float(max(-low, int(values.max(initial=0))))
    return float(np.abs(values.astype(np.float64)).max(initial=0.0))


def is_stored_as(column: StoredColumn, of: str) -> bool:
    """Return whether a column of events has the kind of array in which a property of type `of` is stored."""
    if of == "string" or column.texts is not None:
        return of == "string" and column.texts is not None
    return _KINDS[column.values.dtype.kind] == ARRAY_TYPES[of] and column.values.dtype != np.uint64


def is_exact(column: StoredColumn) -> bool:
    """Return whether floats have the values of a column of numbers without rounding."""
    return column.values.dtype.kind == "f" or magnitude(column.values) <= EXACT


class ValueCodes:
    """Texts, or keys of groups, as numbers from 0. Null has a code like any value; `values` has the value of each."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._codes: dict[Any, int] = {}
        self._known: Array | None = None  # texts of the latest column, and their codes
        self._translation: Array = np.empty(0, np.int64)
        self._turn = 0

    def __len__(self) -> int:
        return len(self.values)

    @property
    def null(self) -> int:
        """The code of null; -1 if no value was null."""
        return self._codes.get(None, -1)

    def of_column(self, column: StoredColumn) -> Array:
        """Return the codes of a column of texts."""
        assert column.texts is not None
        if len(column.texts) > len(column.values):  # most of them may not occur
            places, numbers = distinct(column.values)
            of_rows: Array = self.of_values(column.texts[column.values[places]].tolist())[numbers]
            return of_rows
        if column.texts is not self._known:
            self._translation = self.of_values(column.texts.tolist())
            self._known = column.texts
        codes: Array = self._translation[column.values]
        return codes

    def of_values(self, values: Sequence[Any]) -> Array:
        """Return the codes of values."""
        codes = list(map(self._codes.get, values))
        if None in codes:
            new, first = [value for value in dict.fromkeys(values) if value not in self._codes], len(self.values)
            self.values += new  # before they have codes: an interrupt in between makes none that stands for two values
            self._codes.update(zip(new, range(first, first + len(new)), strict=True))
            codes = list(map(self._codes.__getitem__, values))
        return np.array(codes, np.int64)

    def forget(self, values: Iterable[Any]) -> list[int]:
        """Forget values, and return the codes of those that had one. These codes are null, and are not used again."""
        codes = [self._codes.pop(value) for value in values if value in self._codes]
        for code in codes:
            self.values[code] = None
        return codes

    def in_turn(self, most: int) -> list[Any]:
        """Return at most so many values: those behind the values of the last call, or after the last one the first."""
        values = self.values[self._turn : self._turn + most]
        self._turn = self._turn + most if self._turn + most < len(self.values) else 0
        return values

    def of_codes(self, codes: Array) -> list[Any]:
        """Return the values with these codes."""
        return list(map(self.values.__getitem__, codes.tolist()))

    def of_keys(self, parts: Sequence[Array], names: Sequence[ValueCodes | None]) -> Array:
        """Return the codes of keys whose parts are in arrays, as numbers or as codes of `names`. A key of several parts
        is a tuple.
        """
        places, numbers = distinct_keys(parts)
        columns = [
            with_nulls(column[places]) if codes is None else codes.of_codes(column[places])
            for column, codes in zip(parts, names, strict=True)
        ]
        codes_of_keys = self.of_values(columns[0] if len(columns) == 1 else list(zip(*columns, strict=True)))
        return codes_of_keys[numbers]


class RowStore:
    """Rows number `begin` up to `end`, oldest first; `types` are those of the columns by name (see `ARRAY_TYPES`).

    `groups` has the codes of the groups that the properties `keys` make. With `scattered` rows may leave from the
    middle: `alive` says which are retained. Without it those from `begin` on are. `moves` counts how often the rows
    were numbered anew.
    `highest` has for properties that are whole numbers a bound of the absolute values of the retained rows.
    """

    __slots__ = ("_keys", "_types", "alive", "arrays", "begin", "codes", "end", "groups", "highest", "moves")

    def __init__(self, types: Mapping[str, str], keys: Sequence[str] = (), *, scattered: bool = False) -> None:
        self._types = types
        self._keys = keys
        self.arrays: dict[str, Array] = {name: np.empty(0, ARRAY_TYPES[of]) for name, of in types.items()}
        self.codes = {name: ValueCodes() for name, of in types.items() if of == "string"}
        shared = len(keys) == 1 and keys[0] in self.codes  # the group is the text
        self.groups = self.codes[keys[0]] if shared else ValueCodes()
        self.alive: npt.NDArray[np.bool_] | None = np.empty(0, bool) if scattered else None
        self.begin = self.end = self.moves = 0
        own = {GROUP, ARRIVAL, ORDINAL}
        numbers = (name for name, of in types.items() if NUMBER_TYPES.get(of) == "int64")
        self.highest = {name: 0.0 for name in numbers if name not in own}

    def fits(self, name: str, column: StoredColumn | None) -> bool:
        """Return whether a column of events can be stored without loss."""
        if column is None or not is_stored_as(column, self._types[name]):
            return False
        # NaN, or NULL, would be taken for null
        return column.gaps or column.texts is not None or not is_null(column.values).any()

    def rows(self) -> Array:
        """Return the numbers of the retained rows, oldest first."""
        numbers = np.arange(self.begin, self.end)
        return numbers if self.alive is None else numbers[self.alive[self.begin : self.end]]

    def append(self, columns: Mapping[str, Array], count: int) -> None:
        """Append `count` rows; texts as codes (see `stored`)."""
        if self.end + count > min(map(len, self.arrays.values())):
            self._move(count)
        new = slice(self.end, self.end + count)
        for name, values in columns.items():
            self.arrays[name][new] = values
            if name in self.highest:
                self.highest[name] = max(self.highest[name], magnitude(values))
        if self.alive is not None:
            self.alive[new] = True
        self.end += count

    def stored(self, name: str, column: StoredColumn) -> Array:
        """Return a column of events as it is stored."""
        return column.values if column.texts is None else self.codes[name].of_column(column)

    def grouped(self, columns: Mapping[str, Array], count: int) -> Array:
        """Return the group of each of `count` rows with these columns."""
        if not self._keys:
            return np.zeros(count, np.int64)
        if self.groups is self.codes.get(self._keys[0]):
            return columns[self._keys[0]]
        return self.groups.of_keys([columns[name] for name in self._keys], list(map(self.codes.get, self._keys)))

    def loaded(self, name: str, values: Sequence[Any]) -> Array | None:
        """Return Python values as they are stored; None if they do not fit."""
        if name == GROUP:
            return self.groups.of_values(values)
        if name in self.codes:
            if not {str, type(None)}.issuperset(map(type, values)):
                return None
            return self.codes[name].of_values(values)
        stored_as = ARRAY_TYPES[self._types[name]]
        if not _PYTHON_TYPES[stored_as].issuperset(map(type, values)):
            return None
        if stored_as == "bool":
            return np.array(values, stored_as)
        if any(value != value or value == NULL for value in values):
            return None  # it would be taken for null
        null = np.nan if stored_as == "float64" else NULL
        return np.array([null if value is None else value for value in values], stored_as)

    def load(self, columns: Mapping[str, Array], count: int) -> None:
        """Append `count` rows that are older than those of the next batch, and number all rows anew."""
        if count:
            self._move(count)
            self.append(columns, count)

    def forget(self, groups: Iterable[Any]) -> None:
        """Remove the rows and the codes of groups."""
        codes = self.groups.forget(groups)
        if codes and self.alive is not None:
            self.alive[np.isin(self.arrays[GROUP], codes)] = False

    def cut(self, end: int) -> None:
        """Remove the rows from number `end` on."""
        self.end = end
        self.moves += 1

    def replace(self, arrays: dict[str, Array], count: int) -> None:
        """Replace all rows by `count` rows with these columns, all that there are. Nothing is copied."""
        self.arrays, self.begin, self.end = arrays, 0, count
        self.highest = {name: magnitude(arrays[name]) for name in self.highest}
        self.moves += 1

    def clear(self) -> None:
        """Remove all rows."""
        self.begin = self.end = 0
        self.moves += 1

    def array_values(self, name: str, rows: Array) -> ArrayValues:
        """Return the values of some rows as an array."""
        values, codes = self.arrays[name][rows], self.codes.get(name)
        if codes is not None and len(codes) > len(rows):  # most texts do not occur
            places, numbers = distinct(values)
            return ArrayValues(numbers, texts=np.array([*codes.of_codes(values[places]), None], object)[:-1])
        if codes is not None:
            return ArrayValues(values, texts=np.array([*codes.values, None], object)[:-1])
        missing = is_null(values)
        return ArrayValues(values, missing if missing.any() else None)

    def values(self, name: str, rows: Array) -> list[Any]:
        """Return the Python values of some rows."""
        values = self.arrays[name][rows]
        codes = self.groups if name == GROUP else self.codes.get(name)
        if codes is not None:
            return codes.of_codes(values)
        return with_nulls(values)

    def _move(self, more: int) -> None:
        """Move the retained rows into arrays with room for as many again, so that a row is moved once on average."""
        rows = self.rows()
        room = max(2 * (len(rows) + more), _SMALLEST)
        moved = {name: np.empty(room, values.dtype) for name, values in self.arrays.items()}
        alive = None if self.alive is None else np.arange(room) < len(rows)
        for name, values in self.arrays.items():
            moved[name][: len(rows)] = values[rows]
        self.highest = {name: magnitude(moved[name][: len(rows)]) for name in self.highest}
        self.arrays, self.alive = moved, alive  # not before there is memory for all of them
        self.begin, self.end = 0, len(rows)
        self.moves += 1


def coded(*stores: RowStore) -> int:
    """Return the number of texts and groups that have a code in some stores."""
    codes = {id(own): len(own) for store in stores for own in (store.groups, *store.codes.values())}
    return sum(codes.values())


class StoredItems:
    """The items of windows whose rows are in a store. The parts of an item are the columns `names` of the store; with
    `bare` an item is its only part. The items of all groups are made when those of one are read.
    """

    def __init__(self, rows: RowStore, names: Sequence[str], *, bare: bool = False) -> None:
        self._rows = rows
        self._names = names
        self._bare = bare
        self._items_of_groups: tuple[tuple[int, int], list[Any], Array] = (-1, -1), [], np.empty(0, np.int64)

    def all(self) -> tuple[deque[Any]]:
        """Return the items of the only window, as the deferred field of a `QueueView`."""
        return (deque(self._make(self._rows.rows())),)

    def by_key(self, at: int) -> tuple[dict[Any, Any]]:
        """Return the items by the key at position `at`, as the deferred field of a `UniqueWindow`."""
        (items,) = self.all()
        return ({item[at]: item for item in items},)

    def of(self, group: int) -> tuple[deque[Any]]:
        """Return the items of a group, as the deferred field of a `QueueView`."""
        now = self._rows.moves, self._rows.end
        if self._items_of_groups[0] != now:
            rows = self._rows.rows()
            rows = rows[np.argsort(self._rows.arrays[GROUP][rows], kind="stable")]
            self._items_of_groups = now, self._make(rows), self._rows.arrays[GROUP][rows]
        _, items, groups = self._items_of_groups
        begin, end = np.searchsorted(groups, (group, group + 1)).tolist()
        return (deque(items[begin:end]),)

    def stored_for(self, view: Any) -> bool:
        """Return whether the items of a view are deferred, and will be made from the store."""
        stored = getattr(view, "stored", None)  # not set in a view that a snapshot restored
        return getattr(getattr(stored, "func", stored), "__self__", None) is self

    def columns(self, items: Sequence[Any]) -> dict[str, Array] | None:
        """Return items as columns of the store; None if arrays cannot hold them."""
        parts: Sequence[Sequence[Any]] = [items] if self._bare else list(zip(*items, strict=True))
        columns = {}
        for name, values in zip(self._names, parts or repeat(()), strict=False):
            column = np.array(values, np.int64) if name in (ARRIVAL, ORDINAL) else self._rows.loaded(name, values)
            if column is None:
                return None
            columns[name] = column
        return columns

    def _make(self, rows: Array) -> list[Any]:
        if not self._names:
            return [()] * len(rows)
        parts = [self._rows.values(name, rows) for name in self._names]
        return parts[0] if self._bare else list(zip(*parts, strict=True))
