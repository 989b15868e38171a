"""Bounded reordering: events that arrive out of order by at most a `lateness` are put in the order of their times.

The watermark is `lateness` behind the latest time that has arrived. An event waits until the watermark has reached its
time. An event whose time is less than the watermark is late, because events of greater times may have been released
already. Events of one time keep the order of arrival. With a lateness of 0 no event waits, and an event is late if one
of a greater time has arrived earlier.

A late event becomes an event of the type `LateEvent`, at the time of the watermark: its type, its time, by how much it
is late, and the event itself. Replays use this module for iterables and DataFrames.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

import numpy as np
import numpy.typing as npt

from cepbook.lang.plan.catalog import LATE_EVENT
from cepbook.session.io.time_conversion import clock_text, clock_unit


class ReorderBuffer:
    """The events that wait, and the `watermark`: None before the first event."""

    def __init__(self, lateness: int) -> None:
        self._lateness = lateness
        self._heap: list[tuple[int, int, Any]] = []
        self._count = 0
        self.watermark: int | None = None

    def __len__(self) -> int:
        """The number of waiting events."""
        return len(self._heap)

    def add(self, time: int, item: Any) -> bool:
        """Add an event and return True, or return False without adding it if it is late."""
        if self.watermark is None or time - self._lateness > self.watermark:
            self.watermark = time - self._lateness
        elif time < self.watermark:
            return False
        heappush(self._heap, (time, self._count, item))
        self._count += 1
        return True

    def release(self, *, everything: bool = False) -> list[tuple[int, Any]]:
        """Remove the events up to the watermark, or all of them, and return their times and the events in order."""
        released = []
        while self._heap and (everything or self._heap[0][0] <= (self.watermark or 0)):
            time, _, item = heappop(self._heap)
            released.append((time, item))
        return released


def reordered(
    times: npt.NDArray[np.int64], lateness: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """Do what a new `ReorderBuffer` does, for all `times` at once.

    Return the positions of the events that are not late, sorted by time; the positions of the late events; and for each
    late event the watermark when it arrived.
    """
    watermarks = np.maximum.accumulate(times) - lateness
    on_time, late = np.flatnonzero(times >= watermarks), np.flatnonzero(times < watermarks)
    order = on_time[np.argsort(times[on_time], kind="stable")]
    return order, late, watermarks[late]


def late_event(type_name: str, time: int, late_by: int, event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event of the type `LateEvent`."""
    return dict(zip(LATE_EVENT.properties, (type_name, time, late_by, dict(event)), strict=True))


def late_reason(time: int, watermark: int, second: int) -> str:
    """Return why an event is late, in words. The clock has `second` units per second."""
    late_by = f"late by {watermark - time:,} {clock_unit(second)}"
    return f"{late_by}: {clock_text(time, second)} is before {clock_text(watermark, second)}"
