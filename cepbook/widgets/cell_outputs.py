"""Which cell shows what live: what the output of a cell held is closed once the cell was run again.

Widgets stay known to the kernel and to the page until somebody closes them, whatever becomes of the output.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from cepbook.session import Replay
from cepbook.session.replay.live_ingestion import Live
from cepbook.widgets.base.live_widget import Display, DisplayHandle, LiveWidget
from cepbook.widgets.charts.following_chart import FollowingChart
from cepbook.widgets.live_source_status import LiveSourceStatus
from cepbook.widgets.replay_bar.replay_control import ReplayControl
from cepbook.widgets.tuner import Tuner

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
MAX_LIVE_OUTPUTS = 200  # things that live in outputs; the oldest ones that no page shows are closed beyond that


class LiveOutput(Protocol):
    """What lives in an output: `show` displays it by `IPython.display.display`, and again after `close`."""

    def show(self, display: Display) -> None: ...
    def close(self) -> None: ...
    @property
    def watched(self) -> bool:
        """Whether a page shows it, as far as that is known."""


class StaticDisplay:
    """Displays what lives by its static picture alone, for a notebook that a program executes."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def __call__(self, shown: object, *, raw: bool = False, **options: Any) -> DisplayHandle | None:
        handle = self._display(_static(shown, raw), raw=raw, **options)
        return None if handle is None else _Picture(handle)


class _Picture:
    """A place in the notebook that holds a static picture."""

    def __init__(self, handle: DisplayHandle) -> None:
        self._handle = handle

    def update(self, obj: object, *, raw: bool = False) -> None:
        self._handle.update(_static(obj, raw), raw=raw)


def _static(shown: object, raw: bool) -> object:
    """A mime bundle without the widget, which exporters prefer to the picture, and draw by scripts from elsewhere."""
    return (
        {kind: data for kind, data in shown.items() if kind != WIDGET_MIME}
        if raw and isinstance(shown, dict)
        else shown
    )


def is_attended(shell: Any, info: Any) -> bool:
    """Whether somebody may look while the cell runs, and not only a program execute the notebook (nbconvert, nbval).

    Such programs name no cell and answer no questions. Voila does neither, and shows live pages all the same.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None or getattr(info, "cell_id", None) is not None or "VOILA_KERNEL_ID" in os.environ:
        return True
    request = kernel.get_parent() or {}
    return request.get("content", {}).get("allow_stdin") is not False


class CellOutputs:
    """What lives in outputs, by the cell that displayed it."""

    def __init__(self, display: Display, shell: Any = None) -> None:
        self._shell = shell
        self._live, self._pictures = display, StaticDisplay(display)
        self._display: Display = display
        self._cell: str | None = None
        self._inside = False
        self._cells: dict[LiveOutput, set[str | None]] = {}  # where it is shown, in the order of first display
        self._before: list[LiveOutput] = []  # what the cell that is running showed the last time

    def show(self, thing: LiveOutput) -> None:
        """Display something in the output of the running cell."""
        self._cells.setdefault(thing, set()).add(self._cell)
        thing.show(self._display)
        unseen = [each for each in self._cells if each is not thing and not each.watched]
        for each in unseen[: max(0, len(self._cells) - MAX_LIVE_OUTPUTS)]:
            self._close(each)

    def before_cell(self, info: Any = None) -> None:
        """`pre_run_cell` callback. A front end that runs a cell again has thrown its output away."""
        if self._inside:  # a cell that runs code as another one does
            return
        self._inside, self._cell = True, getattr(info, "cell_id", None)
        self._display = self._live if is_attended(self._shell, info) else self._pictures
        if self._cell is not None:
            self._before = [each for each, cells in self._cells.items() if self._cell in cells]
            for each in self._before:
                self._cells[each].discard(self._cell)

    def after_cell(self, _result: object = None) -> None:
        """`post_run_cell` callback: what the cell showed, and no cell shows now, is closed; the rest is brought up to
        date."""
        before, self._before = self._before, []
        self._inside, self._cell = False, None
        for each in before:
            if not self._cells.get(each, True):
                self._close(each)
        for each in tuple(self._cells):
            if isinstance(each, LiveWidget):
                each.refresh_if_stale()

    def _close(self, thing: LiveOutput) -> None:
        del self._cells[thing]
        thing.close()


def show_live(shell: Any, display: Display) -> Callable[[], None]:
    """Make an IPython shell display live widgets so that saved outputs follow them, and a `Replay` by its control.

    `display` is `IPython.display.display`. An output is brought up to date when the replay that it shows ends, and
    after each cell: what a background task sends belongs to the cell that started it, and programs that execute
    notebooks ignore it once that cell is done. Returns the function that takes everything back.
    """
    formatter = shell.display_formatter.ipython_display_formatter
    outputs = CellOutputs(display, shell)
    printers: dict[type, Callable[[Any], None]] = {
        **dict.fromkeys((LiveWidget, FollowingChart, Tuner), outputs.show),
        Replay: lambda replay: outputs.show(ReplayControl(replay)),
        Live: lambda live: outputs.show(LiveSourceStatus(live)),
    }
    for kind, printer in printers.items():
        formatter.for_type(kind, printer)
    callbacks = {"pre_run_cell": outputs.before_cell, "post_run_cell": outputs.after_cell}
    for event, callback in callbacks.items():
        shell.events.register(event, callback)

    def undo() -> None:
        for event, callback in callbacks.items():
            shell.events.unregister(event, callback)
        for kind in printers:
            formatter.pop(kind, None)

    return undo
