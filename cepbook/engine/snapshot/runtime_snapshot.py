"""Snapshot of a whole runtime, and a new runtime from a snapshot.

The document of a snapshot (`file_format` packs it):

============  ==========================================================================================
cepbook       the version that wrote it
fingerprint   of the generated code and its constants: state fits only the program that it was saved with
config, now   the configuration and the time of the clock
functions     registered functions: name, types of result and parameters, kind
types         event types defined from Python
variables     those defined from Python: name, type, whether it is constant, value from outside
given         the nodes of these values (see `value_graph`)
modules       deployments in order: id, text, names of the statements, dialect, settings
parts, classes, nodes   the tables of `value_graph`
state         parts that hold state: path, and the value of each saved field
extra         further plain data of the caller: for a workbench its cells, feeds, places of live sources, events
============  ==========================================================================================

Timers are state like any other: entries of queues that name states, in the order in which they were armed. So
everything due at one instant happens in the same order after a restart.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

from cepbook.engine.config import Config
from cepbook.engine.dispatch.turn import Turn
from cepbook.engine.snapshot.file_format import (
    WRITTEN_BY,
    SnapshotReader,
    garbage_collection_paused,
    pack_document,
    unpack_document,
)
from cepbook.engine.snapshot.runtime_parts import RuntimeParts, runtime_parts
from cepbook.engine.snapshot.value_graph import GraphReader, GraphWriter, UnsavableValue
from cepbook.errors import CompileError, SnapshotError, UsageError
from cepbook.lang.plan.catalog import EventType, FunctionType
from cepbook.lang.syntax.source_text import SourceText, dialect_of, settings_of
from cepbook.lang.types import Type

R = TypeVar("R")
Functions = Mapping[str, Callable[..., Any]]


def runtime_document(runtime: Any, extra: Any = None) -> dict[str, Any]:
    """Return a runtime between two events as JSON. Errors: SnapshotError for a value that cannot be saved."""
    runtime.turn.check()
    refuse_within_turn()
    parts = runtime_parts(runtime)
    variable_values = GraphWriter(lambda value: None)
    document = {
        "cepbook": WRITTEN_BY,
        "fingerprint": parts.fingerprint,
        "config": asdict(runtime.config),
        "now": runtime.now,
        "functions": [[name, function_data(runtime.catalog.functions[name])] for name in runtime.functions],
        "types": _types(runtime),
        "variables": _variables(runtime, variable_values),
        "given": variable_values.nodes,
        "modules": [_module(d) for d in runtime.deployments.values()],
    }
    writer = GraphWriter(parts.path)
    state = []
    for path, runtime_part in parts.live.items():
        try:
            state.append([path, {name: writer.value(getattr(runtime_part, name)) for name in runtime_part.SAVED}])
        except UnsavableValue as unknown:
            raise SnapshotError(f"{_owner(parts, path)} holds {unknown}, which cannot be saved") from None
    try:
        extra_data = writer.value(extra)
    except UnsavableValue as unknown:
        raise unsavable_row(unknown) from None
    graph = {"parts": writer.parts, "classes": writer.classes, "nodes": writer.nodes}
    return {**document, **graph, "state": state, "extra": extra_data}


def unsavable_row(unknown: UnsavableValue) -> SnapshotError:
    """Return the error for a value in the extra data."""
    return SnapshotError(f"a feed, or a live source, holds {unknown}, which cannot be saved")


def save_runtime(runtime: Any) -> bytes:
    """Return a runtime as a file. Errors: SnapshotError for a value that cannot be saved."""
    with garbage_collection_paused():
        return pack_document(runtime_document(runtime))


def restore_runtime(make: Callable[..., R], snapshot: SnapshotReader, functions: Functions) -> tuple[R, Any]:
    """Return the runtime of a snapshot and its `extra`. `make` creates an empty one from a configuration and a `start`.

    Errors: SnapshotError if it is damaged, needs other functions, or has another program here.
    """
    with garbage_collection_paused():
        return _restored(make, snapshot.document(), functions)


def _restored(make: Callable[..., R], document: Mapping[str, Any], functions: Functions) -> tuple[R, Any]:
    if "modules" not in document:
        raise SnapshotError("this is the snapshot of one partition")
    with report_damage():
        runtime = make(_config(document), start=document["now"])
        _register(runtime, document, functions)
        _deploy(runtime, document)
        return runtime, _filled(runtime, document)


def restore_state(runtime: Any, data: bytes) -> None:
    """Set the state of a runtime with the modules of a snapshot. Errors: SnapshotError as `restore_runtime`."""
    with garbage_collection_paused():
        document = unpack_document(data)
        if "modules" not in document:
            raise SnapshotError("this is the snapshot of one partition")
        with report_damage():
            _filled(runtime, document)


def _config(document: Mapping[str, Any]) -> Config:
    """Return the configuration of a snapshot. Errors: SnapshotError for a setting that this version does not have."""
    unknown = sorted(set(document["config"]) - {field.name for field in fields(Config)})
    if unknown:
        raise SnapshotError(f"this version of cepbook has no setting {', '.join(unknown)}")
    return Config(**document["config"])


def _register(runtime: Any, document: Mapping[str, Any], functions: Functions) -> None:
    """Register the functions that the modules may call. Errors: SnapshotError naming missing ones."""
    missing = [name for name, _ in document["functions"] if name not in functions]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        raise SnapshotError(f"the snapshot needs Python functions that are not registered: {names}")
    for name, returns in document["functions"]:
        runtime.register_function(name, functions[name], returns=function_from(returns))


def _filled(runtime: Any, document: Mapping[str, Any]) -> Any:
    parts = RuntimeParts(runtime)
    check_fingerprint(parts, document)
    reader = GraphReader(document["nodes"], document["classes"], [parts.find(path) for path in document["parts"]])
    if [path for path, _ in document["state"]] != list(parts.live):
        raise SnapshotError("the snapshot has other parts than this version of cepbook")
    for path, values in document["state"]:
        runtime_part = parts.live[path]
        for name in runtime_part.SAVED:
            before, value = getattr(runtime_part, name), reader.value(values[name])
            if isinstance(before, deque):  # a queue that other objects refer to
                before.clear()
                before.extend(value)
            else:
                setattr(runtime_part, name, value)
    for runtime_part in parts.live.values():
        if hasattr(runtime_part, "resumed"):
            runtime_part.resumed()
    runtime.rewired()
    return reader.value(document["extra"])


def refuse_within_turn() -> None:
    """Errors: SnapshotError in a listener or function, because some statements have not seen the event yet."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if "__source__" in frame.f_globals or frame.f_globals.get("__name__") == Turn.__module__:
            raise SnapshotError("a snapshot can only be made between two events, not in a listener or function")


