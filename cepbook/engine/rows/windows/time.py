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

from collections import deque

from cepbook.engine.clock import NEVER
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.duration import Duration
from cepbook.engine.rows.windows.form import General, Sliding, period
from cepbook.engine.rows.windows.period import timer_of
from cepbook.engine.rows.windows.view import Change, Item, Queue


def _fresh(code: Code) -> str:
    return f"{code.source.bind('_deque', deque)}()"


def _arrive(code: Code, w: str, item: str, drops: bool) -> None:
    source, shape = code.source, code.shape
    with source.block(f"if not {w}:"):
        ordinal = "(S[3][gk], gk)" if shape.group_window else "0"
        if code.in_run and code.one_timer:
            source.line(f"due = {timer_of(code, 'now')}")
        else:
            source.line(f"arm({timer_of(code, 'now')}, S, {w}, {ordinal})")
    source.line(f"{w}.append({item})")


WINDOW = Sliding(fresh=_fresh, arrive=_arrive, contents=lambda w: w)


class Time(Queue):
    """The view of ``time``."""

    __slots__ = ("period",)

    def __init__(self, period: Duration) -> None:
        super().__init__()
        self.period = period

    def arrive(self, item: Item, now: int) -> Change:
        if not self.items:
            self.due = self.period.after(now)
        self.items.append(item)
        return (item,), ()

    def advance(self, now: int) -> Change | None:
        left = self.pop_until(self.period.before(now), 1)
        self.due = self.period.after(self.items[0][1]) if self.items else NEVER
        return ((), left) if left else None


VIEW = General(lambda code, spec, at: f"{code.source.bind('_Time', Time)}({period(code, spec)})")
