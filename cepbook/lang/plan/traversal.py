"""Walk and transform plans and bound expressions.

Children are found by the fields of a node: nodes, expressions, and tuples of these at any depth. A new class of node
therefore needs no code here. Catalog types that a plan refers to are not part of the plan. Every transformation works
bottom up and keeps what does not change: an unchanged subtree is the same object afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from cepbook.lang.plan.expressions import Arith, BoundExpr, operand_fields
from cepbook.lang.plan.plan_node import PlanNode

Node = TypeVar("Node", bound=PlanNode)
_FIELD_NAMES: dict[type[PlanNode], tuple[str, ...]] = {}  # by class, without the span
_CHILD_NAMES: dict[type[PlanNode], tuple[str, ...]] = {}  # those that may hold nodes or expressions
# words in the types of fields that hold neither
_LEAF_TYPES = frozenset(
    "str bool int float None tuple frozenset EventType StoreType ContextType Type Selector QueryKind JoinKind".split()
)


def _field_names(kind: type[PlanNode]) -> tuple[str, ...]:
    names = _FIELD_NAMES.get(kind)
    if names is None:
        names = _FIELD_NAMES[kind] = tuple(field.name for field in fields(kind) if field.init and field.name != "span")
    return names


def _child_names(kind: type[PlanNode]) -> tuple[str, ...]:
    names = _CHILD_NAMES.get(kind)
    if names is None:
        types = {field.name: re.findall(r"\w+", str(field.type)) for field in fields(kind)}
        names = _CHILD_NAMES[kind] = tuple(n for n in _field_names(kind) if not _LEAF_TYPES.issuperset(types[n]))
    return names


def fields_of(node: PlanNode) -> list[object]:
    """Return the values of the fields of `node` except its span."""
    return [getattr(node, name) for name in _field_names(type(node))]


def walk(value: object) -> Iterator[PlanNode | BoundExpr]:
    """Yield the nodes and the topmost expressions of a plan, parents first. `value` may also be a tuple of them."""
    if isinstance(value, tuple):
        for item in value:
            yield from walk(item)
    elif isinstance(value, BoundExpr):
        yield value
    elif isinstance(value, PlanNode):
        yield value
        for name in _child_names(type(value)):
            yield from walk(getattr(value, name))


def transform(
    node: Node, change: Callable[[PlanNode], PlanNode], expression: Callable[[BoundExpr], BoundExpr] | None = None
) -> Node:
    """Replace every node by `change(node)`, children first, and every topmost expression by `expression(e)`."""
    transformed: Node = _transform(node, change, expression)
    return transformed


def _transform(
    value: Any, change: Callable[[PlanNode], PlanNode], expression: Callable[[BoundExpr], BoundExpr] | None
) -> Any:
    if isinstance(value, tuple):
        items = tuple([_transform(item, change, expression) for item in value])
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, BoundExpr):
        return value if expression is None else expression(value)
    if not isinstance(value, PlanNode):
        return value
    changes = {}
    for name in _child_names(type(value)):
        old = getattr(value, name)
        if old:
            new = _transform(old, change, expression)
            if new is not old:
                changes[name] = new
    return change(replace(value, **changes) if changes else value)


def map_expressions(node: Node, fn: Callable[[BoundExpr], BoundExpr]) -> Node:
    """Replace every topmost expression in `node` (conditions, keys, columns …) by `fn(expression)`."""
    return transform(node, lambda inner: inner, fn)


def rebuild_expr(e: BoundExpr, fn: Callable[[BoundExpr], BoundExpr]) -> BoundExpr:
    """Replace every node of an expression by `fn(node)`, operands first."""
    spine: list[Arith] = []
    while isinstance(e, Arith):  # a loop, because the tree of a long sum is too deep for recursion
        spine.append(e)
        e = e.left
    changes = {}
    for name in operand_fields(type(e)):
        old = getattr(e, name)
        new = _map_operands(old, rebuild_expr, fn)
        if new is not old:
            changes[name] = new
    result = fn(replace(e, **changes) if changes else e)
    for node in reversed(spine):
        right = rebuild_expr(node.right, fn)
        same = result is node.left and right is node.right
        result = fn(node if same else replace(node, left=result, right=right))
    return result


def substitute_expr(e: BoundExpr, mapping: Mapping[BoundExpr, BoundExpr]) -> BoundExpr:
    """Replace every subexpression that equals a key of `mapping` by its value, outermost first; spans stay."""
    if not mapping:
        return e
    substitute = mapping.get(e)
    if substitute is not None:
        return replace(substitute, span=e.span)
    changes = {}
    for name in operand_fields(type(e)):
        old = getattr(e, name)
        new = _map_operands(old, substitute_expr, mapping)
        if new is not old:
            changes[name] = new
    return replace(e, **changes) if changes else e


def _map_operands(value: Any, rewrite: Callable[[BoundExpr, Any], BoundExpr], argument: Any) -> Any:
    if isinstance(value, BoundExpr):
        return rewrite(value, argument)
    if isinstance(value, tuple):
        items = tuple(_map_operands(item, rewrite, argument) for item in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value
