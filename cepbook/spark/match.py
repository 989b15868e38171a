"""Matching the rows of two sides: by position, then in any order, then by likeness, inside blocks of one time and kind.

The first two steps work on whole columns, because almost all rows of almost all comparisons are equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from cepbook.spark.rows import Rows

KEPT = 1000  # differences that are kept for reading, per statement; all are counted
ORDER = "(order)"  # stands for a column where only the order of rows differs
_LARGEST_BLOCK = 200  # beyond this left-over rows of a block are paired by position, not by likeness

_Objects = npt.NDArray[np.object_]
_Integers = npt.NDArray[np.int64]
_Positions = npt.NDArray[np.intp]
_Mask = npt.NDArray[np.bool_]


class Difference(NamedTuple):
    """One row that is not the same. `here` and `there` are rows (None: absent); `columns` those that differ."""

    time: int
    kind: str
    difference: Literal["only here", "only there", "different values"]
    columns: tuple[str, ...]
    here: dict[str, Any] | None
    there: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as equal: numbers within `tolerance`; with `order` only rows in the same order inside their block."""

    tolerance: float
    order: bool
    nan_is_null: bool = False


class Blocks(NamedTuple):
    """Row positions in order of their block, and each one's block: twice the time, plus one for remove rows."""

    positions: _Positions
    block: _Integers


