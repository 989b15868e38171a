"""What README.md shows is what happens. The example on Spark is run by tests/spark/test_readme.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from cepbook import Workbench
from cepbook.cli import main
from cepbook.errors import BindError, ParseError
from tests import readme

pytest_plugins = ["pytester"]


def test_scripts_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    shown = [(script, prints) for script, prints in readme.scripts() if readme.SPARK not in script]
    assert shown
    for script, prints in shown:
        exec(compile(script, "README.md", "exec"), names)
        assert capsys.readouterr().out == prints


def test_cells_show_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [text for language, text in readme.fences() if language == "text"]
    module, scenario, shown = texts[0], texts[1], texts[2]
    assert module.startswith("%%epl\n") and scenario.startswith("%%events\n")
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "cepbook")
    shell.run_cell(module).raise_error()
    capsys.readouterr()
    shell.run_cell(scenario).raise_error()
    assert capsys.readouterr().out == shown


def test_the_command_prints_what_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (script,) = [script for script, _ in readme.scripts() if "@name('means')" in script]
    (shown,) = [text for language, text in readme.fences() if language == "text" and text.startswith("$ cepbook run")]
    names: dict[str, Any] = {}
    exec(compile(script, "README.md", "exec"), names)
    names["ticks"].to_parquet("ticks.parquet")
    Path("means.epl").write_text(names["cep"].runtime.statement("means").epl, encoding="utf-8")
    capsys.readouterr()
    command, _, printed = shown.partition("\n")
    assert main(command.split()[2:]) == 0
    assert capsys.readouterr().out == printed


def test_epl_runs() -> None:
    blocks = [text for language, text in readme.fences() if language == "epl"]
    assert blocks
    for text in blocks:
        cep = Workbench()
        cep.run("create schema Tick(symbol string, price double)")
        cep.run(text)


def test_the_scenario_passes(pytester: pytest.Pytester) -> None:
    (text,) = [text for language, text in readme.fences() if language == "markdown"]
    pytester.path.joinpath("flights.md").write_text(text, encoding="utf-8")
    pytester.runpytest("flights.md").assert_outcomes(passed=1)


REFUSED = {
    "data flows": "create dataflow F EventBusSource -> a<A> {filter: A} Select(a) {}",
    "`sql:`": "select * from A, sql:db ['select 1 as x'] as s",
    "`method:`": "select * from A, method:Tools.rows() as m",
    "classes": 'create inlined_class """ public class T {} """',
    "scripts": "create expression double js:half(x) [ x / 2 ]",
    "objects of Java's classes": "select new java.util.Date() from A",
    "derived-value windows over contained events": "create schema B(xs A[]); select * from B[xs]#size",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_called_unsupported_is_refused(what: str) -> None:
    assert what in readme.README.read_text(encoding="utf-8").partition("## Not supported yet")[2]
    cep = Workbench()
    cep.run("create schema A(n int)")
    with pytest.raises((BindError, ParseError), match="not supported yet"):
        cep.run(REFUSED[what])


def test_pictures_exist_and_are_small() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", readme.README.read_text(encoding="utf-8"))
    assert pictures
    for picture in pictures:
        assert Path(readme.README.parent, picture).stat().st_size < 150_000
