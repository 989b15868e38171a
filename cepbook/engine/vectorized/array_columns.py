"""Event columns over numpy arrays; they evaluate conditions of the filter index before Python values are made.

A replayed frame arrives in this form. A column declines a condition (returns None) if arrays would not compare exactly
as the engine does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, or_
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cepbook.engine.subscriptions.filter_index import IndexCondition
from cepbook.engine.vectorized.column_batch import CodedValues, FilterableColumns, FilterMask
from cepbook.engine.vectorized.kernel_form import EXACT, NULL

BooleanMask = npt.NDArray[np.bool_]
RowSelection = slice | npt.NDArray[np.intp]  # a section of the rows, or the positions of rows

COMPARE: dict[str, Callable[[Any, Any], BooleanMask]] = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}
_DENSE = 8  # numbers between the lowest and the highest one, for each value, that are counted instead of sorted


class StoredColumn(NamedTuple):
    """Rows of a column as an array of numbers or truth values.

    With `texts` the values are indexes into them, also from the end; with `gaps`, NaN stands for null, in whole
    numbers `NULL`.
    """

    values: npt.NDArray[Any]
    gaps: bool = False
    texts: npt.NDArray[np.object_] | None = None


class ArrayColumn(ABC):
    """The values of one property."""

    __slots__ = ()

    def stored(self, part: RowSelection) -> StoredColumn | None:
        """Return the rows in `part` as an array; None if they have to be computed."""
        return None

    def retained(self, part: RowSelection) -> StoredColumn | None:
        """Return the same; whole numbers may have gaps."""
        return self.stored(part)

    @abstractmethod
    def take(self, part: RowSelection) -> list[Any]:
        """Return the Python values of the rows in `part`."""

    @abstractmethod
    def meets(self, part: RowSelection, condition: IndexCondition) -> BooleanMask | None:
        """Return a mask of the rows in `part` that meet `condition` (null does not); None if it cannot tell."""


class ComputedColumn(ArrayColumn):
    """A column whose values `read` computes; it evaluates no conditions."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[RowSelection], list[Any]]) -> None:
        self._read = read

    def take(self, part: RowSelection) -> list[Any]:
        return self._read(part)

    def meets(self, part: RowSelection, condition: IndexCondition) -> BooleanMask | None:
        return None


class NumberColumn(ArrayColumn):
    """Whole numbers, floats or booleans; with `gaps`, NaN stands for null."""

    __slots__ = ("_gaps", "_values")

    def __init__(self, values: npt.NDArray[Any], gaps: bool = False) -> None:
        self._values = values
        self._gaps = gaps

    def stored(self, part: RowSelection) -> StoredColumn | None:
        return StoredColumn(self._values[part], self._gaps) if self._values.dtype.kind in "fiub" else None

    def take(self, part: RowSelection) -> list[Any]:
        values = self._values[part]
        return with_nulls(values) if self._gaps else python_values(values)

    def meets(self, part: RowSelection, condition: IndexCondition) -> BooleanMask | None:
        if not all(self._comparable(value) for value in condition.values):
            return None
        values, compare = self._values[part], COMPARE[condition.op]
        return reduce(or_, (compare(values, value) for value in condition.values))

    def _comparable(self, value: object) -> bool:
        """Return True if arrays compare with `value` as Python does, without rounding it."""
        kind = self._values.dtype.kind
        if kind == "b" or isinstance(value, bool):
            return kind == "b" and isinstance(value, bool)
        if kind == "f":
            return isinstance(value, float) or (isinstance(value, int) and abs(value) <= EXACT)
        bounds = np.iinfo(self._values.dtype)
        return isinstance(value, int) and bounds.min <= value <= bounds.max


