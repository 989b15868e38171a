"""The states that a batch of a statement changes: one, or those of the context partitions that its events are in.

Kernels see groups of rows. Without a context these are the groups of the statement; in a context each partition is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cepbook.engine.vectorized.array_columns import distinct
from cepbook.engine.vectorized.column_batch import CodedValues
from cepbook.engine.vectorized.kernel_form import KernelForm
from cepbook.engine.vectorized.row_store import Array, RowStore

_LOOKED_AT = 4  # known partitions for each event of a batch, at most, among which ended ones are looked for


def distinct_partitions(assignments: Sequence[Any]) -> tuple[Sequence[Any], Array] | None:
    """Return partitions, and for each event the place of its own among them; None unless each event is in exactly one.

    `assignments` are those of the events. If they are coded, a partition is listed for each value that leads to it.
    """
    if isinstance(assignments, CodedValues):
        places, codes = distinct(assignments.codes)
        assignments = [assignments[place] for place in places.tolist()]
    else:
        codes = np.arange(len(assignments))
    return (assignments, codes) if {type(None), tuple}.isdisjoint(map(type, assignments)) else None


class BatchStates(ABC):
    """The states that a batch changes. `state` is the only one of them; None in a context."""

    state: Any = None

    @property
    @abstractmethod
    def groups(self) -> int:
        """The number of groups that are read and written for the batch, whether it has events of them or not."""

    @abstractmethod
    def grouped(self, rows: RowStore, new: Mapping[str, Array], count: int) -> Array:
        """Return the code of the group of each of `count` events with the columns `new`."""

    @abstractmethod
    def cells(self) -> dict[Any, list[Any]]:
        """Return the cells of the groups by key; those of ungrouped aggregates by None."""

    @abstractmethod
    def views(self) -> dict[Any, Any]:
        """Return the windows by key of their group; the only window by None."""

    @abstractmethod
    def known_views(self, rows: RowStore) -> Iterable[Any]:
        """Return the windows of all groups that a store knows."""

    @abstractmethod
    def view(self, key: Any, now: int) -> Any:
        """Return the window of a group, which may be new."""

    @abstractmethod
    def ordinals(self, count: int) -> Array:
        """Return the ordinals of the `count` events."""

    @abstractmethod
    def count_events(self, count: int) -> None:
        """Let the ordinals of later events follow those of these events."""


class SingleState(BatchStates):
    """The state of a statement without a context, whose windows and cells may be by group."""

    def __init__(self, form: KernelForm, state: Any) -> None:
        self.state = state
        self._form = form

    @property
    def groups(self) -> int:
        cells = len(self.state.groups) if self._form.grouped else 0
        return max(cells, len(self.state.view.by_key) if self._form.divided else 0)

    def grouped(self, rows: RowStore, new: Mapping[str, Array], count: int) -> Array:
        return rows.grouped(new, count)

    def cells(self) -> dict[Any, list[Any]]:
        groups: dict[Any, list[Any]] = self.state.groups if self._form.grouped else {None: self.state.cells}
        return groups

    def views(self) -> dict[Any, Any]:
        return dict(self.state.view.by_key) if self._form.divided else {None: self.state.view}

    def known_views(self, rows: RowStore) -> Iterable[Any]:
        return self.views().values()

    def view(self, key: Any, now: int) -> Any:
        by_key = self.state.view.by_key
        return by_key[key] if key in by_key else self.state.view.open(key, now)

    def ordinals(self, count: int) -> Array:
        ordinals: Array = np.arange(1, count + 1) + self.state.ordinal
        return ordinals

    def count_events(self, count: int) -> None:
        self.state.ordinal += count


class PartitionStates(BatchStates):
    """The states in `slot` of partitions. `codes` has for each event the place of its partition in `partitions`, which
    may list one more than once.
    """

    def __init__(self, partitions: Sequence[Any], codes: Array, slot: int) -> None:
        places, numbers = distinct(np.array([partition.id for partition in partitions], np.int64))
        self._numbers = numbers[codes]
        self._slot = slot
        self._states = {partitions[place]: partitions[place].states[slot] for place in places.tolist()}

    @property
    def groups(self) -> int:
        return len(self._states)

    def grouped(self, rows: RowStore, new: Mapping[str, Array], count: int) -> Array:
        known = rows.groups.in_turn(_LOOKED_AT * count)
        rows.forget([partition for partition in known if partition is not None and partition.ended])
        codes: Array = rows.groups.of_values(list(self._states))[self._numbers]
        return codes

    def cells(self) -> dict[Any, list[Any]]:
        return {partition: state.cells for partition, state in self._states.items()}

    def views(self) -> dict[Any, Any]:
        return {partition: state.view for partition, state in self._states.items()}

    def known_views(self, rows: RowStore) -> Iterable[Any]:
        return [known.states[self._slot].view for known in rows.groups.values if known is not None and not known.ended]

    def view(self, key: Any, now: int) -> Any:
        return self._states[key].view

    def ordinals(self, count: int) -> Array:
        counts = self._counts()
        ordinals = np.empty(count, np.int64)
        ordinals[np.argsort(self._numbers, kind="stable")] = np.arange(1, count + 1)
        before = np.array([state.ordinal for state in self._states.values()], np.int64)
        ordinals += (before - np.cumsum(counts) + counts)[self._numbers]
        return ordinals

    def count_events(self, count: int) -> None:
        for state, own in zip(self._states.values(), self._counts().tolist(), strict=True):
            state.ordinal += own

    def _counts(self) -> Array:
        counts: Array = np.bincount(self._numbers, minlength=len(self._states))
        return counts
