"""``length_batch(n)``: collects n events and releases them together; the previous batch leaves in the same delivery.

::

    length_batch(2)
    arrivals   a   b    c   d
    enters         ab       cd
    leaves                  ab
"""

from __future__ import annotations

from cepbook.engine.windows.aggregate_only_batch import AggregateOnlyBatch
from cepbook.engine.windows.window_codegen import (
    DELTA_IN_LOCAL,
    EmittedChange,
    WindowArrival,
    WindowCodegen,
    creates,
    size,
)
from cepbook.engine.windows.window_view import BatchView, Item, ViewDelta


def _arrive(arrival: WindowArrival) -> EmittedChange:
    source, w, size = arrival.source, arrival.view, arrival.parameter("size", arrival.spec.args[0])
    if arrival.item:
        source.line(f"queue = {w}.items")
        source.line(f"queue.append({arrival.item})")
        source.line(f"change = {w}.post() if len(queue) >= {size} else None")
    else:
        source.line(f"{w}.count += 1")
        source.line(f"change = {w}.post() if {w}.count >= {size} else None")
    return DELTA_IN_LOCAL


class LengthBatchWindow(BatchView):
    """The view of ``length_batch``."""

    size: int

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        self.items.append(item)
        return self.post() if len(self) >= self.size else None


class AggregateOnlyLengthBatch(AggregateOnlyBatch, LengthBatchWindow):
    """The view of a ``length_batch`` that only feeds aggregates."""

    __slots__ = ("count", "released")


WINDOW = WindowCodegen(
    creates(LengthBatchWindow, size()), fragment=_arrive, aggregate_only=creates(AggregateOnlyLengthBatch, size())
)
