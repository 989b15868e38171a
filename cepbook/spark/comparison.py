"""Whether two runs delivered the same rows, statement by statement, and where they did not.

Rows are matched inside blocks of one time and one kind (insert, remove): first by position, then, where that fails,
in any order. What is left over on both sides of a block is paired as "different values", the rest is "only here" or
"only there". A comparison is "equal" only when it saw everything: rows that a bounded feed has dropped, and failures of
a statement, make it "incomplete". Numbers agree when ``|a - b| <= tolerance * max(1, |a|, |b|)``;
NaN equals NaN; null equals null only, except that a pandas frame cannot tell null and NaN apart.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pandas as pd

from cepbook.errors import UsageError
from cepbook.spark.match import Difference, Rules, Tally
from cepbook.spark.rows import Rows, failures_of, rows_of, statements_of

_SIGNS = {
    "equal": ("✓ equal", "#1a7f37"),
    "incomplete": ("? incomplete", "#9a6700"),
    "different": ("✗ different", "#cf222e"),
}
_SHOWN = 5  # differences of a statement that a report prints
_YEAR = 31_536_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of one statement, in rows. `reordered` rows are among the equal ones, unless order counts.

    `by_column` counts the different values; `uncompared` rows were dropped by a feed on one side at least, `failures`
    are those of the statement on each side (here, there): each may have cost rows. `notes` say what could not be
    compared; with `uneven` that is a difference: columns of one side only, or another number of dropped rows.
    """

    statement: str
    equal: int
    only_here: int
    only_there: int
    different: int
    reordered: int
    by_column: Mapping[str, int]
    notes: tuple[str, ...]
    uneven: bool
    uncompared: int
    failures: tuple[int, int]
    differences: tuple[Difference, ...]

    @property
    def verdict(self) -> str:
        """``"different"``, ``"incomplete"`` (no difference in what could be compared) or ``"equal"``."""
        if self.only_here or self.only_there or self.different or self.uneven:
            return "different"
        return "incomplete" if self.uncompared or any(self.failures) else "equal"

    @property
    def same(self) -> bool:
        """Whether all rows of both sides were compared and are equal."""
        return self.verdict == "equal"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found; prints as a report."""

    statements: Mapping[str, Verdict]

    @property
    def verdict(self) -> str:
        """``"different"`` when one statement's rows are, else ``"incomplete"`` when one's could not all be compared."""
        found = {v.verdict for v in self.statements.values()}
        return next((verdict for verdict in ("different", "incomplete") if verdict in found), "equal")

    def assert_same(self) -> None:
        """Raise AssertionError with the report unless the verdict is ``"equal"``."""
        if self.verdict != "equal":
            raise AssertionError(str(self))

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
                "not compared": [v.uncompared for v in found],
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
            sign, colour = _SIGNS[v.verdict]
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
    are left out on both sides, and only their number is compared: the verdict is "incomplete" then, as it is when a
    statement failed on either side. `Workbench(feed_capacity=None)` keeps all. Raises `UsageError` for unknown names.
    """
    here, there = statements_of(interactive), statements_of(batch)
    names = list(there) if statements is None else list(statements)
    for name in names:
        if name not in here or name not in there:
            side, known = ("interactive", here) if name not in here else ("batch", there)
            raise UsageError(f"the {side} side has no statement {name}; it has {', '.join(known) or 'none'}")
    rules = Rules(tolerance, order)
    failed = failures_of(interactive), failures_of(batch)
    found = {}
    for name in names:
        failures = failed[0].get(name, 0), failed[1].get(name, 0)
        found[name] = _judge(name, rows_of(interactive, name), rows_of(batch, name), rules, failures)
    return Comparison(found)


def _judge(name: str, here: Rows, there: Rows, rules: Rules, failures: tuple[int, int]) -> Verdict:
    rules = Rules(rules.tolerance, rules.order, here.nan_is_null or there.nan_is_null)
    notes, columns = [], [c for c in here.columns if c in there.columns]
    for side, own, other in (("here", here, there), ("there", there, here)):
        missing = [c for c in own.columns if c not in other.columns]
        if missing:
            notes.append(f"columns only {side}: {', '.join(missing)}")
    uneven = bool(notes)
    here, there, note, left = _complete(here, there)
    if note:
        notes.append(note)
    if any(failures):
        notes.append(f"failed {failures[0]:,} times here, {failures[1]:,} times there: rows may be missing")
    tally = Tally(here, there, columns, rules)
    return Verdict(
        name,
        tally.equal,
        tally.only_here,
        tally.only_there,
        tally.different,
        tally.reordered,
        tally.by_column,
        tuple(notes),
        uneven or left[0] != left[1],
        max(left),
        failures,
        tuple(tally.differences),
    )


def _complete(here: Rows, there: Rows) -> tuple[Rows, Rows, str, list[int]]:
    """Both sides from the first time complete on both, a note on what was left out, and how many rows on each side."""
    if not here.dropped and not there.dropped:
        return here, there, "", [0, 0]
    starts = [side.time[0] if side.time else _NO_TIME for side in (here, there) if side.dropped]
    start = max(starts)
    kept = [_after(side, start) for side in (here, there)]
    left = [side.total - len(cut.time) for side, cut in zip((here, there), kept, strict=True)]
    numbers = f"{left[0]:,} on both sides" if left[0] == left[1] else f"{left[0]:,} here and {left[1]:,} there"
    which = "interactive" if here.dropped else "batch"
    until = "" if start == _NO_TIME else f" up to {_moment(start)}"
    note = f"the {which} feed dropped its oldest rows, so rows{until} were counted only ({numbers})"
    return kept[0], kept[1], note, left


_NO_TIME = 1 << 62


def _after(rows: Rows, start: int) -> Rows:
    chosen = [i for i, t in enumerate(rows.time) if t > start]
    columns = {name: [values[i] for i in chosen] for name, values in rows.columns.items()}
    time, kind = [rows.time[i] for i in chosen], [rows.kind[i] for i in chosen]
    return Rows(time, kind, columns, nan_is_null=rows.nan_is_null, singles=rows.singles)


def _headline(comparison: Comparison) -> str:
    verdicts = comparison.statements.values()
    many = f"{len(verdicts)} statement{'' if len(verdicts) == 1 else 's'}"
    if comparison.verdict == "equal":
        return f"equal: {many}, {sum(v.equal for v in verdicts):,} rows"
    wrong = [v.statement for v in verdicts if v.verdict == comparison.verdict]
    found = [f"{comparison.verdict}: {len(wrong)} of {many} ({', '.join(wrong)})"]
    uncompared, failures = sum(v.uncompared for v in verdicts), sum(sum(v.failures) for v in verdicts)
    if uncompared:
        found.append(f"{uncompared:,} rows not compared")
    if failures:
        found.append(f"{failures:,} failure{'' if failures == 1 else 's'} of statements")
    if comparison.verdict == "incomplete":
        found.append(f"{sum(v.equal for v in verdicts):,} rows equal")
    return ", ".join(found)


def _summary(v: Verdict) -> str:
    parts = [f"{v.equal:,} equal"]
    if v.reordered:
        parts[0] += f" ({v.reordered:,} in another order within their time)"
    for count, what in ((v.only_here, "only here"), (v.only_there, "only there")):
        if count:
            parts.append(f"{count:,} {what}")
    if v.uncompared:
        parts.append(f"{v.uncompared:,} not compared")
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
    try:
        moment = datetime(1970, 1, 1) + timedelta(milliseconds=time)
    except OverflowError:  # beyond the year 9999
        return f"{time} ms"
    return f"{moment.isoformat(timespec='milliseconds')}Z"
