"""Events of several slices in their total order, without an object for each: replays take these one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any

from cepbook.engine.expressions.source_writer import SourceWriter

_NOBODY = 255
_SPARSE = 8  # times as many places as events


def merge_positions(places: Sequence[Sequence[int]]) -> tuple[Iterable[int], Iterable[int]]:
    """All places of some ascending sequences, ascending, and for each the number of the sequence that has it."""
    if len(places) == 1:
        return places[0], repeat(0, len(places[0]))
    given = [each for each in places if len(each)]
    if not given:
        return (), ()
    first, end = min(each[0] for each in given), max(each[-1] for each in given) + 1
    total = sum(map(len, given))
    if len(places) >= _NOBODY or end - first > _SPARSE * total:
        pairs = sorted((place, number) for number, each in enumerate(places) for place in each)
        return [place for place, _ in pairs], [number for _, number in pairs]
    owner = bytearray([_NOBODY]) * (end - first)
    for number, each in enumerate(places):
        for place in each:
            owner[place - first] = number
    if total == end - first:
        return range(first, end), owner
    return (
        [place for place, number in enumerate(owner, first) if number != _NOBODY],
        owner.translate(None, bytes([_NOBODY])),
    )


def iterate_events(columns: Mapping[str, Sequence[Any]], count: int) -> Iterator[dict[str, Any]]:
    """The `count` events of `columns`, as dicts, each made when it is asked for."""
    if not columns:
        return ({} for _ in range(count))
    return _maker(len(columns))(zip(*columns.values(), strict=True), *columns)


@cache
def _maker(width: int) -> Callable[..., Iterator[dict[str, Any]]]:
    """What makes dicts of tuples of so many values, given the keys: a display is twice as fast as ``dict(zip(…))``."""
    source, numbers = SourceWriter(), range(width)
    keys, values = ", ".join(f"n{i}" for i in numbers), "".join(f"c{i}, " for i in numbers)
    with source.block(f"def made(rows, {keys}):"), source.block(f"for {values}in rows:"):
        source.line(f"yield {{{', '.join(f'n{i}: c{i}' for i in numbers)}}}")
    made: Callable[..., Iterator[dict[str, Any]]] = source.load()["made"]
    return made
