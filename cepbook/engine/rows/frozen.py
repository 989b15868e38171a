"""Arrays, maps and events as keys: frozen by content, and back again."""

from __future__ import annotations

from cepbook.lang.types import Type


class FrozenList(tuple[object, ...]):
    """A list as a key."""


class FrozenDict(tuple[object, ...]):
    """A map or event as a key: its items in order."""


def is_hashable(type_: Type) -> bool:
    """Whether values of the type are keys as they are."""
    return type_.name not in ("array", "object", "map", "event")


def hashable(value: object) -> object:
    """A key with the same identity as `value`: arrays and maps by content."""
    if isinstance(value, list):
        return FrozenList(hashable(v) for v in value)
    if isinstance(value, dict):
        return FrozenDict((k, hashable(v)) for k, v in value.items())
    return value


def thawed(value: object) -> object:
    """The value that `hashable` made a key of."""
    if isinstance(value, FrozenList):
        return [thawed(v) for v in value]
    if isinstance(value, FrozenDict):
        return {k: thawed(v) for k, v in value}  # type: ignore[misc, has-type]
    return value
