"""Live outputs by cell: the output of a cell is closed once the cell has run again.

The kernel and the page keep a widget until it is closed, whatever becomes of the output. Three displays decide how an
output appears: live in a notebook that a person may watch, as a static picture in one that a program executes, and as
text in a terminal.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from cepbook.session import Replay
from cepbook.session.replay.live_ingestion import Live
from cepbook.widgets.base.live_widget import Display, DisplayHandle, LiveWidget
from cepbook.widgets.live_bar.live_control import LiveControl
from cepbook.widgets.replay_bar.replay_control import ReplayControl
from cepbook.widgets.tuner import Tuner

TARGET = "cepbook.outputs"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
MAX_LIVE_OUTPUTS = 200  # if there are more, the oldest ones that no page displays are closed


LiveOutput = LiveWidget | Tuner
"""Objects in an output: `show` displays one by `IPython.display.display`, also again after `close`."""


class NamedDisplay:
    """Displays live objects with a name in the metadata of their outputs.

    A page that was reloaded has lost which output a display id belongs to, but finds the name in the notebook.
    """

    def __init__(self, display: Display) -> None:
        self._display = display

    def __call__(self, obj: object, *, display_id: bool = False, **options: Any) -> DisplayHandle | None:
        if not display_id:
            return self._display(obj, **options)
        name = uuid4().hex
        metadata = {"cepbook": {"output": name}}
        handle = self._display(obj, display_id=name, metadata=metadata, **options)
        return None if handle is None else _NamedOutput(handle, metadata)


class _NamedOutput:
    """A place in the notebook that has a name."""

    def __init__(self, handle: Any, metadata: dict[str, Any]) -> None:
        self._handle = handle
        self._metadata = metadata

    def update(self, obj: object, *, raw: bool = False) -> None:
        self._handle.update(obj, raw=raw, metadata=self._metadata)


class StaticDisplay:
    """Displays live objects as static pictures, for a notebook that a program executes."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def __call__(self, obj: object, *, raw: bool = False, **options: Any) -> DisplayHandle | None:
        handle = self._display(_static(obj, raw), raw=raw, **options)
        return None if handle is None else _Picture(handle)


class PrintedDisplay:
    """Displays live objects in a terminal, where an update prints the object again: only if it has changed."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def __call__(self, obj: object, **options: Any) -> DisplayHandle | None:
        handle = self._display(obj, **options)
        return None if handle is None else _Printed(handle, _plain_text(obj))


class _Printed:
    """A printed object, with the text that was printed last."""

    def __init__(self, handle: DisplayHandle, printed: object) -> None:
        self._handle = handle
        self._printed = printed

    def update(self, obj: object, *, raw: bool = False) -> None:
        printed = _plain_text(obj)
        if printed is None or printed != self._printed:
            self._printed = printed
            self._handle.update(obj, raw=raw)


def _plain_text(obj: object) -> object:
    return obj.get("text/plain") if isinstance(obj, dict) else None


class _Picture:
    """A place in the notebook that holds a static picture."""

    def __init__(self, handle: DisplayHandle) -> None:
        self._handle = handle

    def update(self, obj: object, *, raw: bool = False) -> None:
        self._handle.update(_static(obj, raw), raw=raw)


def _static(obj: object, raw: bool) -> object:
    """Return a mime bundle without the widget, which exporters would prefer to the picture and draw with remote
    scripts.
    """
    return {kind: data for kind, data in obj.items() if kind != WIDGET_MIME} if raw and isinstance(obj, dict) else obj


def is_attended(shell: Any, info: Any) -> bool:
    """Return whether a person may watch the cell, as opposed to a program that executes the notebook (nbconvert,
    nbval).

    Such a program sends no cell id and does not answer `input`. The same is true of Voila, which displays live pages.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None or getattr(info, "cell_id", None) is not None or "VOILA_KERNEL_ID" in os.environ:
        return True
    request = kernel.get_parent() or {}
    return request.get("content", {}).get("allow_stdin") is not False


