"""Locators: how the properties of an event determine its context partition.

A locator is compiled once per context and event type. Live dispatch calls `locate` for each event. A replay asks the
locator's facts first: if equal property values always give the same partition, each distinct value is located once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.hashable import key_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.vectorized.column_batch import FilterableColumns, iterate_events
from cepbook.lang.plan import expressions as x
from cepbook.lang.types import Type, is_hashable

OUTSIDE = type("Outside", (), {"__repr__": lambda self: "OUTSIDE", "__slots__": ()})()
PartitionLocation = tuple[Any, Any]  # the key under which the context finds the partition, and the key values
_SAMPLE = 512  # rows
_MAX_DISTINCT = 0.9  # share of distinct values in the sample above which locating each row is faster than a dict
_TIME_VARYING = (x.VariableRead, x.EventTypeName, x.TableRead)  # expressions that read more than properties


@dataclass(frozen=True, slots=True)
class PartitionLocator:
    """Finds the partition of events of one type. ``locate(event)`` returns the key `OUTSIDE` for events outside.

    `reads` names the properties that `locate` needs; None means all. If `deterministic`, their values alone determine
    the result and `locate` never fails. If `as_is`, the value of the one property is the key itself. If `several`, an
    event may belong to more than one partition.
    """

    locate: Callable[[Any], PartitionLocation]
    reads: tuple[str, ...] | None
    deterministic: bool = False
    as_is: bool = False
    several: bool = False

    def rows(self, columns: Mapping[str, list[Any]]) -> Iterable[Any]:
        """Return the value of the `reads` properties per row; a tuple if there are several."""
        assert self.reads is not None
        own = [columns[name] for name in self.reads]
        return own[0] if len(own) == 1 else zip(*own, strict=True)

    def coded_rows(self, columns: Mapping[str, list[Any]]) -> Sequence[Any]:
        """Return `rows` in a sequence, by their distinct values if these are known."""
        coded = None
        if isinstance(columns, FilterableColumns) and self.reads is not None and len(self.reads) == 1:
            coded = columns.coded(self.reads[0])
        return list(self.rows(columns)) if coded is None else coded

    def repeats_values(self, columns: Mapping[str, list[Any]]) -> bool:
        """Return whether locating each distinct value once is faster, judged by a sample of the rows."""
        if self.as_is or not self.deterministic:
            return self.as_is
        sample = list(islice(self.rows(columns), _SAMPLE))
        return len(set(sample)) <= _MAX_DISTINCT * len(sample)

    def locations(self, values: Sequence[Any]) -> Iterable[PartitionLocation]:
        """Return the location of each of `values`, which are values of `rows`."""
        if self.as_is or not values:
            return [(value, (value,)) for value in values]
        assert self.reads is not None
        own = [values] if len(self.reads) == 1 else zip(*values, strict=True)
        columns = {name: list(column) for name, column in zip(self.reads, own, strict=True)}
        return map(self.locate, iterate_events(columns, len(values)))


def read_properties(*exprs: x.BoundExpr | None) -> tuple[str, ...] | None:
    """Return the properties that expressions read of an event; None if they read the whole event."""
    return None if lower.reads_event(*exprs) else tuple(lower.property_names(*exprs))


def is_deterministic(e: x.BoundExpr | None) -> bool:
    """Return whether equal property values always give an equal value of `e`, without a failure."""
    if e is None:
        return True
    nodes = x.walk(e)
    exact = all(prop.key_property is not None for prop in x.find(x.Prop, e))
    return exact and lower.is_columnar(e) and not any(isinstance(node, _TIME_VARYING) for node in nodes)


def keys_are_deterministic(condition: x.BoundExpr | None, keys: Iterable[x.BoundExpr]) -> bool:
    """Return whether a filter and key expressions are deterministic. A property of an exact type is, as a key."""
    return is_deterministic(condition) and all(
        (e.property_name and is_hashable(e.type) and e.type.name not in ("double", "float"))  # NaN is no key
        or is_deterministic(e)
        for e in keys
    )


def keys_code(source: SourceWriter, types: Sequence[Type]) -> str:
    """Return code of the hashable key for the tuple of values in the local ``keys``; one value is its own key."""
    values = [f"keys[{i}]" for i in range(len(types))]
    keys = [key_code(source, value, type_) for value, type_ in zip(values, types, strict=True)]
    if len(keys) == 1:
        return keys[0]
    return "keys" if keys == values else f"({', '.join(keys)})"
