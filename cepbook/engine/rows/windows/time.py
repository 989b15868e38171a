"""``time(p)``: the events of the last p; an event of time t leaves when the clock reaches t + p.

::

    time(4 sec)           0     1     2     3     4     5
    arrivals              a     b
    contents              a     ab    ab    ab    b     -
    leaves                                        a     b

The end is exclusive: at t + p the event is gone, and an event that arrives in that millisecond comes after the
expiry. Calendar periods: the event leaves when ``now - p`` (day clamped) is not before t.
"""

from __future__ import annotations

from cepbook.engine.clock import NEVER
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.duration import Duration
from cepbook.engine.rows.windows.form import ENTERS, Arriving, Posted, Window, fixed, period
from cepbook.engine.rows.windows.view import Change, Item, Queue
from cepbook.lang.plan import WindowSpec


def _arrive(arrival: Arriving) -> Posted:
    source, w, code = arrival.source, arrival.view, arrival.code
    lazy, length = code.steps.lazy, fixed(arrival.spec)
    span = None if length is None else arrival.parameter("period.length", length)
    source.line(f"queue = {w}.items")
    if lazy:
        source.line(f"limit = {f'{w}.period.before(now)' if span is None else f'now - {span}'}")
        arrival.swept(f"while queue and queue[0][{code.items.time}] <= limit:", "queue.popleft()")
    with source.block("if not queue:"):
        due = f"{w}.look(now)" if span is None else f"now + {span}" + f" + {span}" * lazy
        source.line(f"{w}.due = {due}")
        arrival.armed()
    source.line(f"queue.append({arrival.item})")
    return ENTERS


class Time(Queue):
    """The view of ``time``; the time of arrival stands at position `at` of items.

    With `lazy` nobody sees the expiry: what has left is dropped when somebody looks, one period later at the latest.
    """

    __slots__ = ("at", "lazy", "period")

    def __init__(self, period: Duration, at: int, lazy: bool) -> None:
        super().__init__()
        self.period = period
        self.at = at
        self.lazy = lazy

    def look(self, t: int) -> int:
        """When to look at the window whose oldest event is of time `t`."""
        return self.period.after(t) + (self.period.length if self.lazy else 0)

    def arrive(self, item: Item, now: int) -> Change:
        if not self.items:
            self.due = self.look(now)
        self.items.append(item)
        return (item,), ()

    def advance(self, now: int) -> Change | None:
        left = self.pop_until(self.period.before(now), self.at)
        self.due = self.look(self.items[0][self.at]) if self.items else NEVER
        return ((), left) if left else None


def _view(code: Code, spec: WindowSpec, at: int) -> str:
    return f"{code.source.bind('_Time', Time)}({period(code, spec)}, {code.items.time}, {code.steps.lazy})"


WINDOW = Window(_view, fragment=_arrive, reads_now=True)