class NullableColumn(ArrayColumn):
    """A column whose values are null where `missing` is true."""

    __slots__ = ("_column", "_missing")

    def __init__(self, column: ArrayColumn, missing: BooleanMask) -> None:
        self._column = column
        self._missing = missing

    def retained(self, part: RowSelection) -> StoredColumn | None:
        stored, missing = self._column.stored(part), self._missing[part]
        if stored is None or stored.texts is not None or stored.values.dtype.kind != "i":
            return None
        numbers = stored.values.astype(np.int64)
        if (numbers[~missing] == NULL).any():
            return None
        numbers[missing] = NULL
        return StoredColumn(numbers, gaps=True)

    def take(self, part: RowSelection) -> list[Any]:
        return put_nulls(self._column.take(part), self._missing[part])

    def meets(self, part: RowSelection, condition: IndexCondition) -> BooleanMask | None:
        mask = self._column.meets(part, condition)
        return None if mask is None else mask & ~self._missing[part]


class TextColumn(ArrayColumn):
    """Texts as `codes`, indexes into `known`, so equal texts are one object. Null is the last element of `known`."""

    __slots__ = ("_codes", "_known", "_places")

    def __init__(self, codes: npt.NDArray[Any], known: npt.NDArray[np.object_]) -> None:
        self._codes = codes
        self._known = known
        self._places: dict[str, int] | None = None  # code by text, built at the first comparison

    def stored(self, part: RowSelection) -> StoredColumn:
        return StoredColumn(self._codes[part], texts=self._known)

    def take(self, part: RowSelection) -> list[Any]:
        return python_values(self._known[self._codes[part]])

    def meets(self, part: RowSelection, condition: IndexCondition) -> BooleanMask | None:
        if condition.op != "=" or not all(isinstance(value, str) for value in condition.values):
            return None
        if self._places is None:
            self._places = {text: at for at, text in enumerate(self._known[:-1].tolist())}
        codes, places = self._codes[part], self._places
        matching_codes = [places[value] for value in condition.values if value in places]
        return reduce(or_, (codes == at for at in matching_codes), np.zeros(len(codes), bool))


class ArrayColumns(FilterableColumns):
    """The columns `names` of the rows `part`; `column` returns each of them.

    `clock` has the times of the events; `times` are those of the part, if they are known already.
    """

    __slots__ = ("_clock", "_column", "_made", "_names", "_part")

    def __init__(
        self,
        names: Collection[str],
        column: Callable[[str], ArrayColumn],
        clock: ArrayColumn,
        part: RowSelection,
        times: list[int] | None = None,
    ) -> None:
        self._names = names
        self._column = column
        self._clock = clock
        self._part = part
        self._made: dict[ArrayColumn, list[Any]] = {} if times is None else {clock: times}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._names:
            raise KeyError(name)
        return self._list(self._column(name))

    def stored(self, name: str | None) -> StoredColumn | None:
        """Return a column, or the times (None), as an array; None if its values have to be computed."""
        return (self._clock if name is None else self._column(name)).stored(self._part)

    def retained(self, name: str) -> StoredColumn | None:
        """Return a column as an array, in which whole numbers may have gaps; None if its values have to be computed."""
        return self._column(name).retained(self._part)

    def coded(self, name: str) -> CodedValues | None:
        stored = self.retained(name) if name in self._names else None
        if stored is None or (stored.texts is None and stored.values.dtype.kind not in "iu"):
            return None
        places, codes = distinct(stored.values)
        values = stored.values[places]
        return CodedValues(with_nulls(values) if stored.texts is None else python_values(stored.texts[values]), codes)

    def of_rows(self, places: npt.ArrayLike) -> ArrayColumns:
        """Return the columns of the rows at some places of these."""
        places = np.asarray(places, np.intp)
        selection: RowSelection = slice(0, 0)
        if len(places):
            selection = places + (self._part.start or 0) if isinstance(self._part, slice) else self._part[places]
        return ArrayColumns(self._names, self._column, self._clock, selection)

    def part(self, begin: int, end: int | None) -> ArrayColumns:
        if not isinstance(self._part, slice):
            return ArrayColumns(self._names, self._column, self._clock, self._part[begin:end])
        first, last = self._part.start or 0, self._part.stop  # None: all rows from the first on
        stop = last if end is None else first + end if last is None else min(first + end, last)
        return ArrayColumns(self._names, self._column, self._clock, slice(first + begin, stop))

    def _list(self, column: ArrayColumn) -> list[Any]:
        values = self._made.get(column)
        if values is None:
            values = self._made[column] = column.take(self._part)
        return values

    def meets(self, condition: IndexCondition) -> BooleanMask | None:
        """Return a mask of the rows that meet `condition`; None if the column cannot tell."""
        return self._column(condition.name).meets(self._part, condition)

    def passing(self, ways: Sequence[Sequence[IndexCondition]]) -> FilterMask | None:
        masks, exact = [], True
        for way in ways:
            known_masks = list(map(self.meets, way))
            masks_of_way = [mask for mask in known_masks if mask is not None]
            if not masks_of_way:
                return None
            exact = exact and len(masks_of_way) == len(known_masks)
            masks.append(reduce(and_, masks_of_way))
        mask = reduce(or_, masks)
        places = np.flatnonzero(mask)
        columns = self if len(places) == len(mask) else self.of_rows(places)
        return FilterMask(mask.tobytes(), memoryview(places.data), columns._list(self._clock), columns, exact)


