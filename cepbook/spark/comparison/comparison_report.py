"""Compare the rows of two runs, statement by statement, and report the differences.

Rows are matched inside blocks of one time and one kind (insert, remove): first by position, then, where that fails, in
any order. Rows that are left over on both sides of a block are paired as "different values"; the rest is "only here" or
"only there". A workbench keeps what its feeds drop in a log on disk, so that all rows are compared.

A comparison is "equal" only when it saw everything. Lost rows (the log is full, feeds were loaded from a file), and
failures of a statement or of what feeds it, make it "incomplete".

Floats agree when ``|a - b| <= max(absolute, tolerance * max(|a|, |b|))``, whole numbers when they are equal. NaN equals
NaN; null equals only null, except that a pandas frame cannot tell null and NaN apart. A column of whole numbers on one
side and of floats on the other is a difference, whatever the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from cepbook.argument_checks import check_arguments
from cepbook.display import DisplayTable, captioned_html, format_time
from cepbook.errors import UsageError
from cepbook.spark.comparison.row_matching import Difference, MatchRules, RowMatcher
from cepbook.spark.comparison.sides import ComparedSide, FramesSide, WorkbenchSide
from cepbook.spark.comparison.time_shift import without_time_shift
from cepbook.spark.comparison.typed_rows import StatementRows, with_equal_times

_VERDICT_LABELS = {"equal": "✓ equal", "incomplete": "? incomplete", "different": "✗ different"}
_MAX_SENTENCES = 5  # differences of a statement that a report prints


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of one statement, in rows.

    - `reordered` rows are among the equal ones, unless order counts; `moved` has the first of them.
    - `by_column` counts the different values; `kinds` has an example of each column with another kind of values.
    - `uncompared` rows are lost on at least one side.
    - `failures` are those of the statement per side (here, there), `fed` those of statements that feed it and are not
      compared themselves: each may have cost rows.
    - `notes` say what could not be compared and what holds for all rows. With `uneven` that is a difference: columns of
      one side only or of another kind, shifted times, another number of lost rows.
    - `approximate` values agree only within the tolerance, at most `apart` from one another, relative to their size.
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
    approximate: int = 0
    apart: float = 0.0
    moved: tuple[Difference, ...] = ()
    key: tuple[str, ...] = ()
    fed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    second: int = 1000  # in units of the clock
    kinds: tuple[Difference, ...] = ()

    @property
    def verdict(self) -> str:
        """``"different"``, ``"incomplete"`` (no difference in what could be compared) or ``"equal"``."""
        if self.only_here or self.only_there or self.different or self.uneven:
            return "different"
        return "incomplete" if self.uncompared or any(self.failures) or self.fed else "equal"

    @property
    def same(self) -> bool:
        """True if all rows of both sides were compared and are equal."""
        return self.verdict == "equal"


class UnequalError(AssertionError):
    """Two sides differ, or could not be compared completely. A notebook shows the report alone."""

    def _render_traceback_(self) -> list[str]:
        return str(self).split("\n")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of `compare`; prints as a report. `left_out` are statements of one side that were not asked for.

    If there are differences, `by_hand` counts by type the events that were sent to the interactive side beside replays,
    and `clock_by_hand` is the time, in clock units, to which its clock was moved after the last replayed event.
    """

    statements: Mapping[str, Verdict]
    left_out: tuple[str, ...] = ()
    by_hand: Mapping[str, int] = field(default_factory=dict)
    clock_by_hand: int | None = None

    @property
    def verdict(self) -> str:
        """``"different"`` if the rows of one statement are, else ``"incomplete"`` if one could not be compared
        completely.
        """
        verdicts = {v.verdict for v in self.statements.values()}
        return next((verdict for verdict in ("different", "incomplete") if verdict in verdicts), "equal")

    def assert_same(self) -> None:
        """Raise an `UnequalError` with the report unless the verdict is ``"equal"``."""
        if self.verdict != "equal":
            raise UnequalError(str(self))

    @property
    def frame(self) -> pd.DataFrame:
        """One row per statement with the number of rows of each verdict, as the comparison chart takes it."""
        verdicts = self.statements.values()
        return pd.DataFrame(
            {
                "statement": [v.statement for v in verdicts],
                "equal": [v.equal for v in verdicts],
                "different values": [v.different for v in verdicts],
                "only here": [v.only_here for v in verdicts],
                "only there": [v.only_there for v in verdicts],
                "not compared": [v.uncompared for v in verdicts],
            }
        )

    def differences(self, name: str) -> pd.DataFrame:
        """Return the differences of a statement (the first 1,000): time, kind, difference, column, here, there.

        A row that is missing on one side is one line with the whole row; different values are one line per column.
        """
        if name not in self.statements:
            raise UsageError(f"statement {name} was not compared; compared were: {', '.join(self.statements)}")
        lines: list[tuple[Any, ...]] = []
        for d in (*self.statements[name].kinds, *self.statements[name].differences):
            if d.columns and d.here is not None and d.there is not None:
                lines += [(d.time, d.kind, d.difference, c, d.here.get(c), d.there.get(c)) for c in d.columns]
            else:
                lines.append((d.time, d.kind, d.difference, None, d.here, d.there))
        frame = pd.DataFrame(lines, columns=["time", "kind", "difference", "column", "here", "there"])
        for at, side in ((4, "here"), (5, "there")):  # values of several columns, which are to stay what they are
            frame[side] = pd.Series([line[at] for line in lines], dtype=object)
        return frame

    def __str__(self) -> str:
        lines = [_headline(self)]
        width = max((len(name) for name in self.statements), default=0)
        for v in self.statements.values():
            lines.append(f"  {v.statement:<{width}}  {_summary(v)}")
            lines += [f"  {'':<{width}}  {note}" for note in v.notes]
            lines += [f"  {'':<{width}}    {sentence}" for sentence in _sentences(v)]
        return "\n".join([*lines, *(f"  {aside}" for aside in _notes(self))])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = []
        for v in self.statements.values():
            more = (*v.notes, *_sentences(v))
            rows.append((v.statement, _VERDICT_LABELS[v.verdict], "\n".join((_summary(v), *more))))
        table = DisplayTable(("statement", "verdict", "rows"), (False,) * 3, tuple(rows))
        return captioned_html(_headline(self), table, tuple(_notes(self)))


