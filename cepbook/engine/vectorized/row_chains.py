"""Chains of rows by group: the rows in the window of each group, and those that are extreme values.

A chain is a row number by group for its begin and its end, and a row number by row for the next one. Chains stay from
batch to batch until the store numbers its rows anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from cepbook.engine.vectorized.kernel_form import GROUP, NULL
from cepbook.engine.vectorized.row_store import Array, RowStore

Movement = tuple[Array, Array, Array, int, int, bool]  # as in `kernels`


def null_of(numbers: Array) -> float:
    """Return what stands for null in an array of numbers."""
    return np.nan if numbers.dtype.kind == "f" else NULL


def _extended(values: Array, size: int, value: int) -> Array:
    return np.append(values, np.full(max(size - len(values), 0), value))


class WindowChains:
    """The rows of each group of a window, as chains from the oldest to the newest one.

    `before` has for each row that entered last the row before it in its group; -1 if there is none.
    """

    def __init__(self) -> None:
        self._oldest = self._newest = self._sizes = self._following = np.empty(0, np.int64)
        self.before = np.empty(0, np.int64)
        self._moves = -1

    def replace(self, loaded: ModuleType, rows: RowStore, first: int, limit: int) -> Array:
        """Let the rows from `first` on enter their groups. Return for each the row that it pushes out; -1 for none."""
        groups = rows.arrays[GROUP]
        moved = self._moves != rows.moves
        size = int(groups[0 if moved else first : rows.end].max(initial=-1)) + 1
        self._oldest, self._newest, self._sizes = (
            _extended(values, size, 0) for values in (self._oldest, self._newest, self._sizes)
        )
        if moved:
            self._moves, self._following = rows.moves, np.empty(len(groups), np.int64)
            self._sizes[:] = 0
            self._enter(loaded, groups, 0, first, first)
        return self._enter(loaded, groups, first, rows.end, limit)

    def _enter(self, loaded: ModuleType, groups: Array, first: int, end: int, limit: int) -> Array:
        left, self.before = np.empty(end - first, np.int64), np.empty(end - first, np.int64)
        chains = self._oldest, self._sizes, self._newest, self._following
        loaded.replace_oldest(groups, first, limit, chains, left, self.before)
        return left


class ExtremeQueues:
    """The rows of each group that have its least value, or its greatest, or will have it when others have left."""

    def __init__(self, *, greatest: bool) -> None:
        self._greatest = greatest
        self._oldest = self._newest = self._following = self._preceding = np.empty(0, np.int64)
        self._left = self._overtaken = np.empty(0, np.int64)
        self._values: Array = np.empty(0)
        self._first = 0
        self._moves = -1

    def update(self, kernels: ModuleType, values: Array, movement: Movement, moves: int, size: int) -> Array:
        """Let values of `size` groups enter and leave. Return the extreme value of each arrival's group after it;
        `moves` is that of the `RowStore`.
        """
        groups, first = movement[0], movement[3]
        self._oldest, self._newest = (_extended(known, size, -1) for known in (self._oldest, self._newest))
        if self._moves != moves:
            self._oldest[:] = -1
            self._following, self._preceding = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
            self._visit(kernels, values, (groups, np.empty(0, np.int64), np.zeros(first, np.int64), 0, first, False))
            self._moves = moves
        self._values, self._first = values, first
        return self._visit(kernels, values, movement)

    def _visit(self, kernels: ModuleType, values: Array, movement: Movement) -> Array:
        *_, first, end, _ = movement
        out = np.empty(end - first, values.dtype)
        self._left, self._overtaken = np.zeros(len(self._oldest), np.int64), np.zeros(len(self._oldest), np.int64)
        queues = self._oldest, self._newest, self._following, self._preceding
        gone = self._left, self._overtaken
        kernels.queue_extremes(values, null_of(values), movement, self._greatest, queues, gone, out)
        return out

    def changes(self, kernels: ModuleType, numbers: Array) -> Iterator[tuple[int, int, list[Any]]]:
        """Yield for each of the groups `numbers` how many values have gone from the begin and from the end of its queue
        since the batch began, and those that were added at the end.
        """
        ends, out = np.empty(len(numbers), np.int64), np.empty(len(self._values) - self._first, np.int64)
        kernels.queued_rows(numbers, self._oldest, self._newest, self._preceding, self._first, ends, out)
        added = self._values[out[: ends[-1] if len(ends) else 0]].tolist()
        begin = 0
        gone = self._left[numbers].tolist(), self._overtaken[numbers].tolist()
        for left, overtaken, end in zip(*gone, ends.tolist(), strict=True):
            yield left, overtaken, added[begin:end]
            begin = end
