"""``linest(x, y)``: linear regression of y on x, with the sums that it is computed from."""

from __future__ import annotations

from typing import Any

from cepbook.engine.windows.running_statistics import RunningMoments, RunningPairs


class RegressionStatistic(RunningPairs):
    """The statistic of ``linest``."""

    def fields(self) -> dict[str, Any]:
        x, y, slope = self.x, self.y, self.slope
        return {
            "slope": slope,
            "YIntercept": y.average - slope * x.average,
            **_spread("X", x),
            **_spread("Y", y),
            "dataPoints": x.count,
            "n": x.count,
            "sumX": x.total,
            "sumXSq": x.total_squares,
            "sumXY": self.products,
            "sumY": y.total,
            "sumYSq": y.total_squares,
        }


def _spread(prefix: str, of: RunningMoments) -> dict[str, Any]:
    variance, deviation, of_population = of.deviations()
    return {
        f"{prefix}Average": of.average,
        f"{prefix}StandardDeviationPop": of_population,
        f"{prefix}StandardDeviationSample": deviation,
        f"{prefix}Sum": of.total,
        f"{prefix}Variance": variance,
    }


STATISTIC = RegressionStatistic
