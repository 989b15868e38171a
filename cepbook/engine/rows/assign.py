"""Assignments of variables as code: all values are known before the first variable changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.expr import Scope
from cepbook.lang.plan import Assignment


def new_values(assignments: Sequence[Assignment], scope: Scope) -> dict[str, str]:
    """Write the new values into locals, each seeing the ones before; variable name -> local."""
    source = scope.source
    assigned: dict[str, str] = {}
    for number, assignment in enumerate(assignments):
        name = assignment.variable
        here = scope.at(assigned=assigned)
        code = lower.value(here, assignment.value)
        if assignment.index is not None:
            with_one = source.bind("_with_element", with_element)
            before = assigned.get(name, lower.present(scope, name))
            code = f"{with_one}({before}, {lower.value(here, assignment.index)}, {code})"
        elif assignment.path:
            with_part = source.bind("_with_property", with_property)
            before = assigned.get(name, lower.present(scope, name))
            code = f"{with_part}({before}, {source.const(assignment.path)}, {code})"
        source.line(f"v{number} = {code}", assignment.span)
        assigned = {**assigned, name: f"v{number}"}
    return assigned


def put(assigned: Mapping[str, str], scope: Scope, now: str) -> None:
    """Write what puts the new values into the variables."""
    for name, code in assigned.items():
        cell = scope.variables[name]
        call = f"assign_in({scope.partition}, " if cell.partitioned else "assign("
        scope.source.line(f"{scope.source.const(cell)}.{call}{code}, {now})")


def with_element(array: list[Any] | None, index: int | None, value: Any) -> list[Any]:
    """A copy of `array` with another element. Errors: ValueError for null and for an index out of range."""
    if array is None or index is None:
        raise ValueError("the array is null" if array is None else "the index is null")
    if not 0 <= index < len(array):
        raise ValueError(f"the array has {len(array)} elements, there is no element {index}")
    return [*array[:index], value, *array[index + 1 :]]


def with_property(event: Mapping[str, Any] | None, path: Sequence[str], value: Any) -> dict[str, Any]:
    """A copy of `event` with another value at `path`. Errors: ValueError for null, there or on the way."""
    if event is None:
        raise ValueError(f"there is no event whose `{path[0]}` could be assigned: it is null")
    first, *rest = path
    return {**event, first: with_property(event.get(first), rest, value) if rest else value}
