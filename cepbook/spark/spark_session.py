"""Spark sessions: a local one with settings for a notebook (quiet, no web UI, UTC, a task per core), or a server's."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cepbook.display import write_progress_line
from cepbook.errors import UsageError
from cepbook.lazy_imports import DataFrame, SparkSession
from cepbook.spark.java_home import find_java
from cepbook.spark.package_setup import wait_for_packages

_CONNECT_TIMEOUT = 20.0  # seconds
PROGRESS_DISPLAYS: list[Callable[[str | None], object]] = []
"""Displays for the progress of Spark's jobs: the last one is called with each line, and with None at the end."""


def use_progress_display(show: Callable[[str | None], object]) -> Callable[[], None]:
    """Display progress by calling `show` instead of writing to the terminal. Returns the function that undoes this."""
    PROGRESS_DISPLAYS.append(show)

    def undo() -> None:
        if show in PROGRESS_DISPLAYS:
            PROGRESS_DISPLAYS.remove(show)

    return undo


def display_progress(line: str | None) -> None:
    """Display one line of progress, or remove the line if it is None. ``CEPBOOK_PROGRESS=off`` turns this off."""
    if os.environ.get("CEPBOOK_PROGRESS") != "off":
        (PROGRESS_DISPLAYS[-1] if PROGRESS_DISPLAYS else write_progress_line)(line)


def cancel_actions() -> int:
    """Cancel the jobs of actions on DataFrames (``collect``, ``count``) that were interrupted; return their number.

    Streams, and jobs with a group, continue. Returns 0 if there is no Spark in this process.
    """
    pyspark = sys.modules.get("pyspark")
    context = None if pyspark is None else pyspark.SparkContext._active_spark_context
    if context is None:
        return 0
    tracker = context.statusTracker()
    jobs = set(tracker.getActiveJobsIds()) & set(tracker.getJobIdsForGroup())  # of none: those without a group
    for job in jobs:
        context._jsc.sc().cancelJob(job)
    return len(jobs)


def require_pyspark() -> None:
    """Wait for Spark's packages if they are being installed. Raise `UsageError` if pyspark is not installed."""
    failure = wait_for_packages(display_progress)
    try:
        import pyspark  # noqa: F401
    except ImportError as missing:
        raise UsageError(
            failure
            or "Spark needs the package pyspark, which is not installed: `pip install 'cepbook[spark]'`. "
            "Everything in cepbook except Spark works without it"
        ) from missing


def quiet_pandas_warning() -> None:
    """Silence pyspark's warning about pandas 3, which does not concern the bridge: it passes data as Arrow."""
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)


def session_settings(cores: int) -> dict[str, str]:
    """Return the configuration. Adaptive execution is off: it may merge partitions that the engine relies on."""
    return {
        "spark.app.name": "cepbook",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        # and no limit of bytes: to keep one Spark measures the batch for every row, in a quarter of a task's time
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        # larger frames are unpacked by the tasks, not by the driver (and again for every query)
        "spark.sql.execution.arrow.localRelationThreshold": "1m",
        "spark.driver.memory": f"{_memory_gb()}g",
        # two tasks on two cores took an eighth longer with G1, which keeps threads of its own busy beside them
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
        "spark.python.worker.reuse": "true",
    }