def check_fingerprint(parts: RuntimeParts, document: Mapping[str, Any]) -> None:
    """Errors: SnapshotError if the state of a document belongs to another program."""
    if parts.fingerprint != document["fingerprint"]:
        raise SnapshotError(
            f"the snapshot was made by cepbook {document['cepbook']}, whose code for these modules is another one "
            "than here; its state would not fit\n  hint: load it with the version that made it"
        )


@contextmanager
def report_damage() -> Iterator[None]:
    """Within the block, turn the consequences of an invalid document into a SnapshotError."""
    try:
        yield
    except SnapshotError:
        raise
    except Exception as error:
        raise SnapshotError(f"the snapshot is damaged: {type(error).__name__}: {error}") from error


def _module(deployment: Any) -> list[Any]:
    text = deployment.source
    names = [statement.name for statement in deployment.plan.statements]
    return [deployment.id, str(text), names, dialect_of(text), dict(settings_of(text))]


def _types(runtime: Any) -> list[Any]:
    from_epl = {name for deployment in runtime.deployments.values() for name in deployment.event_types}
    return [event_type_data(declared) for name, declared in runtime.catalog.event_types.items() if name not in from_epl]


def _variables(runtime: Any, writer: GraphWriter) -> list[Any]:
    from_epl = {name for deployment in runtime.deployments.values() for name in deployment.variables}
    entries: list[Any] = []
    for name, variable in runtime.catalog.variables.items():
        if name not in from_epl:
            try:
                value = writer.value(runtime.variables[name].given)
            except UnsavableValue as unknown:
                raise SnapshotError(f"variable `{name}` holds {unknown}, which cannot be saved") from None
            entries.append([name, type_data(variable.type), variable.constant, value])
    return entries


