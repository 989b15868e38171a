"""``time_accum(p)``: keeps events until none has arrived for p, then all leave at once.

::

    time_accum(2 sec)     0     1     2     3
    arrivals              a     b
    contents              a     ab    ab    -
    leaves                                  ab
"""

from __future__ import annotations

from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.duration import Duration
from cepbook.engine.windows.window_codegen import WindowCodegen, arrival_time, creates, period
from cepbook.engine.windows.window_view import Item, QueueView, ViewDelta


class TimeAccumWindow(QueueView):
    """The view of ``time_accum``; the time of arrival is at position `at` of items."""

    period: Duration
    at: int

    def arrive(self, item: Item, now: int) -> ViewDelta:
        self.items.append(item)
        self.due = self.period.after(now)
        return (item,), ()

    def advance(self, now: int) -> ViewDelta | None:
        self.due = NEVER
        left = self.clear()
        return ((), left) if left else None

    def discard(self, item: Item) -> None:
        super().discard(item)
        self.due = self.period.after(self.items[-1][self.at]) if self.items else NEVER


WINDOW = WindowCodegen(creates(TimeAccumWindow, period(), arrival_time))
