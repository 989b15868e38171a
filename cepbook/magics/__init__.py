"""The IPython side of cepbook: magics, completion and inspection, registered by ``%load_ext cepbook``.

`COMMANDS` is the registry: one module per magic, each with its `COMMAND`.
"""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from cepbook.magics import clock, dialect_cells, events, expect, panel, query, scenario, view
from cepbook.magics.epl import command
from cepbook.magics.epl.journal_commands import journals_to_recover
from cepbook.magics.extension import InstalledExtension
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import WORKBENCH

COMMANDS: tuple[MagicCommand, ...] = (
    command.COMMAND,
    *dialect_cells.COMMANDS,
    events.COMMAND,
    scenario.COMMAND,
    expect.COMMAND,
    clock.COMMAND,
    query.COMMAND,
    view.COMMAND,
    panel.COMMAND,
)

__all__ = ["COMMANDS", "WORKBENCH", "load_ipython_extension", "unload_ipython_extension"]

_ATTRIBUTE = "_cepbook_magics"  # on the shell: one extension per shell, gone with it


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Put a Workbench into the user's namespace as ``cep``, or reuse the one there, and register everything.

    Raises UsageError and registers nothing if ``cep`` holds something else.
    """
    unload_ipython_extension(shell)
    host = NotebookHost(shell, COMMANDS)
    host.adopt()
    installed = InstalledExtension(host)
    installed.install()
    setattr(shell, _ATTRIBUTE, installed)
    for path in journals_to_recover():
        print(f"the journal {path!r} of this notebook is there: `%epl recover {path}` goes on from it")


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Undo the registration. The variable ``cep`` stays, because it holds the user's statements."""
    installed: Any = shell.__dict__.pop(_ATTRIBUTE, None)
    if installed is not None:
        installed.uninstall()
