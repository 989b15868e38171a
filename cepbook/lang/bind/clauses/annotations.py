"""Annotations of a statement: its name and priority, `@Drop`, and hints.

Esper reference, section "@Hint": ``@Hint('name=value,name')``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cepbook.errors import ParseError, Span, nearest_name
from cepbook.lang import types as t
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.scope import DiagnosticCollector, ModuleScope, Scope, ScopeStream
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import EventType, VariableType
from cepbook.lang.syntax import ast

Reclaim = tuple[int, int] | None
KNOWN_ANNOTATIONS = {
    name.lower(): name
    for name in (
        "Name Description Tag Priority Drop Hint Hook Audit NoLock EventRepresentation IterableUnbound Private"
        " Protected Public BusEventType AppliesTo XMLSchema JsonSchema"
    ).split()
}


@dataclass(frozen=True, slots=True)
class Heading:
    """The name and the annotations of a statement. A name is `named` if it is written, else the binder chooses it."""

    name: str
    named: bool
    written_priority: int
    drop: bool
    annotations: tuple[tuple[str, object], ...]

    @property
    def priority(self) -> int:
        """The priority among statements: with `@Drop` it is 1 if none is written (recorded:
        drop_among_equal_priorities, drop_with_where_leaves_higher_priorities_alone).
        """
        written = any(name == "priority" for name, _ in self.annotations)
        return 1 if self.drop and not written else self.written_priority

    def fields(self, span: Span, module: ModuleScope) -> dict[str, Any]:
        """Return the fields that all statement plans have."""
        common = {"name": self.name, "named": self.named, "annotations": self.annotations}
        return {**common, "epl": module.text(span), "span": span}


def bind_annotations(nodes: Sequence[ast.Annotation], module: ModuleScope) -> Heading:
    """Return the heading of a statement. Report an unknown annotation only if it resembles a known one."""
    name: str | None = None
    priority = 0
    drop = False
    annotations: list[tuple[str, object]] = []
    for node in nodes:
        word = node.name.lower()
        if word not in KNOWN_ANNOTATIONS:
            close = nearest_name(word, KNOWN_ANNOTATIONS.values())
            if close is not None:
                hint = f"did you mean `@{close}`?"
                module.report("unknown-annotation", f"no annotation `@{node.name}`", node.span, hint)
        value = node.values if node.values else node.value
        if word == "name":
            name = _name(node, module)
        elif word == "priority":
            priority = _priority(node, module)
        elif word == "drop":
            drop = True
        annotations.append((word, value))
    return Heading(name or "", name is not None, priority, drop, tuple(annotations))


def _name(node: ast.Annotation, module: ModuleScope) -> str | None:
    value = node.value if node.value is not None else dict(node.values).get("value")
    if not isinstance(value, str) or not value:
        module.wrong("`@Name` takes a string", node.span, "such as @Name('out')")
        return None
    return value


def _priority(node: ast.Annotation, module: ModuleScope) -> int:
    value = node.value if node.value is not None else dict(node.values).get("value")
    if isinstance(value, bool) or not isinstance(value, int):
        module.wrong("`@Priority` takes an int", node.span, "such as @Priority(10)")
        return 0
    return value


EVERY_ROW, _OPTIMIZED = "disable_outputlimit_opt", "enable_outputlimit_opt"
ITERATE_ONLY, _KEPT = "iterate_only", "disable_reclaim_group"
SHARES_INDEXES = "enable_window_subquery_indexshare"
# Of a hint: its name, and what stands in brackets or behind an equals sign
_HINT = re.compile(r"(\w+)\s*(?:\(((?:[^()]|\([^()]*\))*)\)|=([^,]*))?[^,]*")
# What the condition of exclude_plan reads: the streams of a lookup, the operator and the expressions
_LOOKUP = {"from_streamnum": t.INT, "to_streamnum": t.INT, "from_streamname": t.STRING, "to_streamname": t.STRING}
_LOOKUP_TYPE = EventType("", {**_LOOKUP, "opname": t.STRING, "exprs": t.array_of(t.STRING)})
AGED, SWEPT = "reclaim_group_aged", "reclaim_group_freq"


def statement_hints(annotations: Iterable[ast.Annotation]) -> Iterator[tuple[str, str, ast.Annotation]]:
    """Yield (name in lower case, value, annotation) for each hint."""
    for node in annotations:
        if node.name.lower() == "hint":
            text = node.value if node.value is not None else dict(node.values).get("value")
            for name, condition, value in _HINT.findall(str(text)):
                yield name.lower(), condition or value.strip(), node


def has_hint(annotations: Iterable[ast.Annotation], hint: str) -> bool:
    """Return whether a statement has `hint`: `EVERY_ROW` keeps every row of an output interval, not only those that the
    output clause needs; with `ITERATE_ONLY`, matches of rows are for the iterator alone.
    """
    return any(name == hint for name, _, _ in statement_hints(annotations))


def deletes_silently(annotations: Iterable[ast.Annotation]) -> bool:
    """Return whether the statement of a named window delivers no remove rows for rows that this statement deletes."""
    return any(name == "silent_delete" for name, _, _ in statement_hints(annotations))


def check_hints(node: ast.Select, levels: bool, module: ModuleScope) -> None:
    """Report hints that do not go with the clauses of the statement; `levels` is true for several grouping sets."""
    for name, value, annotation in statement_hints(node.annotations):
        if name == _KEPT and levels:
            module.wrong(f"`{name}` does not go with rollup, cube and grouping sets", annotation.span)
        elif name == _OPTIMIZED and node.output is not None and node.order_by:
            module.wrong(f"`{name}` does not go with order by", annotation.span)
        elif name == "exclude_plan" and not _is_lookup_condition(value, module):
            hint = f"write exclude_plan(true), or a condition over {', '.join(_LOOKUP_TYPE.properties)}"
            module.wrong("`exclude_plan` needs a condition in brackets", annotation.span, hint)


def _is_lookup_condition(text: str, module: ModuleScope) -> bool:
    from cepbook.lang.syntax.reader.parser import parse_epl  # Spark's workers load no grammar

    aside = replace(module, problems=DiagnosticCollector())
    try:
        (select,) = parse_epl(f"select {text} from x").statements
    except ParseError:
        return False
    assert isinstance(select, ast.Select)
    expr = select.items[0].expr
    scope = Scope(aside, (ScopeStream(None, _LOOKUP_TYPE),), no_aggregates="a hint", no_subqueries="a hint")
    return expr is not None and bind_expr(expr, scope).type == t.BOOLEAN and not aside.problems.reported


def window_reclaim(annotations: Iterable[ast.Annotation], module: ModuleScope) -> Reclaim:
    """Return (age, frequency) of reclaiming groups of ``groupwin``, in clock units, or None.

    The frequency defaults to the age.
    """
    amounts: dict[str, int] = {}
    for name, value, node in statement_hints(annotations):
        if name in (AGED, SWEPT):
            amounts[name] = _clock_units(name, value, node, module)
    if AGED not in amounts or 0 in amounts.values():
        return None
    return amounts[AGED], amounts.get(SWEPT, amounts[AGED])


def group_reclaim(annotations: Iterable[ast.Annotation], module: ModuleScope) -> tuple[x.BoundExpr, x.BoundExpr] | None:
    """Return (age, frequency) of reclaiming groups of a group by clause, or None; both may read variables."""
    amounts: dict[str, x.BoundExpr] = {}
    for name, value, node in statement_hints(annotations):
        if name in (AGED, SWEPT):
            variable = module.catalog.variables.get(value)
            if variable is None:
                amounts[name] = x.Const(t.LONG, _clock_units(name, value, node, module), span=node.span)
            else:
                amounts[name] = _reclaim_variable(name, variable, node, module)
    if AGED not in amounts:
        return None
    return amounts[AGED], amounts.get(SWEPT, amounts[AGED])


def _reclaim_variable(name: str, variable: VariableType, node: ast.Annotation, module: ModuleScope) -> x.BoundExpr:
    module.require("variable", variable.name)
    if variable.context is not None:
        fact = f"`{name}` cannot read `{variable.name}`, a variable of context `{variable.context}`"
        module.wrong(fact, node.span, "write a number of seconds, or the name of a variable without a context")
    if not t.is_numeric(variable.type):
        module.wrong(f"`{name}` must be a number of seconds, `{variable.name}` is of type {variable.type}", node.span)
    if variable.known:
        return x.Const(t.LONG, _clock_units(name, str(variable.value), node, module), span=node.span)
    value = x.VariableRead(variable.type, variable.name, span=node.span)
    second = x.Const(t.LONG, _clock_units_per_second(module), span=node.span)
    return x.Arith(t.arithmetic_type(variable.type, t.LONG), "*", value, second, span=node.span)


def _clock_units(name: str, value: str, node: ast.Annotation, module: ModuleScope) -> int:
    try:
        amount = float(value)
    except ValueError:
        amount = 0.0
    if not (math.isfinite(amount) and amount > 0):
        module.wrong(f"`{name}` must be a number of seconds above 0", node.span)
        return 0
    return round(amount * _clock_units_per_second(module))


def _clock_units_per_second(module: ModuleScope) -> int:
    return 1_000_000 if module.options.microseconds else 1000
