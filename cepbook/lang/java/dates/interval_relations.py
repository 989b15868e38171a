"""Relations of two intervals (Allen's algebra) by their ends in clock units.

Source: Esper reference, section "Interval Algebra". A moment is an interval of length zero. Each function takes start
and end of the interval, start and end of the other one, then thresholds.
"""

from __future__ import annotations

from collections.abc import Callable

IntervalRelation = Callable[..., bool | None]


def between(value: int, low: int, high: int, with_low: bool | None = None, with_high: bool | None = None) -> bool:
    """Return whether a moment lies between two others, both included, in either order.

    Flags say which bound is included. With flags nothing lies between them if `high` is before `low`.
    """
    if with_low is None:
        return low <= value <= high or high <= value <= low
    return (low < value or (with_low and low == value)) and (value < high or (bool(with_high) and value == high))


def _in_order(low: int, high: int | None) -> tuple[int, int | None]:
    return (high, low) if high is not None and high < low else (low, high)


def _at_least(distance: int, thresholds: tuple[int, ...]) -> bool:
    """No threshold: above zero. One: at least that. Two: between them, in either order."""
    if not thresholds:
        return distance > 0
    low, high = _in_order(thresholds[0], thresholds[1] if len(thresholds) > 1 else None)
    return low <= distance and (high is None or distance <= high)


def before(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Ends before the other starts; thresholds are the least and the greatest distance."""
    return _at_least(other_start - end, thresholds)


def after(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Starts after the other ends; thresholds are the least and the greatest distance."""
    return _at_least(start - other_end, thresholds)


def coincides(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Starts and ends with the other, up to a threshold, or one for the start and one for the end."""
    if thresholds and min(thresholds) < 0:
        return None
    at_start = thresholds[0] if thresholds else 0
    at_end = thresholds[-1] if thresholds else 0
    return abs(start - other_start) <= at_start and abs(end - other_end) <= at_end


def during(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Starts after the other and ends before it.

    One threshold is the greatest distance at both ends, two are the least and the greatest, four are these for the
    start and for the end.
    """
    begin, finish = start - other_start, other_end - end
    if begin <= 0 or finish <= 0:
        return False
    if len(thresholds) == 4:
        return thresholds[0] <= begin <= thresholds[1] and thresholds[2] <= finish <= thresholds[3]
    return _within(begin, thresholds) and _within(finish, thresholds)


def _within(distance: int, thresholds: tuple[int, ...]) -> bool:
    if not thresholds:
        return True
    return (len(thresholds) == 1 or thresholds[0] <= distance) and distance <= thresholds[-1]


def includes(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Starts before the other and ends after it: the other is `during` this one."""
    return during(other_start, other_end, start, end, *thresholds)


def _near(distance: int, thresholds: tuple[int, ...]) -> bool | None:
    if thresholds and thresholds[0] < 0:
        return None
    return abs(distance) <= (thresholds[0] if thresholds else 0)


def finishes(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Starts after the other and ends with it, up to a threshold."""
    near = _near(end - other_end, thresholds)
    return near and start > other_start


def finished_by(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Starts before the other and ends with it, up to a threshold."""
    near = _near(end - other_end, thresholds)
    return near and start < other_start


def meets(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Ends when the other starts, up to a threshold."""
    return _near(other_start - end, thresholds)


def met_by(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Starts when the other ends, up to a threshold."""
    return _near(start - other_end, thresholds)


def overlaps(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Starts before the other and ends in it; thresholds are the greatest, or least and greatest, overlap."""
    return start < other_start < end < other_end and _within(end - other_start, thresholds)


def overlapped_by(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Starts in the other and ends after it; thresholds as for `overlaps`."""
    return overlaps(other_start, other_end, start, end, *thresholds)


def starts(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Starts with the other, up to a threshold, and ends before it."""
    near = _near(start - other_start, thresholds)
    return near and end < other_end


def started_by(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Starts with the other, up to a threshold, and ends after it."""
    near = _near(start - other_start, thresholds)
    return near and end > other_end
