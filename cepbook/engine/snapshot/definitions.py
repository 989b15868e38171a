"""Definitions from Python as plain data: event types, and types of variables and functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cepbook.lang.plan.catalog import EventType, FunctionType
from cepbook.lang.types import Type


def type_data(type_: Type | None) -> Any:
    """Return a type as a list: name, element type, event type, columns."""
    if type_ is None:
        return None
    columns = None if type_.fields is None else [[name, type_data(column_type)] for name, column_type in type_.fields]
    return [type_.name, type_data(type_.of), type_.event, columns]


def type_from(data: Any) -> Type:
    """Return the type of `type_data`."""
    name, of, event, columns = data
    fields = None if columns is None else tuple((column, type_from(each)) for column, each in columns)
    return Type(name, None if of is None else type_from(of), event, fields)


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
    }


def event_type_from(data: Mapping[str, Any]) -> EventType:
    """Return the event type of `event_type_data`."""
    properties = {name: type_from(of) for name, of in data["properties"]}
    return EventType(data["name"], properties, tuple(data["supertypes"]), data["time"], data["end"])
