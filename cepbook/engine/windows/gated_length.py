"""``gated_length(n, m)``: the last n events, which enter m at a time.

::

    gated_length(3, 2)
    arrivals   a   b   c   d     e   f
    contents   -   ab  ab  bcd   bcd def
    leaves                 a         bc

If m is above n, the first m - n of each m never enter. (Apama's ``retain n every m``: Defining Batched Windows.)
"""

from __future__ import annotations

from cepbook.engine.state import created
from cepbook.engine.windows.window_codegen import WindowCodegen, creates, size
from cepbook.engine.windows.window_view import Item, QueueView, ViewDelta


class GatedView(QueueView):
    """A queue with a gate. Events in `waiting` enter the queue when the gate opens."""

    waiting: list[Item] = created(list)

    def discard(self, item: Item) -> None:
        super().discard(item)
        self.waiting = [other for other in self.waiting if other[0] != item[0]]

    def clear(self) -> list[Item]:
        self.waiting = []
        return super().clear()

    def retained(self) -> int:
        return len(self) + len(self.waiting)


class GatedLengthWindow(GatedView):
    """The view of ``gated_length``."""

    size: int
    gate: int

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        self.waiting.append(item)
        if len(self.waiting) < self.gate:
            return None
        fresh = self.waiting[-self.size :]
        self.waiting = []
        left = [self.pop() for _ in range(len(self) + len(fresh) - self.size)]
        self.items.extend(fresh)
        return fresh, left


WINDOW = WindowCodegen(creates(GatedLengthWindow, size(), size(1)))
