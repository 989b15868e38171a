"""``hopping(size, every [, origin])``: the events of the last `size`; the contents change every `every` only.

::

    hopping(3 sec, 1 sec)   0.5   1     1.5   2     3     4     5
    arrivals                a           b
    contents                      a           ab    ab    b     -
    leaves                                                a     b

The contents change at the points of a grid, as those of ``tumbling`` do. At the point t the window has the events from
t - `size` (inclusive) to t (exclusive). A group without an event that entered or left has no row at that point.
"""

from __future__ import annotations

from cepbook.engine.windows.gated_time import GatedTimeWindow
from cepbook.engine.windows.window_codegen import WindowCodegen, arrival_time, creates, optional, period
from cepbook.engine.windows.window_view import Item, ViewDelta


class HoppingWindow(GatedTimeWindow):
    """The view of ``hopping``: a gate does not open for the events of its own time."""

    early = 1

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        self.waiting.append(item)
        self.look(now)
        return None


WINDOW = WindowCodegen(
    creates(HoppingWindow, period(), period(1, nonzero=True), lambda code, spec, at: "None", optional(2), arrival_time),
    reads_now=True,
)
