"""The JupyterLab extension that colours EPL: its committed output is that of its sources, and it is shipped."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "cepbook" / "magics" / "labextension" / "static"


def test_the_output_is_in_step_with_the_sources() -> None:
    spec = importlib.util.spec_from_file_location("labextension_build", ROOT / "tools" / "labextension.py")
    assert spec is not None and spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    assert build.problems() == []


def test_what_jupyterlab_loads_is_there() -> None:
    described = json.loads((STATIC / "package.json").read_text(encoding="utf-8"))
    assert (STATIC / described["jupyterlab"]["_build"]["load"]).is_file()


def test_it_is_shipped() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert shared[STATIC.relative_to(ROOT).as_posix()] == "share/jupyter/labextensions/cepbook-epl"


def test_it_is_shipped_once() -> None:
    """The package needs the words of it (`colours.py`); the rest is JupyterLab's copy."""
    pathspec = pytest.importorskip("pathspec")  # what hatchling reads patterns with
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    left_out = pathspec.GitIgnoreSpec.from_lines(project["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"])
    files = [path.relative_to(ROOT).as_posix() for path in STATIC.parent.rglob("*") if path.is_file()]
    assert [path for path in files if not left_out.match_file(path)] == ["cepbook/magics/labextension/src/words.json"]
    others = (path.relative_to(ROOT).as_posix() for path in (ROOT / "cepbook").rglob("*") if path.is_file())
    assert not {path for path in others if left_out.match_file(path)} - set(files)
