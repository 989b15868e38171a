"""ControlWidget: the base of the bars of replays and live sources, whose frames are small and complete."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cepbook.widgets.base.live_widget import LiveWidget, widget_asset, widget_script


def control_script(module: str, *names: str) -> str:
    """Return the script of a bar: the shared scripts, then the files `names` beside the file `module`."""
    return widget_script(__file__, "control.js") + "\n" + widget_asset(module, *names)


def control_style(module: str, name: str) -> str:
    """Return the style of a bar: the shared one, then the file `name` beside the file `module`."""
    return widget_asset(__file__, "control.css") + widget_asset(module, name)


class ControlWidget(LiveWidget):
    """A widget whose frames contain all that it displays. A frame that equals the last one is not sent.

    A subclass implements `_state`, `_ended` and `freeze`. It looks for news at most `rate` times per second.
    """

    def __init__(self, *, rate: float, now: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1.0 / rate
        self._last: dict[str, object] = {}
        super().__init__(rate=rate, now=now)

    def _state(self) -> dict[str, object]:
        """Return the contents of a frame."""
        raise NotImplementedError

    @property
    def _ended(self) -> bool:
        """True if nothing changes any more."""
        raise NotImplementedError

    def _build(self, number: int) -> bool:
        state = self._state()
        if not self._ended:  # it may change although nothing announces it
            self._pump.remind(self._interval)
        if state == self._last and self._pump.acked == number - 1:  # else the last frame was lost
            return False
        self._last = state
        self.send({**self._frame(number), **state})
        return True

    def _receive(self, content: dict[str, Any]) -> bool:
        if content["kind"] == "hello":
            self._last = {}
        return content["kind"] in ("hello", "bye", "ack")
