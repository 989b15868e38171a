"""``lastevent``: the last event only; delivers as ``length(1)`` does."""

from __future__ import annotations

from cepbook.engine.windows.length import LengthWindow, arrive
from cepbook.engine.windows.window_codegen import WindowCodegen, queue

WINDOW = WindowCodegen(
    lambda code, spec, at: f"{code.source.bind('_Length', LengthWindow)}(1)",
    fragment=lambda arrival: arrive(arrival, "1"),
    ahead=queue,
)
