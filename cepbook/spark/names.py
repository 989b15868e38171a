"""The columns of the tagged stream that the tasks read: see `inputs`. Light: Spark's workers load it."""

from __future__ import annotations

TAG, TIME, SEQ = "tag", "time", "seq"
TASK = "task"  # who gets the event, where they are divided
TICK = -1  # the tag of a row that is no event: the clock stops here
STOPS = "stops"  # of such a row: the times at which the clock stops from there on, see `stops`
