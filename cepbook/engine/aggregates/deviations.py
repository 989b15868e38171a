"""Deviations from the mean: the standard deviation in O(1), the mean absolute deviation in O(sqrt n).

Both are sums of integers, therefore exact, and nothing drifts.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort

from cepbook.engine.aggregates.power_sums import dyadic_fraction
from cepbook.engine.state import State, initial


class StandardDeviation(State):
    """Count, sum and sum of squares as integer multiples of ``2 ** -bits``, therefore exact. Neither rounding errors
    nor traces of large values that have left accumulate. After a value that is infinite or NaN the result is NaN until
    the window is empty (recorded).
    """

    count: int = initial(0)
    total: int = initial(0)
    squares: int = initial(0)
    bits: int = initial(0)
    odd: int = initial(0)  # number of infinite values and NaN that still count

    def enter(self, value: float) -> None:
        self._add(value, 1)

    def leave(self, value: float) -> None:
        self._add(value, -1)
        if not self.count:
            self.bits = self.total = self.squares = 0
            self.odd = 0

    def _add(self, value: float, sign: int) -> None:
        self.count += sign
        if value - value != 0.0:
            self.odd += self._felt(sign)
            return
        whole, bits = dyadic_fraction(value)
        if bits > self.bits:
            self.total <<= bits - self.bits
            self.squares <<= 2 * (bits - self.bits)
            self.bits = bits
        else:
            whole <<= self.bits - bits
        self.total += sign * whole
        self.squares += sign * whole * whole

    def _felt(self, sign: int) -> int:
        """Return the change of `odd` when an infinite value or NaN enters (sign 1) or leaves (-1)."""
        return 1

    def sample(self) -> float | None:
        """Return the standard deviation of a sample; None below two values."""
        return self._deviation(self.count - 1) if self.count > 1 else None

    def population(self) -> float | None:
        """Return the standard deviation of a population; None without values."""
        return self._deviation(self.count) if self.count > 0 else None

    def _deviation(self, degrees: int) -> float:
        if self.odd:
            return math.nan
        square = self.count * self.squares - self.total * self.total
        try:
            return math.sqrt(square / (self.count * degrees << 2 * self.bits))
        except OverflowError:
            return math.inf


class RecoveringStandardDeviation(StandardDeviation):
    """A `StandardDeviation` that is NaN only while an infinite value or NaN is present, as compensated sums are."""

    def _felt(self, sign: int) -> int:
        return sign


class MeanDeviation(State):
    """Sorted values in about as many chunks as a chunk has values, each with its sum in units of ``2 ** -bits``."""

    __slots__ = ("beyond", "bits", "chunks", "count", "highest", "odd", "sums", "total")

    def __init__(self) -> None:
        self.count = 0  # of the values in chunks
        self.beyond = 0  # number of infinite values and NaN
        self.odd = False  # True if there was such a value, even if it has left (recorded)
        self.bits = 0
        self.total = 0
        self.chunks: list[list[float]] = [[]]
        self.highest = [math.inf]  # the upper bound of each chunk, inclusive
        self.sums = [0]

    def enter(self, value: float) -> None:
        if value - value != 0.0:
            self.beyond += 1
            self.odd = True
            return
        self.count += 1
        at = bisect_left(self.highest, value)
        chunk = self.chunks[at]
        insort(chunk, value)
        self._add(at, value, 1)
        half = max(64, math.isqrt(self.count))
        if len(chunk) > 2 * half:
            lower = chunk[:half]
            total = sum(self._whole(v) for v in lower)
            self.chunks[at : at + 1] = [lower, chunk[half:]]
            self.sums[at : at + 1] = [total, self.sums[at] - total]
            self.highest.insert(at, lower[-1])

    def leave(self, value: float) -> None:
        if value - value != 0.0:
            self.beyond -= 1
        else:
            self._leave(value)
        if not self.count and not self.beyond:
            self.odd = False

    def _leave(self, value: float) -> None:
        for at in range(bisect_left(self.highest, value), len(self.chunks)):
            chunk = self.chunks[at]
            place = bisect_left(chunk, value)
            if place < len(chunk):
                if chunk[place] == value:
                    del chunk[place]
                    self._remove(at, value)
                return

    def _remove(self, at: int, value: float) -> None:
        self.count -= 1
        self._add(at, value, -1)
        if not self.count:
            self.bits = 0
        if not self.chunks[at] and len(self.chunks) > 1:
            del self.chunks[at], self.sums[at], self.highest[at]
            self.highest[-1] = math.inf

    def _add(self, at: int, value: float, sign: int) -> None:
        whole = sign * self._whole(value)
        self.sums[at] += whole
        self.total += whole

    def _whole(self, value: float) -> int:
        """Return `value` as a multiple of ``2 ** -bits``; increase `bits` if it needs more."""
        whole, bits = dyadic_fraction(value)
        if bits > self.bits:
            more, self.bits = bits - self.bits, bits
            self.sums = [s << more for s in self.sums]
            self.total <<= more
        return whole << self.bits - bits

    def value(self) -> float | None:
        """Return the mean absolute deviation from the mean; None without values."""
        if self.odd:
            return math.nan
        if not self.count:
            return None
        try:
            return self._mean_deviation()
        except OverflowError:
            return math.inf

    def _mean_deviation(self) -> float:
        count = self.count
        one = count << self.bits  # denominator of the mean
        mean = self.total / one
        at = bisect_left(self.highest, mean)
        place = bisect_left(self.chunks[at], mean)
        whole_chunks = sum(map(len, self.chunks[:at])) * self.total - count * sum(self.sums[:at])
        below = math.fsum([whole_chunks / one, *(mean - v for v in self.chunks[at][:place])])
        whole, bits = dyadic_fraction(mean)
        rest = ((self.total << bits) - whole * one) / (one << bits)  # of the mean, lost in rounding
        return max(0.0, 2.0 * (below + place * rest) / count)
