"""``correl(x, y)``: the correlation coefficient (Pearson) of two numeric expressions.

::

    length(3)#correl(x, y)
    arrivals (x, y)   (1, 2)   (2, 4)   (3, 6)   (4, 0)
    correlation       NaN      1        1        -0.65

The derived event has the field ``correlation`` (double) and the extra expressions of the window.

The coefficient is NaN below two pairs, and without variation of x or y. A pair with a null does not count, but its
event emits as well. Cost per event is constant, see `running_statistics`.

Without a window before it, ``Tick#correl(x, y)`` is the coefficient of all ticks so far.

After ``groupwin``, every group has its own coefficient, and the derived event also has the fields of the key::

    select symbol, correlation
    from Tick#groupwin(symbol)#length(100)#correl(price, volume)
"""

from __future__ import annotations

from typing import Any

from cepbook.engine.windows.running_statistics import RunningPairs


class CorrelationStatistic(RunningPairs):
    """The statistic of ``correl``: one field, ``correlation``, between -1 and 1.

    x and y may be exchanged. The sums are those of all pairs in the window; in an empty window, they are exactly 0
    again.
    """

    def fields(self) -> dict[str, Any]:
        return {"correlation": self.correlation}


STATISTIC = CorrelationStatistic
