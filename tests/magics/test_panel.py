"""``%cep``, and the comm over which a sidebar finds the panel of a kernel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cepbook.magics import COMMANDS, panel
from cepbook.magics.shell.host import NotebookHost
from tests.magics.conftest import Notebook


class FakeComm:
    """One channel: what arrives is handed to `hear`, what is sent is kept."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def on_msg(self, hear: Any) -> None:
        self.hear = hear

    def send(self, data: dict[str, Any]) -> None:
        self.sent.append(data)


class FakeManager:
    def __init__(self) -> None:
        self.targets: dict[str, Any] = {}

    def register_target(self, name: str, opened: Any) -> None:
        self.targets[name] = opened

    def unregister_target(self, name: str, opened: Any) -> None:
        assert self.targets.pop(name) is opened


def test_the_panel_in_a_cell(trades: Notebook) -> None:
    shown = trades.run("%cep")
    assert "Statements (1)" in shown and "Trade" in shown
    assert "%cep takes no argument, not `all`" in trades.error("%cep all")


def test_a_sidebar_gets_one_panel_for_a_kernel_however_often_it_asks(trades: Notebook) -> None:
    manager = FakeManager()
    shell = SimpleNamespace(kernel=SimpleNamespace(comm_manager=manager), user_ns=trades.shell.user_ns)
    undo = panel.open_target(NotebookHost(shell, COMMANDS))  # type: ignore[arg-type]
    assert undo is not None
    first, second = FakeComm(), FakeComm()
    for comm in (first, second):
        manager.targets[panel.TARGET](comm, {})
        comm.hear({"content": {"data": {"kind": "panel"}}})
    assert first.sent == second.sent and set(first.sent[0]) == {"model"}
    undo()
    assert manager.targets == {}
