"""Build or refresh `.venv`: `python tools/bootstrap.py lab|test`. Standard library only.

`lab` installs what the workbench needs, `test` adds the tools of the tests. A stamp inside `.venv` records which
dependencies were installed from which pyproject.toml; while it still holds, this returns at once.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "cepbook-stamp.json"
EXTENSION = ROOT / "cepbook" / "magics" / "labextension" / "static" / "source.sha256"
# JupyterLab asks nothing at its first start and looks nothing up outside.
LAB_SETTINGS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
REQUIREMENTS = {"lab": ["--editable", ".[all]"], "test": ["--editable", ".[all,connect]", "--group", "dev"]}


def fingerprint() -> str:
    """A hash of what decides what `.venv` holds: dependencies, JupyterLab's extension, the place of the clone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tables = [project["build-system"], project["project"], project["dependency-groups"], project["tool"]["hatch"]]
    built = EXTENSION.read_text(encoding="utf-8")  # pip copies its output, also of an editable clone
    text = json.dumps([tables, str(ROOT), REQUIREMENTS, LAB_SETTINGS, built], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def recorded() -> dict[str, str]:
    """What the stamp says: `{"level": "lab" | "test", "fingerprint": ...}`, or nothing when there is no usable one."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def usable() -> bool:
    """Whether `.venv` has a Python that runs and is new enough (the one it was made from may be gone)."""
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([PYTHON, "-c", check], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def create() -> None:
    """Make an empty `.venv` with pip in it."""
    say(f"creating .venv with Python {sys.version.split()[0]}")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], capture_output=True, text=True, check=False)
    if made.returncode == 0:
        return
    # Debian's python3 comes without ensurepip; a pip outside the environment can install one into it.
    bare = subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", VENV], check=False).returncode
    pip = [sys.executable, "-m", "pip", "--python", str(PYTHON), "install", "--quiet", "pip"]
    if bare != 0 or subprocess.run(pip, check=False).returncode != 0:
        print(made.stdout + made.stderr, file=sys.stderr)
        fail("cannot create a virtual environment; on Debian and Ubuntu: sudo apt-get install python3-venv")


def pip(*arguments: str) -> None:
    """Run the environment's pip; a line of progress for every 20 packages, the whole output when it fails."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    log: list[str] = []
    packages = 0
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.append(line)
            words = line.split()
            if line.startswith("Collecting "):
                packages += 1
                if packages % 20 == 0:
                    say(f"  {packages} packages found, now {words[1]}")
            elif line.lstrip().startswith("Building wheel") or line.startswith("Installing collected"):
                say("  " + " ".join(words[:4]).rstrip(":"))
    if process.returncode != 0:
        print("".join(log[-40:]), file=sys.stderr)
        fail("pip could not install the packages (see above); when the network was the reason, run the command again")


def install(level: str) -> None:
    """Install the packages of *level* into `.venv`."""
    say(f"installing packages for `make {level}` (the first time this downloads about 900 MB, half of it Spark)")
    pip("install", "--quiet", "--upgrade", "pip>=25.1")  # the first that knows dependency groups
    pip("install", *REQUIREMENTS[level])
    # An optional part of jsonschema that builds a grammar at import, more than a second in every kernel with charts.
    pip("uninstall", "--quiet", "--yes", "rfc3987-syntax")
    settings = VENV / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps(LAB_SETTINGS), encoding="utf-8")


def say(text: str) -> None:
    print(f"cepbook: {text}", flush=True)


def fail(text: str) -> None:
    print(f"cepbook: {text}", file=sys.stderr)
    sys.exit(1)


def main(level: str) -> None:
    start = time.monotonic()
    current = fingerprint()
    stamp = recorded()
    runs = usable()
    if runs and stamp.get("fingerprint") == current and stamp.get("level") in (level, "test"):
        say(".venv is up to date")
        return
    if not runs:
        create()
    level = "test" if stamp.get("level") == "test" else level
    install(level)
    STAMP.write_text(json.dumps({"level": level, "fingerprint": current}), encoding="utf-8")
    say(f".venv is ready ({time.monotonic() - start:.0f} s)")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in REQUIREMENTS:
        fail("usage: python tools/bootstrap.py lab|test")
    main(sys.argv[1])
