"""``ext_timed_batch(timestamp, p [, reference])``: batches on a grid of timestamps; engine time never moves it.

::

    ext_timed_batch(ts, 10)
    arrivals   a(ts 0)   b(ts 5)   c(ts 10)   d(ts 35)
    enters                         ab         c
    leaves                                    ab

The first timestamp (or the reference point) sets the grid. An event at or behind the end of the interval posts the
batch without itself and opens the next; a gap posts one batch; older timestamps join the batch being collected.
"""

from __future__ import annotations

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.duration import Duration
from cepbook.engine.rows.windows.form import Window, period, timestamp
from cepbook.engine.rows.windows.view import Change, Collecting, Item
from cepbook.lang.plan import WindowSpec


class ExtTimedBatch(Collecting):
    """The view of ``ext_timed_batch``. `end` is the timestamp at which the interval is over."""

    __slots__ = ("at", "end", "grid", "period")

    def __init__(self, at: int, period: Duration, grid: int | None) -> None:
        super().__init__()
        self.at = at
        self.period = period
        self.grid = grid
        self.end: int | None = None

    def arrive(self, item: Item, now: int) -> Change | None:
        stamp = item[self.at]
        change = None
        if self.end is None or stamp >= self.end:
            if self.end is not None and not self.idle:
                change = self.post()
            if self.grid is None:
                self.grid = stamp
            self.end = self.period.on_grid(stamp, self.grid)
        self.items.append(item)
        return change


def _view(code: Code, spec: WindowSpec, at: int) -> str:
    grid = code.parameter(spec.args[2]) if len(spec.args) > 2 else "None"
    return f"{code.source.bind('_ExtTimedBatch', ExtTimedBatch)}({at}, {period(code, spec, 1, apart=True)}, {grid})"


WINDOW = Window(_view, timestamp)
