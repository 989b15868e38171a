"""``correl(x, y)``: the correlation of two values; NaN without variation."""

from __future__ import annotations

from typing import Any

from cepbook.engine.windows.running_statistics import RunningPairs


class CorrelationStatistic(RunningPairs):
    """The statistic of ``correl``."""

    __slots__ = ()

    def fields(self) -> dict[str, Any]:
        return {"correlation": self.correlation}


STATISTIC = CorrelationStatistic
