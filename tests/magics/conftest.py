"""A fresh IPython shell with the extension loaded, and what it shows."""

from __future__ import annotations

import atexit
import warnings
from typing import Any

import pytest
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

from cepbook.errors import MissingRowsWarning
from cepbook.session import Workbench


class KeepingDisplayHook(DisplayHook):
    """Keeps what a cell returns in place of printing it."""

    def write_output_prompt(self) -> None:
        """No prompt."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        self.shell.display_pub.publish(format_dict)

    def finish_displayhook(self) -> None:
        """No line break."""


class Notebook:
    """Runs cells as a front end does, with or without cell ids, and collects what they show."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    @property
    def cep(self) -> Workbench:
        found = self.shell.user_ns["cep"]
        assert isinstance(found, Workbench)
        return found

    def try_run(self, cell: str, cell_id: str | None = None) -> tuple[ExecutionResult, str]:
        """The result and the plain text of all that was displayed, errors as their rendered text."""
        self.shell.display_pub.outputs = []  # type: ignore[attr-defined]
        warnings.simplefilter("always", MissingRowsWarning)  # as the extension does; a shell may outlive one test
        result = self.shell.run_cell(cell, cell_id=cell_id)
        bundles = self.shell.display_pub.outputs  # type: ignore[attr-defined]
        return result, "\n".join(str(b["data"]["text/plain"]) for b in bundles if "text/plain" in b.get("data", {}))

    def run(self, cell: str, cell_id: str | None = None) -> str:
        """The plain text of what a cell shows; fails when the cell fails."""
        result, shown = self.try_run(cell, cell_id)
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            raise error
        return shown

    def error(self, cell: str, cell_id: str | None = None) -> str:
        """The text of the error that a cell must end with."""
        result, _ = self.try_run(cell, cell_id)
        error = result.error_before_exec or result.error_in_exec
        assert error is not None, "the cell raised nothing"
        return str(error)

    def deployed(self) -> dict[str, list[str]]:
        """What the workbench holds, by kind."""
        runtime = self.cep.runtime
        return {"statements": sorted(runtime.statements), "types": sorted(runtime.catalog.event_types)}


def new_shell(monkeypatch: pytest.MonkeyPatch) -> InteractiveShell:
    """A shell without the extension; it writes no history and is the current one until `monkeypatch` ends."""
    config = Config()
    config.HistoryManager.enabled = False
    shell: Any = InteractiveShell(config=config)
    atexit.unregister(shell.atexit_operations)
    shell.displayhook = KeepingDisplayHook(shell=shell)
    shell.display_trap.hook = shell.displayhook
    shell.display_pub = CapturingDisplayPublisher()
    monkeypatch.setattr(InteractiveShell, "_instance", shell)
    return shell


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> InteractiveShell:
    """A shell without the extension, while the test runs."""
    return new_shell(monkeypatch)


@pytest.fixture
def notebook(bare: InteractiveShell) -> Notebook:
    bare.run_line_magic("load_ext", "cepbook")
    return Notebook(bare)


TRADES = """%%epl
create schema Trade(symbol string, price double, volume int);
@name('all') select * from Trade"""


@pytest.fixture
def trades(notebook: Notebook) -> Notebook:
    """A notebook with the schema Trade and the statement `all`."""
    notebook.run(TRADES)
    return notebook