def stored_columns(columns: Mapping[str, Any], names: Iterable[str]) -> dict[str, StoredColumn] | None:
    """Return columns of events as arrays, in which whole numbers may have gaps; None if one is not."""
    if not isinstance(columns, ArrayColumns):
        return None
    stored = {name: columns.retained(name) for name in names}
    known = {name: column for name, column in stored.items() if column is not None}
    return known if len(known) == len(stored) else None


def arrivals(
    places: Sequence[npt.ArrayLike], times: Sequence[npt.ArrayLike], now: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """Return the order in which events of several batches arrive at an engine whose clock shows `now`, and the times at
    which they do, in this order. `places` are the positions of the events, `times` their times; the clock does not go
    back.
    """
    order = np.argsort(np.concatenate([np.asarray(own, np.int64) for own in places]), kind="stable")
    in_order = np.concatenate([np.asarray(own, np.int64) for own in times])[order]
    return order, np.maximum(np.maximum.accumulate(in_order), now)


def distinct(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the place of one element for each distinct value, ascending by value, and for each element the number of
    its value among these.
    """
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    room = high - low + 1
    if room > _DENSE * len(values):
        _, places, numbers = np.unique(values, return_index=True, return_inverse=True)
        return places, numbers
    place = np.full(room, -1)
    offsets = values.astype(np.int64) - low
    place[offsets] = np.arange(len(values))
    present = np.flatnonzero(place >= 0)
    places = place[present]
    place[present] = np.arange(len(present))
    return places, place[offsets]


def distinct_keys(parts: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the same as `distinct` for keys whose parts are in several arrays."""
    places, numbers = distinct(parts[0])
    for more in parts[1:]:
        own_places, own_numbers = distinct(more)
        places, numbers = distinct(numbers * len(own_places) + own_numbers)
    return places, numbers


def python_values(values: npt.NDArray[Any]) -> list[Any]:
    """Return plain Python values."""
    plain: list[Any] = values.tolist()
    return plain


def put_nulls(values: list[Any], missing: BooleanMask) -> list[Any]:
    """Replace the values by None where `missing` is true, and return them."""
    for at in np.flatnonzero(missing).tolist():
        values[at] = None
    return values


def is_null(numbers: npt.NDArray[Any]) -> BooleanMask:
    """Return a mask of the numbers that stand for null: NaN, in whole numbers `NULL`."""
    mask: BooleanMask
    if numbers.dtype.kind == "f":
        mask = np.isnan(numbers)
    else:
        mask = numbers == NULL if numbers.dtype == np.int64 else np.zeros(len(numbers), bool)
    return mask


def with_nulls(numbers: npt.NDArray[Any]) -> list[Any]:
    """Return plain numbers, None for those that stand for null."""
    missing = is_null(numbers)
    if not missing.any():
        return python_values(numbers)
    values = numbers.astype(object)
    values[missing] = None
    return python_values(values)
