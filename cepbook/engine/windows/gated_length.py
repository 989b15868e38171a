"""``gated_length(n, m)``: the last n events; they enter when m of them have come, all m together.

::

    gated_length(3, 2)
    arrivals   a   b   c   d     e   f
    contents   -   ab  ab  bcd   bcd def
    leaves                 a         bc

With m above n the first m - n of each m never enter. (Apama's ``retain n every m``: Defining Batched Windows.)
"""

from __future__ import annotations

from cepbook.engine.windows.gated import GatedView
from cepbook.engine.windows.window_codegen import WindowCodegen, size
from cepbook.engine.windows.window_view import Item, ViewDelta


class GatedLengthWindow(GatedView):
    """The view of ``gated_length``."""

    __slots__ = ("gate", "size")

    def __init__(self, size: int, gate: int) -> None:
        super().__init__()
        self.size = size
        self.gate = gate

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        self.waiting.append(item)
        if len(self.waiting) < self.gate:
            return None
        fresh = self.waiting[-self.size :]
        self.waiting = []
        left = [self.pop() for _ in range(len(self) + len(fresh) - self.size)]
        self.items.extend(fresh)
        return fresh, left


WINDOW = WindowCodegen(
    lambda code, spec, at: (
        f"{code.source.bind('_GatedLength', GatedLengthWindow)}({size(code, spec)}, {size(code, spec, 1)})"
    )
)
