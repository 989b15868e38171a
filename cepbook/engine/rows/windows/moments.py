"""Sums of values and of products of pairs, for statistics over windows: O(1) for each event that comes or goes.

Spreads are summed around the first value, so that values far from zero do not lose their digits; an empty window starts
anew, which forgets rounding errors.
"""

from __future__ import annotations

from math import nan, sqrt


def ratio(a: float, b: float) -> float:
    """``a / b``, NaN by zero."""
    return a / b if b else nan


class Moments:
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
        """Count `x` in."""
        if not self.count:
            self.origin = float(x)
        self.count += 1
        self._move(x, 1)

    def remove(self, x: float) -> None:
        """Take `x`, which was counted, out again."""
        self.count -= 1
        if self.count:
            self._move(x, -1)
        else:
            self._reset()

    def _move(self, x: float, sign: int) -> None:
        d = x - self.origin
        self.total += sign * x
        self.total_squares += sign * x * x
        self.shifted += sign * d
        self.squares += sign * d * d

    @property
    def average(self) -> float:
        return ratio(self.total, self.count)

    @property
    def spread(self) -> float:
        """The sum of squared differences from the average, not below zero."""
        return max(0.0, self.squares - self.shifted * self.shifted / self.count) if self.count else nan

    @property
    def variance(self) -> float:
        """Of the sample; NaN below two values."""
        return self.spread / (self.count - 1) if self.count > 1 else nan

    @property
    def deviation(self) -> float:
        """Standard deviation of the sample; NaN below two values."""
        return sqrt(self.variance) if self.count > 1 else nan

    @property
    def population_deviation(self) -> float:
        """Standard deviation of the population; NaN without values."""
        return sqrt(self.spread / self.count) if self.count else nan


class Pairs:
    """Sums of two variables; a pair with a null does not count."""

    __slots__ = ("_shifted", "products", "x", "y")

    def __init__(self) -> None:
        self.x = Moments()
        self.y = Moments()
        self.products = 0.0
        self._shifted = 0.0

    def enter(self, x: float | None, y: float | None) -> None:
        """Count a pair in."""
        if x is None or y is None:
            return
        self.x.add(x)
        self.y.add(y)
        self._move(x, y, 1)

    def leave(self, x: float | None, y: float | None) -> None:
        """Take a pair, which was counted, out again."""
        if x is None or y is None:
            return
        if self.x.count > 1:
            self._move(x, y, -1)
        else:
            self.products = self._shifted = 0.0
        self.x.remove(x)
        self.y.remove(y)

    def _move(self, x: float, y: float, sign: int) -> None:
        self.products += sign * x * y
        self._shifted += sign * (x - self.x.origin) * (y - self.y.origin)

    @property
    def joint(self) -> float:
        """The sum of products of differences from the averages."""
        return self._shifted - self.x.shifted * self.y.shifted / self.x.count if self.x.count else nan

    @property
    def slope(self) -> float:
        """Of the regression line; NaN below two points and without variation of x."""
        return ratio(self.joint, self.x.spread) if self.x.count > 1 else nan

    @property
    def correlation(self) -> float:
        """NaN below two points and without variation."""
        return ratio(self.joint, sqrt(self.x.spread) * sqrt(self.y.spread)) if self.x.count > 1 else nan
