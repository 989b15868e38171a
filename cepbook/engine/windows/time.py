"""``time(p)``: the events of the last p; an event of time t leaves when the clock reaches t + p.

::

    time(4 sec)           0     1     2     3     4     5
    arrivals              a     b
    contents              a     ab    ab    ab    b     -
    leaves                                        a     b

The end is exclusive: at t + p the event has left, and an event that arrives in that millisecond comes after the expiry.
With a calendar period, the event leaves when ``now - p`` (day clamped) is t or later.
"""

from __future__ import annotations

from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.duration import Duration
from cepbook.engine.windows.window_codegen import (
    ARRIVAL_ONLY,
    EmittedChange,
    WindowArrival,
    WindowCodegen,
    arrival_time,
    creates,
    fixed_length,
    period,
    write_queue,
)
from cepbook.engine.windows.window_view import Item, QueueView, ViewDelta


def _arrive(arrival: WindowArrival) -> EmittedChange:
    source, w, code = arrival.source, arrival.view, arrival.code
    lazy, length = code.steps.lazy, fixed_length(arrival.spec)
    span = None if length is None else arrival.parameter("period.length", length)
    arrival.queue()
    first = f"queue[0][{code.items.time}]"
    oldest_is_local = lazy and arrival.prefetched and _oldest_is_local(arrival)
    if lazy:
        source.line(f"limit = {f'{w}.period.before(now)' if span is None else f'now - {span}'}")
        if oldest_is_local:
            arrival.evict("while oldest <= limit:", f"oldest = {first} if queue else _NEVER")
        else:
            arrival.evict(f"while queue and {first} <= limit:")
    with source.block("if not queue:"):
        due = f"{w}.next_advance(now)" if span is None else f"now + {span}" + f" + {span}" * lazy
        source.line(f"{w}.due = {due}")
        if oldest_is_local:
            source.line("oldest = now")
        arrival.write_arming()
    source.line(f"queue.append({arrival.item})")
    return ARRIVAL_ONLY


def _oldest_is_local(arrival: WindowArrival) -> bool:
    """Return whether the oldest event's time is a local: no user code may run between two reads of it."""
    return arrival.code.steps.source.filter is None


def _prefetch(arrival: WindowArrival) -> None:
    source, code = arrival.source, arrival.code
    write_queue(arrival)
    if code.steps.lazy and _oldest_is_local(arrival):
        source.bind("_NEVER", NEVER)
        source.line(f"oldest = queue[0][{code.items.time}] if queue else _NEVER")


class TimeWindow(QueueView):
    """The view of ``time``; the time of arrival is at position `at` of items.

    With `lazy`, nothing reads the expired items. They are then dropped at the next access, one period later at the
    latest.
    """

    period: Duration
    at: int
    lazy: bool

    def next_advance(self, t: int) -> int:
        """Return the time of the next advance if the oldest event is of time `t`."""
        return self.period.after(t) + (self.period.length if self.lazy else 0)

    def arrive(self, item: Item, now: int) -> ViewDelta:
        if not self.items:
            self.due = self.next_advance(now)
        self.items.append(item)
        return (item,), ()

    def sweep_before(self, due: int, now: int, former: int) -> ViewDelta | None:
        """Sweep for an output that was due at `due`, when the clock leaps from `former` to `now`. A timer of the window
        that is due before the output runs before it, and then everything leaves that has expired at `now`.
        """
        left = list[Item]()
        for until in (former, now):
            change = self.advance(until)
            left += () if change is None else change[1]
            if not self.items or self.period.after(self.items[0][self.at]) > due:
                break
        return ((), left) if left else None

    def advance(self, now: int) -> ViewDelta | None:
        items, at, period = self.items, self.at, self.period
        steady, length = period.steady, period.length
        limit = now - length if steady else period.before(now)
        if self.gone:
            left = self.pop_until(limit, at)
        else:
            left = []
            while items and items[0][at] <= limit:
                left.append(items.popleft())
        if not items:
            self.due = NEVER
        elif steady and not self.lazy:  # the most frequent case
            self.due = items[0][at] + length
        else:
            self.due = self.next_advance(items[0][at])
        return ((), left) if left else None


WINDOW = WindowCodegen(
    creates(TimeWindow, period(), arrival_time, lambda code, *_: str(code.steps.lazy)),
    fragment=_arrive,
    reads_now=True,
    prefetch=_prefetch,
    queued=True,
    kernel="period",
)
