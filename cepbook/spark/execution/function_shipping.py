"""Registered functions on their way to Spark's workers; one that cannot go there is refused before a job starts."""

from __future__ import annotations

import pickle
import pickletools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.spark.execution.spark_actions import missing_module_error, run_action

_PRESENT = frozenset(sys.stdlib_module_names) | {"__main__", "cepbook", "numpy", "pandas", "pyarrow", "pyspark"}
_ANSWER_COLUMNS = "name string, module string, reason string"
_modules_known: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()  # modules that workers have


def shipped_functions(runtime: Runtime, text: str) -> dict[str, tuple[Callable[..., Any], Any]]:
    """Return the registered functions that `text` may call. Errors: UsageError for one that cannot be sent to tasks."""
    functions: dict[str, tuple[Callable[..., Any], Any]] = {}
    for name, function in runtime.functions.items():
        if re.search(rf"\b{re.escape(name)}\b", text) is not None:
            _pickled(name, function)
            functions[name] = (function, runtime.catalog.functions[name])
    return functions


def check_functions_load(session: SparkSession, functions: Mapping[str, tuple[Callable[..., Any], Any]]) -> None:
    """Let a worker load the functions that come from modules, once per module and session.

    Errors: UsageError for a module that the worker lacks, and for a function that it cannot load.
    """
    known = _modules_known.setdefault(session, set())
    pickles = {name: _pickled(name, function) for name, (function, _) in functions.items()}
    modules = {name: modules_to_import(data) - known for name, data in pickles.items()}
    to_check = {name: pickles[name] for name, names in modules.items() if names}
    if not to_check:
        return
    answers = session.range(0, 1, 1, 1).mapInArrow(partial(report_unloadable, to_check), _ANSWER_COLUMNS)
    for name, module, reason in run_action(answers.collect):
        if module:
            raise missing_module_error(module, f"the function `{name}`")
        raise UsageError(f"Spark's workers cannot load the function `{name}`: {reason}")
    known.update(*modules.values())


def modules_to_import(data: bytes) -> set[str]:
    """Return the modules that unpickling imports, except those that every worker has; the answer may include others."""
    texts = [argument for _, argument, _ in pickletools.genops(data) if isinstance(argument, str)]
    names = {name for text in texts for name in text.split()}
    return {name for name in names if name in sys.modules and name.partition(".")[0] not in _PRESENT}


def report_unloadable(pickles: Mapping[str, bytes], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: return a row per function that cannot be loaded here, with the missing module."""
    for _ in batches:
        pass
    failed: list[dict[str, str]] = []
    for name, data in pickles.items():
        try:
            pickle.loads(data)
        except ModuleNotFoundError as missing:
            failed.append({"name": name, "module": missing.name or "", "reason": str(missing)})
        except Exception as wrong:  # noqa: BLE001  whatever its module does as it is imported
            failed.append({"name": name, "module": "", "reason": f"{type(wrong).__name__}: {wrong}"})
    kinds = pa.schema([(column, pa.string()) for column in ("name", "module", "reason")])
    yield pa.RecordBatch.from_pylist(failed, kinds)


def _pickled(name: str, function: Callable[..., Any]) -> bytes:
    try:
        data: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        return data
    except Exception as wrong:  # whatever the objects that it holds raise
        raise UsageError(
            f"the function `{name}` cannot be sent to Spark's workers: {wrong}\n"
            "  hint: create locks, connections and sessions inside the function"
        ) from wrong
