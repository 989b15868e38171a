"""``time_order(timestamp, p)``: orders events by timestamp; an event leaves when the clock reaches timestamp + p.

::

    time_order(ts, 10)    at 5       at 6       at 12   at 15
    arrivals              a(ts 5)    b(ts 2)
    contents              a          ba         a       -
    leaves                                      b       a

An event whose time is over already enters and leaves in one delivery. Equal timestamps stay in order of arrival.
"""

from __future__ import annotations

from cepbook.engine.clock import NEVER
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.duration import Duration
from cepbook.engine.rows.windows.form import Window, period, timestamp
from cepbook.engine.rows.windows.ordered import Entry, Ordered
from cepbook.engine.rows.windows.view import Change, Item
from cepbook.lang.plan import WindowSpec


class TimeOrder(Ordered):
    """The view of ``time_order`` and ``timetolive``; the timestamp stands at position `at` of items."""

    __slots__ = ("at", "period")

    def __init__(self, at: int, period: Duration) -> None:
        super().__init__()
        self.at = at
        self.period = period

    def entry(self, item: Item) -> Entry:
        return item[self.at], item[0], item

    def arrive(self, item: Item, now: int) -> Change:
        stamp = item[self.at]
        if stamp <= self.period.before(now):
            return (item,), (item,)
        self.ordered.add((stamp, item[0], item))
        due = self.period.after(stamp)
        if due < self.due:
            self.due = due
        return (item,), ()

    def advance(self, now: int) -> Change | None:
        limit, ordered, left = self.period.before(now), self.ordered, []
        while ordered and ordered[0][0] <= limit:
            left.append(ordered.pop(0)[2])
        self.due = self.period.after(ordered[0][0]) if ordered else NEVER
        return ((), left) if left else None


def _view(code: Code, spec: WindowSpec, at: int) -> str:
    return f"{code.source.bind('_TimeOrder', TimeOrder)}({at}, {period(code, spec, 1)})"


WINDOW = Window(_view, timestamp)
