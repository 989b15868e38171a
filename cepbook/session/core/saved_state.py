"""Saving and loading a workbench (the format: `cepbook.engine.snapshot`), and its initial state."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path as File
from typing import Any

from cepbook.argument_checks import short_repr
from cepbook.display import format_count
from cepbook.engine.runtime import Runtime
from cepbook.engine.snapshot.runtime_snapshot import report_damage, restore_runtime, save_runtime
from cepbook.errors import UsageError
from cepbook.feeds import Feed
from cepbook.lang.plan.catalog import FunctionType
from cepbook.session.core.cell_deployments import CellRun, CellRuns
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.io.waiting_events import plain_offsets
from cepbook.session.io.writers import take_mode

Path = str | PathLike[str]


def initial_runtime(runtime: Runtime, start: int) -> Runtime:
    """Return a runtime with the same functions, event types and statements in which nothing has happened, its clock at
    `start`.

    Variables have the values that were assigned from outside.
    """
    fresh = Runtime(runtime.config, start=start)
    catalog, deployments = runtime.catalog, runtime.deployments
    for name, fn in runtime.functions.items():
        fresh.register_function(name, fn, returns=catalog.functions[name])
    from_epl = {name for deployment in deployments.values() for name in deployment.event_types}
    for event_type in catalog.event_types.values():
        if event_type.name not in from_epl:
            fresh.define(event_type)
    assigned = {name: (type_, value, constant) for name, type_, value, constant in runtime.external_variables()}
    declared_in_epl = {name for deployment in deployments.values() for name in deployment.variables}
    for name, (type_, value, constant) in assigned.items():
        if name not in declared_in_epl:
            fresh.define_variable(name, type_, value, constant=constant)
    for deployment in deployments.values():
        fresh.deploy(deployment.plan, deployment_id=deployment.id)
        for name in deployment.variables:
            # windows with an expression see an assignment even of the same value
            if name in assigned and fresh.get_variable(name) != assigned[name][1]:
                fresh.set_variable(name, assigned[name][1])
    return fresh


def snapshot_bytes(
    engine: EngineHandle,
    start: int,
    deployed: Mapping[str, CellRun],
    *,
    feeds: bool = False,
    key: bytes | str | None = None,
) -> bytes:
    """Return the workbench as a snapshot, signed with `key`. Raises SnapshotError for a value that cannot be saved."""
    cells = [[id_, cell.cell, sorted(cell.names), cell.text] for id_, cell in deployed.items()]
    feed_states = {name: engine.feed(name).saved() for name in engine.runtime.statements} if feeds else {}
    offsets = plain_offsets(engine.offsets)
    waiting = [[*event] for event in engine.waiting]
    extra = {"start": start, "cells": cells, "feeds": feed_states, "offsets": offsets, "waiting": waiting}
    return save_runtime(engine.runtime, extra, _key_bytes(key))


def missing_rows_text(engine: EngineHandle) -> str:
    """Return how many rows of feeds a file lacks, by statement, and what helps; empty if it lacks none."""
    feeds = {name: engine.feed(name) for name in engine.runtime.statements}
    unsaved = {name: feed.total_insert + feed.total_remove - feed.rows for name, feed in feeds.items()}
    missing = {name: count for name, count in unsaved.items() if count}
    if not missing:
        return ""
    names = ", ".join(f"{count:,} of `{name}`" for name, count in missing.items())
    statement = next(iter(missing))
    return (
        f"the earlier rows of {format_count(len(missing), 'statement')}: {names}. Only rows in memory are saved\n"
        f"  hint: `cep.export({statement!r}, FILE, changes=True)` writes all that there are; "
        "`cep.feed_capacity = None` keeps all rows in memory from now on"
    )


def _key_bytes(key: bytes | str | None) -> bytes | None:
    if key is not None and (not isinstance(key, bytes | str) or not key):
        raise UsageError(f"`key` is bytes or text with at least one character, not {short_repr(key)}")
    return key.encode() if isinstance(key, str) else key


def restore_workbench_runtime(
    data: bytes, functions: Mapping[str, tuple[Callable[..., Any], FunctionType]], key: bytes | str | None = None
) -> tuple[Runtime, Any]:
    """Return a snapshot's runtime, with all of `functions` registered, and its extra data, which is valid.

    Raises SnapshotError, also for a file that is not signed with `key`.
    """
    callables = {name: fn for name, (fn, _) in functions.items()}
    runtime, extra = restore_runtime(Runtime, data, callables, _key_bytes(key))
    with report_damage():
        _check_extra(runtime, extra)
    for name, (fn, returns) in functions.items():
        if name not in runtime.functions:
            runtime.register_function(name, fn, returns=returns)
    return runtime, extra


def _check_extra(runtime: Runtime, extra: Mapping[str, Any]) -> None:
    """Raise what invalid extra data leads to. `resume_runtime` replaces a workbench with it and must not fail."""
    if type(extra["start"]) is not int:
        raise TypeError("the start of the clock is no number")
    for context in runtime.catalog.contexts:
        if not all(type(partition["id"]) is int for partition in runtime.partitions(context)):
            raise TypeError(f"a partition of context `{context}` has no number")
    for name, state in extra["feeds"].items():
        feed = Feed()
        runtime.statement(name).add_sink(feed)
        try:
            feed.load(state)
            feed.snapshot()
        finally:
            runtime.statement(name).remove_sink(feed)
    for id_, cell, names, text in extra["cells"]:
        if not (id_ in runtime.deployments and isinstance(cell, str | None) and isinstance(text, str)):
            raise TypeError(f"{short_repr(id_)} is no cell")
        frozenset(names)
    for type_name, source, partition, _ in extra.get("offsets", ()):
        hash((type_name, source, partition))
    for time, type_name, event, number in extra.get(
        "waiting", ()
    ):  # a live source checks them again when it takes over
        if not (type(time) is type(number) is int and type(type_name) is str and type(event) is dict):
            raise TypeError(f"an event of {short_repr(type_name)} that waits is none")


def resume_runtime(engine: EngineHandle, runtime: Runtime, extra: Mapping[str, Any]) -> CellRuns:
    """Continue with a restored runtime and the extra data saved with it. Return the deployments of its cells."""
    engine.restart(runtime)
    engine.event_log.forget_past()
    engine.loads += 1
    for type_name, source, partition, offset in extra.get("offsets", ()):  # files of earlier versions have none
        engine.offsets[type_name, source, partition] = offset
    engine.buffers.restore(extra.get("waiting", ()))
    for name, feed in extra["feeds"].items():
        engine.feed(name).load(feed)
    return CellRuns({id_: CellRun(cell, frozenset(names), text) for id_, cell, names, text in extra["cells"]})


def write_file(path: Path, data: bytes) -> None:
    """Write a file completely or not at all. Raises UsageError with the reason of the operating system."""
    target = File(path).expanduser()
    try:
        target = File(os.path.realpath(target)) if target.is_symlink() else target
        name = str(target.with_name(f".{target.name}.{secrets.token_hex(6)}"))
        try:
            with open(name, "xb") as file:
                take_mode(name, target)
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
    """Raise UsageError if writing `what`, a file that begins with `start`, would replace another kind of file."""
    try:
        with File(path).expanduser().open("rb") as file:
            foreign = file.read(len(start)) not in (b"", start)
    except (OSError, ValueError):  # there is no such file, or `write_file` reports the problem
        return
    if foreign:
        raise UsageError(f"`{path}` is there already and is no {what}\n  hint: give another name; {remedy} replaces it")


def read_file(path: Path) -> bytes:
    """Return the bytes of a file. Raises UsageError with the reason of the operating system."""
    try:
        return File(path).expanduser().read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(f"`{path}` cannot be read: {getattr(error, 'strerror', None) or error}") from error
