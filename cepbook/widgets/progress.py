"""ReplayControl: the progress of a replay with pause, step and stop, usable while the replay runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from typing import Any, Protocol

from cepbook.widgets.encode import time_text
from cepbook.widgets.live import LiveWidget, asset
from cepbook.widgets.render import Frozen

ENDED = ("finished", "stopped", "failed")


class Progress(Protocol):
    """How far a replay is. `total` is None while the number of events is not known; `clock` in ms.

    `state` is ``ready``, ``running``, ``paused``, ``finished``, ``stopped`` or ``failed``.
    """

    @property
    def events(self) -> int: ...
    @property
    def total(self) -> int | None: ...
    @property
    def clock(self) -> int: ...
    @property
    def state(self) -> str: ...


class Controllable(Protocol):
    """A replay as its control sees it. The four orders only set flags that the replay obeys between its slices."""

    @property
    def progress(self) -> Progress: ...
    def pause(self) -> object: ...
    def resume(self) -> object: ...
    def step(self, n: int = 1) -> object: ...
    def stop(self) -> object: ...


class ReplayControl(LiveWidget):
    """Progress bar and buttons of one replay; asks `replay.progress` at most `rate` times per second.

    While an event loop runs it looks by itself; a replay that blocks the loop calls `flush()` between its slices.
    """

    _esm = asset("table.js", "progress.js")
    _css = asset("progress.css")

    def __init__(
        self, replay: Controllable, *, rate: float = 10.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._replay = replay
        self._interval = 1.0 / rate
        self._last: dict[str, object] = {}
        super().__init__(rate=rate, now=now)

    def flush(self, *, urgent: bool = False) -> bool:
        """As in `LiveWidget`; whether there is progress is looked up here."""
        self._pump.touch()
        return super().flush(urgent=urgent)

    def freeze(self) -> Frozen:
        """The progress as text and HTML, without rate and wall clock."""
        progress = self._replay.progress
        total = f" of {progress.total:,}" if progress.total is not None else ""
        noun = "event" if progress.total is None and progress.events == 1 else "events"
        text = f"replay {progress.state}: {progress.events:,}{total} {noun}, clock {time_text(progress.clock)}"
        return Frozen(f"<div>{escape(text)}</div>", text)

    def _build(self, number: int) -> bool:
        progress = self._replay.progress
        shown: dict[str, object] = {
            "events": progress.events,
            "total": progress.total,
            "clock": time_text(progress.clock),
            "state": progress.state,
        }
        if progress.state not in ENDED:
            self._pump.remind(self._interval)
        if shown == self._last:
            return False
        self._last = shown
        self.send({"kind": "frame", "n": number, **shown})
        return True

    def _receive(self, content: dict[str, Any]) -> None:
        match content:
            case {"kind": "hello"}:
                self._last = {}
            case {"kind": "order", "order": "pause"}:
                self._replay.pause()
            case {"kind": "order", "order": "resume"}:
                self._replay.resume()
            case {"kind": "order", "order": "stop"}:
                self._replay.stop()
            case {"kind": "order", "order": "step", "n": int(n)} if n > 0:
                self._replay.step(n)
        if content.get("kind") == "order":
            self._pump.touch()


