"""A count-min sketch: how often values occur, estimated in bounded space (Cormode and Muthukrishnan 2005).

Each of `depth` rows counts a value in one of `width` slots, chosen by a hash. The least of the counts is never too low,
and with probability `confidence` at most ``epsilon * total`` too high.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Any

from cepbook.engine.state import State


class CountMinSketch(State):
    """Counts entering values; leaving is not supported. With `most` it tracks that many of the most frequent values."""

    __slots__ = ("counts", "most", "seed", "top", "total", "width")

    def __init__(
        self, epsilon: float = 1e-4, confidence: float = 0.99, seed: int = 1234567, most: int | None = None
    ) -> None:
        self.width = math.ceil(2 / epsilon)
        self.counts: list[dict[int, int]] = [{} for _ in range(max(1, math.ceil(-math.log2(1 - confidence))))]
        self.seed = seed
        self.most = most
        self.top: dict[Any, int] = {}  # the most frequent values, at most `most`
        self.total = 0

    def enter(self, value: Any) -> None:
        self.total += 1
        least = self.total
        for counts, slot in zip(self.counts, self._slots(value), strict=True):
            count = counts[slot] = counts.get(slot, 0) + 1
            least = min(least, count)
        if self.most is None:
            return
        if value not in self.top and len(self.top) >= self.most:
            rarest = min(self.top, key=self.top.__getitem__)
            if self.top[rarest] >= least:
                return
            del self.top[rarest]
        self.top[value] = least

    def leave(self, value: Any) -> None:
        """Do nothing: a sketch cannot attribute a count to a value."""

    def value(self) -> int:
        """Return the number of values that have entered."""
        return self.total

    def frequency(self, value: Any) -> int:
        """Return an upper estimate of how often `value` has entered."""
        return min(counts.get(slot, 0) for counts, slot in zip(self.counts, self._slots(value), strict=True))

    def often(self) -> list[dict[str, Any]] | None:
        """Return the most frequent values, in descending order; None without `most`."""
        if self.most is None:
            return None
        ranking = sorted(self.top.items(), key=lambda entry: -entry[1])
        return [{"value": value, "frequency": count} for value, count in ranking]

    def _slots(self, value: Any) -> list[int]:
        """The place of a value in each row, by two hashes."""
        text = f"{self.seed}:{value}".encode("utf-8", "surrogatepass")
        digest = int.from_bytes(blake2b(text, digest_size=16).digest(), "big")
        first, step = digest >> 64, digest & (1 << 64) - 1 | 1
        return [(first + number * step) % self.width for number in range(len(self.counts))]
