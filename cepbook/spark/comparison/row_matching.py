"""Match the rows of two sides inside blocks of one time and one kind, in time linear in the number of rows.

Almost all rows of almost all comparisons are equal and in place: these are found column by column. The rest is matched
row by row: by all values, then by all but the floats, which may be approximate. Rows that are still left over are
paired as different values: by the key, or with a row that differs in a single column, or, in small blocks, with the
most similar one.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from cepbook.spark.comparison.typed_rows import MAX_EXACT_INTEGER, StatementRows, TypedColumn, as_kind, exact_key, utc

MAX_DIFFERENCES = 1000  # differences that are kept for reading, per statement; all are counted
ORDER_COLUMN = "(order)"  # stands for a column where only the order of rows differs
_SMALL_BLOCK = 3  # rows of a block that are not worth an array
_MAX_PAIRWISE = 40  # left-over rows of a block of which each is compared with each
_MAX_COMPARISONS = (
    2_000_000  # values that are compared one by one at most, per statement, beyond what grows with the rows
)

_Integers = npt.NDArray[np.int64]
_Positions = npt.NDArray[np.intp]
_Mask = npt.NDArray[np.bool_]
DifferenceKind = Literal["only here", "only there", "different values", "values of another kind"]


class Difference(NamedTuple):
    """A row that is not the same on both sides. `here` and `there` are rows (None: absent), `columns` those that
    differ.
    """

    time: int
    kind: str
    difference: DifferenceKind
    columns: tuple[str, ...]
    here: dict[str, Any] | None
    there: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class MatchRules:
    """The definition of equal: floats ``|a - b| <= max(absolute, tolerance * max(|a|, |b|))``.

    With `order` rows must also have the same order inside their block. Rows of equal `key` are paired. `second` is the
    number of clock units in a second.
    """

    tolerance: float = 1e-9
    order: bool = False
    nan_is_null: bool = False
    absolute: float = 0.0
    key: tuple[str, ...] = ()
    second: int = 1000


class RowBlocks(NamedTuple):
    """Row positions in order of their block, and the block of each: twice the time, plus one for remove rows."""

    positions: _Positions
    block: _Integers


class RowMatcher:
    """Matches the rows of two sides and counts. `names` are the columns that both have.

    `reordered` rows are equal, in another order within their block; `moved` has the first few. `approximate` values
    agree only within the tolerance, at most `apart` from one another, relative to their size.
    """

    def __init__(self, here: StatementRows, there: StatementRows, names: Sequence[str], rules: MatchRules) -> None:
        self.equal = self.only_here = self.only_there = self.different = self.reordered = 0
        self.approximate = 0
        self.apart = 0.0
        self.by_column: dict[str, int] = {}
        self.differences: list[Difference] = []
        self.moved: list[Difference] = []
        self._rules = rules
        self._comparisons = 0
        float32_columns = (
            here.float32_columns | there.float32_columns
        )  # one side holds 32 bits, so the other must be rounded to them
        self._columns = {n: _same_kind(here.columns[n], there.columns[n], n in float32_columns) for n in names}
        self._sides, self._singles = (here, there), float32_columns
        self._gaps = [{n for n in names if _has_gaps(n, *sides)} for sides in ((here, there), (there, here))]
        self._fuzzy = [n for n, (a, b) in self._columns.items() if _may_be_approximate(a, b)]
        self._blocks = _blocks(here), _blocks(there)
        self._unmatched_blocks = self._match(*self._blocks)

    def finish(self) -> None:
        """Match row by row the blocks that are not equal as a whole; until then only equal blocks are counted."""
        left, self._unmatched_blocks = self._unmatched_blocks, iter(())
        for block, a, b in left:
            self._match_block(block, a, b)

    # ---- whole columns

    def _match(self, a: RowBlocks, b: RowBlocks) -> Iterator[tuple[int, _Positions, _Positions]]:
        """Match whole blocks, and return the rest with their rows."""
        blocks_a, starts_a, sizes_a = np.unique(a.block, return_index=True, return_counts=True)
        blocks_b, starts_b, sizes_b = np.unique(b.block, return_index=True, return_counts=True)
        _, at_a, at_b = np.intersect1d(blocks_a, blocks_b, assume_unique=True, return_indices=True)
        alike = blocks_a[at_a[sizes_a[at_a] == sizes_b[at_b]]]
        in_a, in_b = np.isin(a.block, alike), np.isin(b.block, alike)
        wrong = self._match_alike(a.positions[in_a], b.positions[in_b], a.block[in_a])
        left = np.unique(np.concatenate([wrong, a.block[~in_a], b.block[~in_b]]))
        rows = []
        for side, blocks, starts, sizes in ((a, blocks_a, starts_a, sizes_a), (b, blocks_b, starts_b, sizes_b)):
            at = np.minimum(np.searchsorted(blocks, left), max(0, len(blocks) - 1))
            there = blocks[at] == left if len(blocks) else np.zeros(len(left), bool)
            begin, size = (starts[at], np.where(there, sizes[at], 0)) if len(blocks) else (at, at * 0)
            spans = zip(begin.tolist(), (begin + size).tolist(), strict=True)
            rows.append([side.positions[start:end] for start, end in spans])
        return zip(left.tolist(), *rows, strict=True)

    def _match_alike(self, left: _Positions, right: _Positions, block: _Integers) -> _Integers:
        """Match blocks of the same size on both sides, and return those that are not equal."""
        same = self._same(left, right)
        wrong = np.unique(block[~same])
        settled = ~np.isin(block, wrong)
        self._count_equal(left[settled], right[settled])
        if self._rules.order or not len(wrong):
            return wrong
        left, right, block, same = left[~settled], right[~settled], block[~settled], same[~settled]
        mine, theirs = self._sort_keys(left, right)
        sorted_left, sorted_right = left[np.lexsort((*mine, block))], right[np.lexsort((*theirs, block))]
        there = self._same(sorted_left, sorted_right)
        again = np.unique(block[~there])
        settled = ~np.isin(block, again)
        self._count_equal(sorted_left[settled], sorted_right[settled])
        self.reordered += int((settled & ~same).sum())
        for at in np.flatnonzero(settled & ~same)[: MAX_DIFFERENCES // 10].tolist():
            self._note(self.moved, int(block[at]), "different values", (), int(left[at]), int(right[at]))
        return again

    def _count_equal(self, left: _Positions, right: _Positions) -> None:
        """Count equal rows, and how far their floats are apart."""
        self.equal += len(left)
        for mine, theirs in self._columns.values():
            if mine.kind == theirs.kind == "float":
                x, y = mine.values[left], theirs.values[right]
                off = (x != y) & ~mine.null[left] & ~theirs.null[right] & ~(np.isnan(x) | np.isnan(y))
                if off.any():
                    x, y = x[off], y[off]
                    self.approximate += len(x)
                    self.apart = max(self.apart, float((np.abs(x - y) / np.maximum(np.abs(x), np.abs(y))).max()))

    def _same(self, left: _Positions, right: _Positions) -> _Mask:
        same = np.ones(len(left), dtype=bool)
        for mine, theirs in self._columns.values():
            same &= _same_mask(mine.take(left), theirs.take(right), self._rules)
        return same

    def _sort_keys(self, left: _Positions, right: _Positions) -> tuple[list[Any], list[Any]]:
        """Return keys that sort equal rows of both sides alike; floats count least, since they may be approximate."""
        first: list[npt.NDArray[Any]] = []
        last: list[npt.NDArray[Any]] = []
        for name, (mine, theirs) in self._columns.items():
            a, b = mine.take(left), theirs.take(right)
            null = np.concatenate([a.null, b.null])
            if {a.kind, b.kind} <= {"int", "float", "bool"}:
                values = np.concatenate([a.values, b.values])
                values[null] = 0
                (last if values.dtype.kind == "f" else first).extend((values, null))
            elif name not in self._fuzzy:
                coded: Any = [exact_key(v) for v in (*a.plain(), *b.plain())]
                first.append(pd.factorize(np.fromiter(coded, dtype=object, count=len(coded)))[0])
        keys = [*last, *first]
        return [k[: len(left)] for k in keys], [k[len(left) :] for k in keys]

    def find_type_difference(self, name: str) -> Difference | None:
        """Return the first row with a value of a column that holds another kind of values on one side."""
        (a, b), (mine, theirs) = self._blocks, self._columns[name]
        for block, p in zip(a.block[:MAX_DIFFERENCES].tolist(), a.positions[:MAX_DIFFERENCES].tolist(), strict=True):
            begin, end = np.searchsorted(b.block, [block, block + 1])
            near = [q for q in b.positions[begin:end][:_MAX_PAIRWISE].tolist() if not (theirs.null[q] or mine.null[p])]
            if near:
                q = min(near, key=lambda q: len(self._differing(p, q)))
                differences: list[Difference] = []
                self._note(differences, block, "values of another kind", (name,), p, q)
                return differences[0]
        return None

    # ---- what is not equal, row by row

    def _match_block(self, block: int, a: _Positions, b: _Positions) -> None:
        both = min(len(a), len(b))
        if both <= _SMALL_BLOCK:
            pairs = zip(a[:both].tolist(), b[:both].tolist(), strict=True)
            in_place = np.array([not self._differing(p, q, first_only=True) for p, q in pairs], bool)
        else:
            in_place = self._same(a[:both], b[:both])
        if in_place.any():
            self._count_equal(a[:both][in_place], b[:both][in_place])
        left = [*a[:both][~in_place].tolist(), *a[both:].tolist()]
        right = [*b[:both][~in_place].tolist(), *b[both:].tolist()]
        equal = self._match_in_any_order(left, right) if left and right else []
        gone = {p for p, _ in equal}, {q for _, q in equal}
        self._count_moved(block, equal, _longest_common_order(equal) if len(a) != len(b) else frozenset())
        left, right = [p for p in left if p not in gone[0]], [q for q in right if q not in gone[1]]
        paired = self._pairs(left, right)
        for p, q in paired:
            self._differ(block, p, q)
        gone = {p for p, _ in paired}, {q for _, q in paired}
        for p in left:
            if p not in gone[0]:
                self.only_here += 1
                self._note(self.differences, block, "only here", (), p, None)
        for q in right:
            if q not in gone[1]:
                self.only_there += 1
                self._note(self.differences, block, "only there", (), None, q)

    def _count_moved(self, block: int, pairs: list[tuple[int, int]], unmoved: Iterable[tuple[int, int]]) -> None:
        """Count pairs of equal rows in other places; the `unmoved` only follow a row that one side lacks."""
        if not pairs:
            return
        ordered = set(unmoved)
        moved = [pair for pair in pairs if pair not in ordered]
        if self._rules.order:
            for p, q in moved:
                self.different += 1
                self.by_column[ORDER_COLUMN] = self.by_column.get(ORDER_COLUMN, 0) + 1
                self._note(self.differences, block, "different values", (), p, q)
            pairs = [pair for pair in pairs if pair in ordered]
        else:
            self.reordered += len(moved)
            for p, q in moved[: MAX_DIFFERENCES // 10]:
                self._note(self.moved, block, "different values", (), p, q)
        self._count_equal(np.array([p for p, _ in pairs], np.intp), np.array([q for _, q in pairs], np.intp))

    def _match_in_any_order(self, left: list[int], right: list[int]) -> list[tuple[int, int]]:
        """Return pairs of equal rows: first those that are exactly equal, then those whose floats are close."""
        pairs = _pair_by_key(left, right, lambda side, row: self._row(side, row, self._columns))
        if not self._fuzzy:
            return pairs
        done = {p for p, _ in pairs}, {q for _, q in pairs}
        rest = [p for p in left if p not in done[0]], [q for q in right if q not in done[1]]
        plain = [n for n in self._columns if n not in self._fuzzy]
        candidates = _group_by(rest[1], lambda row: self._row(1, row, plain))
        for signature, mine in _group_by(rest[0], lambda row: self._row(0, row, plain)).items():
            theirs = candidates.get(signature)
            if theirs:
                pairs += self._close_pairs(mine, theirs)
        return pairs

    def _close_pairs(self, left: list[int], right: list[int]) -> list[tuple[int, int]]:
        """Return pairs of rows that agree within the tolerance, among rows that agree in all but floats."""
        floats = [n for n in self._fuzzy if self._columns[n][0].kind == self._columns[n][1].kind == "float"]
        sortable = {n: self._sorted(n, right) for n in floats}
        lead = max(floats, key=lambda n: len(set(sortable[n][0])), default=None)
        pairs: list[tuple[int, int]] = []
        matched: set[int] = set()
        for p in left:
            candidates: Sequence[int] = right
            if lead is not None:
                value = self._columns[lead][0].at(p)
                tolerance = self._rules.tolerance  # of the larger value, which may be that of the other row
                if value is not None and math.isfinite(value) and tolerance < 1:
                    values, rows = sortable[lead]
                    reach = 2 * max(self._rules.absolute, tolerance * abs(value) / (1 - tolerance))
                    start, end = bisect_left(values, value - reach), bisect_left(values, value + reach)
                    candidates = rows[start : end + 1]
            for q in candidates:
                if self._comparisons > _MAX_COMPARISONS:
                    return pairs
                if q not in matched and not self._differing(p, q, first_only=True):
                    pairs.append((p, q))
                    matched.add(q)
                    break
        return pairs

    def _sorted(self, name: str, rows: list[int]) -> tuple[list[float], list[int]]:
        column = self._columns[name][1]
        pairs = sorted((v, q) for q in rows if (v := column.at(q)) is not None and v == v)
        return [v for v, _ in pairs], [q for _, q in pairs]

    def _pairs(self, left: list[int], right: list[int]) -> list[tuple[int, int]]:
        """Return pairs of rows that seem to be the same, with different values."""
        if not left or not right:
            return []
        if self._rules.key:
            return _pair_by_key(left, right, lambda side, row: self._row(side, row, self._rules.key))
        if len(self._columns) == 1:
            return list(zip(left, right, strict=False))
        pairs: list[tuple[int, int]] = []
        rest = left, right
        if max(len(left), len(right)) <= _SMALL_BLOCK:
            return self._pair_most_similar(left, right)
        for dropped in reversed(self._columns):  # what a statement calculates comes behind what it is about
            others = [n for n in self._columns if n != dropped]
            pairs += _pair_by_key(*rest, partial(self._row, names=others, rounded=True))
            done = {p for p, _ in pairs}, {q for _, q in pairs}
            rest = [p for p in left if p not in done[0]], [q for q in right if q not in done[1]]
        return pairs + self._pair_most_similar(*rest)

    def _pair_most_similar(self, left: list[int], right: list[int]) -> list[tuple[int, int]]:
        """Pair each row with the one that has most values in common (at least one); in large blocks with one of equal
        texts.
        """
        texts = [n for n, (a, b) in self._columns.items() if a.kind == b.kind == "object" and n not in self._fuzzy]
        if max(len(left), len(right)) > _MAX_PAIRWISE:
            return _pair_by_key(left, right, lambda side, row: self._row(side, row, texts)) if texts else []
        pairs = []
        right = list(right)
        for p in left:
            if not right or (self._comparisons > _MAX_COMPARISONS and len(left) > _SMALL_BLOCK):
                break
            q = min(right, key=lambda q: len(self._differing(p, q)))
            if len(self._differing(p, q)) < len(self._columns):
                pairs.append((p, q))
                right.remove(q)
        return pairs

    def _row(self, side: int, row: int, names: Iterable[str], *, rounded: bool = False) -> Hashable:
        """Return the row's values as a key for look-ups; floats are `rounded` so that small differences vanish."""
        values = []
        for name in names:
            value = self._columns[name][side].at(row)
            if rounded and isinstance(value, float) and math.isfinite(value):
                value = float(f"{value:.8g}")
            elif self._rules.nan_is_null and isinstance(value, float) and value != value:
                value = None
            values.append(exact_key(value))
        return tuple(values)

    def _differing(self, p: int, q: int, *, first_only: bool = False) -> list[str]:
        names = []
        for name, (mine, theirs) in self._columns.items():
            self._comparisons += 1
            if not same_value(mine.at(p), theirs.at(q), self._rules):
                names.append(name)
                if first_only:
                    break
        return names

    def _differ(self, block: int, p: int, q: int) -> None:
        columns = self._differing(p, q)
        self.different += 1
        for column in columns:
            self.by_column[column] = self.by_column.get(column, 0) + 1
        self._note(self.differences, block, "different values", tuple(columns), p, q)

    def _note(
        self,
        into: list[Difference],
        block: int,
        difference: DifferenceKind,
        columns: tuple[str, ...],
        p: int | None,
        q: int | None,
    ) -> None:
        if len(into) >= MAX_DIFFERENCES:
            return
        here, there = None if p is None else self._readable_row(0, p), None if q is None else self._readable_row(1, q)
        into.append(Difference(block // 2, "remove" if block % 2 else "insert", difference, columns, here, there))

    def _readable_row(self, side: int, row: int) -> dict[str, Any]:
        """Return a row for people: whole floats that a frame has only because of gaps are whole numbers."""
        row_shown = {}
        for name in self._columns:
            value = self._sides[side].columns[name].at(row)
            if isinstance(value, float) and name in self._gaps[side] and value.is_integer():
                value = int(value)
            elif isinstance(value, float) and name in self._singles:
                value = np.float32(value).item()
            row_shown[name] = value
        return row_shown


def _group_by(rows: Iterable[int], key: Callable[[int], Hashable]) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def _pair_by_key(
    left: Iterable[int], right: Iterable[int], key: Callable[[int, int], Hashable]
) -> list[tuple[int, int]]:
    """Return pairs of rows with equal ``key(side, row)``: the first with the first, the second with the second."""
    theirs = _group_by(right, lambda row: key(1, row))
    for rows in theirs.values():
        rows.reverse()
    pairs = []
    for p in left:
        same = theirs.get(key(0, p))
        if same:
            pairs.append((p, same.pop()))
    return pairs


def _longest_common_order(pairs: list[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Return the most pairs that are in the same order on both sides (patience sorting)."""
    tops: list[int] = []
    ends: list[int] = []
    before: list[int | None] = []
    ordered = sorted(pairs)
    for at, (_, q) in enumerate(ordered):
        pile = bisect_left(tops, q)
        before.append(ends[pile - 1] if pile else None)
        tops[pile : pile + 1] = [q]
        ends[pile : pile + 1] = [at]
    longest = set()
    last = ends[-1] if ends else None
    while last is not None:
        longest.add(ordered[last])
        last = before[last]
    return frozenset(longest)


def same_value(a: Any, b: Any, rules: MatchRules) -> bool:
    """Return whether two values count as equal; see `cepbook.spark.compare`."""
    if a is None or b is None:
        other = b if a is None else a
        return other is None or (rules.nan_is_null and isinstance(other, float) and math.isnan(other))
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a == b
    if isinstance(a, float) or isinstance(b, float):
        if not (isinstance(a, int | float) and isinstance(b, int | float)):
            return bool(a == b)
        if a == b or (a != a and b != b):
            return True
        if not (math.isfinite(a) and math.isfinite(b)):
            return False
        return abs(a - b) <= max(rules.absolute, rules.tolerance * max(abs(a), abs(b)))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same_value(x, y, rules) for x, y in zip(a, b, strict=True))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return all(same_value(a.get(k), b.get(k), rules) for k in a.keys() | b.keys())
    if isinstance(a, datetime) and isinstance(b, datetime):
        return utc(a) == utc(b)
    return bool(a == b)


def _same_mask(a: TypedColumn, b: TypedColumn, rules: MatchRules) -> _Mask:
    """Apply `same_value` element by element."""
    either = a.null | b.null
    if a.kind == b.kind and a.kind in ("int", "bool"):
        return np.asarray(np.where(either, a.null & b.null, a.values == b.values), dtype=bool)
    if a.kind == b.kind == "float":
        x, y = a.values, b.values
        with np.errstate(invalid="ignore", over="ignore"):  # infinity minus infinity
            reach = np.maximum(rules.absolute, rules.tolerance * np.maximum(np.abs(x), np.abs(y)))
            close = np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= reach)
        missing_a, missing_b = a.null, b.null
        if rules.nan_is_null:
            missing_a, missing_b = missing_a | np.isnan(x), missing_b | np.isnan(y)
        same = (x == y) | close | (np.isnan(x) & np.isnan(y))
        return np.asarray(np.where(missing_a | missing_b, missing_a & missing_b, same), dtype=bool)
    if a.kind == b.kind == "object" and _is_plain(a) and _is_plain(b):
        quick = np.asarray(a.values == b.values, dtype=bool) & ~either
        left = np.flatnonzero(~quick)
        quick[left] = [same_value(a.at(i), b.at(i), rules) for i in left.tolist()]
        return quick
    pairs = zip(a.plain(), b.plain(), strict=True)
    return np.array([same_value(x, y, rules) for x, y in pairs], dtype=bool)


def _is_plain(column: TypedColumn) -> bool:
    """Return whether ``==`` agrees with `same_value` for all values: texts and whole numbers, but not booleans."""
    kinds = set(map(type, column.values)) - {type(None)}
    return all(issubclass(kind, str | int) and kind is not bool for kind in kinds)


def _may_be_approximate(a: TypedColumn, b: TypedColumn) -> bool:
    """Return whether values of a column may be approximate: floats, or lists and objects that may hold floats."""
    if "float" in (a.kind, b.kind):
        return True
    kinds = set(map(type, a.values.tolist())) | set(map(type, b.values.tolist()))
    return any(issubclass(kind, float | list | tuple | dict) for kind in kinds)


def _same_kind(a: TypedColumn, b: TypedColumn, single: bool) -> tuple[TypedColumn, TypedColumn]:
    """Convert two columns to one kind where that changes no value, and to 32 bits if one side has no more."""
    if a.kind != b.kind:
        if a.null.all():
            a = as_kind(a, b.kind)
        elif b.null.all():
            b = as_kind(b, a.kind)
        elif {a.kind, b.kind} == {"int", "float"}:
            whole = a if a.kind == "int" else b
            if int(np.abs(whole.values[~whole.null]).max()) <= MAX_EXACT_INTEGER:
                a, b = (TypedColumn("float", c.values.astype(np.float64), c.null) for c in (a, b))
    return _rounded(a, single), _rounded(b, single)


def _has_gaps(name: str, side: StatementRows, other: StatementRows) -> bool:
    """Return whether a column may hold floats only because a pandas frame has no whole numbers beside missing ones."""
    column = side.columns[name]
    return side.nan_is_null and column.kind == "float" and other.columns[name].kind == "int" and bool(column.null.any())


def _rounded(column: TypedColumn, single: bool) -> TypedColumn:
    if not single or column.kind != "float":
        return column
    with np.errstate(over="ignore", invalid="ignore"):
        return TypedColumn("float", column.values.astype(np.float32).astype(np.float64), column.null)


def _blocks(rows: StatementRows) -> RowBlocks:
    block = rows.time * 2 + rows.remove.astype(np.int64)
    positions = np.argsort(block, kind="stable")
    return RowBlocks(positions, block[positions])
