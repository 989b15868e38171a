"""What every node of the tree has, and annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from cepbook.errors import NO_SPAN, Span


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    span: Span = field(default=NO_SPAN, kw_only=True, compare=False)


def walk(value: object) -> Iterator[SyntaxNode]:
    """All nodes of a tree, parents first; `value` may also be a tuple of nodes, plain values have none."""
    waiting = [value]  # no recursion: a sum of thousands is as deep
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple):
            waiting += reversed(one)
        elif isinstance(one, SyntaxNode):
            yield one
            waiting += (getattr(one, each.name) for each in reversed(fields(one)))


def map_nodes(value: Any, change: Callable[[Any], Any]) -> Any:
    """A tree with `change` applied to all its nodes, children first; what does not change is kept as it is."""
    if isinstance(value, tuple):
        made = tuple(map_nodes(item, change) for item in value)
        return value if all(a is b for a, b in zip(made, value, strict=True)) else made
    if not isinstance(value, SyntaxNode):
        return value
    parts = {}
    for one in fields(value):
        part = getattr(value, one.name)
        new = map_nodes(part, change)
        if new is not part:
            parts[one.name] = new
    return change(replace(value, **parts) if parts else value)


def replace_nodes(node: Any, rule: Callable[[object], object | None]) -> Any:
    """A tree in which `rule`, asked of parents first, has replaced what it gives something for, with all within."""
    if isinstance(node, tuple):
        return tuple(replace_nodes(each, rule) for each in node)
    if not isinstance(node, SyntaxNode):
        return node
    found = rule(node)
    if found is not None:
        return found
    changed = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, (tuple, SyntaxNode)):
            made = replace_nodes(value, rule)
            if made is not value:
                changed[each.name] = made
    return replace(node, **changed) if changed else node


@dataclass(frozen=True, slots=True)
class Annotation(SyntaxNode):
    """``@Name('x')``, ``@Hint('…')``, ``@Priority(10)``, ``@x(a=1, b={…})``. `value` for one unnamed value."""

    name: str
    value: object = None
    values: tuple[tuple[str, object], ...] = ()