class Tally:
    """Counts while it matches the rows of two sides. `columns` holds the common columns of both, row by row."""

    def __init__(self, here: Rows, there: Rows, names: Sequence[str], rules: Rules) -> None:
        self.equal = self.only_here = self.only_there = self.different = self.reordered = 0
        self.by_column: dict[str, int] = {}
        self.differences: list[Difference] = []
        self._rules = rules
        singles = here.singles | there.singles  # one side holds 32 bits, so the other must be rounded to them
        self._columns: dict[str, tuple[_Objects, _Objects]] = {
            n: (_objects(here.columns[n], n in singles), _objects(there.columns[n], n in singles)) for n in names
        }
        self._match(_blocks(here), _blocks(there))

    def _match(self, a: Blocks, b: Blocks) -> None:
        blocks_a, sizes_a = np.unique(a.block, return_counts=True)
        blocks_b, sizes_b = np.unique(b.block, return_counts=True)
        _, at_a, at_b = np.intersect1d(blocks_a, blocks_b, assume_unique=True, return_indices=True)
        alike = blocks_a[at_a[sizes_a[at_a] == sizes_b[at_b]]]
        in_a, in_b = np.isin(a.block, alike), np.isin(b.block, alike)
        wrong = self._match_alike(a.positions[in_a], b.positions[in_b], a.block[in_a])
        for block in np.unique(np.concatenate([wrong, a.block[~in_a], b.block[~in_b]])).tolist():
            self._match_block(block, _rows_of_block(a, block), _rows_of_block(b, block))

    def _match_alike(self, left: _Positions, right: _Positions, block: _Integers) -> _Integers:
        """Match blocks that have the same size on both sides; returns those that are not equal."""
        same = self._same(left, right)
        wrong = np.unique(block[~same])
        again = np.isin(block, wrong)
        self.equal += int((~again).sum())
        if self._rules.order or not len(wrong):
            return wrong
        left, right, block, same = left[again], right[again], block[again], same[again]
        mine, theirs = self._sort_keys(left, right)
        there = self._same(left[np.lexsort((*mine, block))], right[np.lexsort((*theirs, block))])
        wrong = np.unique(block[~there])
        settled = ~np.isin(block, wrong)
        self.equal += int(settled.sum())
        self.reordered += int((settled & ~same).sum())
        return wrong

    def _same(self, left: _Positions, right: _Positions) -> _Mask:
        found = np.ones(len(left), dtype=bool)
        for mine, theirs in self._columns.values():
            found &= _same_mask(mine[left], theirs[right], self._rules)
        return found

    def _sort_keys(self, left: _Positions, right: _Positions) -> tuple[list[Any], list[Any]]:
        """Keys that bring equal rows of both sides into the same order; floats count least, since they may be off."""
        exact: list[npt.NDArray[Any]] = []
        floats: list[npt.NDArray[Any]] = []
        for mine, theirs in self._columns.values():
            values = np.concatenate([mine[left], theirs[right]])
            kinds = set(map(type, values.tolist()))
            if float in kinds and kinds <= _NUMBERS:
                floats.append(_as_floats(values))
            elif not kinds & {list, dict, tuple}:
                exact.append(pd.factorize(values)[0])
        keys = [*floats, *exact]
        return [k[: len(left)] for k in keys], [k[len(left) :] for k in keys]

    # ---- what is not equal, row by row

    def _match_block(self, block: int, rows_a: list[int], rows_b: list[int]) -> None:
        pairs = enumerate(zip(rows_a, rows_b, strict=False))
        in_place = {i for i, (p, q) in pairs if not self._differing(p, q, first_only=True)}
        self.equal += len(in_place)
        left = [p for i, p in enumerate(rows_a) if i not in in_place]
        right = [q for i, q in enumerate(rows_b) if i not in in_place]
        if not self._rules.order:
            left, right = self._match_anywhere(left, right)
        for p, q in self._pairs(left, right):
            columns = self._differing(p, q)
            self.different += 1
            for column in columns or [ORDER]:
                self.by_column[column] = self.by_column.get(column, 0) + 1
            self._note(block, "different values", tuple(columns), p, q)
        for p in left:
            self.only_here += 1
            self._note(block, "only here", (), p, None)
        for q in right:
            self.only_there += 1
            self._note(block, "only there", (), None, q)

    def _match_anywhere(self, left: list[int], right: list[int]) -> tuple[list[int], list[int]]:
        rest = []
        for p in left:
            found = next((q for q in right if not self._differing(p, q, first_only=True)), None)
            if found is None:
                rest.append(p)
            else:
                right.remove(found)
                self.equal += 1
                self.reordered += 1
        return rest, right

    def _pairs(self, left: list[int], right: list[int]) -> list[tuple[int, int]]:
        """Take pairs off both lists, each row with the one that has most values in common (at least one)."""
        found = []
        for p in list(left):
            if not right:
                break
            near = right if len(right) <= _LARGEST_BLOCK else right[:1]
            q = min(near, key=lambda q: len(self._differing(p, q)))
            if len(self._differing(p, q)) < len(self._columns) or len(self._columns) == 1:
                found.append((p, q))
                left.remove(p)
                right.remove(q)
        return found

    def _differing(self, p: int, q: int, *, first_only: bool = False) -> list[str]:
        found = []
        for name, (mine, theirs) in self._columns.items():
            if not same_value(mine[p], theirs[q], self._rules.tolerance, self._rules.nan_is_null):
                found.append(name)
                if first_only:
                    break
        return found

    def _note(
        self,
        block: int,
        what: Literal["only here", "only there", "different values"],
        columns: tuple[str, ...],
        p: int | None,
        q: int | None,
    ) -> None:
        if len(self.differences) >= KEPT:
            return
        here = None if p is None else {n: mine[p] for n, (mine, _) in self._columns.items()}
        there = None if q is None else {n: theirs[q] for n, (_, theirs) in self._columns.items()}
        kind = "remove" if block % 2 else "insert"
        self.differences.append(Difference(block // 2, kind, what, columns, here, there))


def same_value(a: Any, b: Any, tolerance: float, nan_is_null: bool = False) -> bool:
    """Whether two values count as equal: see `cepbook.spark.compare`."""
    if a is None or b is None:
        other = b if a is None else a
        return other is None or (nan_is_null and isinstance(other, float) and math.isnan(other))
    if isinstance(a, float) or isinstance(b, float):
        if not (isinstance(a, int | float) and isinstance(b, int | float)):
            return bool(a == b)
        if a == b or (math.isnan(a) and math.isnan(b)):
            return True
        return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same_value(x, y, tolerance, nan_is_null) for x, y in zip(a, b, strict=True))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return all(same_value(a.get(k), b.get(k), tolerance, nan_is_null) for k in a.keys() | b.keys())
    if isinstance(a, datetime) and isinstance(b, datetime) and (a.tzinfo is None) != (b.tzinfo is None):
        return a.replace(tzinfo=a.tzinfo or UTC) == b.replace(tzinfo=b.tzinfo or UTC)
    return bool(a == b)


_NUMBERS = {int, float, bool, type(None)}
_PLAIN = {int, str, bool, type(None)}


def _same_mask(a: _Objects, b: _Objects, rules: Rules) -> _Mask:
    """`same_value`, element by element."""
    kinds = set(map(type, a.tolist())) | set(map(type, b.tolist()))
    if kinds <= _PLAIN:
        return np.asarray(a == b, dtype=bool)
    if not kinds <= _NUMBERS:
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        return np.array([same_value(x, y, rules.tolerance, rules.nan_is_null) for x, y in pairs], dtype=bool)
    x, y = _as_floats(a), _as_floats(b)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        close = np.abs(x - y) <= rules.tolerance * np.maximum(1.0, np.maximum(np.abs(x), np.abs(y)))
    same = (x == y) | (np.isfinite(x) & np.isfinite(y) & close) | (np.isnan(x) & np.isnan(y))
    if not rules.nan_is_null:
        same &= _is_null(a) == _is_null(b)
    return np.asarray(same, dtype=bool)


def _is_null(values: _Objects) -> _Mask:
    return np.array([v is None for v in values.tolist()], dtype=bool)


def _as_floats(values: _Objects) -> npt.NDArray[np.float64]:
    return values.astype(np.float64)  # None becomes NaN


def _objects(values: list[Any], single: bool) -> _Objects:
    taken = [None if v is None else float(np.float32(v)) for v in values] if single else values
    return np.fromiter(taken, dtype=object, count=len(values))  # also lists become single elements


def _blocks(rows: Rows) -> Blocks:
    block = np.array(rows.time, dtype=np.int64) * 2 + np.array([k == "remove" for k in rows.kind], dtype=np.int64)
    positions = np.argsort(block, kind="stable")
    return Blocks(positions, block[positions])


def _rows_of_block(rows: Blocks, block: int) -> list[int]:
    start, end = np.searchsorted(rows.block, [block, block + 1]).tolist()
    return list(rows.positions[start:end].tolist())
