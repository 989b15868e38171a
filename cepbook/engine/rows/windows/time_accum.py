"""``time_accum(p)``: keeps events until none arrived for p, then all leave at once.

::

    time_accum(2 sec)     0     1     2     3
    arrivals              a     b
    contents              a     ab    ab    -
    leaves                                  ab
"""

from __future__ import annotations

from cepbook.engine.clock import NEVER
from cepbook.engine.rows.windows.duration import Duration
from cepbook.engine.rows.windows.form import Window, period
from cepbook.engine.rows.windows.view import Change, Item, Queue


class TimeAccum(Queue):
    """The view of ``time_accum``; the time of arrival stands at position `at` of items."""

    __slots__ = ("at", "period")

    def __init__(self, period: Duration, at: int) -> None:
        super().__init__()
        self.period = period
        self.at = at

    def arrive(self, item: Item, now: int) -> Change:
        self.items.append(item)
        self.due = self.period.after(now)
        return (item,), ()

    def advance(self, now: int) -> Change | None:
        self.due = NEVER
        left = self.clear()
        return ((), left) if left else None

    def discard(self, item: Item) -> None:
        super().discard(item)
        self.due = self.period.after(self.items[-1][self.at]) if self.items else NEVER


WINDOW = Window(
    lambda code, spec, at: f"{code.source.bind('_TimeAccum', TimeAccum)}({period(code, spec)}, {code.items.time})"
)
