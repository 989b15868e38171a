"""``length(n)``: the last n events; an arrival pushes out the oldest.

::

    length(2)
    arrivals   a   b   c   d
    contents   a   ab  bc  cd
    leaves             a   b
"""

from __future__ import annotations

from cepbook.engine.rows.windows.form import Arriving, Posted, Window, queue, size
from cepbook.engine.rows.windows.view import Change, Item, Queue


def arrive(arrival: Arriving, limit: str) -> Posted:
    """The newest `limit` items."""
    arrival.queue()
    arrival.source.line(f"queue.append({arrival.item})")
    return Posted(left=(f"if len(queue) > {limit}:", "queue.popleft()"))


class Length(Queue):
    """The view of ``length``."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def arrive(self, item: Item, now: int) -> Change:
        items = self.items
        items.append(item)
        if len(items) <= self.size or (self.gone and len(self) <= self.size):
            return (item,), ()
        return (item,), (self.pop() if self.gone else items.popleft(),)


WINDOW = Window(
    lambda code, spec, at: f"{code.source.bind('_Length', Length)}({size(code, spec)})",
    fragment=lambda arrival: arrive(arrival, arrival.parameter("size", arrival.spec.args[0])),
    ahead=queue,
)
