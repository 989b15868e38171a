"""Bounded reordering: events that arrive out of order by at most a `lateness` are put in the order of their times.

The watermark is `lateness` behind the latest time that has arrived. An event waits until the watermark has reached its
time. An event that arrives before the watermark (its time is less) is late: events of later times may have gone on.
Events of one time keep the order of arrival. With a lateness of 0 no event waits, and an event is late if a later one
arrived before.

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
        """The number of events that wait."""
        return len(self._heap)

    def add(self, time: int, item: Any) -> bool:
        """Take an event. Return False if it is late; then it is not kept."""
        if self.watermark is None or time - self._lateness > self.watermark:
            self.watermark = time - self._lateness
        elif time < self.watermark:
            return False
        heappush(self._heap, (time, self._count, item))
        self._count += 1
        return True

    def release(self, *, everything: bool = False) -> list[tuple[int, Any]]:
        """Return the times and events up to the watermark, or all of them, in order. They wait no longer."""
        released = []
        while self._heap and (everything or self._heap[0][0] <= (self.watermark or 0)):
            time, _, item = heappop(self._heap)
            released.append((time, item))
        return released


def reordered(
    times: npt.NDArray[np.int64], lateness: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """Do what a `ReorderBuffer` does for all `times` at once.

    Return the positions of the events in order, the positions of late events, and the watermarks at their arrival.
    """
    watermarks = np.maximum.accumulate(times) - lateness
    on_time, late = np.flatnonzero(times >= watermarks), np.flatnonzero(times < watermarks)
    order = on_time[np.argsort(times[on_time], kind="stable")]
    return order, late, watermarks[late]


def late_event(type_name: str, time: int, lateness: int, event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event of the type `LateEvent`."""
    return dict(zip(LATE_EVENT.properties, (type_name, time, lateness, dict(event)), strict=True))


def late_reason(time: int, now: int, second: int) -> str:
    """Return the reason why an event is rejected."""
    return (
        f"late by {now - time:,} {clock_unit(second)}: {clock_text(time, second)} is before {clock_text(now, second)}"
    )
