"""How often values came, estimated in bounded space: a count-min sketch (Cormode and Muthukrishnan 2005).

Each of `depth` rows counts a value in one of `width` places, which a hash chooses; the least of the counts is never too
low, and with probability `confidence` at most ``epsilon * total`` too high.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Any

from cepbook.engine.state import State


class CountMinSketch(State):
    """Values enter, and do not leave. With `most` it knows which came most often, that many of them."""

    __slots__ = ("counts", "most", "seed", "top", "total", "width")

    def __init__(
        self, epsilon: float = 0.0001, confidence: float = 0.99, seed: int = 1234567, most: int | None = None
    ) -> None:
        self.width = math.ceil(2 / epsilon)
        self.counts: list[dict[int, int]] = [{} for _ in range(max(1, math.ceil(-math.log2(1 - confidence))))]
        self.seed = seed
        self.most = most
        self.top: dict[Any, int] = {}  # the values that came most often, as far as they are wanted
        self.total = 0

    def enter(self, value: Any) -> None:
        self.total += 1
        least = self.total
        for counts, place in zip(self.counts, self._places(value), strict=True):
            count = counts[place] = counts.get(place, 0) + 1
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
        """What has left counts on: a sketch cannot tell who a count is of."""

    def value(self) -> int:
        """How many values have entered."""
        return self.total

    def frequency(self, value: Any) -> int:
        """How often `value` has entered, or more."""
        return min(counts.get(place, 0) for counts, place in zip(self.counts, self._places(value), strict=True))

    def often(self) -> list[dict[str, Any]] | None:
        """The values that came most often, most frequent first; None if they are not asked for."""
        if self.most is None:
            return None
        found = sorted(self.top.items(), key=lambda each: -each[1])
        return [{"value": value, "frequency": count} for value, count in found]

    def _places(self, value: Any) -> list[int]:
        """The place of a value in each row, by two hashes."""
        text = f"{self.seed}:{value}".encode("utf-8", "surrogatepass")
        digest = int.from_bytes(blake2b(text, digest_size=16).digest(), "big")
        first, step = digest >> 64, digest & (1 << 64) - 1 | 1
        return [(first + number * step) % self.width for number in range(len(self.counts))]
