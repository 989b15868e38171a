"""Saving and loading a workbench (the format: `cepbook.engine.snapshot`), and its initial state."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path as File
from typing import Any, BinaryIO

from cepbook.argument_checks import short_repr
from cepbook.descriptors import to_disk
from cepbook.display import format_count
from cepbook.engine.runtime import Runtime
from cepbook.engine.snapshot.file_format import (
    SnapshotReader,
    garbage_collection_paused,
    pack_document,
    write_snapshot,
)
from cepbook.engine.snapshot.runtime_snapshot import report_damage, restore_runtime, runtime_document, unsavable_row
from cepbook.engine.snapshot.value_graph import GraphReader, GraphWriter, UnsavableValue
from cepbook.errors import UsageError
from cepbook.feed_segments import Segment, SpillFile
from cepbook.feeds import SPILL_LIMIT, Feed
from cepbook.lang.plan.catalog import FunctionType
from cepbook.lang.plan.expressions import Const
from cepbook.session.core.cell_deployments import CellRun, CellRuns
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.io.output.row_writer import take_mode
from cepbook.session.io.waiting_events import plain_offsets

Path = str | PathLike[str]


def initial_runtime(runtime: Runtime, start: int, values: Mapping[str, Any] | None = None) -> Runtime:
    """Return a runtime with the same functions, event types and statements in which nothing has happened, its clock at
    `start`.

    Variables have the `values` from the start, so that the sizes of windows follow them; others the values that were
    assigned from outside.
    """
    fresh = Runtime(runtime.config, start=start)
    catalog, deployments = runtime.catalog, runtime.deployments
    for name, fn in runtime.functions.items():
        fresh.register_function(name, fn, returns=catalog.functions[name])
    from_epl = {name for deployment in deployments.values() for name in deployment.event_types}
    for event_type in catalog.event_types.values():
        if event_type.name not in from_epl:
            fresh.define(event_type)
    declared_in_epl = {name for deployment in deployments.values() for name in deployment.variables}
    initial_values: dict[str, Const] = {}
    for name, type_, assigned, constant in runtime.external_variables():
        value = assigned if values is None else values.get(name, assigned)
        if name not in declared_in_epl:
            fresh.define_variable(name, type_, value, constant=constant)
        elif not constant:
            initial_values[name] = Const(type_, value)
    for deployment in deployments.values():
        statements = [statement.with_initial_values(initial_values) for statement in deployment.plan.statements]
        fresh.deploy(replace(deployment.plan, statements=tuple(statements)), deployment_id=deployment.id)
    return fresh


def snapshot_bytes(engine: EngineHandle, start: int, deployed: Mapping[str, CellRun], *, feeds: bool = False) -> bytes:
    """Return the workbench as a snapshot, with `feeds` also the rows of feeds that are in memory.

    Raises SnapshotError for a value that cannot be saved.
    """
    with garbage_collection_paused():
        return pack_document(_document(engine, start, deployed, _feed_states(engine) if feeds else {}))


def snapshot_with_files(
    engine: EngineHandle, start: int, deployed: Mapping[str, CellRun]
) -> tuple[bytes, dict[str, tuple[str, int]]]:
    """Return `snapshot_bytes` with feeds, and the path and size of their spill files at the same moment.

    Raises SnapshotError for a value that cannot be saved, OSError if the disk is full.
    """
    states, files = {}, {}
    with garbage_collection_paused():
        for name in engine.runtime.statements:
            states[name], file = engine.feed(name).saved_and_stored()
            if file is not None:
                files[name] = file
        return pack_document(_document(engine, start, deployed, states)), files


def save_workbench(
    path: Path,
    engine: EngineHandle,
    start: int,
    deployed: Mapping[str, CellRun],
    *,
    feeds: bool,
    key: bytes | str | None,
) -> None:
    """Write the workbench into a file, signed with `key`. With `feeds` the file has all rows of feeds that there are.

    Raises SnapshotError for a value that cannot be saved, and UsageError as `replacing`.
    """
    signing = _key_bytes(key)
    with replacing(path) as file, garbage_collection_paused():
        document = _document(engine, start, deployed, _feed_states(engine) if feeds else {})
        write_snapshot(file, document, _spilled_rows(engine) if feeds else (), signing)


def _feed_states(engine: EngineHandle) -> dict[str, Any]:
    return {name: engine.feed(name).saved() for name in engine.runtime.statements}


def _spilled_rows(engine: EngineHandle) -> Iterator[dict[str, Any]]:
    """Yield the rows that are in the spill files of feeds, as blocks of a snapshot."""
    for name in engine.runtime.statements:
        for segment in engine.feed(name).spilled():
            writer = GraphWriter(lambda value: None)
            try:
                yield {"rows": writer.value([name, *segment]), "nodes": writer.nodes}
            except UnsavableValue as unknown:
                raise unsavable_row(unknown) from None


def _document(
    engine: EngineHandle, start: int, deployed: Mapping[str, CellRun], feeds: Mapping[str, Any]
) -> dict[str, Any]:
    cells = [[id_, cell.cell, sorted(cell.names), cell.text] for id_, cell in deployed.items()]
    offsets = plain_offsets(engine.offsets)
    waiting = [[*event] for event in engine.waiting]
    extra = {"start": start, "cells": cells, "feeds": feeds, "offsets": offsets, "waiting": waiting}
    return runtime_document(engine.runtime, extra)


def missing_rows_text(engine: EngineHandle) -> str:
    """Return how many rows of feeds are lost, by statement, and what helps; empty if none is."""
    missing = {name: lost for name in engine.runtime.statements if (lost := engine.feed(name).lost)}
    if not missing:
        return ""
    names = ", ".join(f"{count:,} of `{name}`" for name, count in missing.items())
    statement = next(iter(missing))
    return (
        f"the earlier rows of {format_count(len(missing), 'statement')}: {names}. The feeds have lost them\n"
        f"  hint: `cep.feed_capacity = None` keeps all rows from now on, `cep.sink({statement!r}, FILE)` writes them"
    )


def _key_bytes(key: bytes | str | None) -> bytes | None:
    if key is not None and (not isinstance(key, bytes | str) or not key):
        raise UsageError(f"`key` is bytes or text with at least one character, not {short_repr(key)}")
    return key.encode() if isinstance(key, str) else key


def restore_workbench_runtime(
    snapshot: SnapshotReader, functions: Mapping[str, tuple[Callable[..., Any], FunctionType]]
) -> tuple[Runtime, Any]:
    """Return a snapshot's runtime, with all of `functions` registered, and its extra data, which is valid.

    Raises SnapshotError.
    """
    callables = {name: fn for name, (fn, _) in functions.items()}
    runtime, extra = restore_runtime(Runtime, snapshot, callables)
    with report_damage():
        _check_extra(runtime, extra)
        extra["spilled"] = _spilled(snapshot, runtime, extra["feeds"])
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
        _check_feed(runtime, name, state)
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


def _check_feed(runtime: Runtime, name: str, state: list[Any]) -> None:
    feed = Feed(None)
    runtime.statement(name).add_sink(feed)
    try:
        feed.load(state)
        feed.snapshot()
    finally:
        runtime.statement(name).remove_sink(feed)


def _spilled(snapshot: SnapshotReader, runtime: Runtime, feeds: Mapping[str, Any]) -> dict[str, SpillFile]:
    """Return the spill files of feeds with the rows in the blocks of a snapshot, which are valid."""
    files: dict[str, SpillFile] = {}
    for block in snapshot.blocks():
        name, *segment = GraphReader(block["nodes"]).value(block["rows"])
        names, counters, _ = feeds[name]
        _check_feed(runtime, name, [names, counters, [segment]])
        file = files.setdefault(name, SpillFile(SPILL_LIMIT))
        file.take(Segment(*segment))
        if file.deliveries > counters[-1]:
            raise ValueError(f"more rows of `{name}` than were delivered")
    return files


def resume_runtime(engine: EngineHandle, runtime: Runtime, extra: Mapping[str, Any]) -> CellRuns:
    """Continue with a restored runtime and the extra data saved with it. Return the deployments of its cells."""
    engine.restart(runtime)
    engine.event_log.forget_past()
    engine.loads += 1
    for type_name, source, partition, offset in extra.get("offsets", ()):  # files of earlier versions have none
        engine.offsets[type_name, source, partition] = offset
    engine.buffers.restore(extra.get("waiting", ()))
    for name, feed in extra["feeds"].items():
        engine.feed(name).load(feed, extra["spilled"].get(name))
    return CellRuns({id_: CellRun(cell, frozenset(names), text) for id_, cell, names, text in extra["cells"]})


def write_file(path: Path, data: bytes) -> None:
    """Write a file completely or not at all. Raises UsageError as `replacing`."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Within the block, write a file that replaces `path` at its end, unless an exception ends it.

    Raises UsageError with the reason of the operating system.
    """
    target = File(path).expanduser()
    try:
        target = File(os.path.realpath(target)) if target.is_symlink() else target
        name = str(target.with_name(f".{target.name}.{secrets.token_hex(6)}"))
        try:
            with open(name, "xb") as file:
                take_mode(name, target)
                yield file
                file.flush()
                to_disk(file.fileno())
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
    """Return the bytes of a file. Raises UsageError as `reading`."""
    with reading(path) as file:
        return file.read()


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Within the block, read a file. Raises UsageError with the reason of the operating system."""
    try:
        with File(path).expanduser().open("rb") as file:
            yield file
    except (OSError, ValueError) as error:
        raise UsageError(f"`{path}` cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_snapshot(file: BinaryIO, key: bytes | str | None = None) -> SnapshotReader:
    """Return the snapshot in a file. Raises SnapshotError, also for a file that is not signed with `key`."""
    return SnapshotReader(file, _key_bytes(key))
