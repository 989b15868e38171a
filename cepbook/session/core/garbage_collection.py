"""Garbage collection around replays: seldom while events flow, and in full when an engine was left behind.

Rows and windows form no reference cycles, but the collector looks at each of them again and again. At the thresholds
of Python that costs more than the statements themselves.
"""

from __future__ import annotations

import gc
import sys


class CollectionPause:
    """Garbage collection, seldom while events flow.

    Rows and windows form no cycles, but each is looked at by the collector again and again: at Python's thresholds that
    costs more than the statements themselves (measured: replays run 2 to 4 times as fast without).
    """

    OBJECTS = 250_000  # new objects between two collections of the youngest generation; Python's default is 700

    def __init__(self) -> None:
        self._former: tuple[int, int, int] | None = None

    def begin(self) -> None:
        """Collect seldom from now on, unless collecting is rarer already or off."""
        former = gc.get_threshold()
        if self._former is None and 0 < former[0] < self.OBJECTS:
            self._former = former
            gc.set_threshold(self.OBJECTS, *former[1:])

    def end(self) -> None:
        """As it was before `begin`. What is new counts as old, unseen: a look at all of it would be next otherwise."""
        if self._former is not None:
            if not gc.get_freeze_count():  # what others froze stays so
                gc.freeze()
                gc.unfreeze()
            gc.set_threshold(*self._former)
            self._former = None


class GarbageCollector:
    """What an engine leaves that began anew: objects in circles, which only a full collection frees.

    Python makes one when a quarter of all objects is new to it, and does not count those that `CollectionPause` calls
    old: a
    process that replays and begins anew, again and again, would grow by an engine each time.
    """

    MUCH = 1_500_000  # blocks of memory more than after the last collection, and half as many again

    def __init__(self) -> None:
        self._kept = sys.getallocatedblocks()

    def clear(self) -> None:
        """Collect all garbage, if there may be much."""
        now = sys.getallocatedblocks()
        self._kept = min(self._kept, now)
        if now > self._kept + max(self.MUCH, self._kept // 2):
            gc.collect()
            self._kept = sys.getallocatedblocks()


garbage = GarbageCollector()
