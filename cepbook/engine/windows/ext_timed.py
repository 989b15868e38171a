"""``ext_timed(timestamp, p)``: a time window that moves with the timestamps of its events, independent of engine time.

::

    ext_timed(ts, 10)
    arrivals   a(ts 0)   b(ts 5)   c(ts 10)
    contents   a         ab        bc
    leaves                         a

An event leaves when a newer one is p or more ahead of it. Only the oldest arrival is checked: an event with an older
timestamp stays behind a younger one and leaves with it. A null timestamp is an error of the event.
"""

from __future__ import annotations

from cepbook.engine.windows.duration import Duration
from cepbook.engine.windows.window_codegen import (
    EmittedChange,
    WindowArrival,
    WindowCodegen,
    creates,
    fixed_length,
    operands_at,
    period,
    timestamp,
    write_queue,
)
from cepbook.engine.windows.window_view import Item, QueueView, ViewDelta


def _arrive(arrival: WindowArrival) -> EmittedChange:
    source, w, length, (stamp,) = arrival.source, arrival.view, fixed_length(arrival.spec, 1), arrival.operands
    at = arrival.code.items.first_operand + bool(arrival.code.steps.group_keys)
    arrival.queue()
    source.line(f"queue.append({arrival.item})")
    before = f"{w}.period.before({stamp})"
    source.line(f"limit = {before if length is None else f'{stamp} - ' + arrival.parameter('period.length', length)}")
    return EmittedChange(left=(f"while queue and queue[0][{at}] <= limit:", "queue.popleft()"))


class ExtTimedWindow(QueueView):
    """The view of ``ext_timed``; the timestamp is at position `at` of items."""

    at: int
    period: Duration

    def arrive(self, item: Item, now: int) -> ViewDelta:
        items, at = self.items, self.at
        items.append(item)
        limit = self.period.before(item[at])
        return (item,), (self.pop_until(limit, at) if items[0][at] <= limit else ())


WINDOW = WindowCodegen(
    creates(ExtTimedWindow, operands_at, period(1)), timestamp, _arrive, prefetch=write_queue, queued=True
)
