"""What the engine asks of columns before lists of values are made of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from typing import Any

from cepbook.engine.subscriptions.filter_index import IndexCondition


class FilterableColumns(Mapping[str, list[Any]]):
    """Columns of a slice that can be asked before lists are made of them: each is made when it is first read."""

    @abstractmethod
    def passing(self, ways: Sequence[Sequence[IndexCondition]]) -> FilterMask | None:
        """Which events meet all conditions of one of `ways`; None where nothing can be told."""


@dataclass(frozen=True, slots=True)
class FilterMask:
    """What `Columns.passing` found: `flags` with a byte for each event, `places` of those that pass, their `times` and
    `columns`. Where not `exact`, some of them may not meet what could not be told.
    """

    flags: bytes
    places: Sequence[int]
    times: list[int]
    columns: FilterableColumns
    exact: bool


@dataclass(frozen=True, slots=True)
class FilteredBatch:
    """The events of a slice that passed conditions, as a slice, and of each event of the whole one whether it did.

    Where not `exact`, there may be others among them.
    """

    slice: ColumnBatch
    flags: Sequence[Any]
    exact: bool = True


@dataclass(frozen=True, slots=True)
class ColumnBatch:
    """Consecutive events of one type: `times` ascending (ms), `columns` by property name, all of one length.

    `ranks` are the positions of the events in the total order of the replay; needed when several types are replayed.
    """

    type: str
    times: list[int]
    columns: Mapping[str, list[Any]]
    ranks: Sequence[int] | None = None

    @property
    def places(self) -> Sequence[int]:
        """The positions of the events among all of the slice."""
        return range(len(self.times)) if self.ranks is None else self.ranks

    def rows(self) -> Iterable[tuple[int, int, tuple[Any, ...]]]:
        """(place, time, values in the order of `columns`) of each event."""
        values = zip(*self.columns.values(), strict=True) if self.columns else repeat(())
        return zip(self.places, self.times, values)  # noqa: B905 - without columns the times tell how many

    def where(self, wanted: Sequence[Any]) -> ColumnBatch:
        """The events that are `wanted`."""
        columns = {name: list(compress(values, wanted)) for name, values in self.columns.items()}
        return ColumnBatch(self.type, list(compress(self.times, wanted)), columns, list(compress(self.places, wanted)))

    def passing(self, ways: Sequence[Sequence[IndexCondition]]) -> FilteredBatch | None:
        """The events that meet all conditions of one of `ways`; None where the columns cannot tell beforehand."""
        told = (
            self.columns.passing(ways) if isinstance(self.columns, FilterableColumns) and all(ways) and ways else None
        )
        if told is None:
            return None
        ranks = told.places if self.ranks is None else list(compress(self.ranks, told.flags))
        return FilteredBatch(ColumnBatch(self.type, told.times, told.columns, ranks), told.flags, told.exact)

    def part(self, begin: int, end: int | None = None) -> ColumnBatch:
        """The events number `begin` (from 0) to before `end`."""
        cut = slice(begin, end)
        columns = {name: values[cut] for name, values in self.columns.items()}
        return ColumnBatch(self.type, self.times[cut], columns, self.places[cut])
