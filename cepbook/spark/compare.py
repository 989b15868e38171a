"""Whether two runs delivered the same rows, statement by statement, and where they did not.

Rows are matched inside blocks of one time and one kind (insert, remove): first by position, then, where that fails,
in any order. What is left over on both sides of a block is paired as "different values", the rest is "only here" or
"only there". Numbers agree when ``|a - b| <= tolerance * max(1, |a|, |b|)``; NaN equals NaN; null equals null only,
except that a pandas frame cannot tell null and NaN apart.
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
from cepbook.spark.rows import Rows, rows_of, statements_of

_SHOWN = 5  # differences of a statement that a report prints
_YEAR = 31_536_000_000


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
    rules = Rules(tolerance, order)
    return Comparison({n: _judge(n, rows_of(interactive, n), rows_of(batch, n), rules) for n in names})


def _judge(name: str, here: Rows, there: Rows, rules: Rules) -> Verdict:
    rules = Rules(rules.tolerance, rules.order, here.nan_is_null or there.nan_is_null)
    notes, columns = [], [c for c in here.columns if c in there.columns]
    for side, own, other in (("here", here, there), ("there", there, here)):
        missing = [c for c in own.columns if c not in other.columns]
        if missing:
            notes.append(f"columns only {side}: {', '.join(missing)}")
    incomplete = bool(notes)
    here, there, note, uneven = _complete(here, there)
    if note:
        notes.append(note)
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
        incomplete or uneven,
        tuple(tally.differences),
    )


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
    try:
        moment = datetime(1970, 1, 1) + timedelta(milliseconds=time)
    except OverflowError:  # beyond the year 9999
        return f"{time} ms"
    return f"{moment.isoformat(timespec='milliseconds')}Z"
