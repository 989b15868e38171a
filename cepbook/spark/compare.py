"""Whether two runs delivered the same rows, statement by statement, and where they did not.

Rows are matched inside blocks of one time and one kind (insert, remove): first by position, then, where that fails,
in any order. What is left over on both sides of a block is paired as "different values", the rest is "only here" or
"only there". Numbers agree when ``|a - b| <= tolerance * max(1, |a|, |b|)``; NaN equals NaN; null equals null only,
except that a pandas frame cannot tell null and NaN apart.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from cepbook.errors import UsageError
from cepbook.spark.rows import Rows, rows_of, statements_of

KEPT = 1000  # differences that are kept for reading, per statement; all are counted
_LARGEST_BLOCK = 200  # beyond this left-over rows of a block are paired by position, not by likeness
_SHOWN = 5
_ORDER = "(order)"
_YEAR = 31_536_000_000
_Mask = npt.NDArray[np.bool_]
_Positions = npt.NDArray[np.intp]


class Difference(NamedTuple):
    """One row that is not the same. `here` and `there` are rows (None: absent); `columns` those that differ."""

    time: int
    kind: str
    difference: Literal["only here", "only there", "different values"]
    columns: tuple[str, ...]
    here: dict[str, Any] | None
    there: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of one statement, in rows. `reordered` rows are among the equal ones, unless order counts.

    `by_column` counts the different values; `notes` say what could not be compared.
    """

    statement: str
    equal: int
    only_here: int
    only_there: int
    different: int
    reordered: int
    by_column: Mapping[str, int]
    notes: tuple[str, ...]
    incomplete: bool
    differences: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        """Whether no difference was found."""
        return not (self.only_here or self.only_there or self.different or self.incomplete)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found; prints as a report."""

    statements: Mapping[str, Verdict]

    @property
    def verdict(self) -> str:
        """``"equal"`` when every statement's rows are, else ``"different"``."""
        return "equal" if all(v.same for v in self.statements.values()) else "different"

    @property
    def frame(self) -> pd.DataFrame:
        """One row per statement with the number of rows of each verdict; what the comparison chart takes."""
        found = self.statements.values()
        return pd.DataFrame(
            {
                "statement": [v.statement for v in found],
                "equal": [v.equal for v in found],
                "different values": [v.different for v in found],
                "only here": [v.only_here for v in found],
                "only there": [v.only_there for v in found],
            }
        )

    def differences(self, name: str) -> pd.DataFrame:
        """The differences of a statement (the first 1,000): time, kind, difference, column, here, there.

        A row that is missing on one side is one line with the whole row; different values are one line per column.
        """
        if name not in self.statements:
            raise UsageError(f"statement {name} was not compared; compared were: {', '.join(self.statements)}")
        lines: list[tuple[Any, ...]] = []
        for d in self.statements[name].differences:
            if d.columns and d.here is not None and d.there is not None:
                lines += [(d.time, d.kind, d.difference, c, d.here.get(c), d.there.get(c)) for c in d.columns]
            else:
                lines.append((d.time, d.kind, d.difference, None, d.here, d.there))
        return pd.DataFrame(lines, columns=["time", "kind", "difference", "column", "here", "there"])

    def __str__(self) -> str:
        lines = [_headline(self)]
        width = max((len(name) for name in self.statements), default=0)
        for v in self.statements.values():
            lines.append(f"  {v.statement:<{width}}  {_summary(v)}")
            lines += [f"  {'':<{width}}  {note}" for note in v.notes]
            lines += [f"  {'':<{width}}    {_sentence(d)}" for d in v.differences[:_SHOWN]]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{h}</th>" for h in ("statement", "verdict", "", ""))
        body = []
        for v in self.statements.values():
            sign, colour = ("✓ equal", "#1a7f37") if v.same else ("✗ different", "#cf222e")
            more = "<br>".join(html.escape(t) for t in (*v.notes, *(_sentence(d) for d in v.differences[:_SHOWN])))
            cells = f"<td>{html.escape(v.statement)}</td><td style='color:{colour}'><b>{sign}</b></td>"
            body.append(f"<tr>{cells}<td>{html.escape(_summary(v))}</td><td style='text-align:left'>{more}</td></tr>")
        return f"<p><b>{html.escape(_headline(self))}</b></p><table><tr>{head}</tr>{''.join(body)}</table>"


def compare(
    interactive: Any,
    batch: Any,
    *,
    tolerance: float = 1e-9,
    order: bool = False,
    statements: Sequence[str] | None = None,
) -> Comparison:
    """Compare the rows that statements delivered `interactive`-ly ("here") with those of `batch` ("there").

    Each side is a Workbench (the rows that its feeds keep), a `SparkRun`, or a mapping of statement name to a pandas
    frame with ``time`` (ms), ``kind`` and the statement's columns, in order of delivery. Compared are `statements`,
    by default those of `batch`. With `order` rows of one time and kind that come in another order are different;
    without it they are equal, and counted. When a feed has dropped its oldest rows, rows up to the first complete time
    are left out on both sides, and only their number is compared. Raises `UsageError` for unknown names.
    """
    here, there = statements_of(interactive), statements_of(batch)
    names = list(there) if statements is None else list(statements)
    for name in names:
        if name not in here or name not in there:
            side, known = ("interactive", here) if name not in here else ("batch", there)
            raise UsageError(f"the {side} side has no statement {name}; it has {', '.join(known) or 'none'}")
    rules = _Rules(tolerance, order)
    return Comparison({n: _judge(n, rows_of(interactive, n), rows_of(batch, n), rules) for n in names})


