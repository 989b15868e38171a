"""``time_length_batch(p, n [, flow control])``: releases its batch after p or with n events, whichever comes first.

::

    time_length_batch(1 sec, 2)   0     0.4   1.0   1.4   2.0
    arrivals                      a     b     c
    enters                              ab                c
    leaves                                                ab

A full batch restarts the interval. After an idle interval, the clock stands still until the next event, unless
FORCE_UPDATE or START_EAGER deliver empty intervals as well. START_EAGER starts the clock at deployment.
"""

from __future__ import annotations

from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.duration import Duration
from cepbook.engine.windows.window_codegen import WindowCodegen, creates, forces_empty, period, size, starts_eagerly
from cepbook.engine.windows.window_view import EMPTY_DELTA, BatchView, Item, ViewDelta


class TimeLengthBatchWindow(BatchView):
    """The view of ``time_length_batch``."""

    __slots__ = ("forces", "period", "size")

    def __init__(self, period: Duration, size: int, forces: bool, starts_at: int | None) -> None:
        super().__init__()
        self.period = period
        self.size = size
        self.forces = forces
        if starts_at is not None:
            self.due = period.after(starts_at)

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        if self.due == NEVER:
            self.due = self.period.after(now)
        self.items.append(item)
        if len(self) < self.size:
            return None
        self.due = self.period.after(now)
        return self.post()

    def advance(self, now: int) -> ViewDelta | None:
        idle = self.idle
        self.due = self.period.after(now) if self.forces or not idle else NEVER
        if idle:
            return EMPTY_DELTA if self.forces else None
        return self.post()


WINDOW = WindowCodegen(creates(TimeLengthBatchWindow, period(nonzero=True), size(1), forces_empty, starts_eagerly))
