"""The documents in docs: the reference is what the registries say, every example runs, every link leads somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from cepbook.session import Workbench

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TEXTS = sorted(DOCS.glob("*.md"))


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.histories  # it runs some three hundred examples
def test_the_reference_is_what_the_registries_say() -> None:
    for name, text in tool().pages().items():
        written = (DOCS / "reference" / name).read_text(encoding="utf-8")
        assert written == text, f"docs/reference/{name} is not up to date: run python tools/reference.py"
        assert "| (" not in text, "an example fails"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_the_examples_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    cep = Workbench()
    fences = re.findall(r"```epl\n(.*?)```", text, flags=re.DOTALL)
    assert fences
    for fence in fences:
        cep.run(fence)
    whole = re.findall(r"`((?:select|insert) [^`…]* from [^`…]*|create (?:variable|context) [^`…]*)`", text)
    for statement in whole:
        cep.run(statement)


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target