@dataclass(frozen=True, slots=True)
class _Rules:
    tolerance: float
    order: bool
    nan_is_null: bool = False


def _judge(name: str, here: Rows, there: Rows, rules: _Rules) -> Verdict:
    rules = _Rules(rules.tolerance, rules.order, here.nan_is_null or there.nan_is_null)
    notes, columns = [], [c for c in here.columns if c in there.columns]
    for side, own, other in (("here", here, there), ("there", there, here)):
        missing = [c for c in own.columns if c not in other.columns]
        if missing:
            notes.append(f"columns only {side}: {', '.join(missing)}")
    incomplete = bool(notes)
    here, there, note, uneven = _complete(here, there)
    if note:
        notes.append(note)
    tally = _Tally(_columns(here, there, columns), rules)
    tally.match(_sorted(here), _sorted(there), here, there)
    return Verdict(
        name,
        tally.equal,
        tally.only_here,
        tally.only_there,
        tally.different,
        tally.reordered,
        tally.by_column,
        tuple(notes),
        incomplete or uneven,
        tuple(tally.differences),
    )


def _columns(here: Rows, there: Rows, names: Sequence[str]) -> dict[str, tuple[list[Any], list[Any]]]:
    found = {}
    for name in names:
        a, b = here.columns[name], there.columns[name]
        if name in here.singles | there.singles:  # one side holds 32 bits, so the other must be rounded to them
            a, b = _singles(a), _singles(b)
        found[name] = (a, b)
    return found


def _singles(values: list[Any]) -> list[Any]:
    return [None if v is None else float(np.float32(v)) for v in values]


def _complete(here: Rows, there: Rows) -> tuple[Rows, Rows, str, bool]:
    """Both sides from the first time complete on both, a note on what was left out, and whether that differs."""
    if not here.dropped and not there.dropped:
        return here, there, "", False
    starts = [side.time[0] if side.time else _NO_TIME for side in (here, there) if side.dropped]
    start = max(starts)
    kept = [_after(side, start) for side in (here, there)]
    left = [side.total - len(cut.time) for side, cut in zip((here, there), kept, strict=True)]
    uneven = left[0] != left[1]
    numbers = f"{left[0]:,} here and {left[1]:,} there" if uneven else f"{left[0]:,} on both sides"
    which = "interactive" if here.dropped else "batch"
    until = "" if start == _NO_TIME else f" up to {_moment(start)}"
    note = f"the {which} feed dropped its oldest rows, so rows{until} were counted only ({numbers})"
    return kept[0], kept[1], note, uneven


_NO_TIME = 1 << 62


def _after(rows: Rows, start: int) -> Rows:
    chosen = [i for i, t in enumerate(rows.time) if t > start]
    columns = {name: [values[i] for i in chosen] for name, values in rows.columns.items()}
    time, kind = [rows.time[i] for i in chosen], [rows.kind[i] for i in chosen]
    return Rows(time, kind, columns, nan_is_null=rows.nan_is_null, singles=rows.singles)


class _Sorted(NamedTuple):
    """Row positions by (time, kind), stable, with the block's (time, kind code) of each."""

    positions: _Positions
    time: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]


def _sorted(rows: Rows) -> _Sorted:
    time = np.array(rows.time, dtype=np.int64)
    kind = np.array([k == "remove" for k in rows.kind], dtype=np.int64)
    positions = np.lexsort((kind, time))
    return _Sorted(positions, time[positions], kind[positions])


