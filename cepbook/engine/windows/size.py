"""``size``: the number of events in the window before it.

::

    length(2)#size
    arrivals      a   b   c
    size          1   2   2
    emits         1   2   -

Without a window before it, ``Tick#size`` counts all ticks so far. The number of orders in the last minute::

    select size from Order#time(1 min)#size

The derived event has the field ``size`` (long) and the extra expressions of the window. It is emitted only if the
number changes, in contrast to the other derived-value windows, which emit with every change of the window before.
"""

from __future__ import annotations

from typing import Any

from cepbook.engine.state import initial
from cepbook.engine.windows.running_statistics import Statistic


class SizeStatistic(Statistic):
    """The statistic of ``size``: a counter."""

    count: int = initial(0)

    def enter(self, *values: Any) -> None:
        self.count += 1

    def leave(self, *values: Any) -> None:
        self.count -= 1

    def fields(self) -> dict[str, Any]:
        return {"size": self.count}


STATISTIC = SizeStatistic
