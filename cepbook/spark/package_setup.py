"""The installation of Spark's packages that follows `make lab` in the background.

`tools/bootstrap.py` opens JupyterLab before Spark's packages are installed. While it installs them, a file in the
environment holds the current step, and the file's time is renewed every second. The file is removed when the packages
are complete. It stays after a failure, and after an installer that was killed, whose file is not renewed any more.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

STATE_FILE = Path(sys.prefix) / "cepbook-spark.json"
POLL_INTERVAL = 0.3  # seconds between two looks
SILENCE_LIMIT = 15.0  # seconds without a renewal after which the installer counts as killed


def wait_for_packages(display: Callable[[str | None], object], state_file: Path | None = None) -> str | None:
    """Return when no installation of Spark's packages is running, with the message of one that failed, or None.

    `display` is called with each line of progress, and with None at the end. Ctrl-C ends the wait, and the installation
    continues.
    """
    path = STATE_FILE if state_file is None else state_file
    if "pyspark" in sys.modules or not path.exists():
        return None
    started = time.monotonic()
    try:
        while True:
            try:
                progress = json.loads(path.read_text(encoding="utf-8"))
                silent = time.time() - path.stat().st_mtime
                step, failed = str(progress["step"]), bool(progress["failed"])
            except FileNotFoundError:  # the installation is complete
                importlib.invalidate_caches()
                return None
            except (OSError, ValueError, KeyError, TypeError):
                step, failed, silent = f"{path} is not readable", True, 0.0
            if failed:
                return _failure(f"could not be installed: {step}")
            if silent > SILENCE_LIMIT:
                return _failure("are not installed: the installation was interrupted")
            seconds = time.monotonic() - started
            display(f"Waiting for Spark's packages, which are being installed: {step}, {seconds:.0f} s")
            time.sleep(POLL_INTERVAL)
    finally:
        display(None)


def _failure(problem: str) -> str:
    return (
        f"Spark's packages {problem}\n  hint: run `make lab` again, which continues the installation; "
        f"{STATE_FILE.with_suffix('.log')} has the output of the installer. Everything in cepbook except Spark works "
        "without these packages"
    )
