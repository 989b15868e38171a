"""Run the stages of `make test`, all or the named ones, and end with one closing line for all of them.

A stage that fails does not stop the next. The exit status is 0 only when every stage passed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = ["pytest", "-q", "-ra", "--durations=5", "--durations-min=2"]
# Tests that need nothing but Python run in as many processes as there are cores; a notebook's cells in one of these.
SPREAD = ["--numprocesses=auto", "--maxprocesses=4", "--dist=worksteal"]
WHOLE = [*SPREAD[:2], "--dist=loadfile"]
STAGES = {
    "lint": ["ruff", "check", "."],
    "types": ["mypy", "--strict", "cepbook"],
    "notebooks": [*PYTEST, "notebooks", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=600", *WHOLE],
    "browser": [*PYTEST, "tests/browser"],
    "unit": [*PYTEST, "tests", "-m", "not spark and not browser", *SPREAD],
    "spark": [*PYTEST, "tests/spark", "-m", "spark"],
}
# Spark and the browser start at once and run beside the other stages: they wait more than they calculate.
BESIDE = {"spark", "browser"}
# The page of a browser test answers somebody who waits seconds at most, and Spark gives a worker ten seconds to start:
# their processes come first, the others calculate when these wait.
NICENESS = {"browser": 0, "spark": 3}
NICENESS_OF_OTHERS = 10
# What is worth running after every change; `make test` runs it as a part of "unit".
QUICK = {"quick": [*PYTEST, "tests", "-m", "not spark and not browser and not histories"]}
NO_BROWSER = """
    NOTHING WAS TESTED IN A BROWSER: no Chromium or Chrome was found.
    Install one (`apt-get install chromium`, or `.venv/bin/python -m playwright install chromium`), or set
    CEPBOOK_CHROMIUM to the path of yours, and run `make test STAGES=browser`.
"""
NO_PLAYGROUND = """
    THE PLAYGROUND WAS NOT TESTED: its page is built with node and npm, which were not found.
    Install node 20 or newer, and run `make test STAGES=browser`.
"""
Outcome = tuple[bool, str, float, float]
"""(passed, closing line, seconds, seconds of the processors)"""
CLOSING = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+|no tests ran) in [\d.]+s.*?=*$")


def run(name: str, environment: dict[str, str], say: Callable[[str], object]) -> Outcome:
    """Run one stage and pass its output to `say`."""
    words = (STAGES | QUICK)[name]
    command = [sys.executable, "-m", *words]
    if words[0] == "pytest" and sys.stdout.isatty():
        command.append("--color=yes")
    say(f"\n--- {name}: {' '.join(words)}\n")
    start = time.monotonic()
    closing = ""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace",
    )  # fmt: skip
    if sys.platform != "win32":
        own = os.getpriority(os.PRIO_PROCESS, 0)  # only root may go below it
        os.setpriority(os.PRIO_PROCESS, process.pid, max(own, NICENESS.get(name, NICENESS_OF_OTHERS)))
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            say(line)
            plain = re.sub(r"\x1b\[[\d;]*m", "", line).strip()
            if CLOSING.match(plain):
                closing = plain.strip("= ")
    worked = 0.0
    if sys.platform == "win32":
        process.wait()
    else:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        worked = usage.ru_utime + usage.ru_stime
    return process.returncode == 0, closing, time.monotonic() - start, worked


def run_all(names: list[str], environment: dict[str, str]) -> Iterator[tuple[str, Outcome]]:
    """Run the stages in order, those of `BESIDE` beside the others; these are printed as they run, those at the end."""
    beside = [name for name in names if name in BESIDE and len(names) > 1]
    spoken: dict[str, list[str]] = {name: [] for name in beside}
    with ThreadPoolExecutor() as threads:
        started = {name: threads.submit(run, name, environment, spoken[name].append) for name in beside}
        for name in names:
            if name not in started:
                yield name, run(name, environment, show)
        for name, stage in started.items():
            outcome = stage.result()
            show("".join(spoken[name]))
            yield name, outcome


def show(text: str) -> None:
    print(text, end="", flush=True)


def untested(closing: str) -> bool:
    """Whether all tests of a stage were skipped, by its closing line."""
    found = count(closing, True)
    return found["skipped"] > 0 and found["passed"] + found["failed"] == 0


def count(closing: str, passed: bool) -> Counter[str]:
    """The tests behind a closing line of pytest; a stage without one counts as one test."""
    found: Counter[str] = Counter()
    counted_as = {"error": "failed", "errors": "failed", "xfailed": "skipped", "xpassed": "failed"}
    for number, word in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)", closing):
        found[counted_as.get(word, word)] += int(number)
    if not closing:
        found["passed" if passed else "failed"] += 1
    elif not passed and not found["failed"]:
        found["failed"] += 1
    return found


def isolated(home: str) -> dict[str, str]:
    """The environment of the stages: no start-up files, settings or kernels of the user's own Jupyter."""
    own = {name: f"{home}/{name.lower()}" for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    own |= {"JUPYTER_PLATFORM_DIRS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    # Stages start hundreds of processes: what these import is compiled once, also where Python is told not to keep it.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # And a dozen of Java's, most of whose short lives would go into compiling well what runs a few times.
    own["JDK_JAVA_OPTIONS"] = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -XX:TieredStopAtLevel=1".strip()
    # Random histories: one half on even days, the other on odd days (tests/random_cases.py).
    own["CEPBOOK_PART"] = os.environ.get("CEPBOOK_PART", f"{date.today().toordinal() % 2}/2")
    return {**inherited, **own, "CEPBOOK_PROGRESS": "off"}  # how fast it goes is no output to compare


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in STAGES | QUICK]
    if unknown:
        print(f"cepbook: no stage {', '.join(unknown)}; there are: {', '.join(STAGES | QUICK)}", file=sys.stderr)
        return 2
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="cepbook-") as home:
        environment = isolated(home)
        start = time.monotonic()
        results = dict(run_all(names or list(STAGES), environment))
        lasted = time.monotonic() - start
    print("\n--- summary")
    for name, (passed, closing, seconds, worked) in results.items():
        print(f"{name:10} {'ok' if passed else 'FAILED':7} {seconds:6.1f} s  {worked:6.1f} CPU s  {closing}")
        total += count(closing, passed)
    if "browser" in results and untested(results["browser"][1]):
        print(NO_BROWSER)
    if "browser" in results and not (shutil.which("npm") and shutil.which("node")):
        print(NO_PLAYGROUND)
    print(f"{'total':10} {'':7} {lasted:6.1f} s  random histories: CEPBOOK_PART={environment['CEPBOOK_PART']}")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped", flush=True)
    return 0 if all(passed for passed, _, _, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
