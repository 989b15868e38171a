"""``uni(value)``: univariate statistics of a numeric expression.

::

    length(3)#uni(x)
    arrivals x    1    2    3    6
    datapoints    1    2    3    3
    average       1    1.5  2    3.67

Null values do not count, but their events emit as well. ``stddev`` and ``variance`` are those of the sample and NaN
below two values; ``stddevpa`` is the standard deviation of the population.
"""

from __future__ import annotations

from typing import Any

from cepbook.engine.windows.running_statistics import RunningMoments


class UnivariateStatistic(RunningMoments):
    """The statistic of ``uni``."""

    def enter(self, *values: Any) -> None:
        if values[0] is not None:
            self.add(values[0])

    def leave(self, *values: Any) -> None:
        if values[0] is not None:
            self.remove(values[0])

    def fields(self) -> dict[str, Any]:
        variance, deviation, of_population = self.deviations()
        return {
            "datapoints": self.count,
            "total": self.total,
            "stddev": deviation,
            "stddevpa": of_population,
            "variance": variance,
            "average": self.average,
        }


STATISTIC = UnivariateStatistic
