"""Cells of any size: the editor gets an answer within a second, which says what was not checked."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from cepbook.magics import COMMANDS
from cepbook.magics.editor.lint import MAX_CHECKED, MAX_STATEMENTS, answer_request
from cepbook.magics.shell.host import NotebookHost
from tests.magics.conftest import Notebook
from tests.magics.editor.test_lint import marked

LIMIT = 4.0  # seconds of the processor; 1.5 on the slowest machine that was measured
MANY = 60_000
TEXTS: Mapping[str, str] = {
    "statements": "%%epl\n" + ";\n".join(f"@name('s{number}') select x from E" for number in range(MANY)),
    "without names": "%%epl\n" + ";\n".join(["select x from E"] * MANY),
    "wrong names": "%%epl\n" + ";\n".join(f"select y{number} from E" for number in range(MANY)),
    "syntax": "%%epl\n" + ";\n".join(["select , from E"] * MANY),
    "word": "%%epl\n" + "a" * 200_000,
    "path": "%%epl\n" + "a." * 100_000,
    "assignments": "%%epl\n" + "a=(b," * 40_000,
    "schemas": "%%epl\n" + "create schema X(a " * 10_000,
    "one select": "%%epl\nselect " + ", ".join(f"y{number}" for number in range(8_000)) + " from E",
    "partitions": "%%cruncher q\n" + "E(partition " * 20_000,
    "words": "%%cruncher q\n" + "$row_status" * 4_000,
    "items": "%%apama q\n" + "from a in all E() " * 4_000,
    "events": "%%events\n" + "E x=1\n" * 20_000,
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_large_cell_is_answered_soon(notebook: Notebook, name: str) -> None:
    notebook.run("%%epl\ncreate schema E(x int)")
    host, text = NotebookHost(notebook.shell, COMMANDS), TEXTS[name]
    for kind in ("lint", "complete", "hover"):
        begun = time.process_time()
        answer_request(host, {"id": 1, "kind": kind, "text": text, "at": len(text) // 2})
        assert time.process_time() - begun < LIMIT, kind


def test_the_cell_says_how_many_statements_were_checked(notebook: Notebook) -> None:
    notebook.run("%%epl\ncreate schema E(x int)")
    text, message, hint = marked(notebook, TEXTS["statements"])[-1]
    assert message == (
        f"checked 1,000 of {MANY:,} statements; at most {MAX_STATEMENTS:,} statements and {MAX_CHECKED:,} characters "
        "are checked while they are written"
    )
    assert text == "@name('s1000') select x from E;"
    assert hint == "run it: problems are reported then; or divide it into cells"
    wrong = TEXTS["statements"].replace("('s7') select x", "('s7') select y")
    assert [text for text, _, _ in marked(notebook, wrong)] == ["y", "@name('s1000') select x from E;"]


def test_a_semicolon_in_a_string_ends_no_statement(notebook: Notebook) -> None:
    notebook.run("%%epl\ncreate schema E(x int)")
    assert marked(notebook, f"%%epl\nselect '{';' * 2_000}' as y from E; /* {';' * 2_000} */") == []
    assert marked(notebook, "%%epl\n" + "a" * 60_000)[0][1].startswith("not checked: 60,006 characters; ")


def test_after_many_problems_the_rest_is_not_checked(notebook: Notebook) -> None:
    notebook.run("%%epl\ncreate schema E(x int)")
    for wrong in ("select , from E", "select y from E"):
        cell = "%%epl\n" + ";\n".join([wrong] * 900)
        problems = marked(notebook, cell)
        assert len(problems) == 101
        assert problems[-1][1] == "the text is not checked from here on, because 100 or more problems precede"
        assert len(notebook.error(cell).splitlines()) < 1_000
