"""Statements that Spark can run itself: a filter and columns, as expressions of its own, without Python.

Only where the result is provably that of the engine. In the plan: one stream, events judged by themselves, columns
that are properties. In conditions: ``and`` and ``or`` of what is below, where null counts as false in both; a
comparison (or two, ``between``) of a whole number with a whole constant, of a double with a constant that is one;
strings that are equal or not (an order of strings would depend on the collation); booleans; whether a property is null.
Properties are compared as they come in: checked, and NaN is null there (`inputs`). All else goes through the engine.
What is not looked at is not complained of: a missing time in a row that the filter drops, two events with one sequence
number.
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
_AS_THEY_ARE = frozenset(BITS) | {
    *("boolean", "float", "double", "string", "char", "biginteger", "bigdecimal"),
    *("timestamp", "calendar", "localdatetime", "localdate"),
}
_ORDERS = frozenset({"=", "!=", "<", "<=", ">", ">="})


def is_native(statement: nodes.SelectStatement, types: Mapping[str, EventType]) -> bool:
    """Whether Spark alone gives the rows of a statement, of which no other has to know."""
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
        and not (source.nothing or source.pattern or source.store or source.contained or source.lot)
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
        and _goes_out_as_it_came(c.value.type, types)
        for c in root.columns
    )
    return columns and all(map(is_expressible, filter_conditions(statement))) and source.event_type in types


def _goes_out_as_it_came(of: Type, types: Mapping[str, EventType], inside: tuple[str, ...] = ()) -> bool:
    """Whether tasks would change nothing of a value: of one without a fixed shape they make JSON, some texts they read.

    `inside` lists the event types around it.
    """
    if of.of is not None:
        return _goes_out_as_it_came(of.of, types, inside)
    nested = types.get(of.event) if of.event is not None else None
    if nested is None:
        return of.event is None and of.name in _AS_THEY_ARE
    parts = nested.properties.values()
    around = (*inside, nested.name)
    return bool(parts) and nested.name not in inside and all(_goes_out_as_it_came(p, types, around) for p in parts)


def filter_conditions(statement: nodes.SelectStatement) -> list[expressions.BoundExpr]:
    """All that must be true of an event."""
    wheres = [node.predicate for node in nodes.chain(statement.root) if isinstance(node, nodes.Selection)]
    return [e for e in (statement.source.filter, *wheres) if e is not None]


def is_expressible(e: expressions.BoundExpr) -> bool:
    """Whether a condition on the properties of an event is the same in both engines."""
    if isinstance(e, expressions.Logic):
        return e.op in ("and", "or") and all(map(is_expressible, e.operands))
    if isinstance(e, expressions.Prop):
        return e.type.name == "boolean"
    if isinstance(e, expressions.Is):
        return isinstance(e.left, expressions.Prop) and isinstance(e.right, expressions.Const) and e.right.value is None
    if isinstance(e, expressions.RangeTest):
        bounds = [side.value if isinstance(side, expressions.Const) else None for side in (e.low, e.high)]
        name = e.operand.type.name if isinstance(e.operand, expressions.Prop) else ""
        low, high = (b if isinstance(b, int | float) and _fits(name, b, "<") else None for b in bounds)
        return low is not None and high is not None and (e.ordered or low <= high) and not e.negated
    if not isinstance(e, expressions.ComparisonExpr) or e.op not in _ORDERS:
        return False
    sides = e.left, e.right
    props = [side for side in sides if isinstance(side, expressions.Prop)]
    constants = [side.value for side in sides if isinstance(side, expressions.Const)]
    return len(props) == len(constants) == 1 and _fits(props[0].type.name, constants[0], e.op)


def _fits(name: str, constant: object, op: str) -> bool:
    """Whether both engines compare a property of this type with the constant alike."""
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


def condition_sql(e: expressions.BoundExpr, place: Mapping[str, str]) -> Sql:
    """What `is_expressible`, for Spark; `place` has the columns of properties."""
    if isinstance(e, expressions.Logic):
        return "(" + f" {e.op.upper()} ".join(condition_sql(each, place) for each in e.operands) + ")"
    if isinstance(e, expressions.Prop):
        return place[e.name]
    if isinstance(e, expressions.Is):
        assert isinstance(e.left, expressions.Prop)
        return f"({place[e.left.name]} IS {'NOT ' if e.negated else ''}NULL)"
    if isinstance(e, expressions.RangeTest):
        assert (
            isinstance(e.operand, expressions.Prop)
            and isinstance(e.low, expressions.Const)
            and isinstance(e.high, expressions.Const)
        )
        value, low, high = place[e.operand.name], _literal(e.operand, e.low), _literal(e.operand, e.high)
        above, below = ">=" if e.include_low else ">", "<=" if e.include_high else "<"
        return f"({value} {above} {low} AND {value} {below} {high})"
    assert isinstance(e, expressions.ComparisonExpr)
    found = []
    for side, other in ((e.left, e.right), (e.right, e.left)):
        if isinstance(side, expressions.Prop):
            found.append(place[side.name])
        else:
            assert isinstance(side, expressions.Const)
            found.append(_literal(other, side))
    return f"({found[0]} {e.op} {found[1]})"


def _literal(compared: expressions.BoundExpr, constant: expressions.Const) -> Sql:
    """A constant as one of the type of what it is compared with."""
    value: Any = constant.value
    if isinstance(value, str):
        return sql_literal(value)
    return f"{float(value)!r}D" if compared.type.name == "double" else str(value)
