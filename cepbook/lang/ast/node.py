"""What every node of the tree has, and annotations."""

from __future__ import annotations

from dataclasses import dataclass, field

from cepbook.errors import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Node:
    span: Span = field(default=NOWHERE, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class Annotation(Node):
    """``@Name('x')``, ``@Hint('…')``, ``@Priority(10)``, ``@x(a=1, b={…})``. `value` for one unnamed value."""

    name: str
    value: object = None
    values: tuple[tuple[str, object], ...] = ()
