"""``ext_timed_batch(timestamp, p [, reference])``: batches on a grid of timestamps, independent of engine time.

::

    ext_timed_batch(ts, 10)
    arrivals   a(ts 0)   b(ts 5)   c(ts 10)   d(ts 35)
    enters                         ab         c
    leaves                                    ab

The first timestamp (or the reference point) sets the grid. An event at or after the end of the interval releases the
batch without itself and begins the next one. A gap of several intervals releases one batch. Events with older
timestamps join the batch being collected.
"""

from __future__ import annotations

from cepbook.engine.state import initial
from cepbook.engine.windows.duration import Duration
from cepbook.engine.windows.window_codegen import WindowCodegen, creates, operands_at, optional, period, timestamp
from cepbook.engine.windows.window_view import BatchView, Item, ViewDelta


class ExtTimedBatchWindow(BatchView):
    """The view of ``ext_timed_batch``. `end` is the timestamp that ends the interval (exclusive)."""

    at: int
    period: Duration
    grid: int | None
    end: int | None = initial(None)

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
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


WINDOW = WindowCodegen(creates(ExtTimedBatchWindow, operands_at, period(1, nonzero=True), optional(2)), timestamp)
