"""``lastevent``: the last event only; delivers as ``length(1)`` does.

::

    arrivals   a   b   c
    contents   a   b   c
    leaves         a   b
"""

from __future__ import annotations

from cepbook.engine.windows.length import LengthWindow, arrive
from cepbook.engine.windows.window_codegen import WindowCodegen, creates, write_queue

WINDOW = WindowCodegen(
    creates(LengthWindow, lambda *_: "1"), fragment=lambda arrival: arrive(arrival, "1"), prefetch=write_queue
)
