"""The past instant that live views show in place of the present: another workbench, so that nothing is disturbed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakMethod

WorkbenchT = TypeVar("WorkbenchT")


class HistoryCursor(Generic[WorkbenchT]):
    """What all views of one workbench look at: `workbench` as it was at `time` (clock units), None: the present."""

    def __init__(self) -> None:
        self.time: int | None = None
        self.workbench: WorkbenchT | None = None
        self._subscribers: list[WeakMethod[Callable[[], object]]] = []
        self._of_replays: list[WeakMethod[Callable[[], object]]] = []

    def show(self, time: int, workbench: WorkbenchT) -> None:
        """Look at a past instant, as `Replay.at` gives it."""
        self.time, self.workbench = time, workbench
        self._tell()

    def leave(self) -> None:
        """Look at the present again."""
        if self.workbench is not None:
            self.time = self.workbench = None
            self._tell()

    def subscribe(self, method: Callable[[], object], *, to_replays: bool = False) -> None:
        """Call a bound method whenever the instant changes, as long as its object lives.

        `to_replays`: instead, whenever a replay was made, before its first event: it may hold the event loop up.
        """
        known = self._of_replays if to_replays else self._subscribers
        known[:] = [each for each in known if each() is not None]
        known.append(WeakMethod(method))

    def announce_replay(self) -> None:
        """A replay was made."""
        _tell(self._of_replays)

    def _tell(self) -> None:
        _tell(self._subscribers)


def _tell(methods: list[WeakMethod[Callable[[], object]]]) -> None:
    for each in tuple(methods):
        method = each()
        if method is not None:
            method()
