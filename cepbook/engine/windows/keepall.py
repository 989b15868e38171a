"""``keepall``: every event stays.

::

    keepall
    arrivals   a   b   c
    contents   a   ab  abc

Memory grows with every event. Events leave only if a statement deletes them or another window of the intersection drops
them. Aggregates over all events so far need no window.

The window is for reference data, which other statements join or look up::

    create window Customers#keepall as Customer
"""

from __future__ import annotations

from cepbook.engine.windows.window_codegen import (
    ARRIVAL_ONLY,
    EmittedChange,
    WindowArrival,
    WindowCodegen,
    creates,
    write_queue,
)
from cepbook.engine.windows.window_view import Item, QueueView, ViewDelta


def _arrive(arrival: WindowArrival) -> EmittedChange:
    arrival.queue()
    arrival.source.line(f"queue.append({arrival.item})")
    return ARRIVAL_ONLY


class KeepAllWindow(QueueView):
    """The view of ``keepall``."""

    def arrive(self, item: Item, now: int) -> ViewDelta:
        self.items.append(item)
        return (item,), ()


WINDOW = WindowCodegen(creates(KeepAllWindow), fragment=_arrive, prefetch=write_queue, queued=True, kernel="newest")
