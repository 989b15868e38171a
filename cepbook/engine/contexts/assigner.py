"""Which partition each event of a replayed slice is in, where nothing but the event decides that.

A slice is dealt out before any statement runs through it. Where a few properties decide, each of their values is
located once, and the rows follow by a look into a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol

from cepbook.engine.contexts.event_counts import PartitionCounts
from cepbook.engine.contexts.partition import ContextPartition, PartitionAssignment
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.vectorized.event_order import iterate_events, merge_positions
from cepbook.lang.plan import expressions as x
from cepbook.lang.types import EXACT_KEY_TYPES, Type, is_hashable

OUTSIDE = type("Outside", (), {"__repr__": lambda self: "OUTSIDE", "__slots__": ()})()
PartitionLocation = tuple[Any, Any]  # a key, by which the context finds the partition, and the values that it shows
_SAMPLE = 512  # rows
_SHARE = 0.9  # of distinct values among these from which on it takes longer to look values up than to locate them
_LATER = (x.VariableRead, x.EventTypeName, x.TableRead)  # what an expression may read beside properties


@dataclass(frozen=True, slots=True)
class PartitionLocator:
    """How events of a type find their partition: ``locate(event)``; the key is `OUTSIDE` for events that are in none.

    `reads` are the properties that this needs, None: all there are. With `decides` their values alone tell, and equal
    ones tell the same; with `as_is` the value of the one property is the key. With `several` an event may be in more
    than one.
    """

    locate: Callable[[Any], PartitionLocation]
    reads: tuple[str, ...] | None
    decides: bool = False
    as_is: bool = False
    several: bool = False

    def rows(self, columns: Mapping[str, list[Any]]) -> Iterable[Any]:
        """The values that decide of each row: of several properties as tuples."""
        assert self.reads is not None
        own = [columns[name] for name in self.reads]
        return own[0] if len(own) == 1 else zip(*own, strict=True)

    def pays(self, columns: Mapping[str, list[Any]]) -> bool:
        """Whether values of `rows` come again, as far as the first of them tell."""
        if self.as_is or not self.decides:
            return self.as_is
        sample = list(islice(self.rows(columns), _SAMPLE))
        return len(set(sample)) <= _SHARE * len(sample)

    def located(self, values: Sequence[Any]) -> Iterable[PartitionLocation]:
        """What `locate` gives for values of `rows`."""
        if self.as_is or not values:
            return [(value, (value,)) for value in values]
        assert self.reads is not None
        own = [values] if len(self.reads) == 1 else zip(*values, strict=True)
        columns = {name: list(column) for name, column in zip(self.reads, own, strict=True)}
        return map(self.locate, iterate_events(columns, len(values)))


class ArrivingColumns(NamedTuple):
    """Events of one type, in order: their way, columns, times (ms) and places among all events of the replay."""

    way: PartitionLocator
    columns: Mapping[str, list[Any]]
    times: Sequence[int]
    places: Sequence[int]


class Assignable(Protocol):
    """A context whose partitions only events allocate, which alone decide, and nothing but hands end."""

    name: str

    @property
    def watched(self) -> bool:
        """As of `Context`."""

    @property
    def event_counters(self) -> list[PartitionCounts]:
        """As of `Context`."""

    def way(self, type_name: str) -> PartitionLocator | None:
        """How events of a type find their partition; None: they open none."""

    def by_key(self) -> dict[Any, ContextPartition]:
        """The live partitions by key, if it has ways whose values are keys as they are."""

    def find(self, key: Any) -> PartitionAssignment:
        """What is live for a key, nothing of it too; None where something is missing."""

    def allocate(self, key: Any, keys: Any, time: int) -> PartitionAssignment:
        """`find` with what is missing allocated, where that can be (else it was told): it shows the values `keys`, and
        begins at `time`. Of several the new ones come first.
        """

    def failed(self, failure: Exception) -> None:
        """Report a run-time failure."""


class PartitionAssigner:
    """Assigns the partitions of a context to rows of a replay."""

    __slots__ = ("_context",)

    def __init__(self, context: Assignable) -> None:
        self._context = context

    @property
    def name(self) -> str:
        """That of the context."""
        return self._context.name

    @property
    def watched(self) -> bool:
        """As of `Context`."""
        return self._context.watched

    @property
    def event_counters(self) -> list[PartitionCounts]:
        """As of `Context`."""
        return self._context.event_counters

    def way(self, type_name: str) -> PartitionLocator | None:
        """How events of a type find their partition; None: they open none."""
        return self._context.way(type_name)

    def assign(self, streams: Sequence[ArrivingColumns]) -> list[list[PartitionAssignment]]:
        """Where each row of a replay is, stream by stream; partitions are allocated in the order of all rows."""
        found = self._by_values(streams) if all(each.way.pays(each.columns) for each in streams) else None
        return self._one_by_one(streams) if found is None else found

    def locator(self, way: PartitionLocator) -> Callable[[Any, int], PartitionAssignment]:
        """Where an event is, given its time: what is missing there is allocated. None outside the context."""
        return self._locator(way, keeps=False)

    def _locator(self, way: PartitionLocator, *, keeps: bool) -> Callable[[Any, int], PartitionAssignment]:
        """As `locator`; what was found is not looked for again if it `keeps` it, while no partition ends."""
        context, locate, find = self._context, way.locate, self._context.find
        known: dict[Any, PartitionAssignment] = {OUTSIDE: None}  # by key

        def of(event: Any, time: int) -> PartitionAssignment:
            try:
                key, keys = locate(event)
                if key in known:
                    return known[key]
                partition = find(key)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                context.failed(failure)
                return None
            if partition is None:
                return context.allocate(key, keys, time) or None
            if keeps:
                known[key] = partition or None
            return partition or None

        return of

    # -------------------------------------------------------------- by value
    def _by_values(self, streams: Sequence[ArrivingColumns]) -> list[list[PartitionAssignment]] | None:
        """`assign` with each value located once; None where some of that failed, which each event is to tell of, or
        where the first event of several new partitions is to be seen in these ahead of others.
        """
        rows = [list(each.way.rows(each.columns)) for each in streams]
        known: list[dict[Any, Any]] = []
        first: dict[Any, tuple[int, int, Any]] = {}  # of each new key: place, time and values
        opened: list[tuple[dict[Any, Any], Any, Any]] = []
        for own, each in zip(rows, streams, strict=True):
            known.append(self._context.by_key() if each.way.as_is else {})
            try:
                fresh = self._located(each.way, list(set(own).difference(known[-1])), known[-1])
            except Exception:  # noqa: BLE001 - the events meet it again, and tell of it
                return None
            if fresh and each.way.several:
                return None
            for value, place, time in zip(own, each.places, each.times, strict=True) if fresh else ():
                if value in fresh:
                    key, keys = fresh.pop(value)
                    opened.append((known[-1], value, key))
                    first[key] = min(first.get(key, (place, time, keys)), (place, time, keys), key=_place)
                    if not fresh:
                        break
        for key, (_, time, keys) in sorted(first.items(), key=lambda each: each[1][0]):
            self._context.allocate(key, keys, time)
        for partitions, value, key in opened:
            partition = self._context.find(key)
            if partition is None:
                return None
            partitions[value] = partition or None
        return [list(map(each.__getitem__, own)) for own, each in zip(rows, known, strict=True)]

    def _located(
        self, way: PartitionLocator, values: Sequence[Any], known: dict[Any, Any]
    ) -> dict[Any, PartitionLocation]:
        """Tell `known` the partitions of values; those that have none yet, with what is located of them."""
        fresh: dict[Any, PartitionLocation] = {}
        for value, (key, keys) in zip(values, way.located(values), strict=True):
            partition = None if key is OUTSIDE else self._context.find(key)
            if partition is None and key is not OUTSIDE:
                fresh[value] = key, keys
            else:
                known[value] = partition or None
        return fresh

    # -------------------------------------------------------------- row by row
    def _one_by_one(self, streams: Sequence[ArrivingColumns]) -> list[list[PartitionAssignment]]:
        rows = [zip(each.times, iterate_events(each.columns, len(each.times)), strict=True) for each in streams]
        locators = [self._locator(each.way, keeps=True) for each in streams]
        found: list[list[PartitionAssignment]] = [[] for _ in streams]
        _, order = merge_positions([each.places for each in streams])
        for number in order:
            time, event = next(rows[number])
            found[number].append(locators[number](event, time))
        return found


def _place(each: tuple[int, int, Any]) -> int:
    return each[0]


def read_properties(*exprs: x.BoundExpr | None) -> tuple[str, ...] | None:
    """The properties that expressions need of an event; None: all that it has."""
    return None if lower.reads_event(*exprs) else tuple(lower.property_names(*exprs))


def is_deterministic(e: x.BoundExpr | None) -> bool:
    """Whether equal values of properties always give the same for `e`, and without a failure."""
    if e is None:
        return True
    parts = x.walk(e)
    plain = all(part.type.name in EXACT_KEY_TYPES for part in parts if isinstance(part, x.Prop))
    return plain and lower.is_columnar(e) and not any(isinstance(part, _LATER) for part in parts)


def keys_are_deterministic(condition: x.BoundExpr | None, keys: Iterable[x.BoundExpr]) -> bool:
    """`decided` of a filter and of keys, which are equal if the properties are that they are."""
    return is_deterministic(condition) and all(
        (isinstance(e, x.Prop) and _is_exact(e.type)) or is_deterministic(e) for e in keys
    )


def _is_exact(type_: Type) -> bool:
    """Whether values of the type are keys as they are, and each equals itself: not NaN."""
    return is_hashable(type_) and type_.name not in ("double", "float")
