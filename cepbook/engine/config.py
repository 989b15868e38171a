"""What can be configured about the meaning of statements. The defaults are the reference's, but `prioritized`."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.dates.zone import zone_of
from cepbook.lang.plan import Selector


@dataclass(frozen=True, slots=True)
class Config:
    """`integer_division`: ``/`` of whole numbers truncates. `division_by_zero_null`: it gives null, not Infinity.

    `iterable_unbound`: statements without a window iterate over their groups. `default_stream_selector`: what a
    select without istream, rstream or irstream delivers. `prioritized`: statements take an event by ``@Priority``
    and deployment, and ``@Drop`` counts; without it they take it in the order of the filter index
    (`engine.succession`). `microseconds`: the clock counts microseconds, not milliseconds. `compensated_sums`: sums
    and averages of floating numbers that leave a window keep beside them what rounding took, so that they do not
    drift, and recover, as standard deviations do, when an infinity, NaN or overflow has left; slower, and unlike the
    reference, where such a sum stays infinite or NaN until its window is empty. Apama's queries always do so.
    `pattern_limit`: how many partial matches of a pattern may be open in one statement or context partition,
    `recognize_limit`: how many matches of match_recognize. `self_subselect_preeval`: subqueries have the event in
    their windows that their statement takes. `time_zone`: a name of the tz database, in whose local time date-time
    methods read moments, months and years are added and crontabs are read. Errors: ValueError for an unknown one.
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
        zone_of(self.time_zone)

    @property
    def second(self) -> int:
        """How many units of the clock a second has."""
        return 1_000_000 if self.microseconds else 1000
