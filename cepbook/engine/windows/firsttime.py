"""``firsttime(p)``: the events of the first p after the statement (or its partition) started; later ones are refused.

::

    firsttime(2 sec)      0     1     2     3
    arrivals                    a     b
    contents                    a     a     a

The end is exclusive: an event at start + p is refused. Retained events never leave by time.

In a context, the period starts anew with every partition. For example, under ``start Shift end after 8 hours``,
``firsttime(10 min)`` keeps the events of the first ten minutes of each shift.
"""

from __future__ import annotations

from cepbook.engine.windows.window_codegen import WindowCodegen, period
from cepbook.engine.windows.window_view import Item, QueueView, ViewDelta


class FirstTimeWindow(QueueView):
    """The view of ``firsttime``; `end` is the time from which events are refused."""

    __slots__ = ("end",)
    refuses = True

    def __init__(self, end: int) -> None:
        super().__init__()
        self.end = end

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        if now >= self.end:
            return None
        self.items.append(item)
        return (item,), ()


WINDOW = WindowCodegen(
    lambda code, spec, at: f"{code.source.bind('_FirstTime', FirstTimeWindow)}({period(code, spec)}.after(now))"
)