@check_arguments
def compare(
    interactive: Any,
    batch: Any,
    *,
    tolerance: float = 1e-9,
    absolute: float = 0.0,
    order: bool = False,
    key: str | Sequence[str] = (),
    statements: Sequence[str] | None = None,
) -> Comparison:
    """Compare the rows that statements delivered `interactive`-ly ("here") with those of `batch` ("there").

    Each side is a Workbench (all rows since the statement was deployed), a `SparkRun`, or a mapping of statement name
    to a pandas or Spark frame or Arrow table with ``time`` (clock units), ``kind`` and the statement's columns, in
    order of delivery. Compared are `statements`, by default those of `batch`.

    With `order`, rows of one time and kind in another order are different; without it they are equal and reported. Rows
    that differ are paired by the columns of `key`, or else by what they have in common. `tolerance` is relative,
    `absolute` applies near zero. Times that differ by a constant are reported as such. Raises `UsageError` for unknown
    names and a bad tolerance.
    """
    here, there = side_of(interactive), side_of(batch)
    names = list(there.statements) if statements is None else list(statements)
    if not names:
        raise UsageError("nothing to compare: no statement was named, or the batch has none")
    for name in names:
        for side, known in (("interactive", here.statements), ("batch", there.statements)):
            if name not in known:
                raise UsageError(f"the {side} side has no statement {name}; it has {', '.join(known) or 'none'}")
    if not (tolerance >= 0 and absolute >= 0):
        raise UsageError(f"a tolerance is a number of at least 0, not {min(tolerance, absolute)}")
    seconds = {second for second in (here.second, there.second) if second is not None} or {1000}
    if len(seconds) > 1:
        raise UsageError("the clock of one side counts milliseconds, that of the other microseconds")
    (second,) = seconds
    keys = (key,) if isinstance(key, str) else tuple(key)
    rules = MatchRules(tolerance, order, absolute=absolute, key=keys, second=second)
    sides = {name: (here.rows(name, second), there.rows(name, second)) for name in names}
    failed = here.failures(), there.failures()  # known by now: they came with the rows
    both = {name: (failed[0].get(name, 0), failed[1].get(name, 0)) for name in (*failed[0], *failed[1])}
    left_out = [name for name in here.queries if name not in there.statements] if statements is None else []
    verdicts = {}
    for name, rows in sides.items():
        mine, theirs = with_equal_times(*rows, second), with_equal_times(*rows[::-1], second)
        feeders = dict.fromkeys((*here.feeders(name), *there.feeders(name)))
        fed = {feeder: both[feeder] for feeder in feeders if feeder in both and feeder not in sides}
        verdicts[name] = _compare_statement(name, mine, theirs, rules, both.get(name, (0, 0)), fed)
    compared = Comparison(verdicts, tuple(left_out))
    if compared.verdict == "equal" or there.accepts_events:
        return compared
    return replace(compared, by_hand=here.by_hand(verdicts), clock_by_hand=here.clock_by_hand())


