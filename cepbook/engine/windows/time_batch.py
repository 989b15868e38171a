"""``time_batch(p [, reference] [, flow control])``: collects events and releases them every p.

::

    time_batch(1 sec)     0     0.4   1           2           3
    arrivals              a     b           c
    enters                            ab          c
    leaves                                        ab          c

The grid starts with the first event (or at a reference point, in ms) and continues over idle intervals. An event that
arrives in the millisecond of a release belongs to the next batch. A period of whole days follows the days of the time
zone, of which some have 23 or 25 hours. FORCE_UPDATE also delivers empty intervals.
START_EAGER starts the grid at deployment, and implies FORCE_UPDATE.
"""

from __future__ import annotations

from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.aggregate_only_batch import AggregateOnlyBatch
from cepbook.engine.windows.duration import Duration
from cepbook.engine.windows.window_codegen import (
    WindowArrival,
    WindowCodegen,
    creates,
    forces_empty,
    optional,
    period,
    starts_eagerly,
)
from cepbook.engine.windows.window_view import EMPTY_DELTA, BatchView, Item, ViewDelta


def write_arrival(arrival: WindowArrival) -> None:
    source, w = arrival.source, arrival.view
    source.bind("_NEVER", NEVER)
    with source.block(f"if {w}.due == _NEVER:"):
        source.line(f"{w}.start(now)")
        arrival.write_arming()
    if arrival.item:
        source.line(f"{w}.items.append({arrival.item})")
    else:
        source.line(f"{w}.count += 1")


class TimeBatchWindow(BatchView):
    """The view of ``time_batch``. `grid` is a point of its release grid; None until the first event sets it."""

    __slots__ = ("forces", "grid", "period")

    def __init__(self, period: Duration, grid: int | None, forces: bool, starts_at: int | None) -> None:
        super().__init__()
        self.period = period
        self.grid = grid if starts_at is None else starts_at
        self.forces = forces
        if starts_at is not None:
            self.due = period.on_grid(starts_at, starts_at)

    def arrive(self, item: Item, now: int) -> None:
        if self.due == NEVER:
            self.start(now)
        self.items.append(item)

    def start(self, now: int) -> None:
        """Start the clock for an event that arrives while it stands still."""
        if self.grid is None:
            self.grid = now
        self.due = self.period.on_grid(now, self.grid)

    def advance(self, now: int) -> ViewDelta | None:
        idle = self.idle
        if idle and not self.forces:
            self.due = NEVER
            return None
        change = EMPTY_DELTA if idle else self.post()
        self.grid, self.due = self.due, NEVER
        if self.forces or not self.idle:
            self.due = self.period.on_grid(now, self.grid)
        return change


class AggregateOnlyTimeBatch(AggregateOnlyBatch, TimeBatchWindow):
    """The view of a ``time_batch`` that only feeds aggregates."""

    __slots__ = ("count", "released")


_ARGUMENTS = period(nonzero=True), optional(1), forces_empty, starts_eagerly
WINDOW = WindowCodegen(
    creates(TimeBatchWindow, *_ARGUMENTS),
    fragment=write_arrival,
    aggregate_only=creates(AggregateOnlyTimeBatch, *_ARGUMENTS),
    reads_now=True,
)
