"""Build or refresh `.venv`: `python tools/bootstrap.py lab|spark|test`. Standard library only.

`lab` installs what the first notebook needs, `spark` adds the packages of Spark, `test` adds the tools of the tests.
A stamp inside `.venv` records which level was installed from which pyproject.toml. While the stamp is valid, the
command returns at once.

`make lab` runs `spark` in the background while JupyterLab starts. A file of `.venv` holds the state of that
installation, and `cepbook.spark.package_setup` reads it: the file exists until the packages are complete, and its time
is renewed every second. A lock on pyproject.toml makes two installations run one after the other.

uv installs the packages, because it downloads many at a time. If uv cannot be had or fails, pip does the same. Spark's
packages are always installed by pip. pyspark is one large source archive, which uv downloads for its metadata and again
to build it, where an index gives no caching headers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
PIP = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input"]
UV = [str(PYTHON), "-m", "uv", "pip"]
STAMP = VENV / "cepbook-stamp.json"
SPARK_STATE = VENV / "cepbook-spark.json"
EXTENSION = ROOT / "cepbook" / "magics" / "labextension" / "static" / "source.sha256"
# JupyterLab asks nothing at its first start and looks nothing up outside.
LAB_SETTINGS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Each level includes the levels before it.
REQUIREMENTS = {
    "lab": ["--editable", ".[lab]"],
    # Without the project itself, whose files the open JupyterLab uses.
    "spark": PROJECT["project"]["optional-dependencies"]["spark"],
    "test": ["--editable", ".[all,connect]", "--group", "dev"],
}
SIZES = {"lab": "270 MB", "spark": "500 MB", "test": "900 MB"}
# Lines of uv and pip that say what takes time.
STEPS = re.compile(r"\s*(Resolved|Downloading .*\d\d(\.\d)? ?Mi?B\)|Building|Prepared|Installed|Installing coll)")
USABLE = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
INDEX = re.compile(r"^\S*\.index-url='(.+)'$", re.MULTILINE)


def fingerprint() -> str:
    """Return a hash of what decides the contents of `.venv`: dependencies, the built extension, the clone's place."""
    tables = [PROJECT["build-system"], PROJECT["project"], PROJECT["dependency-groups"], PROJECT["tool"]["hatch"]]
    built = EXTENSION.read_text(encoding="utf-8")  # the installer copies its output, also of an editable clone
    text = json.dumps([tables, str(ROOT), REQUIREMENTS, LAB_SETTINGS, built], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def recorded() -> dict[str, str]:
    """Return the stamp, `{"level": "lab", "fingerprint": ...}`, or nothing if there is no usable one."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def up_to_date(level: str) -> bool:
    """Return True if `.venv` has everything of *level*."""
    stamp, levels = recorded(), list(REQUIREMENTS)
    complete = stamp.get("level") in levels[levels.index(level) :] and stamp.get("fingerprint") == fingerprint()
    return complete and runs(USABLE)


def runs(script: str) -> bool:
    """Return True if the environment's Python runs *script* without an error."""
    try:
        return subprocess.run([PYTHON, "-c", script], capture_output=True, check=False).returncode == 0
    except OSError:  # the Python that `.venv` was made from may be gone
        return False


def create() -> None:
    """Make a `.venv` with pip in it, and with uv if it can be had."""
    say(f"creating .venv with Python {sys.version.split()[0]}")
    # A pip outside the environment is quicker than ensurepip, which Debian's python3 does not have either.
    for command in (
        [sys.executable, "-m", "venv", "--clear", "--without-pip", VENV],
        [sys.executable, "-m", "pip", "--python", PYTHON, "install", "--quiet", "pip>=25.1", "uv"],
        [PYTHON, "-m", "ensurepip"],
    ):
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode == 0 and runs("import pip"):
            return
    print(made.stdout + made.stderr, file=sys.stderr)
    fail("cannot create a virtual environment; on Debian and Ubuntu: sudo apt-get install python3-venv")


def log_of(*command: str) -> tuple[int, list[str]]:
    """Run an installer. A line of progress for every step; the exit status and all lines are returned."""
    log: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.append(line)
            if STEPS.match(line):
                say("  " + " ".join(line.split()[:6]).rstrip(":,"))
    return process.returncode, log


def install(*requirements: str, by_uv: bool = True) -> None:
    """Install *requirements* into `.venv`, by uv or else by pip."""
    if not runs("import uv"):  # nor, it may be, a pip that knows dependency groups
        subprocess.run([*PIP, "install", "--quiet", "--upgrade", "pip>=25.1", "uv"], check=False)
    if by_uv and runs("import uv"):
        configured = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False).stdout
        index = [word for url in INDEX.findall(configured)[-1:] for word in ("--default-index", url)]
        status, log = log_of(*UV, "install", "--python", str(PYTHON), "--system-certs", *index, *requirements)
        if status == 0:
            return
        print("".join(log[-10:]), file=sys.stderr)
        say("uv could not install the packages (see above); pip tries the same")
    status, log = log_of(*PIP, "install", "--no-compile", *requirements)
    if status != 0:
        print("".join(log[-40:]), file=sys.stderr)
        fail("pip could not install the packages (see above); when the network was the reason, run the command again")


