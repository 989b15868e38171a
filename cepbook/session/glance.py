"""The past instant that live views show in place of the present: another workbench, so that nothing is disturbed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakMethod

if TYPE_CHECKING:
    from cepbook.session.workbench import Workbench


class Glance:
    """What all views of one workbench look at: `workbench` as it was at `time` (clock units), None: the present."""

    def __init__(self) -> None:
        self.time: int | None = None
        self.workbench: Workbench | None = None
        self._subscribers: list[WeakMethod[Callable[[], object]]] = []

    def show(self, time: int, workbench: Workbench) -> None:
        """Look at a past instant, as `Replay.at` gives it."""
        self.time, self.workbench = time, workbench
        self._tell()

    def leave(self) -> None:
        """Look at the present again."""
        if self.workbench is not None:
            self.time = self.workbench = None
            self._tell()

    def subscribe(self, method: Callable[[], object]) -> None:
        """Call a bound method whenever the instant changes, as long as its object lives."""
        self._subscribers = [each for each in self._subscribers if each() is not None]
        self._subscribers.append(WeakMethod(method))

    def _tell(self) -> None:
        for each in tuple(self._subscribers):
            method = each()
            if method is not None:
                method()
