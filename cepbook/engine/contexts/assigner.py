"""Assigning replayed events to context partitions before any statement processes them.

This is possible if the event alone determines its partition, and only an event or the user creates or ends partitions.
Where a few properties decide, each distinct value is located once and all rows are mapped by a dict.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cepbook.engine.contexts.locator import OUTSIDE, PartitionLocation, PartitionLocator
from cepbook.engine.contexts.partition import ContextPartition, PartitionAssignment, PartitionCounts
from cepbook.engine.vectorized.column_batch import CodedValues, iterate_events, merge_positions


class ArrivingColumns(NamedTuple):
    """Events of one type in order: their locator, columns, times (ms), and positions among all events of the replay."""

    locator: PartitionLocator
    columns: Mapping[str, list[Any]]
    times: Sequence[int]
    places: Sequence[int]


class PartitionAssigner(ABC):
    """Finds the context partitions of replayed events, creating partitions that do not exist yet."""

    name: str
    event_counters: list[PartitionCounts]  # call `rewired` of the runtime after a change of the list

    @property
    @abstractmethod
    def watched(self) -> bool:
        """True if a partition listener was added for this context alone."""

    @abstractmethod
    def locator(self, type_name: str) -> PartitionLocator | None:
        """Return the locator of events of a type; None if they create no partitions."""

    @abstractmethod
    def find(self, key: Any) -> PartitionAssignment:
        """Return the live partitions of a key, which may be none: (); None if one is missing."""

    @abstractmethod
    def allocate(self, key: Any, keys: Any, time: int) -> PartitionAssignment:
        """Return the partitions of a key and allocate missing ones, which show the values `keys` and begin at `time`.

        New partitions come first. A partition that cannot begin is reported and left out.
        """

    @abstractmethod
    def failed(self, failure: Exception) -> None:
        """Report a run-time failure."""

    def partitions_by_key(self) -> dict[Any, ContextPartition]:
        """Return the live partitions by key if the context has `as_is` locators."""
        return {}

    def assign(self, streams: Sequence[ArrivingColumns]) -> Sequence[Sequence[PartitionAssignment]]:
        """Return the assignment of each row, stream by stream. Partitions are allocated in the order of all rows."""
        by_value = all(stream.locator.repeats_values(stream.columns) for stream in streams)
        assignments = self._by_values(streams) if by_value else None
        return self._by_rows(streams) if assignments is None else assignments

    def partition_finder(self, locator: PartitionLocator) -> Callable[[Any, int], PartitionAssignment]:
        """Return a function (event, time) that assigns an event, allocating missing partitions.

        It returns None for events outside the context.
        """
        return self._finder(locator, caches=False)

    def _finder(self, locator: PartitionLocator, *, caches: bool) -> Callable[[Any, int], PartitionAssignment]:
        """Return a `partition_finder`; with `caches` it remembers results, which is right while no partition ends."""
        locate, find = locator.locate, self.find
        cache: dict[Any, PartitionAssignment] = {OUTSIDE: None}  # by key

        def assignment_of(event: Any, time: int) -> PartitionAssignment:
            try:
                key, keys = locate(event)
                if key in cache:
                    return cache[key]
                partition = find(key)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self.failed(failure)
                return None
            if partition is None:
                return self.allocate(key, keys, time) or None
            if caches:
                cache[key] = partition or None
            return partition or None

        return assignment_of

    def _by_values(self, streams: Sequence[ArrivingColumns]) -> list[Sequence[PartitionAssignment]] | None:
        """Assign each distinct value once.

        None if locating a value fails, since each event must report that, or if new partitions overlap, since their
        first event must reach them ahead of others.
        """
        rows = [stream.locator.coded_rows(stream.columns) for stream in streams]
        by_value: list[dict[Any, Any]] = []
        first_rows: dict[Any, tuple[int, int, Any]] = {}  # of each new key: position, time and key values
        new_values: list[tuple[dict[Any, Any], Any, Any]] = []
        for values, stream in zip(rows, streams, strict=True):
            by_value.append(self.partitions_by_key() if stream.locator.as_is else {})
            try:
                distinct = set(values.values if isinstance(values, CodedValues) else values)
                missing = self._locate(stream.locator, list(distinct.difference(by_value[-1])), by_value[-1])
            except Exception:  # noqa: BLE001 - locating the single events raises it again and reports it
                return None
            if missing and stream.locator.several:
                return None
            for value, position, time in zip(values, stream.places, stream.times, strict=True) if missing else ():
                if value in missing:
                    key, keys = missing.pop(value)
                    new_values.append((by_value[-1], value, key))
                    first = first_rows.get(key)
                    if first is None or position < first[0]:
                        first_rows[key] = position, time, keys
                    if not missing:
                        break
        for key, (_, time, keys) in sorted(first_rows.items(), key=lambda entry: entry[1][0]):
            self.allocate(key, keys, time)
        for assignments, value, key in new_values:
            partition = self.find(key)
            if partition is None:
                return None
            assignments[value] = partition or None
        return [_mapped(values, assigned) for values, assigned in zip(rows, by_value, strict=True)]

    def _locate(
        self, locator: PartitionLocator, values: Sequence[Any], assignments: dict[Any, Any]
    ) -> dict[Any, PartitionLocation]:
        """Put the assignments of values into `assignments`; return the locations of values without a partition."""
        missing: dict[Any, PartitionLocation] = {}
        for value, (key, keys) in zip(values, locator.locations(values), strict=True):
            partition = None if key is OUTSIDE else self.find(key)
            if partition is None and key is not OUTSIDE:
                missing[value] = key, keys
            else:
                assignments[value] = partition or None
        return missing

    def _by_rows(self, streams: Sequence[ArrivingColumns]) -> list[list[PartitionAssignment]]:
        rows = [zip(s.times, iterate_events(s.columns, len(s.times)), strict=True) for s in streams]
        finders = [self._finder(stream.locator, caches=True) for stream in streams]
        assignments: list[list[PartitionAssignment]] = [[] for _ in streams]
        _, order = merge_positions([stream.places for stream in streams])
        for number in order:
            time, event = next(rows[number])
            assignments[number].append(finders[number](event, time))
        return assignments


def _mapped(values: Sequence[Any], assigned: Mapping[Any, Any]) -> Sequence[Any]:
    if isinstance(values, CodedValues):
        return CodedValues(list(map(assigned.__getitem__, values.values)), values.codes)
    return list(map(assigned.__getitem__, values))
