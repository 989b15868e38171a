"""Aggregates made of sums of powers: sums and means, variance, skewness, kurtosis; O(1).

Sums are integer multiples of a power of two, therefore exact. Neither rounding errors nor traces of large values that
have left accumulate, however long a query runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cepbook.engine.state import State


def dyadic_fraction(value: float) -> tuple[int, int]:
    """Return integers w, b with ``value == w * 2 ** -b``."""
    whole, denominator = value.as_integer_ratio()
    return whole, denominator.bit_length() - 1


class PowerSums(State):
    """Sums of the first powers of values; `sums` are multiples of ``2 ** (-bits * power)``. `lone` is the variance and
    standard deviation of a single value: None in EPL.
    """

    __slots__ = ("bits", "count", "lone", "odd", "sums", "what")

    def __init__(self, what: str, lone: float | None = None) -> None:
        self.what = what
        self.lone = lone
        self.count = 0
        self.odd: list[float] = []  # infinite values and NaN
        self.bits = 0
        self.sums = [0] * HIGHEST_POWERS[what]

    def enter(self, value: Any) -> None:
        if value is not None:
            self.count += 1
            self._add(self._transformed(float(value)), 1)

    def leave(self, value: Any) -> None:
        if value is not None:
            self.count -= 1
            self._add(self._transformed(float(value)), -1)
            if not self.count:
                self.bits = 0
                self.sums = [0] * len(self.sums)
                self.odd.clear()

    def _transformed(self, value: float) -> float:
        """Return the value that is summed: for a geometric mean the logarithm, NaN if there is none."""
        if self.what != "geomean":
            return value
        return math.log(value) if value > 0 else math.nan

    def _add(self, value: float, sign: int) -> None:
        if value - value != 0.0:
            if sign > 0:
                self.odd.append(value)
            else:
                self.odd.remove(next(value_ for value_ in self.odd if value_ == value or value_ != value_))
            return
        whole, bits = dyadic_fraction(value)
        if bits > self.bits:
            more, self.bits = bits - self.bits, bits
            self.sums = [total << more * power for power, total in enumerate(self.sums, 1)]
        else:
            whole <<= self.bits - bits
        term = sign
        for at in range(len(self.sums)):
            term *= whole
            self.sums[at] += term

    def value(self) -> float | None:
        if not self.count:
            return None
        try:
            if self.odd:
                return None if self.what == "geomean" else sum(self.odd) if self.what in ("sum", "avg") else math.nan
            if self.count == 1 and self.what in ("variance", "stddev"):
                return self.lone
            return _VALUES[self.what](self.count, self.bits, self.sums)
        except OverflowError:
            return math.inf


def _avg(count: int, bits: int, sums: list[int]) -> float:
    return sums[0] / (count << bits)


def _variance(count: int, bits: int, sums: list[int]) -> float:
    return _spread(count, sums) / ((count * (count - 1)) << 2 * bits)


def _spread(count: int, sums: list[int]) -> int:
    return count * sums[1] - sums[0] * sums[0]


def _skewness(count: int, bits: int, sums: list[int]) -> float | None:
    """Corrected for bias; None below three values or without spread."""
    if count < 3 or not _spread(count, sums):
        return None
    n, (s1, s2, s3) = count, sums
    third = n * n * s3 - 3 * n * s1 * s2 + 2 * s1**3  # the third moment about the mean, times n³
    second = _spread(n, sums)  # the second, times n²
    return (third / second) / math.sqrt(second) * math.sqrt(n * (n - 1)) / (n - 2)


def _kurtosis(count: int, bits: int, sums: list[int]) -> float | None:
    """Excess kurtosis, corrected for bias; None below four values or without spread."""
    if count < 4 or not _spread(count, sums):
        return None
    n, (s1, s2, s3, s4) = count, sums
    fourth = n**3 * s4 - 4 * n * n * s1 * s3 + 6 * n * s1 * s1 * s2 - 3 * s1**4  # times n⁴
    second = _spread(n, sums)
    plain = fourth / (second * second)
    return (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * plain - 3 * (n - 1))


HIGHEST_POWERS = {
    "sum": 1,
    "avg": 1,
    "geomean": 1,
    "sumsq": 2,
    "variance": 2,
    "stddev": 2,
    "skewness": 3,
    "kurtosis": 4,
}
_VALUES: dict[str, Callable[[int, int, list[int]], float | None]] = {
    "sum": lambda count, bits, sums: sums[0] / (1 << bits),
    "avg": _avg,
    "geomean": lambda count, bits, sums: math.exp(_avg(count, bits, sums)),
    "sumsq": lambda count, bits, sums: sums[1] / (1 << 2 * bits),
    "variance": _variance,
    "stddev": lambda count, bits, sums: math.sqrt(_variance(count, bits, sums)),
    "skewness": _skewness,
    "kurtosis": _kurtosis,
}