class CellOutputs:
    """Live outputs by the cell that displayed them."""

    def __init__(self, display: Display, shell: Any = None) -> None:
        self._shell = shell
        terminal = getattr(shell, "kernel", None) is None
        self._live = PrintedDisplay(display) if terminal else NamedDisplay(display)
        self._pictures = StaticDisplay(display)
        self._display: Display = self._live
        self._cell: str | None = None
        self._inside = False
        self._cells: dict[LiveOutput, set[str | None]] = {}  # that display an output, in the order of first display
        self._previous: list[LiveOutput] = []  # outputs of the last run of the running cell

    def show(self, output: LiveOutput) -> None:
        """Display a live object in the output of the running cell."""
        self._cells.setdefault(output, set()).add(self._cell)
        output.show(self._display)
        unwatched = [other for other in self._cells if other is not output and not other.watched]
        for other in unwatched[: max(0, len(self._cells) - MAX_LIVE_OUTPUTS)]:
            self._close(other)

    def show_awaited(self, replay: Replay[Any]) -> None:
        """Display the bar of a replay that the running cell awaits, unless it has one already."""
        bars = [output.replay for output in self._cells if isinstance(output, ReplayControl)]
        if self._inside and replay not in bars:
            self.show(ReplayControl(replay))

    def before_cell(self, info: Any = None) -> None:
        """Handle `pre_run_cell`. A front end that runs a cell again has discarded its output."""
        if self._inside:  # the running cell runs code as a cell of its own
            return
        self._inside, self._cell = True, getattr(info, "cell_id", None)
        self._display = self._live if is_attended(self._shell, info) else self._pictures
        if self._cell is not None:
            self._previous = [output for output, cells in self._cells.items() if self._cell in cells]
            for output in self._previous:
                self._cells[output].discard(self._cell)

    def after_cell(self, _result: object = None) -> None:
        """Handle `post_run_cell`: close outputs that no cell displays any more, and update the others."""
        previous, self._previous = self._previous, []
        self._inside, self._cell = False, None
        for output in previous:
            if output in self._cells and not self._cells[output]:  # else it was closed, or a cell displays it
                self._close(output)
        for output in tuple(self._cells):
            if isinstance(output, LiveWidget):
                output.refresh_if_stale()

    def refresh(self) -> None:
        """Update all outputs, since a page may have missed updates while it was loaded."""
        for output in tuple(self._cells):
            if isinstance(output, LiveWidget):
                output.refresh_output()

    def _close(self, output: LiveOutput) -> None:
        del self._cells[output]
        output.close()


def _open_target(outputs: CellOutputs, manager: Any) -> Callable[[], object]:
    """Update all outputs when a page that has loaded the notebook asks for it. Return the function that ends this."""
    if manager is None:
        return lambda: None
    try:
        loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        loop = None

    def opened(comm: Any, _: object) -> None:
        comm.close()
        if loop is not None and loop.is_running():  # messages arrive in a thread that differs by version
            loop.call_soon_threadsafe(outputs.refresh)
        else:
            outputs.refresh()

    manager.register_target(TARGET, opened)
    return lambda: manager.unregister_target(TARGET, opened)


def show_live(shell: Any, display: Display) -> Callable[[], None]:
    """Make an IPython shell display live widgets, and `Replay` and `Live` by their controls. Return the function that
    undoes it.

    `display` is `IPython.display.display`. A kernel also displays the bar of a replay that a cell awaits. The saved
    outputs are updated when the replay ends, and after each cell: messages of a background task belong to the cell that
    started it, and programs that execute notebooks ignore them once that cell is done.
    """
    formatter = shell.display_formatter.ipython_display_formatter
    outputs = CellOutputs(display, shell)
    printers: dict[type, Callable[[Any], None]] = {
        **dict.fromkeys((LiveWidget, Tuner), outputs.show),
        Replay: lambda replay: outputs.show(ReplayControl(replay)),
        Live: lambda live: outputs.show(LiveControl(live)),
    }
    for kind, printer in printers.items():
        formatter.for_type(kind, printer)
    callbacks = {"pre_run_cell": outputs.before_cell, "post_run_cell": outputs.after_cell}
    for event, callback in callbacks.items():
        shell.events.register(event, callback)

    kernel = getattr(shell, "kernel", None)
    close_target = _open_target(outputs, getattr(kernel, "comm_manager", None))
    Replay.on_await = None if kernel is None else outputs.show_awaited

    def undo() -> None:
        Replay.on_await = None
        close_target()
        for event, callback in callbacks.items():
            shell.events.unregister(event, callback)
        for kind in printers:
            formatter.pop(kind, None)

    return undo
