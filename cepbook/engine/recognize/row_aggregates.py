"""Aggregates over the rows of a variable in measures of `match_recognize`; all values are available at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cepbook.engine.aggregates.accumulators import ACCUMULATORS, Accumulator
from cepbook.engine.aggregates.deviations import StandardDeviation
from cepbook.engine.expressions.hashable import hashable
from cepbook.lang.java.numbers import to_float32, wrap
from cepbook.lang.registry.aggregates import aggregate_row
from cepbook.lang.types import BITS, Type

RowAggregate = Callable[[list[Any]], Any]


# The rows of a variable that may have several: an earlier run or None, a log of rows, of which those from one index to
# another (exclusive) are the last ones of the run, the number of all its rows, and the first of them.
RowRun = tuple[Any, list[Any], int, int, int, Any]
MatchRows = tuple[Any, ...]  # by variable: the row, or a run of several; None without any


def run_rows(run: RowRun | None) -> list[Any] | None:
    """Return the rows of a variable as a new list, or None without rows."""
    if run is None:
        return None
    earlier, log, start, stop, _, _ = run
    rows = log[start:stop]
    while earlier is not None:
        earlier, log, start, stop, _, _ = earlier
        rows[:0] = log[start:stop]
    return rows


def run_row_at(run: RowRun | None, index: int) -> Any:
    """Return the row at an index from 0, or None."""
    if run is None or not 0 <= index < run[4]:
        return None
    if index == 0:
        return run[5]
    back = run[4] - index
    while True:
        earlier, log, start, stop, _, _ = run
        if back <= stop - start:
            return log[stop - back]
        back -= stop - start
        run = earlier


def last_run_row(run: RowRun | None) -> Any:
    """Return the last row, or None."""
    return None if run is None else run[1][run[3] - 1]


def run_length(run: RowRun | None) -> int | None:
    """Return the number of rows, or None without rows (recorded: a group variable that is empty)."""
    return None if run is None else run[4]


def with_run(rows: MatchRows, variable: int, log: list[Any], start: int, stop: int) -> MatchRows:
    """Return `rows` with the log from `start` up to but excluding `stop` appended to the run of `variable`."""
    run, first, count = rows[variable], log[start], stop - start
    earlier: RowRun | None = run
    if run is not None:
        first, count = run[5], run[4] + count
        if run[1] is log and run[3] == start:
            earlier, start = run[0], run[2]
    return (*rows[:variable], (earlier, log, start, stop, count, first), *rows[variable + 1 :])


def read_rows(rows: MatchRows, ahead: Sequence[int]) -> tuple[Any, ...]:
    """Return the identity of the rows of the variables `ahead`."""
    cells = (rows[number] for number in ahead)
    return tuple((id(cell[0]), id(cell[1]), cell[2], cell[3]) if type(cell) is tuple else id(cell) for cell in cells)


def row_aggregate(name: str, type_: Type, distinct: bool) -> RowAggregate:
    """Return the aggregate `name` as a function of a list of values; `type_` is its result type."""
    aggregate = _TYPED[name](type_) if name in _TYPED else _FOLDS.get(name)
    if aggregate is None:
        raise ValueError(f"no aggregate {name}")
    if aggregate_row(name).nulls == "kept":
        return aggregate
    of_values = aggregate

    def present(values: list[Any]) -> Any:
        present_values = [value for value in values if value is not None]
        if distinct:  # the first of equal values counts
            present_values = list({hashable(value): value for value in reversed(present_values)}.values())[::-1]
        return of_values(present_values)

    return present


def _sum(type_: Type) -> RowAggregate:
    bits = BITS.get(type_.name)

    def total(values: list[Any]) -> Any:
        if not values:
            return None
        result = values[0]
        for value in values[1:]:
            result = result + value
        if type_.name == "float":
            return to_float32(result)
        return result if bits is None else wrap(result, bits)

    return total


def _average(values: list[Any]) -> Any:
    return sum(values) / len(values) if values else None


def _median(values: list[Any]) -> Any:
    if not values:
        return None
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _spread(values: list[Any]) -> StandardDeviation:
    spread = StandardDeviation()
    for value in values:
        spread.enter(value)
    return spread


def _accumulated(create: Callable[[], Accumulator], values: list[Any]) -> Any:
    accumulator = create()
    for value in values:
        accumulator.enter(value)
    return accumulator.value()


_FOLDS: dict[str, RowAggregate] = {
    "count": len,
    "avg": _average,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "window": lambda values: list(values) if values else None,
    "median": _median,
    "stddev": lambda values: _spread(values).sample(),
    "stddevpop": lambda values: _spread(values).population(),
    **{name: partial(_accumulated, create) for name, create in ACCUMULATORS.items()},
}
_TYPED: dict[str, Callable[[Type], RowAggregate]] = {"sum": _sum}  # of the type of their value
