"""What a replay asks of the Python process while it works: no interruption half-way, and seldom garbage collection."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from cepbook.errors import UsageError


class InterruptGuard:
    """While active, the first Ctrl-C calls `order` instead of breaking into the engine's work; it is heard at the end.

    The second one breaks in at once. Main thread only: no other thread is interrupted.
    """

    def __init__(self, order: Callable[[], None]) -> None:
        self._order = order
        self._former: Any = None
        self.any = False

    def __enter__(self) -> InterruptGuard:
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, kind: object, failure: BaseException | None, at: object) -> None:
        if self._former is None:
            return
        signal.signal(signal.SIGINT, self._former)
        if self.any and not isinstance(failure, KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)  # to whoever would have had it

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.any:
            raise KeyboardInterrupt
        self.any = True
        self._order()


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


def check_speed(speed: object) -> None:
    if speed is not None and not (isinstance(speed, int | float) and speed > 0):
        raise UsageError(f"the speed of a replay is a factor above 0, not {speed!r}")
