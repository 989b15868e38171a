"""What `cep.live` returns, as an output that keeps up with it: how many events came, and how each source ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cepbook.session.replay.live_ingestion import Live
from cepbook.widgets.base.live_widget import Display, DisplayHandle

INTERVAL = 1.0  # seconds between two looks


class LiveSourceStatus:
    """The text of live sources in an output that is brought up to date each second, and when they have ended."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._handle: DisplayHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._forget: Callable[[], None] | None = None
        self._told = ""

    def show(self, display: Display) -> None:
        """Display it by `IPython.display.display`."""
        self._told = repr(self._live)
        self._handle = display({"text/plain": self._told}, raw=True, display_id=True)
        if self._live.state == "running":
            self._forget = self._live.on_end(self._tell)
            self._later()

    watched = False  # no page tells

    def close(self) -> None:
        """It follows no more; the last text stays."""
        self._handle = None
        if self._timer is not None:
            self._timer.cancel()
        if self._forget is not None:
            self._forget()

    def _later(self) -> None:
        try:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._look)
        except RuntimeError:  # no loop in which anything could come
            self._timer = None

    def _look(self) -> None:
        self._tell()
        if self._live.state == "running":
            self._later()

    def _tell(self) -> None:
        told = repr(self._live)
        if self._handle is not None and told != self._told:
            self._told = told
            self._handle.update({"text/plain": told}, raw=True)
