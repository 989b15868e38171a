"""Durations of time windows as code, with calendar months."""

from __future__ import annotations

from collections.abc import Callable

from cepbook.engine.rows import support
from cepbook.engine.rows.code import Code
from cepbook.lang import expr as x


def calendar_months(code: Code) -> str | None:
    """Code of the number of calendar months in the window's period, None if it has none."""
    period = _period(code)
    if isinstance(period, x.Period) and period.months is not None:
        return code.parameter(period.months, not_negative)
    return None


def millis(code: Code) -> str:
    """Code of the period's milliseconds (besides its months)."""
    period = _period(code)
    if isinstance(period, x.Period):
        if period.millis is None:
            return "0"
        return code.parameter(period.millis, _check(code, period))
    return code.parameter(period, _check(code, period))


def _check(code: Code, period: x.Expr) -> Callable[[int | None], int]:
    """Points of a grid must lie apart."""
    alone = not isinstance(period, x.Period) or period.months is None
    return above_zero if code.shape.window_name == "time_batch" and alone else not_negative


def not_negative(length: int | None) -> int:
    """A part of a period. Errors: ValueError when it is null or negative."""
    if length is None:
        raise ValueError("the period of a window is null")
    if length < 0:
        raise ValueError(f"the period of a window is negative: {length}")
    return length


def above_zero(length: int | None) -> int:
    """The period between batches. Errors: ValueError when it is null, zero or negative."""
    if not_negative(length) == 0:
        raise ValueError("the period of a window must be above 0, found 0")
    return not_negative(length)


def due_of(code: Code, start: str) -> str:
    """Code of the first instant at which an event of time `start` has left."""
    months = calendar_months(code)
    if months is None:
        return f"{start} + {millis(code)}"
    return f"{code.source.bind('_month_due', month_due)}({start}, {months}, {millis(code)})"


def timer_of(code: Code, start: str) -> str:
    """Code of when to look at a window whose oldest event is of time `start`.

    Where nobody sees the expiry, a sweep one period later is enough to keep an idle window from holding on.
    """
    due = due_of(code, start)
    return f"{due} + {millis(code)}" if code.shape.lazy else due


def limit_of(code: Code, now: str) -> str:
    """Code of the newest arrival time that has left at `now`."""
    months = calendar_months(code)
    if months is None:
        return f"{now} - {millis(code)}"
    return f"{code.source.bind('_add_months', support.add_months)}({now}, -{months}) - {millis(code)}"


def _period(code: Code) -> x.Expr:
    window = code.shape.window
    assert window is not None
    return window.args[0]


def month_due(t: int, months: int, ms: int) -> int:
    """The first instant at which ``now - months - ms`` is not before `t`.

    Clamping makes this later than ``t + months`` at month ends: Jan 31 05:00 leaves on Mar 1 00:00, not on Feb 29.
    """
    candidate = support.add_months(t + ms, months)
    if support.add_months(candidate, -months) - ms >= t:
        return candidate
    day = 86_400_000
    following = candidate - candidate % day + day
    while support.add_months(following, -months) - ms < t:
        following += day
    return following


def next_on_grid(now: int, grid: int, months: int, ms: int) -> int:
    """The first point after `now` of the grid through `grid` with the given period.

    Calendar grids move month by month from their last point, so a day once clamped stays clamped.
    """
    if not months:
        return grid + ((now - grid) // ms + 1) * ms
    while grid > now:
        before = support.add_months(grid, -months) - ms
        if before <= now:
            return grid
        grid = before
    while grid <= now:
        grid = support.add_months(grid + ms, months)
    return grid
