"""Assignments of variables as code: all values are known before the first variable changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.expr import Scope
from cepbook.lang.expr import Expr
from cepbook.lang.plan import Assignment


def new_values(assignments: Sequence[Assignment], scope: Scope) -> dict[str, str]:
    """Write the new values into locals, each seeing the ones before; variable name -> local."""
    source = scope.source
    assigned: dict[str, str] = {}
    for number, assignment in enumerate(assignments):
        name = assignment.variable
        here = scope.at(assigned=assigned)
        code = lower.value(here, assignment.value)
        if assignment.path:
            before = assigned.get(name, lower.present(scope, name))
            code = changed_part(before, assignment.path, code, here)
        source.line(f"v{number} = {code}", assignment.span)
        assigned = {**assigned, name: f"v{number}"}
    return assigned


def put(assigned: Mapping[str, str], scope: Scope, now: str) -> None:
    """Write what puts the new values into the variables."""
    for name, code in assigned.items():
        cell = scope.variables[name]
        call = f"assign_in({scope.partition}, " if cell.partitioned else "assign("
        scope.source.line(f"{scope.source.const(cell)}.{call}{code}, {now})")


def changed_part(whole: str, path: Sequence[Expr], value: str, scope: Scope) -> str:
    """Code of a copy of `whole` with the code `value` at the keys of `path`."""
    keys = "".join(f"{lower.value(scope, key)}, " for key in path)
    return f"{scope.source.bind('_with_part', with_part)}({whole}, ({keys}), {value})"


def with_part(whole: Any, path: Sequence[Any], value: Any) -> Any:
    """A copy of `whole`, an array, event or map, with another value at `path`; what is on the way is copied, too.

    Errors: ValueError for null, there or on the way, and for an index out of range.
    """
    key, *rest = path
    if key is None:
        raise ValueError("the index is null")
    if isinstance(key, str):
        if whole is None:
            raise ValueError(f"there is no event whose `{key}` could be assigned: it is null")
        return {**whole, key: with_part(whole.get(key), rest, value) if rest else value}
    if whole is None:
        raise ValueError("the array is null")
    if not 0 <= key < len(whole):
        raise ValueError(f"the array has {len(whole)} elements, there is no element {key}")
    return [*whole[:key], with_part(whole[key], rest, value) if rest else value, *whole[key + 1 :]]
