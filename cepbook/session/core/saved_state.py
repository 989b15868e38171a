"""The state of a workbench: the first one, and files that hold the present one (`cepbook.engine.snapshot`)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path as File
from typing import Any

from cepbook.engine.runtime import Runtime
from cepbook.engine.snapshot.runtime_snapshot import restore_runtime, save_runtime
from cepbook.errors import UsageError
from cepbook.lang.plan.catalog import FunctionType
from cepbook.session.core.cell_deployments import CellDeployment
from cepbook.session.core.engine_handle import EngineHandle

Path = str | PathLike[str]


def initial_runtime(runtime: Runtime, start: int) -> Runtime:
    """A runtime of the same functions, event types and statements, nothing having happened, its clock at `start`.

    Variables have the values that they were given from outside.
    """
    fresh = Runtime(runtime.config, start=start)
    catalog, deployments = runtime.catalog, runtime.deployments
    for name, fn in runtime.functions.items():
        fresh.register_function(name, fn, returns=catalog.functions[name])
    from_epl = {name for deployment in deployments.values() for name in deployment.event_types}
    for event_type in catalog.event_types.values():
        if event_type.name not in from_epl:
            fresh.define(event_type)
    given = {name: (of, value, constant) for name, of, value, constant in runtime.external_variables()}
    of_epl = {name for deployment in deployments.values() for name in deployment.variables}
    for name, (of, value, constant) in given.items():
        if name not in of_epl:
            fresh.define_variable(name, of, value, constant=constant)
    for deployment in deployments.values():
        fresh.deploy(deployment.plan, deployment_id=deployment.id)
        for name in deployment.variables:
            if name in given and fresh.get_variable(name) != given[name][1]:  # to windows, any assignment is news
                fresh.set_variable(name, given[name][1])
    return fresh


def snapshot_bytes(
    engine: EngineHandle, start: int, owned: Mapping[str, CellDeployment], *, feeds: bool = False
) -> bytes:
    """The workbench as a snapshot. Errors: SnapshotError for a value that cannot be saved."""
    cells = [[id_, each.cell, sorted(each.names), each.text] for id_, each in owned.items()]
    held = {name: engine.feed(name).saved() for name in engine.runtime.statements} if feeds else {}
    return save_runtime(engine.runtime, {"start": start, "cells": cells, "feeds": held})


def restore_workbench_runtime(
    data: bytes, functions: Mapping[str, tuple[Callable[..., Any], FunctionType]]
) -> tuple[Runtime, Any]:
    """The runtime of a snapshot, which knows all of `functions`, and the ``extra``. Errors: SnapshotError."""
    runtime, extra = restore_runtime(Runtime, data, {name: fn for name, (fn, _) in functions.items()})
    for name, (fn, returns) in functions.items():
        if name not in runtime.functions:
            runtime.register_function(name, fn, returns=returns)
    return runtime, extra


def resume_runtime(engine: EngineHandle, runtime: Runtime, extra: Mapping[str, Any]) -> dict[str, CellDeployment]:
    """Go on with a runtime that was restored and the ``extra`` that was saved with it; what its cells deployed."""
    engine.restart(runtime)
    engine.arrivals.forget()
    for name, feed in extra["feeds"].items():
        engine.feed(name).load(feed)
    return {id_: CellDeployment(cell, frozenset(names), text) for id_, cell, names, text in extra["cells"]}


def write_file(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all. Errors: UsageError with the reason of the system."""
    target = File(path).expanduser()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            File(name).unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise UsageError(f"`{path}` cannot be written: {getattr(error, 'strerror', None) or error}") from error


def refuse_foreign(path: Path, start: bytes, what: str, remedy: str) -> None:
    """Raise UsageError where `what`, a kind of file that begins with `start`, would replace a file of another kind."""
    try:
        with File(path).expanduser().open("rb") as file:
            foreign = file.read(len(start)) not in (b"", start)
    except (OSError, ValueError):  # nothing is there, or `write_file` tells what is wrong
        return
    if foreign:
        raise UsageError(f"`{path}` is there already and is no {what}\n  hint: give another name; {remedy} replaces it")


def read_file(path: Path) -> bytes:
    """The bytes of a file. Errors: UsageError with the reason of the system."""
    try:
        return File(path).expanduser().read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(f"`{path}` cannot be read: {getattr(error, 'strerror', None) or error}") from error
