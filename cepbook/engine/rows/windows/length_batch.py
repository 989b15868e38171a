"""``length_batch(n)``: collects n events, releases them together; the former batch leaves in the same delivery.

::

    length_batch(2)
    arrivals   a   b    c   d
    enters         ab       cd
    leaves                  ab
"""

from __future__ import annotations

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.along import Along
from cepbook.engine.rows.windows.form import CHANGE, Arriving, Posted, Window, size
from cepbook.engine.rows.windows.view import Change, Collecting, Item
from cepbook.lang.plan import WindowSpec


def _arrive(arrival: Arriving) -> Posted:
    source, w, size = arrival.source, arrival.view, arrival.parameter("size", arrival.spec.args[0])
    if arrival.item:
        source.line(f"queue = {w}.items")
        source.line(f"queue.append({arrival.item})")
        source.line(f"change = {w}.post() if len(queue) >= {size} else None")
    else:
        source.line(f"{w}.count += 1")
        source.line(f"change = {w}.post() if {w}.count >= {size} else None")
    return CHANGE


class LengthBatch(Collecting):
    """The view of ``length_batch``."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def arrive(self, item: Item, now: int) -> Change | None:
        self.items.append(item)
        return self.post() if len(self) >= self.size else None


class LengthBatchAlong(Along, LengthBatch):
    """The view of ``length_batch`` of which only aggregates show."""

    __slots__ = ("count", "released")


def _view(code: Code, spec: WindowSpec, at: int) -> str:
    return f"{code.source.bind('_LengthBatch', LengthBatch)}({size(code, spec)})"


def _along(code: Code, spec: WindowSpec, at: int) -> str:
    return f"{code.source.bind('_LengthBatchAlong', LengthBatchAlong)}({size(code, spec)})"


WINDOW = Window(_view, fragment=_arrive, along=_along)
