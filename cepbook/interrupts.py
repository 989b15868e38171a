"""Ctrl-C while the engine works: it waits until the engine has reached a state in which nothing is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


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
