"""The settings of an engine, which change how statements run.

The defaults are those of Esper, except that `prioritized` is on, the numbers of partial matches are limited and the
time zone is UTC. Esper has no `compensated_sums` and no `state_limit`.

A new setting is a field with a line in the docstring of `Config`. `Config` checks the type of each field by its
annotation; a range or a choice needs a check in ``__post_init__``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import get_args
from zoneinfo import available_timezones

from cepbook.argument_checks import check_argument, describe_value
from cepbook.errors import UsageError, hint_line
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.plan.nodes import Selector

_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def state_limit_bytes(limit: str) -> int:
    """Return the bytes of a `state_limit` such as ``"500 MB"``. Errors: UsageError."""
    match = re.fullmatch(rf"\s*([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)\s*({'|'.join(_UNITS)})\s*", limit)
    if match is None:
        value = describe_value(limit)
        raise UsageError(f'Config: `state_limit` is a number of rows, or of bytes as in "500 MB", not {value}')
    size = int(float(match[1]) * _UNITS[match[2]])
    if size < 1:
        raise UsageError(f"Config: `state_limit` is at least 1 byte, not {describe_value(limit)}")
    return size


@dataclass(frozen=True, slots=True)
class Config:
    """Settings that change how statements run: `Workbench(config=Config(integer_division=True))`.

    - `integer_division`: `/` of whole numbers truncates.
    - `division_by_zero_null`: a division by zero returns null instead of Infinity.
    - `iterable_unbound`: a statement without a window keeps its last event, or the last row of each group, as its
      current rows. Without it such a statement has no current rows.
    - `default_stream_selector`: the rows that a `select` without `istream`, `rstream` or `irstream` delivers.
    - `prioritized`: statements process an event in the order of `@Priority` and then of deployment, and `@Drop` is
      respected. Without it, both annotations are ignored and the order is not specified.
    - `precedence`: events inserted with `event-precedence` are processed by descending precedence (0 if there is none),
      those of equal precedence in the order of insertion. Without it, all are processed in the order of insertion.
    - `microseconds`: the clock counts microseconds instead of milliseconds.
    - `compensated_sums`: sums and averages of floating-point values in a window compensate rounding errors, so they do
      not drift. Sums, averages and standard deviations are finite again once an infinity, NaN or overflow has left the
      window. In Esper they stay infinite or NaN until the window is empty. This is slower. Queries of the Apama dialect
      always use it.
    - `pattern_limit`: the maximum number of open partial matches of a pattern in one statement, or in one partition if
      the statement has a context.
    - `recognize_limit`: the maximum number of open partial matches of match_recognize, counted in the same way.
    - `state_limit`: how much one statement may keep, over all its partitions: a number of rows, groups, partial matches
      and partitions, or their estimated memory, as in ``"500 MB"``. While a statement exceeds the limit, events are
      refused with `StateLimitError`. None: no limit.
    - `self_subselect_preeval`: a subquery sees the event that its statement is processing. Without it, the subquery
      sees that event only afterwards.
    - `time_zone`: a name of the tz database; date-time methods, months, years and crontabs use its local time.

    Errors: UsageError for an invalid value.
    """

    integer_division: bool = False
    division_by_zero_null: bool = False
    iterable_unbound: bool = False
    default_stream_selector: Selector = "istream"
    prioritized: bool = True
    precedence: bool = False
    microseconds: bool = False
    compensated_sums: bool = False
    pattern_limit: int = 1_000_000
    recognize_limit: int = 100_000
    state_limit: int | str | None = None
    self_subselect_preeval: bool = True
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        for setting in fields(self):
            check_argument("Config", setting.name, str(setting.type), getattr(self, setting.name))
        selector = self.default_stream_selector
        if selector not in get_args(Selector):
            known = ", ".join(get_args(Selector))
            value = describe_value(selector)
            raise UsageError(f"Config: `default_stream_selector` must be one of {known}, not {value}")
        if isinstance(self.state_limit, str):
            state_limit_bytes(self.state_limit)
        for name in ("pattern_limit", "recognize_limit", "state_limit"):
            limit = getattr(self, name)
            if limit is not None and not isinstance(limit, str) and limit < 1:
                raise UsageError(f"Config: `{name}` is at least 1, not {limit}")
        try:
            zone_of(self.time_zone)
        except ValueError:
            hint = hint_line(self.time_zone, available_timezones())
            raise UsageError(f"Config: there is no time zone {describe_value(self.time_zone)}{hint}") from None

    @property
    def second(self) -> int:
        """The number of clock units in a second."""
        return 1_000_000 if self.microseconds else 1000
