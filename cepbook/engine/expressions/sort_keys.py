"""Sort keys that compare as EPL sorts: null is the lowest value, NaN the highest number, strings go by code point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import total_ordering
from typing import Any

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.state import State
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.types import is_numeric

NULL_KEY = (0,)
NAN_KEY = (2,)


@total_ordering
class DescendingKey(State):
    """A component of a sort key that compares in reverse."""

    __slots__ = ("component",)

    def __init__(self, component: Any) -> None:
        self.component = component

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DescendingKey) and self.component == other.component

    def __lt__(self, other: DescendingKey) -> bool:
        return bool(other.component < self.component)

    def __hash__(self) -> int:
        return hash(self.component)


def ascending_key(value: Any) -> tuple[Any, ...]:
    """Return the component of a sort key for `value`."""
    if value is None:
        return NULL_KEY
    return (1, value) if value == value else NAN_KEY


def descending_key(value: Any) -> Any:
    """Return the component of a sort key for `value` in descending order."""
    if value is None:
        return (0,)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (-1, -value) if value == value else (-2,)
    return (-1, DescendingKey(value))


def value_of_key(component: Any) -> Any:
    """Return the value of a component that `ascending_key` or `descending_key` returned."""
    if component == NULL_KEY:
        return None
    if len(component) == 1:
        return math.nan
    order, value = component
    if order == 1:
        return value
    return value.component if isinstance(value, DescendingKey) else -value


def sort_key_code(scope: CodeScope, criteria: Sequence[tuple[BoundExpr, bool]]) -> str:
    """Return the code of the sort key of the event of `scope` by (expression, descending) `criteria`. Numbers need no
    call.
    """
    up = scope.source.bind("_ascending", ascending_key)
    down = scope.source.bind("_descending", descending_key)
    components: list[str] = []
    for e, reverse in criteria:
        value = lower.value(scope, e)
        component = f"{down if reverse else up}({value})"
        if value.isidentifier() and is_numeric(e.type):
            plain = f"(-1, -{value})" if reverse else f"(1, {value})"
            component = f"({plain} if {value} is not None and {value} == {value} else {component})"
        components.append(component)
    return components[0] if len(components) == 1 else f"({', '.join(components)})"
