"""The result of `cep.live` as an output that is kept up to date: events so far, and how each source ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cepbook.session.replay.live_ingestion import Live
from cepbook.widgets.base.live_widget import Display, DisplayHandle

INTERVAL = 1.0  # seconds between two looks


class LiveSourceStatus:
    """The text of live sources in an output that is updated each second, and when they have ended."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._handle: DisplayHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._forget: Callable[[], None] | None = None
        self._text = ""

    def show(self, display: Display) -> None:
        """Display the status by `IPython.display.display`."""
        self._text = repr(self._live)
        self._handle = display({"text/plain": self._text}, raw=True, display_id=True)
        if self._live.state == "running":
            self._forget = self._live.on_end(self._refresh)
            self._schedule()

    watched = False  # no page tells

    def close(self) -> None:
        """Stop updating; the last text stays."""
        self._handle = None
        if self._timer is not None:
            self._timer.cancel()
        if self._forget is not None:
            self._forget()

    def _schedule(self) -> None:
        try:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._poll)
        except RuntimeError:  # no loop in which anything could come
            self._timer = None

    def _poll(self) -> None:
        self._refresh()
        if self._live.state == "running":
            self._schedule()

    def _refresh(self) -> None:
        text = repr(self._live)
        if self._handle is not None and text != self._text:
            self._text = text
            self._handle.update({"text/plain": text}, raw=True)
