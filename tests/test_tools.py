"""What the Makefile calls beside the tests."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
copies = runpy.run_path(str(ROOT / "tools" / "scratch.py"))["copies"]


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
