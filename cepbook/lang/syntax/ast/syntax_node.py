"""The base of all nodes of a syntax tree, its traversals, and annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from cepbook.errors import NO_SPAN, Span


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    span: Span = field(default=NO_SPAN, kw_only=True, compare=False)


_FIELD_NAMES: dict[type[SyntaxNode], tuple[str, ...]] = {}  # by class, without the span


def _field_names(kind: type[SyntaxNode]) -> tuple[str, ...]:
    names = _FIELD_NAMES.get(kind)
    if names is None:
        names = _FIELD_NAMES[kind] = tuple(own.name for own in fields(kind) if own.name != "span")
    return names


def walk(value: object) -> Iterator[SyntaxNode]:
    """Yield all nodes of a tree, parents first; `value` may also be a tuple of nodes."""
    pending = [value]  # a loop, because the tree of a long sum is too deep for recursion
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            pending += reversed(node)
        elif isinstance(node, SyntaxNode):
            yield node
            pending += [getattr(node, name) for name in reversed(_field_names(type(node)))]


def map_nodes(value: Any, change: Callable[[Any], Any]) -> Any:
    """Replace every node of a tree by `change(node)`, children first; unchanged subtrees stay the same objects."""
    if isinstance(value, tuple):
        items = tuple(map_nodes(item, change) for item in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if not isinstance(value, SyntaxNode):
        return value
    changes = {}
    for name in _field_names(type(value)):
        child = getattr(value, name)
        new = map_nodes(child, change)
        if new is not child:
            changes[name] = new
    return change(replace(value, **changes) if changes else value)


def replace_nodes(node: Any, rule: Callable[[object], object | None]) -> Any:
    """Replace every node for which `rule` returns a node, parents first; replaced nodes are not entered."""
    if isinstance(node, tuple):
        return tuple(replace_nodes(field_, rule) for field_ in node)
    if not isinstance(node, SyntaxNode):
        return node
    replacement = rule(node)
    if replacement is not None:
        return replacement
    changed = {}
    for name in _field_names(type(node)):
        value = getattr(node, name)
        if isinstance(value, (tuple, SyntaxNode)):
            new = replace_nodes(value, rule)
            if new is not value:
                changed[name] = new
    return replace(node, **changed) if changed else node


@dataclass(frozen=True, slots=True)
class Annotation(SyntaxNode):
    """``@Name('x')``, ``@Hint('…')``, ``@Priority(10)``, ``@x(a=1, b={…})``. `value` for one unnamed value."""

    name: str
    value: object = None
    values: tuple[tuple[str, object], ...] = ()
