"""Bounded reordering: events that arrive out of order by at most a `lateness` are put in the order of their times.

The watermark is `lateness` behind the latest time that has arrived. An event waits until the watermark has reached its
time. An event whose time is less than the watermark is late, because events of greater times may have been released
already. Events of one time keep the order of arrival. With a lateness of 0 no event waits, and an event is late if one
of a greater time has arrived earlier.

Callers turn a late event into an event of the type `LateEvent`. Its time is that of the watermark; its properties are
the type and the time of the late event, how late it is, and the event itself. Replays use this module for iterables and
DataFrames, live sources for all their events.
"""

from __future__ import annotations

from bisect import bisect_right, insort_right
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from cepbook.session.io.time_conversion import clock_text, clock_unit

Entry = tuple[int, Any]  # time and event


class ReorderBuffer:
    """Puts events into the order of their times, within a `lateness`: the time by which they may be out of order.

    `add` takes an event, `release` returns those that need not wait any longer. The `watermark` is None before the
    first event.
    """

    def __init__(self, lateness: int = 0) -> None:
        self._lateness = lateness
        self._entries: list[Entry] = []
        self.watermark: int | None = None

    def __len__(self) -> int:
        """The number of waiting events."""
        return len(self._entries)

    @property
    def ready(self) -> bool:
        """True if `release` has an event to return."""
        return bool(self._entries) and self.watermark is not None and self._entries[0][0] <= self.watermark

    def entries(self) -> Sequence[Entry]:
        """Return the times and the waiting events, in order; valid until the next change."""
        return self._entries

    def add(self, time: int, item: Any) -> bool:
        """Add an event and return True, or return False without adding it if it is late."""
        if self.watermark is None or time - self._lateness > self.watermark:
            self.watermark = time - self._lateness
        elif time < self.watermark:
            return False
        self.insert((time, item))
        return True

    def insert(self, entry: Entry) -> None:
        """Add a waiting event, behind those of its time."""
        if self._entries and entry[0] < self._entries[-1][0]:
            insort_right(self._entries, entry, key=_time)
        else:
            self._entries.append(entry)

    def advance(self, watermark: int) -> None:
        """Move the watermark forward."""
        if self.watermark is None or watermark > self.watermark:
            self.watermark = watermark

    def end_waiting(self) -> None:
        """Move the watermark to the time of the latest waiting event: `release` returns all, and an event of an
        earlier time is late from now on.
        """
        if self._entries:
            self.advance(self._entries[-1][0])

    def release(self, most: int | None = None) -> list[Entry]:
        """Remove the events up to the watermark, at most `most`, and return their times and the events in order."""
        if self.watermark is None:
            return []
        end = bisect_right(self._entries, self.watermark, key=_time)
        end = end if most is None else min(end, most)
        released = self._entries[:end]
        del self._entries[:end]
        return released

    def replace(self, entries: Iterable[Entry]) -> None:
        """Let other events wait instead, which are in order."""
        self._entries = list(entries)


_time = itemgetter(0)


def reordered(
    times: npt.NDArray[np.int64], lateness: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """Do what a new `ReorderBuffer` does for all `times` at once, and then release everything.

    Return the positions of the events that are not late, sorted by time; the positions of the late events; and for each
    late event the watermark when it arrived.
    """
    watermarks = np.maximum.accumulate(times) - lateness
    on_time, late = np.flatnonzero(times >= watermarks), np.flatnonzero(times < watermarks)
    order = on_time[np.argsort(times[on_time], kind="stable")]
    return order, late, watermarks[late]


def late_event(type_name: str, time: int, late_by: int, event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event of the type `LateEvent`."""
    return {"type": type_name, "time": time, "lateness": late_by, "event": dict(event)}


def late_reason(time: int, watermark: int, second: int) -> str:
    """Return why an event is late, in words. The clock has `second` units per second."""
    late_by = f"late by {watermark - time:,} {clock_unit(second)}"
    return f"{late_by}: {clock_text(time, second)} is before {clock_text(watermark, second)}"