def side_of(source: Any) -> ComparedSide:
    """Return the side for `source`. Errors: UsageError if nothing can be compared with it."""
    if isinstance(source, Mapping):
        return FramesSide(source)
    if hasattr(source, "to_arrow") and hasattr(source, "statements"):
        from cepbook.spark.comparison.spark_side import SparkSide  # needs pyspark, which comparing frames does not

        return SparkSide(source)
    if hasattr(source, "feed") and hasattr(source, "runtime"):
        return WorkbenchSide(source)
    expected = "expected a Workbench, a SparkRun or a mapping of statement -> DataFrame"
    raise UsageError(f"cannot compare {type(source).__name__}: {expected}")


def _compare_statement(
    name: str,
    here: StatementRows,
    there: StatementRows,
    rules: MatchRules,
    failures: tuple[int, int],
    fed: Mapping[str, tuple[int, int]],
) -> Verdict:
    rules = replace(rules, nan_is_null=here.nan_is_null or there.nan_is_null)
    columns = [c for c in here.columns if c in there.columns]
    unknown = [c for c in rules.key if c not in columns]
    if unknown:
        raise UsageError(f"the key {unknown[0]} is no column of {name} on both sides; these are: {', '.join(columns)}")
    notes, odd = _column_notes(here, there, columns)
    uneven = bool(notes)
    here, there, note, left = _complete_rows(here, there, rules.second)
    if note:
        notes.append(note)
    notes += _failure_notes({"": failures} | {f"{feeder}, which feeds it, ": counts for feeder, counts in fed.items()})
    tally = RowMatcher(here, there, columns, rules)
    shifted = without_time_shift(here, there, columns, rules, tally)
    if shifted is not None:
        tally, note = shifted
        notes.insert(0, note)
        uneven = True
    kinds = [example for c in odd if (example := tally.find_type_difference(c)) is not None]
    tally.finish()
    if tally.approximate:
        limit = f"{rules.tolerance:g}" + (f" or {rules.absolute:g} absolute" if rules.absolute else "")
        notes.append(
            f"{tally.approximate:,} values equal only within the relative tolerance of {limit}: "
            f"at most {tally.apart:.2g} apart"
        )
    for side, rows in (("here", here), ("there", there)):
        if rows.order:
            notes.append(f"{side} {rows.order}")
    return Verdict(
        statement=name,
        equal=tally.equal,
        only_here=tally.only_here,
        only_there=tally.only_there,
        different=tally.different,
        reordered=tally.reordered,
        by_column=tally.by_column,
        notes=tuple(notes),
        uneven=uneven or left[0] != left[1],
        uncompared=max(left),
        failures=failures,
        differences=tuple(tally.differences),
        approximate=tally.approximate,
        apart=tally.apart,
        moved=tuple(tally.moved),
        key=rules.key,
        fed=fed,
        second=rules.second,
        kinds=tuple(example for example in kinds if example.columns[0] not in tally.by_column),
    )


