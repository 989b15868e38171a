"""``timetolive(timestamp)``: keeps an event until the clock reaches its timestamp; ``time_order`` with a period of 0.

::

    timetolive(ts)        at 5        at 6       at 8     at 9
    arrivals              a(ts 9)     b(ts 8)
    contents              a           ba         a        -
    leaves                                       b        a
"""

from __future__ import annotations

from cepbook.engine.windows.duration import Duration
from cepbook.engine.windows.time_order import TimeOrderWindow
from cepbook.engine.windows.window_codegen import WindowCodegen, creates, operands_at, timestamp

WINDOW = WindowCodegen(
    creates(TimeOrderWindow, operands_at, lambda code, *_: f"{code.source.bind('_Duration', Duration)}(0)"), timestamp
)
