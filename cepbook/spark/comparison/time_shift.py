"""A constant shift of all times between two sides, as another time zone causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cepbook.display import format_time
from cepbook.spark.comparison.row_matching import MatchRules, RowMatcher
from cepbook.spark.comparison.typed_rows import StatementRows, TypedColumn

_MAX_ROWS = 10_000  # of each side that are looked at for candidates, and that are matched one by one
_MAX_CANDIDATES = 3
_MIN_ROWS = 3  # rows; one or two prove nothing


def without_time_shift(
    here: StatementRows, there: StatementRows, names: Sequence[str], rules: MatchRules, matcher: RowMatcher
) -> tuple[RowMatcher, str] | None:
    """Return the comparison without the shift, and a description of the shift; None unless most rows are equal but for
    it, and more than with it.

    Columns of whole numbers that are shifted by the same amount are shifted back, too. `matcher` is the comparison with
    the shift. Neither has to be finished; of many rows only blocks that are equal as a whole are counted here.
    """
    most = max(len(here.time), len(there.time))
    if min(len(here.time), len(there.time)) < _MIN_ROWS or 2 * matcher.equal > most:
        return None
    best: tuple[RowMatcher, str] | None = None
    for shift in _candidates(here.time, there.time):
        back = _shifted(there, here, shift, names)
        tally = RowMatcher(here, back[0], names, rules)
        if 2 * tally.equal > most and (best is None or tally.equal > best[0].equal):
            also = f", as is the column {', '.join(back[1])}" if back[1] else ""
            distance = f"{_span(abs(shift), rules.second)} {'later' if shift > 0 else 'earlier'}"
            first = (format_time(int(side.time.min()), second=rules.second) for side in (here, there))
            first_times = "first {} here, {} there".format(*first)
            best = tally, f"times there are {distance} than here{also}; compared as if they were not ({first_times})"
    if best is not None and most <= _MAX_ROWS:
        matcher.finish()
        best[0].finish()
        if best[0].equal <= matcher.equal:
            return None
    return best


def _candidates(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> list[int]:
    """Return the most frequent differences of times: from the beginning, and from the end."""
    a, b = np.sort(a), np.sort(b)
    many = min(len(a), len(b), _MAX_ROWS)
    apart = np.concatenate([b[:many] - a[:many], b[len(b) - many :] - a[len(a) - many :]])
    values, counts = np.unique(apart, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [int(v) for v in values[order][: _MAX_CANDIDATES + 1].tolist() if v][:_MAX_CANDIDATES]


def _shifted(
    there: StatementRows, here: StatementRows, shift: int, names: Sequence[str]
) -> tuple[StatementRows, list[str]]:
    columns, also = dict(there.columns), []
    a, b = np.argsort(here.time, kind="stable"), np.argsort(there.time, kind="stable")
    many = min(len(a), len(b))
    for name in names:
        mine, theirs = here.columns[name], there.columns[name]
        if mine.kind == theirs.kind == "int":
            same = (theirs.values[b[:many]] - mine.values[a[:many]] == shift) & ~mine.null[a[:many]]
            if 2 * int(same.sum()) > many:
                columns[name] = TypedColumn("int", theirs.values - shift, theirs.null)
                also.append(name)
    return replace(there, time=there.time - shift, columns=columns), also


def _span(units: int, second: int) -> str:
    text, hour = f"{units:,} {'ms' if second == 1000 else 'µs'}", 3600 * second
    if units % (hour // 4) == 0:  # some time zones have half and quarter hours
        return f"{units / hour:g} hour{'' if units == hour else 's'} ({text})"
    return text
