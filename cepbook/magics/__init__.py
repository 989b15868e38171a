"""The IPython side of cepbook: magics, completion and inspection, registered by ``%load_ext cepbook``.

`COMMANDS` is the registry: one module per magic, each with its `COMMAND`.
"""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from cepbook.magics import clock, epl, events, expect, panel, query, scenario, view, written
from cepbook.magics.host import WORKBENCH, Command, Host
from cepbook.magics.install import Installed

COMMANDS: tuple[Command, ...] = (
    epl.COMMAND,
    *written.COMMANDS,
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
    """Put a Workbench into the user's namespace as ``cep`` (or reuse the one that is there) and register everything.

    Raises UsageError when ``cep`` holds something else; then nothing is registered.
    """
    unload_ipython_extension(shell)
    host = Host(shell, COMMANDS)
    host.adopt()
    installed = Installed(host)
    installed.install()
    setattr(shell, _ATTRIBUTE, installed)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take back what loading registered. The variable ``cep`` stays: it holds the user's statements."""
    installed: Any = shell.__dict__.pop(_ATTRIBUTE, None)
    if installed is not None:
        installed.uninstall()
