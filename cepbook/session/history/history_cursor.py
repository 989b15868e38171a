"""The past instant that live views show instead of the present."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakMethod

WorkbenchT = TypeVar("WorkbenchT")


class HistoryCursor(Generic[WorkbenchT]):
    """The instant that all views of one workbench show: `workbench` is a second workbench in the state of `time` (clock
    units); None: the present. `zoom` is the range of times that all charts show (clock units); None: all.

    `statement` is the one that was viewed, or chosen, last.
    """

    def __init__(self) -> None:
        self.statement: str | None = None
        self.time: int | None = None
        self.workbench: WorkbenchT | None = None
        self.zoom: tuple[int, int] | None = None
        self._seeker: WeakMethod[Callable[[int], object]] | None = None
        self._subscribers: list[WeakMethod[Callable[[], object]]] = []
        self._of_replays: list[WeakMethod[Callable[[], object]]] = []

    def show(self, time: int, workbench: WorkbenchT) -> None:
        """Show a past instant, restored by `Replay.at`."""
        self.time, self.workbench = time, workbench
        self._notify()

    def choose(self, statement: str) -> None:
        """Note the statement that is viewed now."""
        if self.statement != statement:
            self.statement = statement
            self._notify()

    def leave(self) -> None:
        """Show the present again."""
        if self.workbench is not None:
            self.time = self.workbench = None
            self._notify()

    def take_seeks(self, method: Callable[[int], object]) -> None:
        """Let a bound method show past instants for `seek`, as long as its object lives: that of the latest bar."""
        self._seeker = WeakMethod(method)

    def seek(self, time: int) -> None:
        """Show the instant `time` as the bar does; without a bar nothing happens."""
        method = None if self._seeker is None else self._seeker()
        if method is not None:
            method(time)

    def zoom_to(self, zoom: tuple[int, int] | None) -> None:
        """Show a range of times in all charts."""
        if zoom != self.zoom:
            self.zoom = zoom
            self._notify()

    def subscribe(self, method: Callable[[], object], *, to_replays: bool = False) -> None:
        """Call a bound method when the instant or the range changes, as long as its object lives.

        With `to_replays`, call it when a replay is made, before its first event, which may block the event loop.
        """
        subscribers = self._of_replays if to_replays else self._subscribers
        subscribers[:] = [reference for reference in subscribers if reference() is not None]
        subscribers.append(WeakMethod(method))

    def announce_replay(self) -> None:
        """Notify subscribers that a replay was made."""
        _notify(self._of_replays)

    def _notify(self) -> None:
        _notify(self._subscribers)


def _notify(methods: list[WeakMethod[Callable[[], object]]]) -> None:
    for reference in tuple(methods):
        method = reference()
        if method is not None:
            method()
