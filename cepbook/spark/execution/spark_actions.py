"""Run Spark actions, and translate their failures into errors of cepbook."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import SparkSession

from cepbook.errors import CepbookError, EventError, SnapshotError, StateLimitError, UsageError
from cepbook.spark.execution.action_progress import run_with_progress
from cepbook.spark.frames.tagged_stream import unreadable_files_error
from cepbook.spark.task.program import OUTDATED_STATE, RESTART_HINT
from cepbook.spark.task.stream_columns import format_clock_error

_T = TypeVar("_T")


def run_action(
    action: Callable[[], _T], session: SparkSession | None = None, name: str = "Spark", quiet: bool = False
) -> _T:
    """Run a Spark action. A failure that cepbook recognises is raised as its own error, with Spark's as the cause.

    With a `session` the action shows its progress under `name`, unless `quiet`, and Ctrl-C cancels it.
    """
    try:
        return action() if session is None else run_with_progress(session, action, name, quiet)
    except Exception as failed:  # pyspark's own, or py4j's where Spark has no name for it
        error = error_behind(str(failed))
        if error is None:
            raise
        raise error from failed


def error_behind(failure: str) -> CepbookError | None:
    """Return the error of cepbook behind a failure of Spark, from its text with tracebacks; None if there is none."""
    limit = re.search(r"cepbook\.errors\.StateLimitError: ((?s:.+?)statement `(.+?)`(?s:.+?)\n  = hint: .+)", failure)
    if limit is not None:
        return StateLimitError(limit.group(2), limit.group(1))
    match = re.search(r"cepbook\.errors\.(\w+): (.+(?:\n\s+hint: .+)?)", failure)
    if match is not None:
        return (SnapshotError if match.group(1) == "SnapshotError" else EventError)(format_clock_error(match.group(2)))
    if re.search(r"STATE_STORE_(VALUE|COLUMN_FAMILY)_SCHEMA_(NOT_COMPATIBLE|INCOMPATIBLE)", failure) is not None:
        return SnapshotError(f"the checkpoint {OUTDATED_STATE}{RESTART_HINT}")
    if re.search(r"arrow\.(memory\.OutOfMemory|vector\.util\.OversizedAllocation)Exception", failure) is not None:
        return UsageError(_TOO_LARGE)
    files = unreadable_files_error("what the events are in", failure)
    if files is not None:
        return files
    module = re.search(r"ModuleNotFoundError: No module named '([^']+)'", failure)
    return None if module is None else missing_module_error(module.group(1), "a registered function")


_TOO_LARGE = """the events that are sent to a task at once do not fit into memory
  hint: send fewer: session.conf.set('spark.sql.execution.arrow.maxRecordsPerBatch', '100')"""


def missing_module_error(module: str, source: str) -> UsageError:
    """Return the error for a `module` that Spark's workers lack: one that `source` comes from, or that cepbook itself
    needs.
    """
    if module.partition(".")[0] in ("cepbook", "pyarrow", "numpy", "sortedcontainers", "croniter"):
        return UsageError(
            f"Spark's workers have no module `{module}`\n  hint: install cepbook where they run; the variable "
            "PYSPARK_PYTHON (or spark.pyspark.python) says which Python that is"
        )
    top = module.partition(".")[0]
    return UsageError(
        f"Spark's workers have no module `{module}`, which {source} comes from\n"
        f"  hint: install it where they run, or send it: spark.addArtifact('{top}.py', pyfile=True)"
    )
