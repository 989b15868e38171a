"""Numbers that can only be times in another unit than the clock's.

Times that other systems store as numbers are seconds, milliseconds, microseconds or nanoseconds since 1970. Taken in a
wrong unit they are no error: seconds are moments in January 1970, so every window would be a thousand times too long.
"""

from __future__ import annotations

from cepbook.argument_checks import short_repr
from cepbook.display import format_time
from cepbook.errors import EventError

_YEARS = (631_152_000, 4_102_444_800)  # seconds from 1970 to 1990 and to 2100
_FOREIGN = {"seconds": 1, "ms": 1000, "µs": 1_000_000, "ns": 1_000_000_000}
_PANDAS = {1: "s", 1000: "ms", 1_000_000: "us", 1_000_000_000: "ns"}
_UNITS = {1000: "ms", 1_000_000: "µs"}


def check_unit(where: str, name: str, first: int, last: int, now: int, second: int) -> None:
    """Raise EventError if whole numbers `first` to `last` can only be times in another unit than the clock's.

    Such numbers are dates from 1990 to 2100 in the other unit, and in the clock's unit a few days in 1970 or the far
    future. Small ones are accepted if the clock, `now`, already counts in such numbers. The hint has the line that
    converts a column `name`.
    """
    for unit, units in _FOREIGN.items():
        lowest, highest = (bound * units for bound in _YEARS)
        counted = units < second and 0 < now <= highest
        if units != second and lowest <= first and last <= highest and not counted:
            dates = dict.fromkeys(format_time(time * 1_000_000 // units, second=1_000_000) for time in (first, last))
            own, factor = _UNITS[second], f"*= {second // units}" if units < second else f"//= {units // second}"
            raise EventError(
                f"{where}: {short_repr(first)} can only be a time in {unit} ({' to '.join(dates)}); the clock counts "
                f'{own}\n  hint: frame["{name}"] = pd.to_datetime(frame["{name}"], unit="{_PANDAS[units]}"), in a dict '
                f'event["{name}"] {factor}; if the numbers are {own} after all, unit="{_PANDAS[second]}"'
            )
