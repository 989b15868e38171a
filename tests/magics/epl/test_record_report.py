"""``%epl record`` writes scenario files that pass; ``%epl report`` a page with pictures that nothing escapes from."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from cepbook.cli import main
from tests.magics.conftest import Notebook

EPL = """%%epl
create schema A(x int, word string);
create variable int low = 1;
@name('q') select irstream x, word, low from A(x > low)#time(3 sec)"""


@pytest.fixture
def played(notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    monkeypatch.chdir(tmp_path)
    notebook.run("cep.define('Odd', {'odd name': str, 'n': float})")
    notebook.run(EPL)
    notebook.run("%%epl\n@name('odd') select `odd name` as name, n from Odd#length(1)")
    notebook.run("%%events\nA = {x=2, word='it\\'s <b>\"'}\nt = t.plus(2 seconds)\nA = {x=1}\nset low = 0\nA = {x=1}")
    frame = pd.DataFrame({"x": [5, 6], "word": ["é", None], "at": [4000, 5000]})
    notebook.cep.replay({"A": frame}, time="at").run()
    notebook.cep.send("Odd", {"odd name": "\u202e right", "n": 0.1})
    notebook.cep.advance(9000, stepping=True)
    return notebook


def test_what_happened_is_a_case_that_passes(played: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert played.run("%epl record story.md --title 'A story'") == "case `A story` recorded in story.md"
    written = Path("story.md").read_text()
    assert written.startswith(
        "## A story\n\n```config\nstart = 0\n```\n\n```epl types\ncreate schema Odd(`odd name` string"
    )
    assert "set low = 0\nA x=1\n    q + x=1 word=null low=0\n" in written
    assert "@9000 stepping" in written and "odd + name=" in written
    assert main(["test", "story.md"]) == 0
    assert capsys.readouterr().out.endswith("1 passed\n")
    played.run("%epl record story.md --title Another")
    assert main(["test", "story.md", "-v"]) == 0
    assert "passed story.md::Another\n2 passed" in capsys.readouterr().out


def test_statements_and_queries_stand_where_they_came(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cep = notebook.cep
    cep.define("T", {"by": str, "select": int})  # names that are keywords
    cep.run("create window W#keepall as T; insert into W select * from T; @name('first') select * from T")
    cep.send("T", {"by": "a", "select": 1})
    cep.query("insert into W(`by`)\n  values ('b // c')  // a comment")
    cep.run("@name('late') select count(*) as n from W")
    cep.send("T", {"by": "d", "select": 2})
    assert notebook.run("%epl record story.md") == "case `recorded` recorded in story.md"
    written = Path("story.md").read_text()
    assert "create schema T(`by` string, `select` long);" in written
    assert "query insert into W(`by`) values ('b // c')\n" in written
    assert "late + n=3" in written and "late + n=1" not in written
    assert main(["test", "story.md"]) == 0


def test_a_case_that_is_not_what_happened_says_so(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cep = notebook.cep
    cep.run("create schema A(x int)", cell="types")
    cep.run("create schema B(x int); @name('q') select x from B", cell="q")
    cep.run("@name('feeds') insert into B select x from A", cell="feeds")
    cep.send("A", x=1)
    cep.drop("feeds")
    told = "not as it was: `q` delivered other rows: what was dropped or deployed anew is not recorded"
    assert notebook.run("%epl record story.md") == f"case `recorded` recorded in story.md\n{told}"


def test_what_is_done_by_hand_and_is_no_query_is_not_left_out(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook.run(
        "%%epl\ncreate schema A(k string);\ncreate context C partition by k from A;\n"
        "@name('q') context C select count(*) as n from A"
    )
    notebook.cep.send("A", k="a")
    notebook.cep.end_partition("C", 0)
    assert "cannot be recorded: a partition of `C` was ended by hand" in notebook.error("%epl record story.md")


def test_what_cannot_be_recorded_is_told(played: Notebook) -> None:
    assert "scenario files are Markdown files" in played.error("%epl record story.txt")
    played.run("least = 3")
    played.run("%%epl\n@name('p') select x from A(x > :least)")
    assert "no values for parameters" in played.error("%epl record story.md")
    played.run("%epl drop p")
    played.run("@cep.function\ndef twice(x: int) -> int:\n    return 2 * x")
    assert "no Python functions (twice)" in played.error("%epl record story.md")
    assert not Path("story.md").exists()


def test_a_page_of_something_else_is_replaced_on_request_only(notebook: Notebook, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!DOCTYPE html><title>mine</title>")
    assert notebook.error(f"%epl report '{page}'") == (
        f"`{page}` is there already and is no report of cepbook\n"
        "  hint: give another name; `%epl report --replace` replaces it"
    )
    assert page.read_text() == "<!DOCTYPE html><title>mine</title>"
    notebook.run(f"%epl report --replace '{page}'")
    assert notebook.run(f"%epl report '{page}'") == f"report of 0 statements written to {page}"


@pytest.mark.histories
def test_a_report_has_pictures_and_no_markup_of_the_user(played: Notebook) -> None:
    played.run("%%events\nA = {x=7, word='<script>alert(1)</script>'}")
    assert played.run("%epl report page.html") == "report of 2 statements written to page.html"
    page = Path("page.html").read_text()
    assert page.count("data:image/png;base64,") >= 3
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "from A(x &gt; low)#time(3 sec)" in page and "http" not in page.replace("http-equiv", "")
    assert "<h1>2 statements at 00:00:0" in Path("page.html").read_text(encoding="utf-8")
    played.run("%epl report one.html odd")
    assert "<h2>odd</h2>" in Path("one.html").read_text() and "<h2>q</h2>" not in Path("one.html").read_text()
    assert "no statement `r`" in played.error("%epl report page.html r")
    assert "cannot be written" in played.error("%epl report no/page.html")
