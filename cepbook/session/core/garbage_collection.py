"""Garbage collection around replays and deployments: seldom while events flow or while there are hundreds of
statements, in full when much was left behind, and never of the modules of a notebook's process.

Rows and windows form no reference cycles, but the collector looks at each of them again and again. At the thresholds
of Python that costs more than the statements themselves.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MANY_STATEMENTS = 100
_OBJECTS_OF_STATEMENT = 1_000  # at most, as a rule: one with a pattern makes 300, and hardly any is garbage


def exclude_modules() -> Callable[[], None] | None:
    """Exclude all objects of the process from garbage collection. Return the function that undoes it, or None if others
    have excluded some already.

    It is meant for the beginning of a notebook, when these objects are modules. A full collection looks through 150,000
    of them, for 0.1 to 0.2 s in which events wait.
    """
    if gc.get_freeze_count():
        return None
    gc.freeze()
    return gc.unfreeze


class CollectionPause:
    """Rare garbage collection while events flow. Replays run 2 to 4 times as fast with it (measured)."""

    _frozen_by_others = False  # counting them takes time for each of them, so it is not done again
    OBJECTS = 250_000  # new objects between two collections of the youngest generation; Python's default is 700

    def __init__(self, objects: int = OBJECTS) -> None:
        self._objects = objects
        self._former: tuple[int, int, int] | None = None

    def begin(self) -> None:
        """Collect rarely from now on, unless collection is rarer already or off."""
        former = gc.get_threshold()
        if self._former is None and 0 < former[0] < self._objects:
            self._former = former
            gc.set_threshold(self._objects, *former[1:])

    def end(self) -> None:
        """Restore the thresholds. New objects count as old, unscanned; otherwise a scan of all of them would follow."""
        if self._former is not None:
            if not CollectionPause._frozen_by_others:  # they stay frozen
                CollectionPause._frozen_by_others = gc.get_freeze_count() > 0
            if not CollectionPause._frozen_by_others:
                gc.freeze()
                gc.unfreeze()
            gc.set_threshold(*self._former)
            self._former = None


@contextmanager
def rare_collection(text: str, running: int) -> Iterator[None]:
    """Within the block, collect rarely if `text` has very many statements, or if many are `running` already. What is
    made for them stays, and to look through it again and again took as long as deploying.
    """
    statements = text.count(";")
    objects = max(CollectionPause.OBJECTS, statements * _OBJECTS_OF_STATEMENT)
    pause = CollectionPause(objects) if max(statements, running) > MANY_STATEMENTS else None
    if pause is not None:
        pause.begin()
    try:
        yield
    finally:
        if pause is not None:
            pause.end()
            garbage.clear_seldom()


class GarbageCollector:
    """Full collections after an engine was dropped. Its objects form reference cycles, which only a full collection
    frees.

    Python collects fully when a quarter of all objects is new, and does not count those that `CollectionPause` declared
    old. A process that replays and resets again and again would grow by one engine each time.
    """

    MUCH = 1_500_000  # blocks of memory more than after the last collection, and half as many again

    def __init__(self) -> None:
        self._least_blocks = sys.getallocatedblocks()
        self._changes = 0

    def clear_seldom(self) -> None:
        """Call `clear` each hundredth time. To count the blocks of a large process takes as long as a deployment."""
        self._changes += 1
        if self._changes % 100 == 0:
            self.clear()

    def clear(self) -> None:
        """Collect all garbage if there may be much of it."""
        now = sys.getallocatedblocks()
        self._least_blocks = min(self._least_blocks, now)
        if now > self._least_blocks + max(self.MUCH, self._least_blocks // 2):
            gc.collect()
            self._least_blocks = sys.getallocatedblocks()


garbage = GarbageCollector()
