"""Marks by what a test needs: tests of a Spark session and of a browser run in stages of their own (`tools/check.py`).

Property tests, which run hundreds of random histories, are marked as such: the quick stage leaves them out. So are
tests that hold one, to run it for each of their parameters.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from cepbook.engine.replay import loop_costs
from cepbook.engine.replay.batch_replayer import BatchReplayer
from cepbook.engine.runtime import Runtime
from tests.engine.invariants import invariant_violations

# These use signals and calls that Windows does not have.
POSIX = (
    "cli/test_commands.py", "cli/test_run.py", "engine/dispatch/test_faults.py", "session/core/test_forged_files.py",
    "session/core/test_interrupts.py", "session/io/output/test_sink_faults.py", "session/io/output/test_sink_kills.py",
    "session/io/output/test_sinks.py", "session/io/test_file_tail.py", "session/io/test_rejected_events.py",
    "session/journal/test_journal_faults.py", "session/journal/test_row_files.py",
    "session/replay/test_live_ingestion.py", "session/replay/test_live_lateness.py", "session/replay/test_replay.py",
    "session/test_bad_input.py",
    "session/test_feeds.py", "session/test_growing_values.py", "spark/test_java_home.py", "spark/test_killed_jobs.py",
    "test_mutations.py",
)  # fmt: skip
collect_ignore = list(POSIX) if sys.platform == "win32" else []
HERE = f"{Path(__file__).resolve().parent}{os.sep}"
# These wait for other processes, up to minutes: they begin first, because at the end nothing would run beside them.
FIRST = ("test_site.py", "test_package.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in FIRST)
    for item in items:
        if not str(item.path).startswith(HERE):
            continue
        if str(item.path).startswith(f"{HERE}browser{os.sep}"):
            item.add_marker("browser")
        elif "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if isinstance(item, pytest.Function) and (
            getattr(item.function, "is_hypothesis_test", False) or "given" in item.function.__code__.co_names
        ):
            item.add_marker("histories")


def pytest_collection_finish() -> None:
    """Modules and collected tests stay: who collects garbage, or looks for what is left of something, passes them by.

    Tests that do took six to ten times as long among the objects of thirteen thousand tests. No test unfreezes them.
    """
    gc.freeze()


def pytest_configure() -> None:
    """Garbage is collected less often: among modules and ten thousand tests it took an eighth of the time.

    Tests that send Ctrl-C, and the processes that they start, need its handler, which a process in the background
    (``&``, nohup) starts without.
    """
    gc.set_threshold(50_000, 10, 10)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure() -> None:
    """What is left goes with the process: to look through all of it for garbage takes longer than any test."""
    gc.freeze()


def pytest_sessionstart() -> None:
    """What must hold between two rounds is looked at after every so many events, advances and slices, in all tests."""
    for name in ("send", "advance"):
        setattr(Runtime, name, _watched(getattr(Runtime, name), lambda runtime: runtime))
    BatchReplayer.run = _watched(BatchReplayer.run, attrgetter("_runtime"))  # type: ignore[method-assign]
    loop_costs.PASS_STATEMENT = 0.0  # batches of tests are small, and go through the statement pass all the same


_inside = 0  # calls that are under way: what a listener does is in the middle of a round


def _watched(work: Callable[..., Any], runtime_of: Callable[[Any], Runtime]) -> Callable[..., Any]:
    calls = 0

    @wraps(work)
    def watched(owner: Any, *args: Any, **options: Any) -> Any:
        global _inside
        nonlocal calls
        _inside += 1
        try:
            result = work(owner, *args, **options)
        finally:
            _inside -= 1
        calls += 1
        if not _inside and calls % 7 == 0:
            assert invariant_violations(runtime_of(owner)) == []
        return result

    return watched
