"""Every row of every registry has what it promises: a doc, an example that runs, a module, a case in the corpus."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Any

import pytest

from cepbook import Workbench
from cepbook.engine import windows
from cepbook.engine.runtime import Runtime
from cepbook.errors import CompileError
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.clauses import CLAUSE_OF_KEYWORD
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.methods import METHODS
from cepbook.lang.registry.problem_codes import PROBLEMS, ProblemRow
from cepbook.lang.registry.windows import EXAMPLE_SCHEMA, WINDOWS
from cepbook.lang.syntax.reader import parser
from cepbook.magics.epl.help import help_text

ROOT = Path(__file__).resolve().parent.parent
ROWS = [
    pytest.param(row, id=f"{kind}-{row.name}")
    for kind, registry in (("window", WINDOWS), ("aggregate", AGGREGATES), ("function", FUNCTIONS), ("method", METHODS))
    for row in registry.values()
]
WITHOUT_MODULE = {"groupwin", "merge"}  # they keep no events of their own but begin and end groups of windows
WINDOW_ROWS = [pytest.param(row, id=row.name) for row in WINDOWS.values() if not row.derived]


def statement(row: Any) -> str:
    """The example of *row* as a statement; an example that is only an expression is selected from a window."""
    example = str(row.example).strip()
    whole = re.match(r"(select|insert|into|create|on|@|context)\b", example)
    return example if whole else f"select {example} as v from Tick#length(5)"


@functools.cache
def corpus() -> str:
    """The EPL of all scenario files."""
    files = sorted((ROOT / "tests" / "corpus").rglob("*.md"))
    return "\n".join(
        fence
        for file in files
        for fence in re.findall(r"```epl[^\n]*\n(.*?)```", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    )


@pytest.mark.parametrize(
    "registry", [WINDOWS, AGGREGATES, FUNCTIONS, METHODS], ids=["windows", "aggregates", "functions", "methods"]
)
def test_keys_are_the_names(registry: dict[str, Any]) -> None:
    assert registry
    assert all(key == row.name for key, row in registry.items())


def reported_codes() -> set[str]:
    """The codes with which the package reports problems of texts."""
    codes = set()
    for path in (ROOT / "cepbook").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                code = node.args[0].value
                if name in ("fail", "report", "Diagnostic") and re.fullmatch(r"[a-z]+(-[a-z]+)*", str(code)):
                    codes.add(code)
    return codes


def test_each_code_of_a_problem_has_a_row() -> None:
    assert reported_codes() - set(PROBLEMS) == set()


@pytest.mark.parametrize("row", [row for row in PROBLEMS.values() if row.example], ids=lambda row: row.name)
def test_the_example_has_the_problem(row: ProblemRow, monkeypatch: pytest.MonkeyPatch) -> None:
    cep = Workbench()
    cep.run(EXAMPLE_SCHEMA)
    with pytest.raises(CompileError) as caught:
        cep.run(row.example)
    assert {diagnostic.code for diagnostic in caught.value.diagnostics} == {row.name}
    monkeypatch.setenv("CEPBOOK_SITE", "docs/")
    assert caught.value._render_traceback_()[-1] == f"docs/reference/problems.html#{row.name}"


@pytest.mark.parametrize("row", ROWS)
def test_row_has_a_doc(row: Any) -> None:
    assert row.doc.strip() and row.doc.strip().lower() != row.name.lower(), "the doc says what the name does not"


@pytest.mark.parametrize("row", ROWS)
def test_example_shows_the_row(row: Any) -> None:
    if " " not in row.name:  # an operation with a space in its name has none in EPL
        word = row.name.split(".")[-1]  # methods are listed as `string.length`
        assert re.search(rf"\b{re.escape(word)}\b", row.example, flags=re.IGNORECASE), row.example
    assert parser.parse_epl(statement(row)).statements


@pytest.mark.parametrize("row", ROWS)
def test_example_runs(row: Any) -> None:
    runtime = Runtime()
    runtime.deploy(EXAMPLE_SCHEMA)
    assert len(runtime.deploy(statement(row)).statements) == 1


@pytest.mark.parametrize("row", WINDOW_ROWS)
def test_window_has_a_module_and_a_case(row: Any) -> None:
    """One file per window, named as in EPL, and at least one scenario that uses it."""
    if row.name not in WITHOUT_MODULE:
        assert (ROOT / "cepbook" / "engine" / "windows" / f"{row.name}.py").is_file()
    assert re.search(rf"[#:]{row.name}\b", corpus()), f"no scenario uses {row.name}"


def test_a_module_without_what_its_row_promises_is_told() -> None:
    with pytest.raises(TypeError, match="the row of window keepall has no NOTHING"):
        windows._load("NOTHING", "window")


def test_every_module_of_a_window_has_a_row() -> None:
    made = {
        path.stem
        for path in (ROOT / "cepbook" / "engine" / "windows").glob("*.py")
        if re.search(r"^(WINDOW|STATISTIC)\b", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    missing = made - {*WINDOWS, "python_window"}  # windows of users share one form and have a row each
    assert not missing, "write their rows in cepbook/lang/registry/windows.py"


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in AGGREGATES.values()])
def test_aggregate_has_a_case(row: Any) -> None:
    assert re.search(rf"\b{re.escape(row.name)}\s*\(", corpus(), flags=re.IGNORECASE), f"no scenario uses {row.name}"


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in FUNCTIONS.values() if " " not in row.name])
def test_function_has_a_case(row: Any) -> None:
    short = row.name.split(".")[-1]
    assert re.search(rf"\b{re.escape(short)}\b", corpus(), flags=re.IGNORECASE), f"no scenario uses {row.name}"


@pytest.mark.parametrize("row", ROWS)
def test_help_knows_the_row(row: Any) -> None:
    if " " not in row.name:
        shown = str(help_text((), row.name))
        assert row.name.split(".")[-1].lower() in shown.lower()


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in METHODS.values()])
def test_method_has_a_case(row: Any) -> None:
    assert re.search(rf"\.{row.short}\s*\(", corpus(), flags=re.IGNORECASE), f"no scenario uses {row.name}"


def test_every_word_has_a_case() -> None:
    """Scenarios have all keywords and calls, but for what is refused."""
    text = corpus().lower()
    missing = {word for word in CLAUSE_OF_KEYWORD if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)}
    assert missing <= {"method", "sql", "metadatasql", "dataflow"}