def complete() -> None:
    """Finish an environment with JupyterLab in it."""
    # An optional part of jsonschema that builds a grammar at import, more than a second in every kernel with charts.
    for command in ([*UV, "uninstall", "--python", str(PYTHON)], [*PIP, "uninstall", "--yes"]):
        if subprocess.run([*command, "rfc3987-syntax"], capture_output=True, check=False).returncode == 0:
            break
    settings = VENV / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps(LAB_SETTINGS), encoding="utf-8")


def write_state(step: str, failed: bool = False) -> None:
    """Say in the file of the state how far the installation of Spark's packages is."""
    written = SPARK_STATE.with_suffix(".new")
    written.write_text(json.dumps({"step": step, "failed": failed}), encoding="utf-8")
    written.replace(SPARK_STATE)


@contextmanager
def state_of_spark() -> Iterator[None]:
    """Keep the file of the state while Spark's packages are installed: renewed every second, gone when all is there."""
    ended = threading.Event()

    def renew() -> None:
        write_state(said[-1])
        while not ended.wait(1):
            write_state(said[-1])

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        ended.set()
        thread.join()
        write_state(said[-1], failed=True)
        raise
    ended.set()
    thread.join()
    SPARK_STATE.unlink(missing_ok=True)


said = ["starting"]


def say(text: str) -> None:
    said.append(text.strip())
    print(f"cepbook: {text}", flush=True)


def fail(text: str) -> None:
    said.append(text)
    print(f"cepbook: {text}", file=sys.stderr)
    sys.exit(1)


def lock(file: IO[str]) -> None:
    """Wait until no other process installs into `.venv`. The lock ends with *file*."""
    waiting = False
    while True:
        try:
            if sys.platform == "win32":
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if not waiting:
                say("waiting for another installation into .venv")
            waiting = True
            time.sleep(0.5)


def install_level(level: str) -> None:
    """Install the packages of *level* into `.venv`, and record it."""
    start = time.monotonic()
    if not runs(USABLE):
        create()
    level = "test" if recorded().get("level") == "test" else level
    say(f"installing packages for `make {level}` (the first time this downloads about {SIZES[level]})")
    if level != "lab":
        install(*REQUIREMENTS["spark"], by_uv=False)
    if level != "spark":
        install(*REQUIREMENTS[level])
        complete()
    STAMP.write_text(json.dumps({"level": level, "fingerprint": fingerprint()}), encoding="utf-8")
    say(f".venv is ready ({time.monotonic() - start:.0f} s)")


def main(level: str) -> None:
    if up_to_date(level):  # also while more is being installed
        say(".venv is up to date")
        return
    with (ROOT / "pyproject.toml").open() as file:
        lock(file)
        if up_to_date(level):
            return
        if level != "spark":
            install_level(level)
            return
        if sys.platform != "win32":
            os.nice(10)
        with state_of_spark():
            install_level(level)
    # Nobody waits for this. Where Python is told to write no byte code, later starts are quicker by it.
    subprocess.run([PYTHON, "-m", "compileall", "-q", VENV / "lib"], capture_output=True, check=False)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in REQUIREMENTS:
        fail("usage: python tools/bootstrap.py lab|spark|test")
    main(sys.argv[1])
