"""``gated_time(d, p[, n])``: the events of the last d, of these the last n; the contents change only every p.

::

    gated_time(1.5 sec, 1 sec)   0    0.5   1     1.5   2     2.5   3     4
    arrivals                          a           b     c     d
    contents                          -     a     a     bc    bc    cd    -
    leaves                                              a           b     cd

Gates are the points of a grid of p that starts with the statement (or its context partition). An event that arrives
between two gates waits for the next one; at the time of a gate, it enters at once. The age of an event counts from its
arrival. An event that is d old at its first gate never enters. An event inside leaves at the first gate at which it is
d old, so it may stay longer than d. With a size, the oldest events leave at the gate, including those that were to
enter there. (Apama's ``within d every p retain n``: Defining Batched Windows.)
"""

from __future__ import annotations

from typing import ClassVar

from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.duration import Duration
from cepbook.engine.windows.gated_length import GatedView
from cepbook.engine.windows.window_codegen import WindowCodegen, arrival_time, creates, period, size
from cepbook.engine.windows.window_view import Item, ViewDelta
from cepbook.lang.plan.nodes import WindowSpec


class GatedTimeWindow(GatedView):
    """The view of ``gated_time``; the time of arrival is at position `at` of items, the grid starts at `begin`."""

    period: Duration
    gate: Duration
    size: int | None
    begin: int
    at: int
    early: ClassVar[int] = 0  # how much before one period an event is too old

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        if self.gate.on_grid(now - 1, self.begin) != now:
            self.waiting.append(item)
            self.look(now)
            return None
        self.items.append(item)
        left = self._surplus(0)
        self.look(now)
        return (item,), left

    def advance(self, now: int) -> ViewDelta | None:
        entered: dict[int, Item] = {}
        left: list[Item] = []
        while self.due <= now:
            gate = self.due
            limit = self.period.before(gate) - self.early
            gone = self.pop_until(limit, self.at)
            fresh = [item for item in self.waiting if item[self.at] > limit]
            self.waiting = []
            if self.size is not None:
                fresh = fresh[-self.size :]
                gone += self._surplus(len(fresh))
            for item in gone:  # an item that entered and left in one step of the clock is not in the delta
                if entered.pop(item[0], None) is None:
                    left.append(item)
            entered.update((item[0], item) for item in fresh)
            self.items.extend(fresh)
            self.look(gate)
        return (list(entered.values()), left) if entered or left else None

    def _surplus(self, more: int) -> list[Item]:
        """Remove and return the oldest items that exceed the size when `more` items enter."""
        if self.size is None:
            return []
        return [self.pop() for _ in range(len(self) + more - self.size)]

    def look(self, now: int) -> None:
        """Set `due` to the next gate, or to the first gate at which the oldest item is old enough."""
        due = self.gate.on_grid(now, self.begin) if self.waiting else NEVER
        if self.items:
            oldest = self.gate.on_grid(self.period.after(self.items[0][self.at]) - 1 + self.early, self.begin)
            due = min(due, max(oldest, self.gate.on_grid(now, self.begin)))
        self.due = due


def _size(code: CodegenContext, spec: WindowSpec, at: int) -> str:
    return size(2)(code, spec, at) if len(spec.args) > 2 else "None"


WINDOW = WindowCodegen(
    creates(GatedTimeWindow, period(), period(1, nonzero=True), _size, lambda code, *_: code.slot("now"), arrival_time),
    reads_now=True,
)
