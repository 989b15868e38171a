"""``tumbling(p [, origin])``: a ``time_batch`` on the grid of the calendar: 10:00, 10:05, 10:10 for 5 minutes.

::

    tumbling(1 sec)       0.4   0.6   1     2     3
    arrivals              a     b     c
    enters                            ab    c
    leaves                                  ab    c

The grid has a point at the origin, in milliseconds; without one, at midnight of 1 January 1970 in the time zone of the
runtime, of whole weeks on a Monday. Whole days and months follow the calendar of the zone. An event that arrives in
the millisecond of a release belongs to the next batch.
"""

from __future__ import annotations

from cepbook.engine.windows.time_batch import AggregateOnlyTimeBatch, TimeBatchWindow, write_arrival
from cepbook.engine.windows.window_codegen import ViewCode, WindowCodegen, creates, optional, period

_ARGUMENTS: tuple[ViewCode, ...] = (
    period(nonzero=True),
    optional(1),
    lambda code, spec, at: "False",
    lambda code, spec, at: "None",
)
WINDOW = WindowCodegen(
    creates(TimeBatchWindow, *_ARGUMENTS),
    fragment=write_arrival,
    aggregate_only=creates(AggregateOnlyTimeBatch, *_ARGUMENTS),
    reads_now=True,
)
