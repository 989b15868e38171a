"""The lock of a workbench: safe in a forked process, and told apart from a listener that can never return.

Listeners run while the lock is held. A listener that waits for a thread which needs the workbench would wait for ever,
and so would the thread. After the first listener is attached, a thread that has to wait for the lock therefore looks at
what the listener does (`WatchedLock`).

A fork copies locks as they are, but not the threads that would release them. Before a fork the locks of this module are
taken, so that nothing is under way in the copy, and after it they are released on both sides.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, TypeVar
from weakref import WeakMethod, WeakValueDictionary

from cepbook.errors import UsageError

LONGEST_WAIT = 10.0  # seconds for all locks before a fork
T = TypeVar("T")
_Reentrant: Any = type(threading.RLock())
_locks: WeakValueDictionary[tuple[int, int], Any] = WeakValueDictionary()  # in the order in which they are taken
_numbers = count()
_taken: list[tuple[Any, Any, bool]] = []
_forking = threading.RLock()  # one fork after the other


def members(collection: Iterable[T]) -> list[T]:
    """Return the members of a collection of weak references to which other threads may add."""
    while True:
        try:
            return list(collection)
        except RuntimeError:  # it has changed meanwhile
            continue


def survives_fork(lock: Any, rank: int = 1) -> Any:
    """Return `lock`, which a fork leaves free in the copy. Locks of a lower `rank` are taken first."""
    _locks[rank, next(_numbers)] = lock
    return lock


class EngineLock(_Reentrant):  # type: ignore[misc]
    """The reentrant lock of one workbench. `torn` is called in a forked copy if the engine was at work there."""

    def __init__(self) -> None:
        self.torn: WeakMethod[Callable[[], None]] | None = None
        self._listener: tuple[int, str] | None = None  # thread and description of the listener that runs
        survives_fork(self, 0)

    def listening(self, what: str, listener: Callable[[Any], object]) -> Callable[[Any], None]:
        """Return `listener` so that a thread which waits for the lock knows that `what` runs."""
        if type(self) is EngineLock:
            self.__class__ = WatchedLock

        def listen(notice: Any) -> None:
            outer, self._listener = self._listener, (threading.get_ident(), what)
            try:
                listener(notice)
            finally:
                self._listener = outer

        return listen


class WatchedLock(EngineLock):
    """The lock of a workbench that has listeners."""

    LOOK = 0.5  # seconds between two looks
    PATIENCE = 30.0  # seconds that a listener may wait for a signal of unknown origin

    def __enter__(self) -> bool:
        if not self.acquire(blocking=False):
            self._wait()
        return True

    def _wait(self) -> None:
        since = time.monotonic()
        while not self.acquire(timeout=self.LOOK):
            running = self._listener
            waits, joined = (False, None) if running is None else _waits_without_limit(running[0])
            if running is None or not waits:
                since = time.monotonic()
            elif joined is threading.current_thread() or time.monotonic() - since > self.PATIENCE:
                raise UsageError(
                    f"{running[1]} waits for a thread, and this thread waits for the listener: neither can go on\n"
                    "  hint: listeners run inside `send`; put what they hear into a queue.Queue, or let "
                    "the listener return before the thread needs the workbench"
                )


class _YieldingLock(EngineLock):
    """The lock of a workbench that a fork wants: a thread that sends without a pause would never leave it."""

    def __enter__(self) -> bool:
        while type(self) is _YieldingLock and not self._is_owned():
            time.sleep(0.001)
        if type(self) is _YieldingLock:
            return bool(self.acquire())
        entered: bool = self.__enter__()  # that of the class which the lock has again
        return entered


def _waits_without_limit(thread: int) -> tuple[bool, threading.Thread | None]:
    """Return whether a thread waits in `threading` without a timeout, and the thread that it joins, if any."""
    frame = sys._current_frames().get(thread)
    joined, waits = None, False
    while frame is not None and frame.f_code.co_filename == threading.__file__:
        names = frame.f_locals
        if (names.get("timeout") or -1) > 0:
            return False, None
        if frame.f_code.co_name == "join":
            joined = names.get("self")
        waits, frame = True, frame.f_back
    return waits, joined


def _before_fork() -> None:
    _forking.acquire()
    end = time.monotonic() + LONGEST_WAIT
    for key in sorted(members(_locks)):
        lock = _locks.get(key)
        if lock is not None:
            kind = type(lock)
            if issubclass(kind, EngineLock):
                lock.__class__ = _YieldingLock
            _taken.append((lock, kind, lock.acquire(timeout=max(0.0, end - time.monotonic()))))


def _after_fork_in_parent() -> None:
    while _taken:
        lock, kind, acquired = _taken.pop()
        if issubclass(kind, EngineLock):
            lock.__class__ = kind
        if acquired:
            lock.release()
    _forking.release()


def _after_fork_in_child() -> None:
    for lock, _, acquired in _taken:
        if not acquired:
            lock._at_fork_reinit()
            torn = getattr(lock, "torn", None)
            mark = None if torn is None else torn()
            if mark is not None:
                mark()
    _after_fork_in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
