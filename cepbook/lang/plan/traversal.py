"""The one walk through a plan and the one transformation of it; a new plan node needs no word here.

What a node holds is found by its fields: nodes, expressions, and tuples of these, at any depth. Types of the catalog
that a plan refers to are no parts of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.plan_node import PlanNode

Node = TypeVar("Node", bound=PlanNode)
_NAMES: dict[type[PlanNode], tuple[str, ...]] = {}  # the fields of each class, but for the span


def _names(kind: type[PlanNode]) -> tuple[str, ...]:
    found = _NAMES.get(kind)
    if found is None:
        found = _NAMES[kind] = tuple(each.name for each in fields(kind) if each.name != "span")
    return found


def fields_of(node: PlanNode) -> list[object]:
    """What the fields of `node` hold, its span left out."""
    return [getattr(node, name) for name in _names(type(node))]


def walk(value: object) -> Iterator[PlanNode | BoundExpr]:
    """The nodes and the topmost expressions of a plan, parents first; `value` may also be a tuple of these."""
    if isinstance(value, tuple):
        for item in value:
            yield from walk(item)
    elif isinstance(value, BoundExpr):
        yield value
    elif isinstance(value, PlanNode):
        yield value
        for part in fields_of(value):
            yield from walk(part)


def transform(
    node: Node, change: Callable[[PlanNode], PlanNode], expression: Callable[[BoundExpr], BoundExpr] | None = None
) -> Node:
    """`node` with `change` applied to it and all nodes in it, inner ones first, and `expression` to each topmost one.

    What `change` gives takes the place of the node. What does not change is
    kept as it is.
    """
    made: Node = _made(node, change, expression)
    return made


def _made(
    value: Any, change: Callable[[PlanNode], PlanNode], expression: Callable[[BoundExpr], BoundExpr] | None
) -> Any:
    if isinstance(value, tuple):
        parts = tuple([_made(item, change, expression) for item in value])
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
    if isinstance(value, BoundExpr):
        return value if expression is None else expression(value)
    if not isinstance(value, PlanNode):
        return value
    changes = {}
    for name in _names(type(value)):
        old = getattr(value, name)
        if old is not None and old.__class__ is not str:
            new = _made(old, change, expression)
            if new is not old:
                changes[name] = new
    return change(replace(value, **changes) if changes else value)


def map_expressions(node: Node, fn: Callable[[BoundExpr], BoundExpr]) -> Node:
    """`node` with `fn` applied to each topmost expression in it (conditions, keys, columns …)."""
    return transform(node, lambda inner: inner, fn)
