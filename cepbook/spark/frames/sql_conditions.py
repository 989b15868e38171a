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
from collections.abc import Callable, Mapping
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
    root = statement.root
    if statement.context is not None or statement.kind != "unaggregated" or not is_plain_query(statement):
        return False
    if not {type(node) for node in nodes.chain(root)} <= {nodes.Projection, nodes.Selection, nodes.SourceNode}:
        return False
    types_out = statement.output_type.properties
    columns = all(
        c.value.property_of(0)
        and types_out.get(c.name) == c.value.type
        and _keeps_its_form(c.value.type, types)
        for c in root.columns
    )
    return columns and all(map(is_expressible, filter_conditions(statement))) and statement.source.event_type in types


def is_plain_query(statement: nodes.SelectStatement) -> bool:
    """Return whether the statement is a query of one stream that delivers only what enters, without further clauses."""
    if not statement.is_query or statement.selector != "istream":
        return False
    clauses = statement.output or statement.into or statement.subqueries or statement.lots or statement.drop
    if clauses or statement.root.wildcard or statement.root.arranged:
        return False
    return statement.source.plain and not stores_read(statement)


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


def filter_conditions(statement: nodes.StatementPlan) -> list[expressions.BoundExpr]:
    """Return all conditions that an event must meet."""
    conditions = [source.filter for source in statement.sources]
    if statement.projection is not None:
        conditions += [node.predicate for node in nodes.stages(statement.projection, nodes.Selection)]
    return [e for e in conditions if e is not None]


def is_expressible(e: expressions.BoundExpr) -> bool:
    """Return whether a condition on the properties of an event has the same result in Spark and in the engine."""
    return _sql(e, str) is not None


def condition_sql(e: expressions.BoundExpr, column_of: Mapping[str, str]) -> Sql:
    """Return an expressible condition as SQL; `column_of` has the columns of properties."""
    sql = _sql(e, column_of.__getitem__)
    assert sql is not None, e
    return sql


def _sql(e: expressions.BoundExpr, column: Callable[[str], str]) -> Sql | None:
    """Return a condition as SQL; None if it is not expressible."""
    match e:
        case expressions.Logic(op="and" | "or"):
            operands = [_sql(operand, column) for operand in e.operands]
            known = [operand for operand in operands if operand is not None]
            return f"({f' {e.op.upper()} '.join(known)})" if len(known) == len(operands) else None
        case expressions.BooleanCheck():
            return _sql(e.operand, column)
        case expressions.Prop() if e.type.name == "boolean":
            return column(e.name)
        case expressions.Is(left=expressions.Prop(name=name), right=expressions.Const(value=None)):
            return f"({column(name)} IS {'NOT ' if e.negated else ''}NULL)"
        case expressions.RangeTest(negated=False):
            tested, low, high = e.operand, e.low.constant, e.high.constant
            ascending = isinstance(low, int | float) and isinstance(high, int | float) and low <= high
            if ascending and _fits(tested, low, "<") and _fits(tested, high, "<"):
                above, below = ">=" if e.include_low else ">", "<=" if e.include_high else "<"
                value = column(tested.property_name)
                return f"({value} {above} {_literal(tested, low)} AND {value} {below} {_literal(tested, high)})"
        case expressions.ComparisonExpr():
            if _fits(e.left, e.right.constant, e.op):
                return f"({column(e.left.property_name)} {e.op} {_literal(e.left, e.right.constant)})"
            if _fits(e.right, e.left.constant, e.op):
                return f"({_literal(e.right, e.left.constant)} {e.op} {column(e.right.property_name)})"
    return None


def _fits(compared: expressions.BoundExpr, constant: object, op: str) -> bool:
    """Return whether both compare a property with a constant alike; False if `compared` is no property."""
    name = compared.type.name
    if op not in _COMPARISONS or not compared.property_name:
        return False
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


def _literal(compared: expressions.BoundExpr, value: Any) -> Sql:
    """Return a constant as a literal of the type that it is compared with."""
    if isinstance(value, str):
        return sql_literal(value)
    return f"{float(value)!r}D" if compared.type.name == "double" else str(value)
