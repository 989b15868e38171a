"""The insert rows of a statement as series of numbers: columns that grow while the statement delivers.

A row costs 16 bytes, and 8 for each charted column. Rows that the feed has dropped meanwhile stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd

from cepbook.display import format_value
from cepbook.errors import printable
from cepbook.feeds import Feed, FeedColumns

SERIES = 20  # values of the `by` column that are drawn
GROUPS = 1_000  # values that are told apart
LABEL = 80  # characters
_POSITION_BITS = 16
_LAST_POSITION = (1 << _POSITION_BITS) - 1


class GrowingArray:
    """A numpy array that grows at its end."""

    def __init__(self, dtype: Any) -> None:
        self._buffer = np.empty(64, dtype)
        self._size = 0

    @property
    def values(self) -> np.ndarray:
        """All values: a view, valid until the next `extend`."""
        return self._buffer[: self._size]

    def extend(self, values: np.ndarray) -> None:
        """Append values."""
        size = self._size + len(values)
        if size > len(self._buffer):
            larger = np.empty(max(size, len(self._buffer) * 3 // 2), self._buffer.dtype)
            larger[: self._size] = self.values
            self._buffer = larger
        self._buffer[self._size : size] = values
        self._size = size


class RowGroup:
    """The rows with one value of the `by` column: their times, the keys by which the feed finds them, their numbers."""

    def __init__(self, label: str, columns: int) -> None:
        self.label = label
        self._times, self._keys = GrowingArray(np.int64), GrowingArray(np.int64)
        self._numbers = [GrowingArray(np.float64) for _ in range(columns)]

    def __len__(self) -> int:
        return len(self._times.values)

    def extend(self, times: np.ndarray, keys: np.ndarray, numbers: Sequence[np.ndarray]) -> None:
        """Append rows."""
        self._times.extend(times)
        self._keys.extend(keys)
        for array, values in zip(self._numbers, numbers, strict=True):
            array.extend(values)

    @property
    def times(self) -> np.ndarray:
        """The times in clock units, in order."""
        return self._times.values

    def numbers(self, column: int) -> np.ndarray:
        """Return the values of a charted column; NaN is null."""
        return self._numbers[column].values

    def key(self, place: int) -> int:
        """Return the key of a row for `row_of`."""
        return int(self._keys.values[place])


@dataclass(frozen=True, slots=True)
class Series:
    """One charted column of one group."""

    label: str
    group: RowGroup
    column: int

    @property
    def values(self) -> np.ndarray:
        """The values; NaN is null."""
        return self.group.numbers(self.column)


class SeriesRows:
    """The insert rows of one feed, by the value of `by`. `lost` counts rows that nothing had any more at the start."""

    def __init__(self, y: Sequence[str], by: str | None) -> None:
        self.y, self.by = tuple(y), by
        self.lost = 0
        self._groups: dict[Any, RowGroup] = {}
        self._cursor = 0

    def read(self, feed: Feed) -> None:
        """Append the rows that were delivered since the last call."""
        if not self._cursor:
            self.lost = feed.lost
        for piece in feed.everything(self._cursor):
            self._append(piece)
        self._cursor = feed.deliveries

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    @property
    def groups(self) -> list[RowGroup]:
        """The groups to draw: those with the most rows, in order of their first row."""
        groups = list(self._groups.values())
        if len(groups) <= SERIES:
            return groups
        most = set(sorted(groups, key=len, reverse=True)[:SERIES])
        return [group for group in groups if group in most]

    @property
    def group_count(self) -> int:
        """The number of values of `by`, at most `GROUPS`."""
        return len(self._groups)

    @property
    def series(self) -> list[Series]:
        """The series to draw."""
        return [
            Series(name if self.by is None else group.label if len(self.y) == 1 else f"{group.label} {name}", group, at)
            for group in self.groups
            for at, name in enumerate(self.y)
        ]

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and last time in clock units; None without rows."""
        filled = [group.times for group in self._groups.values() if len(group)]
        return (int(min(t[0] for t in filled)), int(max(t[-1] for t in filled))) if filled else None

    def _append(self, piece: FeedColumns) -> None:
        times, columns = np.array(piece.times, dtype=np.int64), [_numbers(piece.column(name)) for name in self.y]
        first, count = piece.numbers[0] if piece.numbers else 0, len(piece.numbers)
        if all(piece.inserts) and piece.numbers == list(range(first, first + count)):  # one row in each delivery
            keys = np.arange(first, first + count) << _POSITION_BITS
        else:
            inserts = np.array(piece.inserts, dtype=bool)
            keys = _keys(np.array(piece.numbers, dtype=np.int64))[inserts]
            times, columns = times[inserts], [column[inserts] for column in columns]
        if not len(keys):
            return
        if self.by is None:
            group = self._group(None)
            assert group is not None
            group.extend(times, keys, columns)
            return
        code, values = _coded(compress(piece.column(self.by), piece.inserts))
        order = np.argsort(code, kind="stable")
        ends = np.cumsum(np.bincount(code, minlength=len(values)))
        for value, start, end in zip(values, (0, *ends[:-1]), ends, strict=True):
            rows = order[start:end]
            group = self._group(value)
            if group is not None:
                group.extend(times[rows], keys[rows], [column[rows] for column in columns])

    def _group(self, value: Any) -> RowGroup | None:
        group = self._groups.get(value)
        if group is None and len(self._groups) < GROUPS:
            label = printable(format_value(value))
            label = label if len(label) <= LABEL else label[: LABEL - 1] + "…"
            group = self._groups[value] = RowGroup(label, len(self.y))
        return group


def _keys(numbers: np.ndarray) -> np.ndarray:
    """Return the keys of the rows of whole deliveries with these numbers, by which `row_of` finds them."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    behind = np.arange(len(numbers)) - np.repeat(starts, np.diff(starts, append=len(numbers)))
    keys: np.ndarray = numbers << _POSITION_BITS | np.minimum(behind, _LAST_POSITION)
    return keys


def _numbers(values: Sequence[Any]) -> np.ndarray:
    """Return values as floats; what is null or no finite number is NaN."""
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([_number(value) for value in values], dtype=np.float64)
    numbers[np.isinf(numbers)] = np.nan
    return numbers


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _coded(values: Iterable[Any]) -> tuple[np.ndarray, list[Any]]:
    """Return the number of each value, and the distinct values in order of their first row."""
    column = pd.Series(list(values), dtype=object)
    try:
        codes, distinct = pd.factorize(column, use_na_sentinel=False)
    except TypeError:  # lists and maps: by their texts
        codes, distinct = pd.factorize(column.map(format_value))
    return codes, [None if value is None or value != value else value for value in distinct]


def row_of(feed: Feed, key: int) -> tuple[int, Mapping[str, Any]] | None:
    """Return the time (clock units) and the values of an insert row; None if the feed has lost it."""
    number, position = key >> _POSITION_BITS, key & _LAST_POSITION
    piece = next(feed.everything(number), None)
    if piece is None or number not in piece.numbers:
        return None
    at = piece.numbers.index(number) + position
    if at >= len(piece.numbers) or piece.numbers[at] != number:
        return None
    names = list(piece.values[0][at]) if piece.names is None else piece.names
    return piece.times[at], {name: piece.column(name)[at] for name in names}
