"""Registered functions on their way to Spark's workers: what cannot go there is told before a job starts."""

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

_THERE = frozenset(sys.stdlib_module_names) | {"__main__", "cepbook", "numpy", "pandas", "pyarrow", "pyspark"}
_ANSWER = "name string, module string, reason string"
_found: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()  # modules that workers have


def shipped_functions(runtime: Runtime, text: str) -> dict[str, tuple[Callable[..., Any], Any]]:
    """The registered functions that `text` may call. Errors: UsageError for one that cannot travel to the tasks."""
    found: dict[str, tuple[Callable[..., Any], Any]] = {}
    for name, function in runtime.functions.items():
        if re.search(rf"\b{re.escape(name)}\b", text) is not None:
            _packed(name, function)
            found[name] = (function, runtime.catalog.functions[name])
    return found


def check_functions_load(session: SparkSession, functions: Mapping[str, tuple[Callable[..., Any], Any]]) -> None:
    """Let a worker unpack the functions that come from modules, once for each module of a session.

    Errors: UsageError for a module that it does not have, and for what it cannot unpack.
    """
    known = _found.setdefault(session, set())
    packed = {name: _packed(name, function) for name, (function, _) in functions.items()}
    modules = {name: modules_to_import(data) - known for name, data in packed.items()}
    asked = {name: packed[name] for name, wanted in modules.items() if wanted}
    if not asked:
        return
    answers = session.range(0, 1, 1, 1).mapInArrow(partial(report_unloadable, asked), _ANSWER)
    for name, module, reason in run_action(answers.collect):
        if module:
            raise missing_module_error(module, f"the function `{name}`")
        raise UsageError(f"the function `{name}` does not arrive at Spark's workers: {reason}")
    known.update(*modules.values())


def modules_to_import(data: bytes) -> set[str]:
    """The modules that unpacking needs, but for those that every worker has; others than these may be among them."""
    texts = [argument for _, argument, _ in pickletools.genops(data) if isinstance(argument, str)]
    names = {name for text in texts for name in text.split()}
    return {name for name in names if name in sys.modules and name.partition(".")[0] not in _THERE}


def report_unloadable(asked: Mapping[str, bytes], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: a row for each function that cannot be unpacked here, with the module that is missing."""
    for _ in batches:
        pass
    failed: list[dict[str, str]] = []
    for name, data in asked.items():
        try:
            pickle.loads(data)
        except ModuleNotFoundError as missing:
            failed.append({"name": name, "module": missing.name or "", "reason": str(missing)})
        except Exception as wrong:  # noqa: BLE001  whatever its module does as it is imported
            failed.append({"name": name, "module": "", "reason": f"{type(wrong).__name__}: {wrong}"})
    kinds = pa.schema([(column, pa.string()) for column in ("name", "module", "reason")])
    yield pa.RecordBatch.from_pylist(failed, kinds)


def _packed(name: str, function: Callable[..., Any]) -> bytes:
    try:
        data: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        return data
    except Exception as wrong:  # whatever the objects that it holds raise
        raise UsageError(
            f"the function `{name}` cannot be sent to Spark's workers: {wrong}\n"
            "  hint: make what it needs (locks, connections, sessions) inside the function"
        ) from wrong
