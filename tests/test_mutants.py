"""`make mutants` tries each mutant with the tests that reach it, and counts right what becomes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("mutants are tried in forks", allow_module_level=True)
pytest.importorskip("mutmut")

from tools import mutants

MODULE = '''
from functools import cache

def checked(x: int = 3, y: "int | None" = None) -> int:
    """Not 1 of these words is code."""
    return x + 1

def unchecked(x: int) -> int:
    return x + 1

def unreached(x: int) -> int:
    return x + 1

def endless(x: int) -> int:
    while x > 0:
        x -= 1
    return 7

class Owner:
    @property
    def inside(self) -> int:
        def nested() -> int:
            return 2 + 3
        return nested()
'''
TESTS = """
from heart.module import Owner, checked, endless, unchecked

def test_value() -> None:
    assert checked(1) == 2 and endless(3) == 7

def test_nothing() -> None:
    unchecked(1)

def test_property() -> None:
    assert Owner().inside == 5

def test_that_fails() -> None:
    assert unchecked(1) == 7
"""
SCRIPT = """
import sys
from pathlib import Path
from tools import mutants
root = Path(sys.argv.pop(1))
mutants.ROOT, mutants.BUILD, mutants.HEART, mutants.GRACE = root, root / "build", [root / "heart"], 1.0
mutants.QUICK = {"quick": ["pytest", "-q", "--rootdir", str(root), "-c", str(root / "pytest.ini"), str(root)]}
sys.exit(mutants.main())
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "heart").mkdir()
    (root / "heart" / "__init__.py").write_text("")
    (root / "heart" / "module.py").write_text(MODULE)
    (root / "test_module.py").write_text(TESTS)
    (root / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return root


def test_mutants_stand_in_bodies_only(project: Path) -> None:
    module, mutations = mutants.places(project / "heart" / "module.py")
    changes = {(line, module.code_for_node(node), module.code_for_node(mutated)) for line, node, mutated in mutations}
    assert {line for line, _, _ in changes} == {6, 9, 12, 15, 16, 17, 23}
    assert {(6, "x + 1", "x - 1"), (6, "1", "2"), (16, "x -= 1", "x = 1"), (23, "2 + 3", "2 - 3")} <= changes


def test_outcomes(project: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(project), "--mutants", "100"],
        cwd=mutants.ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode in (0, 5), run.stdout + run.stderr
    results = [json.loads(line) for line in (project / "build" / "results.jsonl").read_text().splitlines()]
    outcomes = {(result["line"], result["after"]): result["outcome"] for result in results}
    assert outcomes[6, "x - 1"] == outcomes[23, "2 - 3"] == "killed"
    assert outcomes[9, "x - 1"] == "survived"  # by the test that reaches it and passes without a mutant
    assert outcomes[12, "x - 1"] == "not covered"
    assert outcomes[16, "x = 1"] == outcomes[16, "x += 1"] == "timed out"
    assert "fails without a mutant: test_module.py::test_that_fails" in run.stdout
    assert "module.py:9: survived, 1 of 1 tests\n  x + 1\n  x - 1\n" in run.stdout
    killed = sum(result["outcome"] in mutants.KILLED for result in results)
    assert f"{killed} of {len(results)} mutants killed" in run.stdout
