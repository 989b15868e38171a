"""Relations of two intervals (Allen's algebra), by their ends in units of the clock (Esper reference, section
"Interval Algebra").

A moment is an interval of length zero. All take (start, end) of the one, (start, end) of the other, then thresholds.
"""

from __future__ import annotations

from collections.abc import Callable

IntervalRelation = Callable[..., bool | None]


def between(value: int, low: int, high: int, with_low: bool | None = None, with_high: bool | None = None) -> bool:
    """Whether a moment lies from the one to the other, both included, in whatever order they are.

    With flags it is told which of them counts, and none lies between them where `high` is before `low`.
    """
    if with_low is None:
        return low <= value <= high or high <= value <= low
    return (low < value or (with_low and low == value)) and (value < high or (bool(with_high) and value == high))


def _in_order(low: int, high: int | None) -> tuple[int, int | None]:
    return (high, low) if high is not None and high < low else (low, high)


def _at_least(distance: int, thresholds: tuple[int, ...]) -> bool:
    """Without thresholds: greater than zero; at least the one; from one to the other, in whatever order they are."""
    if not thresholds:
        return distance > 0
    low, high = _in_order(thresholds[0], thresholds[1] if len(thresholds) > 1 else None)
    return low <= distance and (high is None or distance <= high)


def before(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Ends before the other starts; with thresholds that far, at least and at most."""
    return _at_least(other_start - end, thresholds)


def after(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Starts after the other has ended; with thresholds that far, at least and at most."""
    return _at_least(start - other_end, thresholds)


def coincides(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Both start together and end together, up to a threshold, or one of the starts and one of the ends."""
    if thresholds and min(thresholds) < 0:
        return None
    at_start = thresholds[0] if thresholds else 0
    at_end = thresholds[-1] if thresholds else 0
    return abs(start - other_start) <= at_start and abs(end - other_end) <= at_end


def during(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Starts after the other and ends before it.

    Thresholds: how far at most at both ends; or at least and at most; or at least and at most, at the start and at the
    end apart.
    """
    begin, finish = start - other_start, other_end - end
    if begin <= 0 or finish <= 0:
        return False
    if len(thresholds) == 4:
        return thresholds[0] <= begin <= thresholds[1] and thresholds[2] <= finish <= thresholds[3]
    return _within(begin, thresholds) and _within(finish, thresholds)


def _within(distance: int, thresholds: tuple[int, ...]) -> bool:
    """Up to the one threshold; from the one to the other."""
    if not thresholds:
        return True
    return (len(thresholds) == 1 or thresholds[0] <= distance) and distance <= thresholds[-1]


def includes(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Starts before the other and ends after it: the other is `during` it."""
    return during(other_start, other_end, start, end, *thresholds)


def _near(distance: int, thresholds: tuple[int, ...]) -> bool | None:
    if thresholds and thresholds[0] < 0:
        return None
    return abs(distance) <= (thresholds[0] if thresholds else 0)


def finishes(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Starts after the other, and both end together, up to a threshold."""
    near = _near(end - other_end, thresholds)
    return near and start > other_start


def finished_by(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Starts before the other, and both end together, up to a threshold."""
    near = _near(end - other_end, thresholds)
    return near and start < other_start


def meets(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Ends when the other starts, up to a threshold."""
    return _near(other_start - end, thresholds)


def met_by(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Starts when the other ends, up to a threshold."""
    return _near(start - other_end, thresholds)


def overlaps(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Starts before the other, ends in it: thresholds say for how long at most, or at least and at most."""
    return start < other_start < end < other_end and _within(end - other_start, thresholds)


def overlapped_by(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool:
    """Starts in the other, ends after it: thresholds say for how long at most, or at least and at most."""
    return overlaps(other_start, other_end, start, end, *thresholds)


def starts(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Both start together, up to a threshold, and it ends before the other."""
    near = _near(start - other_start, thresholds)
    return near and end < other_end


def started_by(start: int, end: int, other_start: int, other_end: int, *thresholds: int) -> bool | None:
    """Both start together, up to a threshold, and it ends after the other."""
    near = _near(start - other_start, thresholds)
    return near and end > other_end
