"""Assignments of variables as code: all values are computed before the first variable changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.lang.plan.nodes import PropertyAssignment, VariableAssignment


def write_new_values(assignments: Sequence[VariableAssignment], scope: CodeScope) -> dict[str, str]:
    """Write the new values into locals, each seeing the earlier ones; return the local of each variable."""
    source = scope.source
    assigned: dict[str, str] = {}
    for number, assignment in enumerate(assignments):
        name = assignment.variable
        here = scope.at(assigned=assigned)
        code = lower.value(here, assignment.value)
        if assignment.path:
            before = assigned.get(name, lower.current_variable(scope, name))
            code = updated_copy_code(before, assignment, code, here)
        source.line(f"v{number} = {code}", assignment.span)
        assigned = {**assigned, name: f"v{number}"}
    return assigned


def write_assignments(assigned: Mapping[str, str], scope: CodeScope, now: str) -> None:
    """Write the code that assigns the new values to the variables."""
    for name, code in assigned.items():
        cell = scope.variables[name]
        call = f"assign_in({scope.partition}, " if cell.partitioned else "assign("
        scope.source.line(f"{scope.source.const(cell)}.{call}{code}, {now})")


def updated_copy_code(
    whole: str, assignment: VariableAssignment | PropertyAssignment, value: str, scope: CodeScope
) -> str:
    """Return the code of a copy of `whole` with `value` at the keys of the assignment's path."""
    keys = "".join(f"{lower.value(scope, key)}, " for key in assignment.path)
    more = ", True" if assignment.primitive else ""
    return f"{scope.source.bind('_with_part', updated_copy)}({whole}, ({keys}), {value}{more})"


def updated_copy(whole: Any, path: Sequence[Any], value: Any, primitive: bool = False) -> Any:
    """Return a copy of `whole`, an array, event or map, with another value at `path`. Only the containers on the path
    are copied. If a key or a container on the path is null, or an index out of range, `whole` stays as it is; so it
    does if the value is null and the part `primitive`.
    """
    key, *rest = path
    if key is None or whole is None or (value is None and primitive):
        return whole
    if isinstance(key, str):
        return {**whole, key: updated_copy(whole.get(key), rest, value) if rest else value}
    if not 0 <= key < len(whole):
        return whole
    return [*whole[:key], updated_copy(whole[key], rest, value) if rest else value, *whole[key + 1 :]]
