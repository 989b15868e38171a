"""What can be configured about the meaning of statements. The defaults are the reference's, but `prioritized`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import get_args
from zoneinfo import available_timezones

from cepbook.argument_checks import check_argument, describe_value
from cepbook.errors import UsageError, hint_line
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.plan.nodes import Selector


@dataclass(frozen=True, slots=True)
class Config:
    """What statements mean, as far as it can be chosen: ``Workbench(config=Config(integer_division=True))``.

    - `integer_division`: ``/`` of whole numbers truncates.
    - `division_by_zero_null`: a division by zero gives null, not Infinity.
    - `iterable_unbound`: statements without a window iterate over their groups.
    - `default_stream_selector`: what a select delivers that does not say it: ``istream``, ``rstream``, ``irstream``.
    - `prioritized`: statements take an event by ``@Priority`` and deployment, and ``@Drop`` counts; without it they
      take it in the order of the filter index (`engine.succession`).
    - `microseconds`: the clock counts microseconds, not milliseconds.
    - `compensated_sums`: sums and averages of floating numbers that leave a window keep beside them what rounding
      took, so that they do not drift, and recover, as standard deviations do, when an infinity, NaN or overflow has
      left; slower, and unlike the reference, where such a sum stays infinite or NaN until its window is empty. Apama's
      queries always do so.
    - `pattern_limit`: the most partial matches of a pattern that may be open in one statement or context partition.
    - `recognize_limit`: the most matches of match_recognize likewise.
    - `self_subselect_preeval`: subqueries have the event in their windows that their statement takes.
    - `time_zone`: a name of the tz database, in whose local time date-time methods read moments, months and years are
      added and crontabs are read.

    Errors: UsageError for what is no value of a setting.
    """

    integer_division: bool = False
    division_by_zero_null: bool = False
    iterable_unbound: bool = False
    default_stream_selector: Selector = "istream"
    prioritized: bool = True
    microseconds: bool = False
    compensated_sums: bool = False
    pattern_limit: int = 1_000_000
    recognize_limit: int = 100_000
    self_subselect_preeval: bool = True
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        for each in fields(self):
            check_argument("Config", each.name, str(each.type), getattr(self, each.name))
        selector = self.default_stream_selector
        if selector not in get_args(Selector):
            known = ", ".join(get_args(Selector))
            raise UsageError(f"Config: `default_stream_selector` is one of {known}, not {describe_value(selector)}")
        for name in ("pattern_limit", "recognize_limit"):
            if getattr(self, name) < 1:
                raise UsageError(f"Config: `{name}` is at least 1, not {getattr(self, name)}")
        try:
            zone_of(self.time_zone)
        except ValueError:
            hint = hint_line(self.time_zone, available_timezones())
            raise UsageError(f"Config: there is no time zone {describe_value(self.time_zone)}{hint}") from None

    @property
    def second(self) -> int:
        """How many units of the clock a second has."""
        return 1_000_000 if self.microseconds else 1000