def _owner(parts: RuntimeParts, path: str) -> str:
    for prefix in (path, *(path[:i] for i, char in reversed(list(enumerate(path))) if char == ".")):
        runtime_part = parts.live.get(prefix)
        if runtime_part is not None and hasattr(runtime_part, "name"):
            return f"{type(runtime_part).__name__.lower()} `{runtime_part.name}`"
    return "the runtime"


def _deploy(runtime: Any, document: Mapping[str, Any]) -> None:
    """Define and deploy a snapshot's modules, without evaluating anything: their state follows."""
    runtime.services.restoring = True
    for data in document["types"]:
        runtime.define(event_type_from(data))
    reader = GraphReader(document["given"])
    for name, of, constant, value in document["variables"]:
        runtime.define_variable(name, type_from(of), reader.value(value), constant=constant)
    for id_, source, names, *dialect in document["modules"]:
        try:
            plan = runtime.compile(SourceText(source, *dialect))
            same = [replace(s, name=name) for s, name in zip(plan.statements, names, strict=True)]
            runtime.deploy(replace(plan, statements=tuple(same)), deployment_id=id_)
        except (CompileError, UsageError) as error:
            raise SnapshotError(f"module `{id_}` of the snapshot cannot be deployed here: {error}") from error
    runtime.services.restoring = False


def type_data(type_: Type | None) -> Any:
    """Return a type as a list: name, element type, event type, columns, primitive, dated."""
    if type_ is None:
        return None
    columns = None if type_.fields is None else [[name, type_data(column_type)] for name, column_type in type_.fields]
    return [type_.name, type_data(type_.of), type_.event, columns, type_.primitive, type_.dated]


def type_from(data: Any) -> Type:
    """Return the type of `type_data`."""
    name, of, event, columns, *flags = data
    fields = None if columns is None else tuple((column, type_from(saved)) for column, saved in columns)
    return Type(name, None if of is None else type_from(of), event, fields, *flags)


def function_data(function: FunctionType) -> Any:
    """Return the type of a function as a list."""
    parameters = None if function.parameters is None else [type_data(parameter) for parameter in function.parameters]
    flags = [function.kind, function.optional, function.clocked]
    return [type_data(function.returns), parameters, list(function.nullable), *flags]


def function_from(data: Any) -> FunctionType:
    """Return the function type of `function_data`."""
    returns, parameters, nullable, kind, optional, clocked = data
    parameter_types = None if parameters is None else tuple(map(type_from, parameters))
    return FunctionType(type_from(returns), parameter_types, tuple(nullable), kind, optional, clocked)


def event_type_data(event_type: EventType) -> dict[str, Any]:
    """Return an event type as a dict."""
    return {
        "name": event_type.name,
        "properties": [[name, type_data(of)] for name, of in event_type.properties.items()],
        "supertypes": list(event_type.supertypes),
        "time": event_type.time_property,
        "end": event_type.end_time_property,
        "times": sorted(event_type.times),
    }


def event_type_from(data: Mapping[str, Any]) -> EventType:
    """Return the event type of `event_type_data`."""
    properties = {name: type_from(of) for name, of in data["properties"]}
    times = frozenset(data.get("times", ()))
    return EventType(data["name"], properties, tuple(data["supertypes"]), data["time"], data["end"], times=times)
