"""Ctrl-C while the engine works: it waits until the engine has reached a state in which nothing is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

try:  # `signal.signal` converts to enums and back, which takes ten times as long as the rest
    import _signal  # type: ignore[import-not-found]

    set_handler = _signal.signal
except ImportError:
    set_handler = signal.signal

SIGINT = int(signal.SIGINT)
main_thread = threading.main_thread().ident  # to compare idents takes half the time of comparing threads


def _after_fork_in_child() -> None:
    global main_thread
    main_thread = threading.main_thread().ident


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


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
        if threading.get_ident() == main_thread:
            self._former = set_handler(SIGINT, self._on_signal)
        return self

    def __exit__(self, kind: object, failure: BaseException | None, at: object) -> None:
        try:
            if failure is not None:
                self._note_failure(failure)
        finally:
            if self._former is not None:
                set_handler(SIGINT, self._former)
                if self.any:
                    self._raise_interrupt(failure)

    def _raise_interrupt(self, failure: BaseException | None) -> None:
        self._withdraw()
        if not isinstance(failure, KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)  # for the handler that was replaced

    def _note_failure(self, failure: BaseException) -> None:
        """Take note that the work ends with an exception, before Ctrl-C is possible again."""

    def _withdraw(self) -> None:
        """Undo `order`: the work is over. A guard around this one gives its own order, if Ctrl-C is for it, too."""

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.any:
            raise KeyboardInterrupt
        self.any = True
        self._order()
