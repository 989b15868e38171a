"""``firsttime(p)``: the events of the first p after the statement (or its partition) started; later ones are refused.

::

    firsttime(2 sec)      0     1     2     3
    arrivals                    a     b
    contents                    a     a     a

The end is exclusive: an event at start + p is refused. Retained events never leave by time.

In a context, the period starts anew with every partition. The events of the first ten minutes of each shift::

    create context Shifts start ShiftStarted end after 8 hours;
    context Shifts select * from Reading#firsttime(10 min)
"""

from __future__ import annotations

from cepbook.engine.windows.window_codegen import WindowCodegen, creates, period
from cepbook.engine.windows.window_view import Item, QueueView, ViewDelta


class FirstTimeWindow(QueueView):
    """The view of ``firsttime``; `end` is the time from which events are refused.

    The view has no timer, because nothing leaves at `end`. An item that is discarded before `end` makes no
    difference to later ones.
    """

    end: int
    refuses = True

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        if now >= self.end:
            return None
        self.items.append(item)
        return (item,), ()


WINDOW = WindowCodegen(creates(FirstTimeWindow, lambda code, spec, at: f"{period()(code, spec, at)}.after(now)"))
