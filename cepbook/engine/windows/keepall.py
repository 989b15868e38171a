"""``keepall``: every event stays.

::

    arrivals   a   b   c
    contents   a   ab  abc
"""

from __future__ import annotations

from cepbook.engine.windows.window_codegen import ARRIVAL_ONLY, EmittedChange, WindowArrival, WindowCodegen, queue
from cepbook.engine.windows.window_view import Item, QueueView, ViewDelta


def _arrive(arrival: WindowArrival) -> EmittedChange:
    arrival.queue()
    arrival.source.line(f"queue.append({arrival.item})")
    return ARRIVAL_ONLY


class KeepAllWindow(QueueView):
    """The view of ``keepall``."""

    __slots__ = ()

    def arrive(self, item: Item, now: int) -> ViewDelta:
        self.items.append(item)
        return (item,), ()


WINDOW = WindowCodegen(
    lambda code, spec, at: f"{code.source.bind('_KeepAll', KeepAllWindow)}()", fragment=_arrive, ahead=queue
)
