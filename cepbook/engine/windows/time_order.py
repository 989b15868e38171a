"""``time_order(timestamp, p)``: sorts events by timestamp; an event leaves when the clock reaches timestamp + p.

::

    time_order(ts, 10)    at 5       at 6       at 12   at 15
    arrivals              a(ts 5)    b(ts 2)
    contents              a          ba         a       -
    leaves                                      b       a

An event whose time is already over enters and leaves in one delivery. Equal timestamps stay in order of arrival.
"""

from __future__ import annotations

from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.duration import Duration
from cepbook.engine.windows.ordered import OrderedView, SortEntry
from cepbook.engine.windows.window_codegen import WindowCodegen, creates, operands_at, period, timestamp
from cepbook.engine.windows.window_view import Item, ViewDelta


class TimeOrderWindow(OrderedView):
    """The view of ``time_order`` and ``timetolive``; the timestamp is at position `at` of items."""

    at: int
    period: Duration

    def entry(self, item: Item) -> SortEntry:
        return item[self.at], item[0], item

    def arrive(self, item: Item, now: int) -> ViewDelta:
        stamp = item[self.at]
        if stamp <= self.period.before(now):
            return (item,), (item,)
        self.ordered.add((stamp, item[0], item))
        due = self.period.after(stamp)
        if due < self.due:
            self.due = due
        return (item,), ()

    def advance(self, now: int) -> ViewDelta | None:
        limit, ordered, left = self.period.before(now), self.ordered, []
        while ordered and ordered[0][0] <= limit:
            left.append(ordered.pop(0)[2])
        self.due = self.period.after(ordered[0][0]) if ordered else NEVER
        return ((), left) if left else None


WINDOW = WindowCodegen(creates(TimeOrderWindow, operands_at, period(1)), timestamp)