def _failure_notes(failures: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Yield a note for each subject that failed here or there."""
    for subject, numbers in failures.items():
        if any(numbers):
            here, there = (_counted(number, "time") for number in numbers)
            yield f"{subject}failed {here} here, {there} there: rows may be missing"


def _column_notes(here: StatementRows, there: StatementRows, columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what is said about columns of one side only and of two kinds of values; and the names of the latter."""
    notes, odd = [], []
    for side, own, other in (("here", here, there), ("there", there, here)):
        lacking = [c for c in own.columns if c not in other.columns]
        if lacking:
            notes.append(f"columns only {side}: {', '.join(lacking)}")
    for c in columns:
        mine, theirs = here.column_families.get(c), there.column_families.get(c)
        if mine is not None and theirs is not None and mine != theirs:
            notes.append(f"{c}: {mine} here, {theirs} there")
            odd.append(c)
    return notes, odd


def _complete_rows(
    here: StatementRows, there: StatementRows, second: int
) -> tuple[StatementRows, StatementRows, str, list[int]]:
    """Return both sides from the first time that is complete on both, a note on the rest, and the rows left out on each
    side.
    """
    if not here.dropped and not there.dropped:
        return here, there, "", [0, 0]
    starts = [int(side.time[0]) if len(side.time) else _NO_TIME for side in (here, there) if side.dropped]
    start = max(starts)
    complete = [_rows_after(side, start) for side in (here, there)]
    left = [side.total - len(cut.time) for side, cut in zip((here, there), complete, strict=True)]
    numbers = f"{left[0]:,} on both sides" if left[0] == left[1] else f"{left[0]:,} here and {left[1]:,} there"
    which = "interactive" if here.dropped else "batch"
    until = "" if start == _NO_TIME else f" up to {format_time(start, second=second)}"
    note = f"the {which} side has lost its oldest rows, so rows{until} were counted only ({numbers})"
    return complete[0], complete[1], note, left


_NO_TIME = 1 << 62


def _rows_after(rows: StatementRows, start: int) -> StatementRows:
    chosen = np.flatnonzero(rows.time > start)
    columns = {name: column.take(chosen) for name, column in rows.columns.items()}
    return replace(rows, time=rows.time[chosen], remove=rows.remove[chosen], columns=columns, dropped=0)


def _headline(comparison: Comparison) -> str:
    verdicts = comparison.statements.values()
    many = _counted(len(verdicts), "statement")
    if comparison.verdict == "equal":
        return f"equal: {many}, {_counted(sum(v.equal for v in verdicts), 'row')}"
    wrong = [v.statement for v in verdicts if v.verdict == comparison.verdict]
    texts = [f"{comparison.verdict}: {len(wrong)} of {many} ({', '.join(wrong)})"]
    uncompared = sum(v.uncompared for v in verdicts)
    fed = {
        feeder: counts_of_feeder for v in verdicts for feeder, counts_of_feeder in v.fed.items()
    }  # one may feed several
    failures = sum(map(sum, (*(v.failures for v in verdicts), *fed.values())))
    if uncompared:
        texts.append(f"{_counted(uncompared, 'row')} not compared")
    if failures:
        texts.append(f"{_counted(failures, 'failure')} of statements")
    if comparison.verdict == "incomplete":
        texts.append(f"{_counted(sum(v.equal for v in verdicts), 'row')} equal")
    return ", ".join(texts)


def _notes(comparison: Comparison) -> list[str]:
    """Return what is to be known beside the statements."""
    notes = []
    if comparison.left_out:
        notes.append(f"not compared: {', '.join(comparison.left_out)} (only here)")
    if comparison.by_hand:
        kinds = ", ".join(f"{count:,} of {name}" for name, count in comparison.by_hand.items())
        unless = "their rows are only here unless the frames have these events, too"
        notes.append(f"sent by hand here: {kinds}; {unless}")
    moved = comparison.clock_by_hand
    if moved is not None:
        second = next(iter(comparison.statements.values())).second
        at = f"the clock was moved by hand here, to {format_time(moved, millis=True, second=second)}"
        notes.append(f"{at}: what was due until then is only here unless the run on Spark has until={moved}")
    return notes


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _summary(v: Verdict) -> str:
    parts = [f"{v.equal:,} equal"]
    if v.reordered:
        parts[0] += f" ({v.reordered:,} in another order within their time)"
    for count, label in ((v.only_here, "only here"), (v.only_there, "only there")):
        if count:
            parts.append(f"{count:,} {label}")
    if v.uncompared:
        parts.append(f"{v.uncompared:,} not compared")
    if v.different:
        columns = ", ".join(f"{name}: {count:,}" for name, count in v.by_column.items())
        parts.append(f"{v.different:,} with different values ({columns})")
    return ", ".join(parts)


def _sentences(v: Verdict) -> list[str]:
    """Return the first differences; if there are none, the first rows that are equal in another order."""
    examples = (*v.kinds, *v.differences)[:_MAX_SENTENCES] or v.moved[:2]
    return [_sentence(d, v.key, v.second) for d in examples]


def _sentence(d: Difference, key: tuple[str, ...], second: int) -> str:
    row_shown = d.here or d.there or {}
    at = " ".join([f"{format_time(d.time, second=second)} {d.kind}", *(f" {c}={row_shown[c]!r}" for c in key)])
    if d.here is not None and d.there is not None:
        if not d.columns:
            return f"{at}  in another order: {', '.join(f'{c}={v!r}' for c, v in d.here.items())}"
        values = "; ".join(f"{c}: {d.here[c]!r} here, {d.there[c]!r} there" for c in d.columns)
        equal = ", ".join(f"{c}={v!r}" for c, v in d.here.items() if c not in d.columns and c not in key)
        return f"{at}  {values}" + (f"  ({equal})" if equal else "")
    row = ", ".join(f"{c}={v!r}" for c, v in row_shown.items() if c not in key)
    return f"{at}  {d.difference}: {row}"
