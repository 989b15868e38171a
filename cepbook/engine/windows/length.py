"""``length(n)``: the last n events; an arrival pushes out the oldest.

::

    length(2)
    arrivals   a   b   c   d
    contents   a   ab  bc  cd
    leaves             a   b
"""

from __future__ import annotations

from cepbook.engine.windows.window_codegen import (
    EmittedChange,
    WindowArrival,
    WindowCodegen,
    creates,
    size,
    write_queue,
)
from cepbook.engine.windows.window_view import Item, QueueView, ViewDelta


def arrive(arrival: WindowArrival, limit: str) -> EmittedChange:
    """The newest `limit` items."""
    arrival.queue()
    arrival.source.line(f"queue.append({arrival.item})")
    return EmittedChange(left=(f"if len(queue) > {limit}:", "queue.popleft()"))


class LengthWindow(QueueView):
    """The view of ``length``."""

    size: int

    def arrive(self, item: Item, now: int) -> ViewDelta:
        items = self.items
        items.append(item)
        if len(items) <= self.size or (self.gone and len(self) <= self.size):
            return (item,), ()
        return (item,), (self.pop() if self.gone else items.popleft(),)


WINDOW = WindowCodegen(
    creates(LengthWindow, size()),
    fragment=lambda arrival: arrive(arrival, arrival.parameter("size", arrival.spec.args[0])),
    prefetch=write_queue,
    queued=True,
    kernel="newest",
)
