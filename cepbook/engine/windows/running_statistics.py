"""Sums of values and of products of pairs for statistics over windows, with O(1) cost per event that enters or leaves.

Spreads are summed around the first value, so that values far from zero keep their precision. An empty window starts
with a new first value, which drops rounding errors.
"""

from __future__ import annotations

from math import nan, sqrt
from typing import Any

from cepbook.engine.state import State, created, initial


class Statistic(State):
    """The statistic of a derived-value window. `values` are the values of the window's parameters for one event."""

    def enter(self, *values: Any) -> None:
        """Add an event."""
        raise NotImplementedError

    def leave(self, *values: Any) -> None:
        """Remove an event that was added."""
        raise NotImplementedError

    def fields(self) -> dict[str, Any]:
        """Return the present derived fields."""
        raise NotImplementedError


def ratio(a: float, b: float) -> float:
    """Return ``a / b``; NaN if `b` is 0."""
    return a / b if b else nan


class RunningMoments(Statistic):
    """Sums of one variable."""

    __slots__ = ("count", "origin", "shifted", "squares", "total", "total_squares")

    def __init__(self) -> None:
        self.count = 0
        self._reset()

    def _reset(self) -> None:
        self.origin = 0.0
        self.total = 0.0
        self.total_squares = 0.0
        self.shifted = 0.0
        self.squares = 0.0

    def add(self, x: float) -> None:
        if not self.count:
            self.origin = float(x)
        self.count += 1
        d = x - self.origin
        self.total += x
        self.total_squares += x * x
        self.shifted += d
        self.squares += d * d

    def remove(self, x: float) -> None:
        self.count -= 1
        if not self.count:
            self._reset()
            return
        d = x - self.origin
        self.total -= x
        self.total_squares -= x * x
        self.shifted -= d
        self.squares -= d * d

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else nan

    @property
    def spread(self) -> float:
        """The sum of squared differences from the average, at least 0."""
        return max(0.0, self.squares - self.shifted * self.shifted / self.count) if self.count else nan

    def deviations(self) -> tuple[float, float, float]:
        """Return sample variance, sample standard deviation and population standard deviation.

        All are NaN without values; those of the sample are NaN below two values.
        """
        count, spread = self.count, self.spread
        if count < 2:
            return nan, nan, 0.0 if count else nan
        variance = spread / (count - 1)
        return variance, sqrt(variance), sqrt(spread / count)


class RunningPairs(Statistic):
    """Sums of two variables. A pair with a null does not count."""

    x: RunningMoments = created(RunningMoments)
    y: RunningMoments = created(RunningMoments)
    products: float = initial(0.0)
    _shifted: float = initial(0.0)

    def enter(self, x: float | None, y: float | None) -> None:
        if x is None or y is None:
            return
        self.x.add(x)
        self.y.add(y)
        self.products += x * y
        self._shifted += (x - self.x.origin) * (y - self.y.origin)

    def leave(self, x: float | None, y: float | None) -> None:
        if x is None or y is None:
            return
        if self.x.count > 1:
            self.products -= x * y
            self._shifted -= (x - self.x.origin) * (y - self.y.origin)
        else:
            self.products = self._shifted = 0.0
        self.x.remove(x)
        self.y.remove(y)

    @property
    def joint(self) -> float:
        """The sum of products of differences from the averages."""
        return self._shifted - self.x.shifted * self.y.shifted / self.x.count if self.x.count else nan

    @property
    def slope(self) -> float:
        """The slope of the regression line; NaN below two points or without variation of x."""
        return ratio(self.joint, self.x.spread) if self.x.count > 1 else nan

    @property
    def correlation(self) -> float:
        """The correlation; NaN below two points or without variation."""
        return ratio(self.joint, sqrt(self.x.spread) * sqrt(self.y.spread)) if self.x.count > 1 else nan
