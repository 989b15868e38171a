"""The wheel and the source archive: complete, the same at every build, and usable without the clone and the extras."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests import documents

ROOT = documents.ROOT
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
package: Any = documents.tool("package")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The source archive, and the wheel that is built from it."""
    pytest.importorskip("build", reason="the package build is not installed (group `dev`)")
    built: list[Path] = package.build(tmp_path_factory.mktemp("dist"))
    return built


@pytest.mark.histories  # it builds
def test_builds_are_complete_and_small(files: list[Path]) -> None:
    package.check(files)
    wheel, archive = sorted(files, key=lambda path: path.suffix, reverse=True)
    assert wheel.stat().st_size < 2_500_000 and archive.stat().st_size < 6_000_000


@pytest.mark.histories  # it builds
def test_a_wheel_from_the_clone_has_the_bytes_of_the_one_from_the_archive(files: list[Path], tmp_path: Path) -> None:
    again = package.build(tmp_path, "--wheel", "--sdist")
    assert [path.name for path in again] == [path.name for path in files]
    assert [
        path.name for path, other in zip(files, again, strict=True) if path.read_bytes() != other.read_bytes()
    ] == []


def needed(names: list[str]) -> set[str]:
    """The distributions that some distributions need, without extras, and they themselves."""
    found: set[str] = set()
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        if name not in found:
            found.add(name)
            requirements = map(Requirement, importlib.metadata.requires(name) or ())
            names += [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    return found


@pytest.mark.histories  # it builds
@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links; `make package` installs by pip")
def test_the_wheel_alone_runs_and_names_missing_extras(files: list[Path], tmp_path: Path) -> None:
    """In an environment that has links to what the wheel needs, and nothing else that is installed here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    (packages,) = (tmp_path / "lib").glob("python*/site-packages")
    for name in needed(["pytest", *(Requirement(r).name for r in PROJECT["project"]["dependencies"])]):
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (packages / top).exists():
                (packages / top).symlink_to(str(distribution.locate_file(top)))
    (wheel,) = (path for path in files if path.suffix == ".whl")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, str(wheel)], check=True)
    assert package.try_out(python) == []


# --- what stands around the package


def test_the_version_is_that_of_the_file() -> None:
    assert "version" in PROJECT["project"]["dynamic"] and PROJECT["tool"]["hatch"]["version"]["path"]
    text = (ROOT / "cepbook" / "__init__.py").read_text(encoding="utf-8")
    version = re.findall(r'^__version__ = "(.+)"$', text, flags=re.MULTILINE)
    cited = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert version == cited


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_targets_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    called = set(re.findall(r"\bmake ([a-z]+)", text))
    assert called and called <= targets
    stages = documents.tool("check").STAGES
    assert {name for names in re.findall(r'STAGES="?([a-z ]+)', text) for name in names.split()} <= set(stages)


def test_workflows_are_well_formed() -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed (group `dev`)")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*command, *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert WORKFLOWS and done.returncode == 0, done.stdout


def test_workflows_test_the_supported_versions_of_python() -> None:
    versions = {c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", c)}
    tests = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert (
        versions == set(re.findall(r'"(3\.\d+)"', tests))
        and f">={min(versions)}" in PROJECT["project"]["requires-python"]
    )


def test_binder_and_the_devcontainer_are_built_from_the_same_files() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    recipe = (ROOT / ".devcontainer" / "Dockerfile").read_text(encoding="utf-8")
    runtime = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    assert f"FROM {runtime.replace('-', ':')}-" in recipe and "binder/apt.txt" in recipe
    assert container["build"] == {"dockerfile": "Dockerfile", "context": ".."}
    assert (
        "binder/requirements.txt" in container["postCreateCommand"]
        and "binder/postBuild" in container["postCreateCommand"]
    )


def test_binder_builds() -> None:
    pytest.importorskip("repo2docker", reason="jupyter-repo2docker is not installed (group `dev`)")
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    recipe = done.stdout + done.stderr
    assert done.returncode == 0, recipe
    for line in (
        "openjdk-17-jre-headless",
        "binder/requirements.txt",
        "./binder/postBuild",
        'R2D_ENTRYPOINT="${REPO_DIR}/binder/start"',
    ):
        assert line in recipe
