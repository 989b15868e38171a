"""What the Makefile calls beside the tests."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from cepbook.spark import package_setup
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[1]
copies = runpy.run_path(str(ROOT / "tools" / "scratch.py"))["copies"]

bootstrap: Any = runpy.run_path(str(ROOT / "tools" / "bootstrap.py"))
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


def test_spark_follows_behind_make_lab_and_its_state_is_on_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = bootstrap["main"].__globals__
    state = tmp_path / "cepbook-spark.json"
    assert package_setup.STATE_FILE.name == names["SPARK_STATE"].name
    monkeypatch.setitem(names, "SPARK_STATE", state)
    with bootstrap["state_of_spark"]():
        asyncio.run(until(state.exists))
        bootstrap["say"]("  Building pyspark")
        asyncio.run(until(lambda: json.loads(state.read_text()) == {"step": "Building pyspark", "failed": False}))
    assert not state.exists()
    with pytest.raises(SystemExit), bootstrap["state_of_spark"]():
        bootstrap["fail"]("pip could not install the packages")
    assert json.loads(state.read_text()) == {"step": "pip could not install the packages", "failed": True}


def test_make_lab_does_not_wait_for_spark_and_each_level_has_the_levels_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nlab: ")[2].partition("\n\n")[0]
    assert recipe.startswith("env-lab ") and re.search(
        r"nohup \$\(PYTHON\) tools/bootstrap.py spark >\S+ 2>&1 &", recipe
    )
    names = bootstrap["main"].__globals__
    monkeypatch.setitem(names, "STAMP", tmp_path / "stamp.json")
    monkeypatch.setitem(names, "runs", lambda script: True)
    levels = list(bootstrap["REQUIREMENTS"])
    assert levels == ["lab", "spark", "test"]
    for installed in levels:
        stamp = {"level": installed, "fingerprint": bootstrap["fingerprint"]()}
        (tmp_path / "stamp.json").write_text(json.dumps(stamp))
        complete = [level for level in levels if bootstrap["up_to_date"](level)]
        assert complete == levels[: levels.index(installed) + 1]
    (tmp_path / "stamp.json").write_text(json.dumps({"level": "test", "fingerprint": "of another pyproject.toml"}))
    assert not any(bootstrap["up_to_date"](level) for level in levels)
