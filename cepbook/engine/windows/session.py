"""``session(gap)``: collects events until none has arrived for the gap, then releases them together.

::

    session(2 sec)        0     1     2     3     4     8     10
    arrivals              a     b                       c
    enters                                  ab                c
    leaves                                                    ab

The end is exclusive: an event that arrives one gap after the last one begins the next session. The remove stream has
the events of a session when the next session is released.
"""

from __future__ import annotations

from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.duration import Duration
from cepbook.engine.windows.window_codegen import WindowCodegen, arrival_time, creates, period
from cepbook.engine.windows.window_view import BatchView, Item, ViewDelta


class SessionWindow(BatchView):
    """The view of ``session``; the time of arrival is at position `at` of items."""

    gap: Duration
    at: int

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        self.items.append(item)
        self.due = self.gap.after(now)
        return None

    def advance(self, now: int) -> ViewDelta | None:
        self.due = NEVER
        return self.post() if len(self) else None

    def discard(self, item: Item) -> None:
        super().discard(item)
        self.due = self.gap.after(self.items[-1][self.at]) if self.items else NEVER


WINDOW = WindowCodegen(creates(SessionWindow, period(), arrival_time))
