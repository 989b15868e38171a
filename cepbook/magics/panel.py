"""``%cep``: the panel in a cell, and the comm through which JupyterLab's sidebar finds the panel of a kernel.

The sidebar (`labextension/src/sidebar.js`) sends ``{kind: "panel"}`` and receives ``{model}``, the id of the widget, or
``{note}``. The widget is created at the first request, on the loop that runs the cells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from cepbook.errors import UsageError
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import strip_comment
from cepbook.widgets.panel.workbench_panel import Panel, panel

TARGET = "cepbook.panel"


def run_line(host: NotebookHost, line: str) -> object:
    """Show the panel of the workbench."""
    if strip_comment(line):
        raise UsageError(f"%cep takes no argument, not `{strip_comment(line)}`")
    return panel(host.workbench)


def open_target(host: NotebookHost) -> Callable[[], object] | None:
    """Answer the sidebar from now on. Return a function that undoes this, or None in a terminal."""
    manager = getattr(getattr(host.shell, "kernel", None), "comm_manager", None)
    if manager is None:
        return None
    try:
        loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        loop = None
    panels: list[Panel] = []

    def tell(comm: Any) -> None:
        if not panels:
            panels.append(Panel(lambda: host.workbench))
        comm.send({"model": panels[0].model_id})

    def answer(comm: Any) -> None:
        if loop is not None and loop.is_running():  # messages arrive in a thread that differs by version
            loop.call_soon_threadsafe(tell, comm)
        else:
            tell(comm)

    def opened(comm: Any, _: object) -> None:
        comm.on_msg(lambda message: answer(comm))

    manager.register_target(TARGET, opened)

    def undo() -> None:
        manager.unregister_target(TARGET, opened)
        while panels:
            panels.pop().close()

    return undo


COMMAND = MagicCommand(
    "cep",
    "Show all that the workbench holds, live: statements, event types, contexts, stores, variables, the clock, errors.",
    ("%cep",),
    line=run_line,
    details="JupyterLab has the same panel in its left sidebar, for the notebook that is in front. Variables can be set"
    "\nthere, the clock moved, errors cleared. Arrow keys move, Enter opens, `/` searches, Escape closes.",
)
