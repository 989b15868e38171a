"""``@Hint('name=value,name')``: what a statement asks for (Esper reference, section "@Hint")."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from cepbook.lang import types as t
from cepbook.lang.bind.scope import ModuleScope
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import VariableType
from cepbook.lang.syntax import ast

_EVERY_ROW, _OPTIMIZED = "disable_outputlimit_opt", "enable_outputlimit_opt"
_KEPT = "disable_reclaim_group"
AGED, SWEPT = "reclaim_group_aged", "reclaim_group_freq"


def statement_hints(annotations: Iterable[ast.Annotation]) -> Iterator[tuple[str, str, ast.Annotation]]:
    """(name in small letters, value, annotation) of each hint."""
    for node in annotations:
        if node.name.lower() == "hint":
            text = node.value if node.value is not None else dict(node.values).get("value")
            for part in str(text).split(","):
                name, _, value = (word.strip() for word in part.partition("="))
                yield name.lower(), value, node


def buffers_every_row(annotations: Iterable[ast.Annotation]) -> bool:
    """Whether the output clause is to keep all rows of its interval, not only what it needs of them."""
    return any(name == _EVERY_ROW for name, _, _ in statement_hints(annotations))


def check_hints(node: ast.Select, levels: bool, module: ModuleScope) -> None:
    """Report hints that do not go with the clauses of the statement; `levels`: it has several grouping sets."""
    for name, _, annotation in statement_hints(node.annotations):
        if name == _KEPT and levels:
            fact = f"`{name}` does not go with rollup, cube and grouping sets"
            module.problems.add("wrong-parameter", fact, annotation.span)
        elif name == _OPTIMIZED and node.output is not None and node.order_by:
            module.problems.add("wrong-parameter", f"`{name}` does not go with order by", annotation.span)


def window_reclaim(annotations: Iterable[ast.Annotation], module: ModuleScope) -> tuple[int, int] | None:
    """Of ``groupwin``: age and frequency in clock units; the latter is as long as the former if it is not given."""
    found: dict[str, int] = {}
    for name, value, node in statement_hints(annotations):
        if name in (AGED, SWEPT):
            found[name] = _clock_units(name, value, node, module)
    if AGED not in found or 0 in found.values():
        return None
    return found[AGED], found.get(SWEPT, found[AGED])


def group_reclaim(annotations: Iterable[ast.Annotation], module: ModuleScope) -> tuple[x.BoundExpr, x.BoundExpr] | None:
    """The same of a group by clause, where variables may stand, too."""
    found: dict[str, x.BoundExpr] = {}
    for name, value, node in statement_hints(annotations):
        if name in (AGED, SWEPT):
            variable = module.catalog.variables.get(value)
            if variable is None:
                found[name] = x.Const(t.LONG, _clock_units(name, value, node, module), span=node.span)
            else:
                found[name] = _of_variable(name, variable, node, module)
    if AGED not in found:
        return None
    return found[AGED], found.get(SWEPT, found[AGED])


def _of_variable(name: str, variable: VariableType, node: ast.Annotation, module: ModuleScope) -> x.BoundExpr:
    module.need("variable", variable.name)
    if not t.is_numeric(variable.type):
        fact = f"`{name}` must be a number of seconds, `{variable.name}` is of type {variable.type}"
        module.problems.add("wrong-parameter", fact, node.span)
    if variable.known:
        return x.Const(t.LONG, _clock_units(name, str(variable.value), node, module), span=node.span)
    value = x.VariableRead(variable.type, variable.name, span=node.span)
    second = x.Const(t.LONG, _second(module), span=node.span)
    return x.Arith(t.arithmetic_type(variable.type, t.LONG), "*", value, second, span=node.span)


def _clock_units(name: str, value: str, node: ast.Annotation, module: ModuleScope) -> int:
    try:
        amount = float(value)
    except ValueError:
        amount = 0.0
    if not (math.isfinite(amount) and amount > 0):
        module.problems.add("wrong-parameter", f"`{name}` must be a number of seconds above 0", node.span)
        return 0
    return round(amount * _second(module))


def _second(module: ModuleScope) -> int:
    return 1_000_000 if module.options.microseconds else 1000