class _Tally:
    """Counts while it matches the rows of two sides."""

    def __init__(self, columns: Mapping[str, tuple[list[Any], list[Any]]], rules: _Rules) -> None:
        self._columns = columns
        self._rules = rules
        self.equal = self.only_here = self.only_there = self.different = self.reordered = 0
        self.by_column: dict[str, int] = {}
        self.differences: list[Difference] = []

    def match(self, a: _Sorted, b: _Sorted, here: Rows, there: Rows) -> None:
        """Match all rows: by position in blocks of the same size, block by block where that does not work out."""
        blocks_a, blocks_b = _blocks(a), _blocks(b)
        alike = [k for k, bounds in blocks_a.items() if k in blocks_b and _size(blocks_b[k]) == _size(bounds)]
        left = _gather(a.positions, [blocks_a[key] for key in alike])
        right = _gather(b.positions, [blocks_b[key] for key in alike])
        same = np.ones(len(left), dtype=bool)
        for mine, theirs in self._columns.values():
            same &= _same_mask(_take(mine, left), _take(theirs, right), self._rules)
        slow = set(blocks_a.keys() ^ blocks_b.keys()) | (blocks_a.keys() & blocks_b.keys()) - set(alike)
        start = 0
        wrong = np.flatnonzero(~same)
        for key in alike if len(wrong) else ():
            size = _size(blocks_a[key])
            if not same[start : start + size].all():
                slow.add(key)
            start += size
        self.equal += len(left) - sum(_size(blocks_a[key]) for key in slow & set(alike))
        for key in sorted(slow):
            rows_a = a.positions[slice(*blocks_a.get(key, (0, 0)))].tolist()
            rows_b = b.positions[slice(*blocks_b.get(key, (0, 0)))].tolist()
            self._match_block(key, rows_a, rows_b)

    def _match_block(self, key: tuple[int, int], rows_a: list[int], rows_b: list[int]) -> None:
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
            for column in columns or [_ORDER]:
                self.by_column[column] = self.by_column.get(column, 0) + 1
            self._note(key, "different values", tuple(columns), p, q)
        for p in left:
            self.only_here += 1
            self._note(key, "only here", (), p, None)
        for q in right:
            self.only_there += 1
            self._note(key, "only there", (), None, q)

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
        key: tuple[int, int],
        what: Literal["only here", "only there", "different values"],
        columns: tuple[str, ...],
        p: int | None,
        q: int | None,
    ) -> None:
        if len(self.differences) >= KEPT:
            return
        here = None if p is None else {n: mine[p] for n, (mine, _) in self._columns.items()}
        there = None if q is None else {n: theirs[q] for n, (_, theirs) in self._columns.items()}
        self.differences.append(Difference(key[0], "remove" if key[1] else "insert", what, columns, here, there))


def same_value(a: Any, b: Any, tolerance: float, nan_is_null: bool = False) -> bool:
    """Whether two values count as equal, by the rules of this module."""
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


def _same_mask(a: list[Any], b: list[Any], rules: _Rules) -> _Mask:
    if a == b:
        return np.ones(len(a), dtype=bool)
    pairs = zip(a, b, strict=True)
    return np.array([same_value(x, y, rules.tolerance, rules.nan_is_null) for x, y in pairs], dtype=bool)


def _blocks(rows: _Sorted) -> dict[tuple[int, int], tuple[int, int]]:
    if not len(rows.time):
        return {}
    changes = np.flatnonzero((rows.time[1:] != rows.time[:-1]) | (rows.kind[1:] != rows.kind[:-1])) + 1
    bounds = [0, *changes.tolist(), len(rows.time)]
    starts = bounds[:-1]
    keys = zip(rows.time[starts].tolist(), rows.kind[starts].tolist(), strict=True)
    return dict(zip(keys, zip(starts, bounds[1:], strict=True), strict=True))


def _size(bounds: tuple[int, int]) -> int:
    return bounds[1] - bounds[0]


def _gather(positions: _Positions, blocks: Sequence[tuple[int, int]]) -> list[int]:
    return [i for start, end in blocks for i in positions[start:end].tolist()]


def _take(values: list[Any], positions: list[int]) -> list[Any]:
    return [values[i] for i in positions]


def _headline(comparison: Comparison) -> str:
    verdicts = comparison.statements.values()
    many = f"{len(verdicts)} statement{'' if len(verdicts) == 1 else 's'}"
    if comparison.verdict == "equal":
        return f"equal: {many}, {sum(v.equal for v in verdicts):,} rows"
    wrong = [v.statement for v in verdicts if not v.same]
    return f"different: {len(wrong)} of {many} ({', '.join(wrong)})"


def _summary(v: Verdict) -> str:
    parts = [f"{v.equal:,} equal"]
    if v.reordered:
        parts[0] += f" ({v.reordered:,} in another order within their time)"
    for count, what in ((v.only_here, "only here"), (v.only_there, "only there")):
        if count:
            parts.append(f"{count:,} {what}")
    if v.different:
        columns = ", ".join(f"{name}: {count:,}" for name, count in v.by_column.items())
        parts.append(f"{v.different:,} with different values ({columns})")
    return ", ".join(parts)


def _sentence(d: Difference) -> str:
    at = f"{_moment(d.time)} {d.kind}"
    if d.here is not None and d.there is not None:
        if not d.columns:
            return f"{at}  in another order: {', '.join(f'{c}={v!r}' for c, v in d.here.items())}"
        values = "; ".join(f"{c}: {d.here[c]!r} here, {d.there[c]!r} there" for c in d.columns)
        equal = ", ".join(f"{c}={v!r}" for c, v in d.here.items() if c not in d.columns)
        return f"{at}  {values}" + (f"  ({equal})" if equal else "")
    row = ", ".join(f"{c}={v!r}" for c, v in (d.here or d.there or {}).items())
    return f"{at}  {d.difference}: {row}"


def _moment(time: int) -> str:
    if time < _YEAR:
        return f"{time} ms"
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
