"""Loading and unloading: what appears, and that exactly that goes away again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from cepbook.errors import UsageError
from cepbook.magics import COMMANDS, load_ipython_extension, unload_ipython_extension
from cepbook.session import Workbench
from tests.magics.conftest import Notebook


def registered(shell: InteractiveShell) -> tuple[set[str], set[str], int, int]:
    magics = shell.magics_manager.magics
    callbacks = sum(len(c) for c in shell.events.callbacks.values())
    return set(magics["line"]), set(magics["cell"]), len(shell.Completer.custom_matchers), callbacks


def test_every_command_is_documented() -> None:
    for command in COMMANDS:
        assert command.summary.endswith(".") and command.usage and (command.line or command.cell)
        for form in command.usage:
            assert form.startswith((f"%{command.name}", f"%%{command.name}"))
        said = [command.says.get(form, command.summary) for form in command.usage]
        assert len(set(said)) == len(said) and all(each.endswith((".", "…")) for each in said), "one for each form"
        assert set(command.says) <= set(command.usage)


def test_load_and_unload(bare: InteractiveShell) -> None:
    before = registered(bare)
    bare.run_line_magic("load_ext", "cepbook")
    lines, cells, matchers, _ = registered(bare)
    assert {"epl", "clock", "query", "view"} <= lines and {"epl", "events", "query"} <= cells
    assert matchers == before[2] + 1
    bare.run_line_magic("unload_ext", "cepbook")
    assert registered(bare) == before
    assert isinstance(bare.user_ns["cep"], Workbench)  # the user's statements outlive the extension


def test_reload_keeps_the_workbench(notebook: Notebook) -> None:
    before, counted = notebook.cep, registered(notebook.shell)
    notebook.shell.run_line_magic("reload_ext", "cepbook")
    assert notebook.cep is before
    assert registered(notebook.shell) == counted


def test_a_workbench_of_the_user_is_reused(bare: InteractiveShell) -> None:
    mine = bare.user_ns["cep"] = Workbench(start=5000)
    load_ipython_extension(bare)
    assert bare.user_ns["cep"] is mine
    unload_ipython_extension(bare)


def test_another_variable_of_that_name_is_left_alone(bare: InteractiveShell) -> None:
    bare.user_ns["cep"], before = 42, registered(bare)
    with pytest.raises(UsageError, match=r"(?s)`cep` is of type int, not a Workbench.*`del cep`"):
        load_ipython_extension(bare)
    assert bare.user_ns["cep"] == 42 and registered(bare) == before


def test_magics_of_others_come_back(bare: InteractiveShell) -> None:
    def view(line: str) -> str:
        return "theirs"

    bare.register_magic_function(view, "line", "view")
    load_ipython_extension(bare)
    unload_ipython_extension(bare)
    assert bare.run_line_magic("view", "") == "theirs"


def test_the_workbench_is_gone(notebook: Notebook) -> None:
    del notebook.shell.user_ns["cep"]
    assert "`cep` is gone" in notebook.error("%epl list")


def test_inspection_is_put_back(bare: InteractiveShell) -> None:
    class Kernel:
        def do_inspect(self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()) -> Any:
            return "python"

    kernel = Kernel()
    bare.kernel = kernel  # type: ignore[attr-defined]
    load_ipython_extension(bare)
    assert kernel.do_inspect("print", 3) == "python"
    assert Workbench.keep is True
    assert kernel.do_inspect("%%epl\nselect sum(x)", 15)["found"]
    unload_ipython_extension(bare)
    assert "do_inspect" not in kernel.__dict__
    assert SimpleNamespace(**kernel.__dict__) == SimpleNamespace()


_COLLECTED = """
import gc
from IPython.core.interactiveshell import InteractiveShell
from cepbook import load_ipython_extension, unload_ipython_extension

class Kernel:
    def do_inspect(self, *of):
        return {}

shell, counts = InteractiveShell.instance(), []
shell.kernel = Kernel()
for cells in (["", "%load_ext cepbook"], ["", "pass", "%load_ext cepbook"]):
    shell.user_ns["In"] = cells
    load_ipython_extension(shell)
    counts.append(gc.get_freeze_count() > 50_000)
    unload_ipython_extension(shell)
    counts.append(gc.get_freeze_count() > 0)
print(counts)
"""


def test_the_modules_of_a_notebook_are_excluded_from_collection_in_its_first_cell(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _COLLECTED],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
    )
    assert run.stdout.split("\n")[-2] == "[True, False, False, False]"


def test_braces_and_dollars_are_epl(trades: Notebook) -> None:
    trades.shell.user_ns["volume"] = 7
    assert "no statement" in trades.error("%epl show plan {volume}") or "{volume}" in trades.error(
        "%epl show plan {volume}"
    )


def test_event_types_are_shown_as_tables_while_loaded(notebook: Notebook) -> None:
    define = "cep.define('Tick', {'at': 'long', 'price': 'double'}, time='at')"
    said = "event type Tick\n  property  type\n  at        long, the time of the event\n  price     double"
    assert notebook.run(define) == said
    formatter: Any = notebook.shell.display_formatter
    tick = notebook.cep.runtime.catalog.event_types["Tick"]
    assert "<table" in formatter.format(tick)[0]["text/html"]
    notebook.shell.run_line_magic("unload_ext", "cepbook")
    assert "text/html" not in formatter.format(tick)[0]


def test_a_cell_that_defines_several_event_types_shows_them_all(notebook: Notebook) -> None:
    one, two = "cep.define('A', {'x': int})", "cep.define('B', {'y': str})"
    a, b = ("event type A\n  property  type\n  x         long", "event type B\n  property  type\n  y         string")
    assert notebook.run(f"{one}\n{two}") == f"{a}\n{b}"
    assert notebook.run(f"{one}\n{two}") == f"{a}\n{b}", "the second time nothing changes, and it is said again"
    assert notebook.run(two) == b
    assert notebook.run(f"first = {one}\n{two}\nfirst") == a


def test_an_interrupted_cell_lets_go_of_spark(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("cepbook.magics.shell.host.cancel_actions", lambda: asked.append(2) or 2)  # type: ignore[func-returns-value]
    notebook.run("1 + 1")
    assert not asked
    _, shown = notebook.try_run("raise KeyboardInterrupt")
    assert shown == "2 jobs of Spark cancelled" and asked == [2]
