"""README.md, docs and the changelog: every block runs, every link leads somewhere, generated pages are current."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cepbook import Config, Workbench
from cepbook.errors import BindError, ParseError
from tests import documents
from tests.documents import DOCS, ROOT, runner

SHORT = [DOCS / "cheat_sheet.md", DOCS / "epl_for_sql.md", DOCS / "coming_from" / "pandas.md"]
PAGES = [path for path in runner.pages() if path != documents.README and not runner.needs_spark(path)]
WRITTEN = documents.written()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PICTURE = 90_000  # bytes
LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """A page without its blocks."""
    return runner.FENCE.sub("", path.read_text(encoding="utf-8"))


# --- what runs


@pytest.mark.histories  # it runs some three hundred examples
def test_the_reference_is_current() -> None:
    for name, text in documents.tool("reference").pages().items():
        written = (DOCS / "reference" / name).read_text(encoding="utf-8")
        assert written == text, f"docs/reference/{name} is not up to date: run python tools/reference.py"
        assert "| (" not in text, "an example fails"
    for name, text in documents.tool("reference").other_systems().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"docs/{name}: run python tools/reference.py"


@pytest.mark.histories  # each page is a notebook session
@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_block_prints_what_is_shown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEPBOOK_PROGRESS", "off")
    runner.check(path)


@pytest.mark.parametrize("path", SHORT, ids=name_of)
def test_statements_in_tables_run(path: Path) -> None:
    cep = Workbench()
    for fence in documents.blocks(path, "epl"):
        cep.run(fence)
    text = prose(path).partition("<!-- system")[0]  # what other systems have is tested by tests/lang
    whole = re.findall(r"`((?:select|insert) [^`…]* from [^`…]*|create (?:variable|context) [^`…]*)`", text)
    assert whole or path.name != "cheat_sheet.md"
    for statement in whole:
        cep.run(statement)


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
    assert what in documents.LIMITS.read_text(encoding="utf-8")
    cep = Workbench()
    cep.run("create schema A(n int)")
    with pytest.raises((BindError, ParseError), match="not supported yet"):
        cep.run(REFUSED[what])


def test_output_is_compared_line_by_line() -> None:
    assert runner.matches("a\nb\n", "a\nb") and not runner.matches("a\nb\n", "a\nc")
    assert runner.matches("a\n…\nd\n", "a\nb\nc\nd") and not runner.matches("a\n…\nd\n", "a\nb\nc")
    assert not runner.matches("a\n", "a\nb")


# --- what is named


def anchors(path: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", WRITTEN, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(prose(path)):
        place, _, anchor = target.partition("#")
        if "://" not in target:
            page = path.parent / place if place else path
            assert page.exists(), target
            assert not anchor or anchor in anchors(page), target


def test_every_page_is_linked_from_the_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in LINK.findall(index.read_text(encoding="utf-8"))}
    reference = DOCS / "reference" / "README.md"
    linked |= {(reference.parent / target).resolve() for target in LINK.findall(reference.read_text(encoding="utf-8"))}
    assert {path for path in WRITTEN if path.is_relative_to(DOCS)} - linked == {index}


def test_pictures_are_small_and_used() -> None:
    shown = re.compile(r"!\[[^\]]+\]\(([^)]+)\)")
    used = {(path.parent / target).resolve() for path in WRITTEN for target in shown.findall(prose(path))}
    images = {path for path in used if path.parent == DOCS / "images"}
    dark = {path.with_stem(f"{path.stem}-dark") for path in images}  # the site has them
    assert all(picture.stat().st_size <= PICTURE for picture in used | dark)
    assert set((DOCS / "images").iterdir()) == images | dark


@pytest.mark.parametrize("path", WRITTEN, ids=name_of)
def test_named_methods_settings_and_extras_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    methods = set(re.findall(r"(?<![\w/.])cep\.(\w+)\b(?=[(`. ])", text))
    assert {name for name in methods if not hasattr(Workbench(), name)} == set()
    settings = {field.name for field in dataclasses.fields(Config)}
    assert set(re.findall(r"Config\((\w+)=", text)) <= settings
    extras = set(PROJECT["project"]["optional-dependencies"])
    assert set(re.findall(r"pip install '[^']*\[(\w+)\]'", text)) <= extras


def test_named_forms_of_magics_exist() -> None:
    magics = (DOCS / "reference" / "magics.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^%epl (\w+)", magics, flags=re.MULTILINE)) - {"SELECT"} | {"select"}
    known |= set(re.findall(r"^%epl ((?:\w+\|)+\w+)", magics, flags=re.MULTILINE))
    lines = set(re.findall(r"^%+(\w+)", magics, flags=re.MULTILINE)) | {"load_ext"}
    for path in WRITTEN:
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"`%epl ([a-z]+)", text)) <= known, path
        assert set(re.findall(r"`%%?([a-z_]+)", text)) <= lines, path


def test_commands_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for path in WRITTEN:
        shell = "\n".join(documents.blocks(path, "sh")) + "\n".join(re.findall(r"`(make [^`]+)`", prose(path)))
        assert set(re.findall(r"\bmake ([a-z]+)", shell)) <= targets, path


# --- the changelog


def test_the_changelog_is_short() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = text.partition("## 0.1.0")[2]
    assert first and len(first.encode()) <= 4_000


def test_fragments_of_the_changelog_parse() -> None:
    kinds = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}
    for path in (ROOT / "changelog.d").iterdir():
        if path.name not in PROJECT["tool"]["towncrier"]["ignore"]:
            assert re.fullmatch(rf"(\d+|\+[\w-]+)\.({'|'.join(sorted(kinds))})\.md", path.name), path.name
            text = path.read_text(encoding="utf-8").strip()
            assert text and text.endswith(".") and not text.startswith(("-", "#")), path.name


def test_a_release_collects_the_fragments() -> None:
    pytest.importorskip("towncrier", reason="towncrier is not installed (group `dev`)")
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9", "--date", "2000-01-01"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("## 9.9.9 (2000-01-01)"), done.stdout + done.stderr
