"""Settings that change the meaning of statements. The defaults are those of the reference, except `prioritized`."""

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


def bytes_of(limit: str) -> int:
    """Return the bytes of a limit such as ``"500 MB"``. Errors: UsageError."""
    match = re.fullmatch(rf"\s*([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)\s*({'|'.join(_UNITS)})\s*", limit)
    size = 0 if match is None else int(float(match[1]) * _UNITS[match[2]])
    if not size:
        value = describe_value(limit)
        raise UsageError(f'Config: `state_limit` is a number of rows, or of bytes as in "500 MB", not {value}')
    return size


@dataclass(frozen=True, slots=True)
class Config:
    """Settings that change the meaning of statements: `Workbench(config=Config(integer_division=True))`.

    - `integer_division`: `/` of whole numbers truncates.
    - `division_by_zero_null`: a division by zero returns null instead of Infinity.
    - `iterable_unbound`: statements without a window iterate over their groups.
    - `default_stream_selector`: the rows that a select without selector delivers: `istream`, `rstream`, `irstream`.
    - `prioritized`: statements process an event by `@Priority` and deployment order, and `@Drop` is respected. Without
      it the order is that of the filter index (`engine.subscriptions`).
    - `precedence`: events inserted with `event-precedence` are processed by descending precedence (0 if there is none),
      those of equal precedence in the order of their insertion. Without it all are processed in that order.
    - `microseconds`: the clock counts microseconds instead of milliseconds.
    - `compensated_sums`: sums and averages of floating-point values in a window compensate rounding errors, so they do
      not drift; together with standard deviations they recover after an infinity, NaN or overflow has left. Slower, and
      unlike the reference, where such a sum stays infinite or NaN until its window is empty. Apama queries always use
      it.
    - `pattern_limit`: the maximum number of open partial matches of a pattern in one statement or context partition.
    - `recognize_limit`: the same for open matches of match_recognize.
    - `state_limit`: the maximum number of rows, groups, partial matches and context partitions that one statement may
      keep, in all its partitions together; or the maximum of their memory, as in ``"500 MB"``, which is estimated
      from a sample. While a statement exceeds the limit, events are refused with `StateLimitError`. None: no limit.
    - `self_subselect_preeval`: a subquery sees the event that its statement is processing.
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
        if type(self.state_limit) is str:
            bytes_of(self.state_limit)
        for name in ("pattern_limit", "recognize_limit", "state_limit"):
            limit = getattr(self, name)
            if type(limit) is int and limit < 1:
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
