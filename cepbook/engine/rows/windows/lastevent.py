"""``lastevent``: the last event only; delivers as ``length(1)`` does."""

from __future__ import annotations

from cepbook.engine.rows.windows.form import Window, queue
from cepbook.engine.rows.windows.length import Length, arrive

WINDOW = Window(
    lambda code, spec, at: f"{code.source.bind('_Length', Length)}(1)",
    fragment=lambda arrival: arrive(arrival, "1"),
    ahead=queue,
)
