"""What every node of the tree has, and annotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from cepbook.errors import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Node:
    span: Span = field(default=NOWHERE, kw_only=True, compare=False)


def walk(value: object) -> Iterator[Node]:
    """All nodes of a tree, parents first; `value` may also be a tuple of nodes, plain values have none."""
    if isinstance(value, tuple):
        for item in value:
            yield from walk(item)
    elif isinstance(value, Node):
        yield value
        for one in fields(value):
            yield from walk(getattr(value, one.name))


@dataclass(frozen=True, slots=True)
class Annotation(Node):
    """``@Name('x')``, ``@Hint('…')``, ``@Priority(10)``, ``@x(a=1, b={…})``. `value` for one unnamed value."""

    name: str
    value: object = None
    values: tuple[tuple[str, object], ...] = ()
