"""Ctrl-C while the engine works: it waits until the engine has reached a state in which nothing is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

try:  # `signal.signal` converts to enums and back, which takes ten times as long as the rest
    from _signal import signal as _set_handler  # type: ignore[import-not-found]
except ImportError:
    from signal import signal as _set_handler

_SIGINT = int(signal.SIGINT)


class InterruptGuard:
    """Context manager that defers Ctrl-C: the first one calls `order`, and KeyboardInterrupt is raised at the end.

    Work without an `order` is brief. A second Ctrl-C interrupts at once. Other threads than the main thread are never
    interrupted.
    """

    any = False
    _former: Any = None

    def __init__(self, order: Callable[[], object] = lambda: None) -> None:
        self._order = order

    def __enter__(self) -> InterruptGuard:
        if threading.current_thread() is threading.main_thread():
            self._former = _set_handler(_SIGINT, self._on_signal)
        return self

    def __exit__(self, kind: object, failure: BaseException | None, at: object) -> None:
        if self._former is None:
            return
        _set_handler(_SIGINT, self._former)
        if self.any:
            self._withdraw()
        if self.any and not isinstance(failure, KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)  # for the handler that was replaced

    def _withdraw(self) -> None:
        """Undo `order`: the work is over. A guard around this one gives its own order, if Ctrl-C is for it, too."""

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.any:
            raise KeyboardInterrupt
        self.any = True
        self._order()
