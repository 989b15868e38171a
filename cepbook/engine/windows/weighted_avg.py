"""``weighted_avg(value, weight)``: the average of the values by weight; NaN if the weights sum to zero.

::

    length(2)#weighted_avg(price, volume)
    arrivals (price, volume)   (10, 1)   (20, 3)   (40, 1)
    average                    10        17.5      25
"""

from __future__ import annotations

from typing import Any

from cepbook.engine.state import initial
from cepbook.engine.windows.running_statistics import Statistic, ratio


class WeightedAverageStatistic(Statistic):
    """The statistic of ``weighted_avg``. A pair with a null does not count."""

    count: int = initial(0)
    products: float = initial(0.0)
    weights: float = initial(0.0)

    def enter(self, *values: Any) -> None:
        self._move(1, *values)

    def leave(self, *values: Any) -> None:
        self._move(-1, *values)
        if not self.count:  # drops rounding errors
            self.products = self.weights = 0.0

    def _move(self, sign: int, value: float | None, weight: float | None) -> None:
        if value is None or weight is None:
            return
        self.count += sign
        self.products += sign * value * weight
        self.weights += sign * weight

    def fields(self) -> dict[str, Any]:
        return {"average": ratio(self.products, self.weights)}


STATISTIC = WeightedAverageStatistic
