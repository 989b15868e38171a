"""Sort keys that compare as EPL sorts: null is the lowest value, NaN the highest number, strings go by code point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import total_ordering
from typing import Any

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.expr import Scope
from cepbook.engine.state import State
from cepbook.lang.expr import Expr
from cepbook.lang.types import is_numeric

NULL = (0,)
NAN = (2,)


@total_ordering
class Descending(State):
    """A part of a sort key that compares the other way round."""

    __slots__ = ("part",)

    def __init__(self, part: Any) -> None:
        self.part = part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and self.part == other.part

    def __lt__(self, other: Descending) -> bool:
        return bool(other.part < self.part)

    def __hash__(self) -> int:
        return hash(self.part)


def ascending(value: Any) -> tuple[Any, ...]:
    """The part of a sort key that stands for `value`."""
    if value is None:
        return NULL
    return (1, value) if value == value else NAN


def descending(value: Any) -> Any:
    """The part of a sort key that stands for `value` in descending order."""
    if value is None:
        return (0,)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (-1, -value) if value == value else (-2,)
    return (-1, Descending(value))


def sorted_value(part: Any) -> Any:
    """The value that `ascending` or `descending` made `part` of."""
    if part == NULL:
        return None
    if len(part) == 1:
        return math.nan
    order, value = part
    if order == 1:
        return value
    return value.part if isinstance(value, Descending) else -value


def sort_key_code(scope: Scope, criteria: Sequence[tuple[Expr, bool]]) -> str:
    """Code of the sort key of the event of `scope` by (expression, descending) `criteria`; numbers need no call."""
    up = scope.source.bind("_ascending", ascending)
    down = scope.source.bind("_descending", descending)
    parts: list[str] = []
    for e, reverse in criteria:
        value = lower.value(scope, e)
        part = f"{down if reverse else up}({value})"
        if value.isidentifier() and is_numeric(e.type):
            plain = f"(-1, -{value})" if reverse else f"(1, {value})"
            part = f"({plain} if {value} is not None and {value} == {value} else {part})"
        parts.append(part)
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
