"""A quantile sketch with a bounded relative error (DDSketch: Masson, Rim and Lee, VLDB 2019).

Values are counted in bins whose bounds grow by a constant factor, so each value of a bin is within `RELATIVE_ERROR` of
the bin's middle. The sketch is a function of the values that it holds: it does not depend on their order, a value that
leaves is subtracted, and a saved sketch continues exactly. Sketches that compact at random (KLL) or merge clusters
(t-digest) have none of these properties.

Values between 1 and a million fall into 691 bins, all doubles into about 73,000 per sign.
"""

from __future__ import annotations

import math
import sys

from cepbook.engine.state import State, created, initial

RELATIVE_ERROR = 0.01
_LOG_GROWTH = math.log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))
_OFFSET = 1 << 16  # above the number of any bin, so that bins of positive values have positive keys
_INFINITE = 2 * _OFFSET
_CHUNK = 6  # bins are counted in chunks of 2 ** 6, too


class QuantileSketch(State):
    """Counts of values by bin. Keys have the sign of their values; zero has key 0. NaN is above all numbers."""

    bins: dict[int, int] = created(dict)
    chunks: dict[int, int] = created(dict)
    count: int = initial(0)  # of numbers
    nans: int = initial(0)

    def enter(self, value: float) -> None:
        self._add(value, 1)

    def leave(self, value: float) -> None:
        self._add(value, -1)

    def _add(self, value: float, count: int) -> None:
        if value != value:
            self.nans += count
            return
        key = _key(value)
        self.count += count
        for counts, at in ((self.bins, key), (self.chunks, key >> _CHUNK)):
            total = counts.get(at, 0) + count
            if total:
                counts[at] = total
            else:
                del counts[at]

    def value(self, percent: float | None) -> float | None:
        """Return the value at `percent`, within `RELATIVE_ERROR` of the value of rank ``floor((n - 1) * percent /
        100)``; None without values. Errors: ValueError if `percent` is not from 0 to 100.
        """
        count = self.count + self.nans
        if not count or percent is None:
            return None
        if not 0 <= percent <= 100:
            raise ValueError(f"the percentage of percentile_approx must be between 0 and 100, found {percent}")
        rank = math.floor((count - 1) * percent / 100)
        if rank >= self.count:
            return math.nan
        for chunk in sorted(self.chunks):
            if rank < self.chunks[chunk]:
                break
            rank -= self.chunks[chunk]
        for key in range(chunk << _CHUNK, chunk + 1 << _CHUNK):
            rank -= self.bins.get(key, 0)
            if rank < 0:
                break
        return _middle(key)


def _key(value: float) -> int:
    """Return the key of the bin of a number. Keys ascend with the numbers."""
    if not value:
        return 0
    size = abs(value)
    key = _INFINITE if size == math.inf else math.ceil(math.log(size) / _LOG_GROWTH) + _OFFSET
    return key if value > 0 else -key


def _middle(key: int) -> float:
    """Return the number that is within `RELATIVE_ERROR` of all numbers of a bin."""
    if not key:
        return 0.0
    size = abs(key)
    middle = math.inf
    if size != _INFINITE:
        exponent = (size - _OFFSET) * _LOG_GROWTH + math.log1p(-RELATIVE_ERROR)
        middle = min(math.exp(min(exponent, 709.782)), sys.float_info.max)
    return math.copysign(middle, key)
