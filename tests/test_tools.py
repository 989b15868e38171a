"""What the Makefile calls beside the tests."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
copies = runpy.run_path(str(ROOT / "tools" / "scratch.py"))["copies"]

check: Any = runpy.run_path(str(ROOT / "tools" / "check.py"))["main"]
LOUD = "NOTHING WAS TESTED IN A BROWSER"


def test_make_lab_opens_copies_and_keeps_what_was_changed(tmp_path: Path) -> None:
    source, target = tmp_path / "notebooks", tmp_path / "scratch"
    (source / "images").mkdir(parents=True)
    (source / "a.ipynb").write_text("a")
    (source / "images" / "a.png").write_bytes(b"png")
    (source / ".ipynb_checkpoints").mkdir()
    (source / ".ipynb_checkpoints" / "a.ipynb").write_text("old")
    assert copies(source, target) == []
    assert sorted(str(p.relative_to(target)) for p in target.rglob("*")) == ["a.ipynb", "images", "images/a.png"]
    (target / "a.ipynb").write_text("mine")
    assert [p.name for p in copies(source, target)] == ["a.ipynb"]
    assert (target / "a.ipynb").read_text() == "mine" and (source / "a.ipynb").read_text() == "a"


@pytest.mark.parametrize(
    ("closing", "loud"),
    [("54 skipped in 6.35s", True), ("53 passed, 1 skipped in 200.00s", False), ("1 failed, 53 skipped in 9s", False)],
)
def test_make_test_is_loud_when_nothing_ran_in_a_browser(
    closing: str, loud: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(check.__globals__, "run", lambda *_: (True, closing, 1.0, 1.0))
    assert check(["browser"]) == 0
    told = capsys.readouterr().out
    assert (LOUD in told) == loud
    assert not loud or ("apt-get install chromium" in told and "CEPBOOK_CHROMIUM" in told)


def test_binder_and_make_lab_open_the_first_notebook() -> None:
    first = re.search(r"^FIRST := (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert first is not None and (ROOT / first[1]).is_file()
    addresses = re.findall(r'default_url = "/lab/tree/(.*)"', (ROOT / "binder" / "postBuild").read_text())
    assert addresses == [first[1], first[1]]
    recipe = (ROOT / "Makefile").read_text().partition("\nlab: ")[2].partition("\n\n")[0]
    assert "tools/scratch.py $(FIRST)" in recipe and "default_url=/lab/tree/$$copy" in recipe
