"""Which cell shows what live: what the output of a cell held is closed once the cell was run again.

Widgets stay known to the kernel and to the page until somebody closes them, whatever becomes of the output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from cepbook.session import Replay
from cepbook.widgets.following import FollowingChart
from cepbook.widgets.live import Display, LiveWidget
from cepbook.widgets.progress import ReplayControl
from cepbook.widgets.tune import Tuner

MOST = 200  # things that live in outputs; the oldest ones that no page shows are closed beyond that


class Shown(Protocol):
    """What lives in an output: `show` displays it by `IPython.display.display`, and again after `close`."""

    def show(self, display: Display) -> None: ...
    def close(self) -> None: ...
    @property
    def watched(self) -> bool:
        """Whether a page shows it, as far as that is known."""


class Outputs:
    """What lives in outputs, by the cell that displayed it."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._cell: str | None = None
        self._inside = False
        self._cells: dict[Shown, set[str | None]] = {}  # where it is shown, in the order of first display
        self._before: list[Shown] = []  # what the cell that is running showed the last time

    def show(self, thing: Shown) -> None:
        """Display something in the output of the running cell."""
        self._cells.setdefault(thing, set()).add(self._cell)
        thing.show(self._display)
        unseen = [each for each in self._cells if each is not thing and not each.watched]
        for each in unseen[: max(0, len(self._cells) - MOST)]:
            self._close(each)

    def before_cell(self, info: Any = None) -> None:
        """`pre_run_cell` callback. A front end that runs a cell again has thrown its output away."""
        if self._inside:  # a cell that runs code as another one does
            return
        self._inside, self._cell = True, getattr(info, "cell_id", None)
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

    def _close(self, thing: Shown) -> None:
        del self._cells[thing]
        thing.close()


def show_live(shell: Any, display: Display) -> Callable[[], None]:
    """Make an IPython shell display live widgets so that saved outputs follow them, and a `Replay` by its control.

    `display` is `IPython.display.display`. An output is brought up to date when the replay that it shows ends, and
    after each cell: what a background task sends belongs to the cell that started it, and programs that execute
    notebooks ignore it once that cell is done. Returns the function that takes everything back.
    """
    formatter = shell.display_formatter.ipython_display_formatter
    outputs = Outputs(display)
    printers: dict[type, Callable[[Any], None]] = {
        **dict.fromkeys((LiveWidget, FollowingChart, Tuner), outputs.show),
        Replay: lambda replay: outputs.show(ReplayControl(replay)),
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
