"""Units of time periods, from large to small, which is the order in which they may be written."""

from __future__ import annotations

MONTHS = {"year": 12, "month": 1}  # those without a fixed length, in months
MICROSECONDS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
ORDER = (*MONTHS, *MICROSECONDS)
