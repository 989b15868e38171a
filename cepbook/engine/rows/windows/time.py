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

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.form import Sliding
from cepbook.engine.rows.windows.period import timer_of


def _fresh(code: Code) -> str:
    return f"{code.source.bind('_deque', deque)}()"


def _arrive(code: Code, w: str, item: str, drops: bool) -> None:
    source, shape = code.source, code.shape
    with source.block(f"if not {w}:"):
        ordinal = "S[3][gk]" if shape.group_window else "0"
        if code.in_run and code.one_timer:
            source.line(f"due = {timer_of(code, 'now')}")
        else:
            source.line(f"arm({timer_of(code, 'now')}, S, {w}, {ordinal})")
    source.line(f"{w}.append({item})")


WINDOW = Sliding(fresh=_fresh, arrive=_arrive, contents=lambda w: w)
