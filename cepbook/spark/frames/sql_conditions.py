"""Conditions that Spark and the engine evaluate alike, and statements that need nothing else.

A statement is native if it reads one stream, keeps no state, and has properties for columns. A condition is expressible
if it is built by ``and`` and ``or`` (null counts as false in both) from

* comparisons (and ``between``) of a whole number with a whole constant, of a double with a constant that is one;
* strings that are equal or not: the order of strings depends on the collation;
* booleans, and tests for null.

Properties are compared after their cast (`sql_casts`), where NaN is null. An event that Spark drops is not validated:
neither a missing time nor a repeated sequence number is an error then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cepbook.lang.plan import expressions, nodes
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.references import stores_read
from cepbook.lang.types import BITS, Type
from cepbook.spark.task.stream_columns import Sql, sql_literal

_EXACT = 2**53  # all whole numbers up to it are doubles
_UNCHANGED_TYPES = frozenset(BITS) | {
    *("boolean", "float", "double", "string", "char", "biginteger", "bigdecimal"),
    *("timestamp", "calendar", "localdatetime", "localdate"),
}
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})


def is_native(statement: nodes.SelectStatement, types: Mapping[str, EventType]) -> bool:
    """Return whether Spark alone computes the rows of a statement, and no other statement depends on it."""
    source = statement.source
    plain = (
        type(statement) is nodes.SelectStatement
        and statement.context is None
        and statement.kind == "unaggregated"
        and statement.selector == "istream"
        and not (statement.output or statement.into or statement.subqueries or statement.lots or statement.drop)
        and all(
            isinstance(node, nodes.Projection | nodes.Selection | nodes.SourceNode)
            for node in nodes.chain(statement.root)
        )
        and not (source.without_from or source.pattern or source.store or source.contained or source.lot)
        and not stores_read(statement)
    )
    root = statement.root
    if not plain or root.wildcard or root.distinct or root.order_by or root.limit or root.offset:
        return False
    types_out = statement.output_type.properties
    columns = all(
        isinstance(c.value, expressions.Prop)
        and c.value.stream == 0
        and types_out.get(c.name) == c.value.type
        and _keeps_its_form(c.value.type, types)
        for c in root.columns
    )
    return columns and all(map(is_expressible, filter_conditions(statement))) and source.event_type in types


def _keeps_its_form(type_: Type, types: Mapping[str, EventType], inside: tuple[str, ...] = ()) -> bool:
    """Return whether tasks would pass a value on unchanged; a type without a fixed shape becomes JSON.

    `inside` lists the event types around the value.
    """
    if type_.of is not None:
        return _keeps_its_form(type_.of, types, inside)
    nested = types.get(type_.event) if type_.event is not None else None
    if nested is None:
        return type_.event is None and type_.name in _UNCHANGED_TYPES
    parts = nested.properties.values()
    around = (*inside, nested.name)
    return bool(parts) and nested.name not in inside and all(_keeps_its_form(p, types, around) for p in parts)


def filter_conditions(statement: nodes.SelectStatement) -> list[expressions.BoundExpr]:
    """Return all conditions that an event must meet."""
    wheres = [node.predicate for node in nodes.chain(statement.root) if isinstance(node, nodes.Selection)]
    return [e for e in (statement.source.filter, *wheres) if e is not None]


def is_expressible(e: expressions.BoundExpr) -> bool:
    """Return whether a condition on the properties of an event has the same result in Spark and in the engine."""
    if isinstance(e, expressions.Logic):
        return e.op in ("and", "or") and all(map(is_expressible, e.operands))
    if isinstance(e, expressions.BooleanCheck):
        return is_expressible(e.operand)
    if isinstance(e, expressions.Prop):
        return e.type.name == "boolean"
    if isinstance(e, expressions.Is):
        return isinstance(e.left, expressions.Prop) and isinstance(e.right, expressions.Const) and e.right.value is None
    if isinstance(e, expressions.RangeTest):
        bounds = [side.value if isinstance(side, expressions.Const) else None for side in (e.low, e.high)]
        name = e.operand.type.name if isinstance(e.operand, expressions.Prop) else ""
        low, high = (b if isinstance(b, int | float) and _fits(name, b, "<") else None for b in bounds)
        return low is not None and high is not None and low <= high and not e.negated
    if not isinstance(e, expressions.ComparisonExpr) or e.op not in _COMPARISONS:
        return False
    sides = e.left, e.right
    props = [side for side in sides if isinstance(side, expressions.Prop)]
    constants = [side.value for side in sides if isinstance(side, expressions.Const)]
    return len(props) == len(constants) == 1 and _fits(props[0].type.name, constants[0], e.op)


def _fits(name: str, constant: object, op: str) -> bool:
    """Return whether both compare a property of this type with the constant alike."""
    if name == "string":
        return isinstance(constant, str) and op in ("=", "!=")
    if isinstance(constant, bool) or name == "boolean":
        return name == "boolean" and isinstance(constant, bool) and op in ("=", "!=")
    if name in BITS:
        return isinstance(constant, int) and -(2**63) <= constant < 2**63
    if name == "double":
        whole = isinstance(constant, int) and abs(constant) <= _EXACT
        return whole or (isinstance(constant, float) and math.isfinite(constant))
    return False


def condition_sql(e: expressions.BoundExpr, column_of: Mapping[str, str]) -> Sql:
    """Return an expressible condition as SQL; `column_of` has the columns of properties."""
    if isinstance(e, expressions.Logic):
        return "(" + f" {e.op.upper()} ".join(condition_sql(operand, column_of) for operand in e.operands) + ")"
    if isinstance(e, expressions.BooleanCheck):
        return condition_sql(e.operand, column_of)
    if isinstance(e, expressions.Prop):
        return column_of[e.name]
    if isinstance(e, expressions.Is):
        assert isinstance(e.left, expressions.Prop)
        return f"({column_of[e.left.name]} IS {'NOT ' if e.negated else ''}NULL)"
    if isinstance(e, expressions.RangeTest):
        assert (
            isinstance(e.operand, expressions.Prop)
            and isinstance(e.low, expressions.Const)
            and isinstance(e.high, expressions.Const)
        )
        value, low, high = column_of[e.operand.name], _literal(e.operand, e.low), _literal(e.operand, e.high)
        above, below = ">=" if e.include_low else ">", "<=" if e.include_high else "<"
        return f"({value} {above} {low} AND {value} {below} {high})"
    assert isinstance(e, expressions.ComparisonExpr)
    sides = []
    for side, other in ((e.left, e.right), (e.right, e.left)):
        if isinstance(side, expressions.Prop):
            sides.append(column_of[side.name])
        else:
            assert isinstance(side, expressions.Const)
            sides.append(_literal(other, side))
    return f"({sides[0]} {e.op} {sides[1]})"


def _literal(compared: expressions.BoundExpr, constant: expressions.Const) -> Sql:
    """Return a constant as a literal of the type that it is compared with."""
    value: Any = constant.value
    if isinstance(value, str):
        return sql_literal(value)
    return f"{float(value)!r}D" if compared.type.name == "double" else str(value)
