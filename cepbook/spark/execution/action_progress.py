"""Spark actions that a user waits for: a line of progress, and Ctrl-C, which cancels the jobs.

The numbers come from Spark: from its status tracker, or from the progress handler of Spark Connect. The line appears on
the standard error of a terminal; a notebook registers its own display (`use_progress_display`). With
``CEPBOOK_PROGRESS=off`` there is no line.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, TypeVar, cast
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from cepbook.spark.spark_session import display_progress

_T = TypeVar("_T")
SHOW_AFTER = 1.0  # seconds before anything is shown
POLL_INTERVAL = 0.3  # seconds between two looks
_WIDTH = 30
_GROUP, _DESCRIPTION = "spark.jobGroup.id", "spark.job.description"


def run_with_progress(session: SparkSession, action: Callable[[], _T], name: str = "Spark", quiet: bool = False) -> _T:
    """Return the result of `action`. Its jobs show their progress under `name`, unless `quiet`.

    Ctrl-C cancels the jobs; KeyboardInterrupt is raised when Spark has ended them.
    """
    watch = (_ConnectMonitor if is_remote() else _ClassicMonitor)(session, name, quiet)
    watch.begin()
    try:
        result = action()
    except Exception:
        if watch.interrupted.is_set():  # what Spark says of jobs that were cancelled
            raise KeyboardInterrupt from None
        raise
    except KeyboardInterrupt:
        watch.cancel()
        raise
    finally:
        watch.end()
    if watch.interrupted.is_set():  # it had ended before it was cancelled
        raise KeyboardInterrupt
    return result


def progress_text(done: int, tasks: int, running: int, seconds: float, name: str = "Spark") -> str:
    """Return a bar of the tasks that are done, with the number that run now."""
    full = _WIDTH * done // tasks if tasks else 0
    return f"{name} [{'#' * full}{'.' * (_WIDTH - full)}] {done} of {tasks} tasks, {running} running, {seconds:.0f} s"


class _ActionMonitor:
    """Monitors one action in a thread, which polls its jobs and cancels them on request."""

    def __init__(self, session: SparkSession, name: str, quiet: bool) -> None:
        self._session = session
        self._title = name
        self._quiet = quiet
        self._name = f"cepbook-{uuid4().hex[:12]}"
        self._stop = threading.Event()
        self.interrupted = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="cepbook progress", daemon=True)
        self._before: Any = None
        self._visible = False

    def begin(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if callable(self._before):  # else Ctrl-C is somebody else's, or nobody's
                signal.signal(signal.SIGINT, self._interrupt)
        self._thread.start()

    def end(self) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout=5)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Ask the thread to cancel; this one is inside a call of Spark and waits for the jobs to end.

        A second Ctrl-C ends that call as well; py4j then reports the broken call with tracebacks.
        """
        again = self.interrupted.is_set()
        self.interrupted.set()
        self._wake.set()
        if again:
            self._before(number, frame)

    def _poll(self) -> None:
        started = time.monotonic()
        while not self._stop.is_set():
            if self.interrupted.is_set():  # again and again: a job may just be about to start
                self.cancel()
            seconds = time.monotonic() - started
            if seconds >= SHOW_AFTER and (numbers := self.tasks()) is not None:
                self._display_line(progress_text(*numbers, seconds, self._title))
            self._wake.wait(POLL_INTERVAL)
            self._wake.clear()
        if self._visible:
            self._display_line(None)

    def _display_line(self, line: str | None) -> None:
        if not self._quiet:
            self._visible = True
            display_progress(line)

    def cancel(self) -> None:
        raise NotImplementedError

    def tasks(self) -> tuple[int, int, int] | None:
        """Return the numbers of tasks done, of all tasks and of running tasks; None while nothing is known."""
        raise NotImplementedError


class _ClassicMonitor(_ActionMonitor):
    def begin(self) -> None:
        context = self._context = self._session.sparkContext
        self._former = [(name, context.getLocalProperty(name)) for name in (_GROUP, _DESCRIPTION)]
        context.setJobGroup(self._name, self._former[1][1] or "cepbook", interruptOnCancel=True)
        super().begin()

    def end(self) -> None:
        super().end()
        for name, value in self._former:
            self._context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None takes it away

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._name)

    def tasks(self) -> tuple[int, int, int] | None:
        tracker = self._context.statusTracker()
        jobs = (tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(self._name))
        stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
        counts = [(s.numCompletedTasks, s.numTasks, s.numActiveTasks) for s in stages if s is not None]
        return _totals(counts)


class _ConnectMonitor(_ActionMonitor):
    def begin(self) -> None:
        self._numbers: tuple[int, int, int] | None = None
        self._handler = cast(Any, self._on_stages)  # the protocol names its parameters otherwise
        self._session.addTag(self._name)
        self._session.registerProgressHandler(self._handler)
        super().begin()

    def end(self) -> None:
        super().end()
        self._session.removeProgressHandler(self._handler)
        self._session.removeTag(self._name)

    def _on_stages(
        self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        counts = _totals([(stage.num_completed_tasks, stage.num_tasks, 0) for stage in stages or ()])
        self._numbers = None if counts is None else (counts[0], counts[1], inflight_tasks)

    def cancel(self) -> None:
        self._session.interruptTag(self._name)

    def tasks(self) -> tuple[int, int, int] | None:
        return self._numbers


def _totals(stages: list[tuple[int, int, int]]) -> tuple[int, int, int] | None:
    if not stages:
        return None
    done, tasks, running = (sum(numbers) for numbers in zip(*stages, strict=True))
    return done, tasks, running
