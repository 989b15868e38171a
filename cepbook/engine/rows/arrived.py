"""Events that know their type, for ``typeof`` of a stream: the type with which they arrived, not the declared one.

An event is the dict that the caller sent, which tells nothing of its type. Where a statement asks, the runtime hands on
a copy that does; it is a dict like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TypedEvent(dict[str, Any]):
    """An event with the name of the type that it arrived with."""

    __slots__ = ("type",)

    def __init__(self, type_name: str, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self.type = type_name


def event_type(event: Any, declared: str) -> str | None:
    """The type of an event, `declared` if it did not arrive by itself; None for none."""
    if event is None:
        return None
    return event.type if isinstance(event, TypedEvent) else declared
