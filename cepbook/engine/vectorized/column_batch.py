"""Column batches: consecutive events of one type as columns, the unit in which a replay feeds the engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress, repeat
from typing import Any

from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.subscriptions.filter_index import IndexCondition


class CodedValues(Sequence[Any]):
    """The values of rows.

    `values` has each value, mostly once. The array `codes` has for each row the place of its value there.
    """

    __slots__ = ("codes", "values")

    def __init__(self, values: list[Any], codes: Any) -> None:
        self.values = values
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, at: Any) -> Any:
        return self.values[self.codes[at]]

    def __iter__(self) -> Iterator[Any]:
        return map(self.values.__getitem__, self.codes.tolist())


class FilterableColumns(Mapping[str, list[Any]]):
    """Columns that can evaluate conditions before lists of values are made; each list is made when it is first read."""

    @abstractmethod
    def passing(self, ways: Sequence[Sequence[IndexCondition]]) -> FilterMask | None:
        """Return the events that meet all conditions of one of `ways`, or None if the columns cannot tell."""

    @abstractmethod
    def part(self, begin: int, end: int | None) -> FilterableColumns:
        """Return the columns of the events from number `begin` up to but excluding `end`."""

    def coded(self, name: str) -> CodedValues | None:
        """Return a column by its distinct values; None unless they are known without a look at each row."""
        return None


@dataclass(frozen=True, slots=True)
class FilterMask:
    """The result of `FilterableColumns.passing`.

    `flags` has one byte per event; `places`, `times` and `columns` are those of the events that pass. Unless `exact`,
    some of them may fail a condition that the columns could not evaluate.
    """

    flags: bytes
    places: Sequence[int]
    times: list[int]
    columns: FilterableColumns
    exact: bool


@dataclass(frozen=True, slots=True)
class FilteredBatch:
    """The events of a batch that passed conditions, and one flag for each event of the whole batch.

    Unless `exact`, some events may not meet the conditions.
    """

    batch: ColumnBatch
    flags: Sequence[Any]
    exact: bool = True

    def of(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values of the events that passed, given those of the whole batch."""
        if isinstance(values, CodedValues):
            return CodedValues(values.values, values.codes[list(compress(range(len(values)), self.flags))])
        return list(compress(values, self.flags))


@dataclass(frozen=True, slots=True)
class ColumnBatch:
    """Consecutive events of one type: `times` ascending (ms), and `columns` of the same length by property name.

    `ranks` are the positions of the events in the total order of the replay; needed when several types are replayed.
    """

    type: str
    times: list[int]
    columns: Mapping[str, list[Any]]
    ranks: Sequence[int] | None = None

    @property
    def places(self) -> Sequence[int]:
        """The positions of the events in the total order."""
        return range(len(self.times)) if self.ranks is None else self.ranks

    def rows(self) -> Iterable[tuple[int, int, tuple[Any, ...]]]:
        """Yield (position, time, values in the order of `columns`) of each event."""
        values = zip(*self.columns.values(), strict=True) if self.columns else repeat(())
        return zip(self.places, self.times, values)  # noqa: B905 - without columns the times tell how many

    def where(self, flags: Sequence[Any]) -> ColumnBatch:
        """Return the events for which `flags` is true."""
        columns = {name: list(compress(values, flags)) for name, values in self.columns.items()}
        return ColumnBatch(self.type, list(compress(self.times, flags)), columns, list(compress(self.places, flags)))

    def passing(self, ways: Sequence[Sequence[IndexCondition]]) -> FilteredBatch | None:
        """Return the events that meet all conditions of one of `ways`, or None if the columns cannot tell."""
        mask = (
            self.columns.passing(ways) if isinstance(self.columns, FilterableColumns) and all(ways) and ways else None
        )
        if mask is None:
            return None
        ranks = mask.places if self.ranks is None else list(compress(self.ranks, mask.flags))
        return FilteredBatch(ColumnBatch(self.type, mask.times, mask.columns, ranks), mask.flags, mask.exact)

    def part(self, begin: int, end: int | None = None) -> ColumnBatch:
        """Return the events from number `begin` (from 0) up to but excluding `end`."""
        cut = slice(begin, end)
        columns: Mapping[str, list[Any]]
        if isinstance(self.columns, FilterableColumns):
            columns = self.columns.part(begin, end)
        else:
            columns = {name: values[cut] for name, values in self.columns.items()}
        return ColumnBatch(self.type, self.times[cut], columns, self.places[cut])


_NOBODY = 255
_SPARSE = 8  # a table of positions may be this many times larger than the number of events


def merge_positions(places: Sequence[Sequence[int]]) -> tuple[Iterable[int], Iterable[int]]:
    """Merge ascending sequences of positions: all positions in order, and for each the number of its sequence."""
    if len(places) == 1:
        return places[0], repeat(0, len(places[0]))
    nonempty = [sequence for sequence in places if len(sequence)]
    if not nonempty:
        return (), ()
    first, end = min(sequence[0] for sequence in nonempty), max(sequence[-1] for sequence in nonempty) + 1
    total = sum(map(len, nonempty))
    if len(places) >= _NOBODY or end - first > _SPARSE * total:
        pairs = sorted((place, number) for number, sequence in enumerate(places) for place in sequence)
        return [place for place, _ in pairs], [number for _, number in pairs]
    owner = bytearray([_NOBODY]) * (end - first)
    for number, sequence in enumerate(places):
        for place in sequence:
            owner[place - first] = number
    if total == end - first:
        return range(first, end), owner
    return (
        [place for place, number in enumerate(owner, first) if number != _NOBODY],
        owner.translate(None, bytes([_NOBODY])),
    )


def iterate_events(columns: Mapping[str, Sequence[Any]], count: int) -> Iterator[dict[str, Any]]:
    """Yield `count` events as dicts, each made when it is requested."""
    if not columns:
        return ({} for _ in range(count))
    return _maker(len(columns))(zip(*columns.values(), strict=True), *columns)


@cache
def _maker(width: int) -> Callable[..., Iterator[dict[str, Any]]]:
    """Return a generator function that makes dicts by a display, twice as fast as `dict(zip(…))`."""
    source, numbers = SourceWriter(), range(width)
    keys, values = ", ".join(f"n{i}" for i in numbers), "".join(f"c{i}, " for i in numbers)
    with source.block(f"def made(rows, {keys}):"), source.block(f"for {values}in rows:"):
        source.line(f"yield {{{', '.join(f'n{i}: c{i}' for i in numbers)}}}")
    events_of: Callable[..., Iterator[dict[str, Any]]] = source.load()["made"]
    return events_of