def local_session(**overrides: Any) -> SparkSession:
    """The running Spark session, or a new local one; where ``SPARK_REMOTE`` names a server, the one of Spark Connect.

    `overrides` are settings with ``_`` for ``.`` (``spark_driver_memory="2g"``) or with their own names
    (``**{"spark.master": "local[2]"}``); they matter for a new local session only. Raises `UsageError` when pyspark,
    what it needs to connect, or Java is missing, or when Spark does not start (with the end of what it printed).
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    quiet_pandas_warning()
    remote = os.environ.get("SPARK_REMOTE")
    if remote is not None:
        return connect_session(remote)
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    java = find_java()
    chosen = {name.replace("_", ".") if "." not in name else name: str(value) for name, value in overrides.items()}
    master = chosen.pop("spark.master", "local[*]")
    builder = SparkSession.builder.master(master)
    for name, value in (session_settings(_cores(master)) | chosen).items():
        builder = builder.config(name, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark takes the first python3 on the PATH
    log = Path(tempfile.gettempdir()) / f"cepbook-spark-{os.getpid()}.log"
    atexit.register(log.unlink, missing_ok=True)
    with _quiet_start(java.home, log):
        try:
            return builder.getOrCreate()
        except Exception as failed:
            tail = log.read_text(errors="replace").strip().splitlines()[-15:]
            raise UsageError("\n".join([f"Spark did not start on Java {java.version}: {failed}", *tail])) from failed


def read_table(name: str) -> tuple[DataFrame | None, list[str]]:
    """Return the rows of a table or view of `local_session` (None if there is none), and the names of all of them."""
    session = local_session()
    from pyspark.errors import AnalysisException, ParseException

    try:
        table = session.table(name) if session.catalog.tableExists(name) else None
    except (ParseException, AnalysisException):  # what cannot be a name, and of a catalog that there is not
        table = None
    return table, [entry.name for entry in session.catalog.listTables()]


def submitted_session() -> SparkSession:
    """Return the session of ``spark-submit``, with the settings of ours that affect results or speed.

    These are UTC, unchanged plans and, on a local master, a task per core. Settings of the user stay.
    """
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    settings, master = session.conf.getAll, session.conf.get("spark.master", "")
    local = master is not None and master.startswith("local")
    names = ["spark.sql.session.timeZone", "spark.sql.adaptive.enabled"]
    for name in [*names, "spark.sql.shuffle.partitions"] if local else names:
        if name not in settings:
            session.conf.set(name, session_settings(_cores(master or ""))[name])
    return session


def connect_session(remote: str) -> SparkSession:
    """Return the session of a Spark Connect server.

    Raises `UsageError` if packages are missing, if `remote` is no address of a server, and if no server answers:
    pyspark would try for many minutes.
    """
    from pyspark.errors import PySparkImportError, PySparkValueError
    from pyspark.sql import SparkSession

    if remote.startswith("local"):  # a server of one's own, whose workers take what the first python3 on the PATH is
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        _check_server(remote)
    try:
        return SparkSession.builder.remote(remote).getOrCreate()
    except PySparkValueError as wrong:
        raise UsageError(f"Spark Connect ({remote}): {wrong}") from wrong
    except PySparkImportError as missing:
        raise UsageError(
            f"Spark Connect ({remote}) needs packages that are not installed: {missing}\n"
            "  hint: `pip install 'cepbook[connect]'`"
        ) from missing


def _check_server(remote: str) -> None:
    """Raise `UsageError` if nothing listens at the address, as far as it is reached without a proxy."""
    try:
        address = urlsplit(remote)
        host, port = address.hostname, address.port or 15002
    except ValueError:  # the port is no number
        address, host = None, None
    if address is None or address.scheme != "sc" or host is None:
        raise UsageError(
            f"Spark Connect ({remote}): that is no address of a server\n"
            "  hint: SPARK_REMOTE is sc://host:port (or local[*] for a server of one's own); "
            "a cluster such as spark://host:7077 is for spark-submit --master"
        )
    if any(os.environ.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy")):
        return
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT).close()
    except OSError as silent:
        raise UsageError(
            f"Spark Connect ({remote}): no server answers at {host}:{port}: {silent.strerror or silent}\n"
            "  hint: start one there, or take the variable SPARK_REMOTE away for Spark on this machine"
        ) from silent


def _memory_gb() -> int:
    """Return the heap for Spark, which in local mode also holds results and kept rows: a quarter of the machine, 1 to 8
    GB.
    """
    if sys.platform == "win32":
        return 2
    try:
        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except ValueError:  # the system does not say
        return 2
    return min(8, max(1, installed // 4 // 2**30))


def _cores(master: str) -> int:
    if master == "local":
        return 1
    inside = master.removeprefix("local[").removesuffix("]").split(",")[0]
    if inside.isdigit():
        return int(inside)
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 2


@contextmanager
def _quiet_start(java_home: Path, log: Path) -> Iterator[None]:
    """Start the JVM with `java_home`, and with its standard error in `log`, which it inherits for its whole life."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(java_home)
    stderr = os.dup(2)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(target)
        if before is None:
            os.environ.pop("JAVA_HOME", None)
        else:
            os.environ["JAVA_HOME"] = before
