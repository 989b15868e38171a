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
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cepbook.lang import expr, plan
from cepbook.lang.reads import stores_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cepbook.lang.catalog import EventType
    from cepbook.spark.hosted import Program

_WHOLE = frozenset({"byte", "short", "int", "long"})
_EXACT = 2**53  # all whole numbers up to it are doubles
_ORDERS = frozenset({"=", "!=", "<", "<=", ">", ">="})


def is_native(statement: plan.SelectStatement, types: Mapping[str, EventType]) -> bool:
    """Whether Spark alone gives the rows of a statement, of which no other has to know."""
    source = statement.source
    plain = (
        type(statement) is plan.SelectStatement
        and statement.context is None
        and statement.kind == "unaggregated"
        and statement.selector == "istream"
        and not (statement.output or statement.into or statement.subqueries or statement.lots or statement.drop)
        and all(isinstance(node, plan.Projection | plan.Selection | plan.Source) for node in plan.chain(statement.root))
        and not (source.nothing or source.pattern or source.store or source.contained or source.lot)
        and not stores_in(statement)
    )
    root = statement.root
    if not plain or root.wildcard or root.distinct or root.order_by or root.limit or root.offset:
        return False
    types_out = statement.output_type.properties
    columns = all(
        isinstance(c.value, expr.Prop) and c.value.stream == 0 and types_out.get(c.name) == c.value.type
        for c in root.columns
    )
    return columns and all(map(is_expressible, conditions(statement))) and source.event_type in types


def conditions(statement: plan.SelectStatement) -> list[expr.Expr]:
    """All that must be true of an event."""
    wheres = [node.predicate for node in plan.chain(statement.root) if isinstance(node, plan.Selection)]
    return [e for e in (statement.source.filter, *wheres) if e is not None]


def is_expressible(e: expr.Expr) -> bool:
    """Whether a condition on the properties of an event is the same in both engines."""
    if isinstance(e, expr.Logic):
        return e.op in ("and", "or") and all(map(is_expressible, e.operands))
    if isinstance(e, expr.Prop):
        return e.type.name == "boolean"
    if isinstance(e, expr.Is):
        return isinstance(e.left, expr.Prop) and isinstance(e.right, expr.Const) and e.right.value is None
    if isinstance(e, expr.Between):
        bounds = [side.value if isinstance(side, expr.Const) else None for side in (e.low, e.high)]
        name = e.operand.type.name if isinstance(e.operand, expr.Prop) else ""
        low, high = (b if isinstance(b, int | float) and _fits(name, b, "<") else None for b in bounds)
        return low is not None and high is not None and (e.ordered or low <= high) and not e.negated
    if not isinstance(e, expr.Compare) or e.op not in _ORDERS:
        return False
    sides = e.left, e.right
    props = [side for side in sides if isinstance(side, expr.Prop)]
    constants = [side.value for side in sides if isinstance(side, expr.Const)]
    return len(props) == len(constants) == 1 and _fits(props[0].type.name, constants[0], e.op)


def _fits(name: str, constant: object, op: str) -> bool:
    """Whether both engines compare a property of this type with the constant alike."""
    if name == "string":
        return isinstance(constant, str) and op in ("=", "!=")
    if isinstance(constant, bool) or name == "boolean":
        return name == "boolean" and isinstance(constant, bool) and op in ("=", "!=")
    if name in _WHOLE:
        return isinstance(constant, int) and -(2**63) <= constant < 2**63
    if name == "double":
        whole = isinstance(constant, int) and abs(constant) <= _EXACT
        return whole or (isinstance(constant, float) and math.isfinite(constant))
    return False


def delivered(program: Program, stream: DataFrame) -> DataFrame:
    """What a program of one native statement delivers of its tagged events: the columns of `hosted.output_schema`."""
    from pyspark.sql import functions as F

    from cepbook.spark.names import TIME

    ((_, type_name, properties, columns),) = program.inputs
    ((name, output),) = program.outputs
    statement = next(s for step in program.steps for s in step.module.statements if s.name == name)
    assert isinstance(statement, plan.SelectStatement)
    place = dict(zip(properties, columns, strict=True))
    for condition in conditions(statement):
        stream = stream.where(as_column(condition, lambda p: F.col(place[p])))
    at = not_early(type_name, program.start)
    if stream.isStreaming:  # which goes on without the event
        left_out = F.when(F.col(TIME).isNull(), F.lit(f"an event of {type_name} was left out: the time is missing"))
        kind = F.when(left_out.isNull(), F.lit("insert")).otherwise(F.lit("error"))
        meta = meta_of(name, time=F.coalesce(at, F.lit(program.start)), error=left_out, kind=kind)
    else:
        meta = meta_of(name, time=there(at, "time", type_name))
    shown = {c.name: c.value.name for c in statement.root.columns if isinstance(c.value, expr.Prop)}
    own = F.struct(*(F.col(place[shown[p]]).alias(f"c{i}") for i, p in enumerate(output.properties)))
    return stream.select(*meta, own.alias("s0"))


def not_early(type_name: str, start: int) -> Column:
    """The times of events of a type, null where they are missing; an error if one is before the clock's `start`."""
    from pyspark.sql import functions as F

    from cepbook.spark.names import TIME

    early = F.concat(
        F.lit(f"cepbook.errors.EventError: an event of {type_name} has the time "),
        F.col(TIME).cast("string"),
        F.lit(f", but the clock starts at {start}"),
    )
    return F.when(F.col(TIME) < start, F.raise_error(early).cast("bigint")).otherwise(F.col(TIME))


def there(value: Column, what: str, type_name: str) -> Column:
    """A value of events of a type, the `what` of each; an error where it is null."""
    from pyspark.sql import functions as F

    missing = F.lit(f"cepbook.errors.EventError: the {what} of an event of {type_name} is missing")
    return F.coalesce(value, F.raise_error(missing).cast("bigint"))


def meta_of(statement: str, **values: Column) -> list[Column]:
    """What is told of rows that each are all that an event led to (`delivered.META`); of it `values` are given."""
    from pyspark.sql import functions as F

    from cepbook.spark.delivered import EVENT, META
    from cepbook.spark.names import SEQ, TIME

    of_all = {"statement": F.lit(statement), "time": F.col(TIME), "sequence": F.col(SEQ), "trigger": F.lit(EVENT)}
    of_all |= {"delivery": F.lit(0), "kind": F.lit("insert"), "row": F.lit(0)}
    return [(of_all | values).get(column, F.lit(None)).cast(ddl).alias(column) for column, ddl, _ in META]


def as_column(e: expr.Expr, of: Callable[[str], Column]) -> Column:
    """What `is_expressible`, for Spark; `of` gives the columns of properties."""
    from pyspark.sql import functions as F

    if isinstance(e, expr.Logic):
        first, *rest = (as_column(each, of) for each in e.operands)
        for each in rest:
            first = first & each if e.op == "and" else first | each
        return first
    if isinstance(e, expr.Prop):
        return of(e.name)
    if isinstance(e, expr.Is):
        assert isinstance(e.left, expr.Prop)
        return of(e.left.name).isNotNull() if e.negated else of(e.left.name).isNull()
    if isinstance(e, expr.Between):
        assert isinstance(e.operand, expr.Prop) and isinstance(e.low, expr.Const) and isinstance(e.high, expr.Const)
        value, low, high = of(e.operand.name), *(_bound(e.operand, bound) for bound in (e.low, e.high))
        above: Column = value >= low if e.include_low else value > low
        below: Column = value <= high if e.include_high else value < high
        return above & below
    assert isinstance(e, expr.Compare)
    found: list[Any] = []
    for side, other in ((e.left, e.right), (e.right, e.left)):
        if isinstance(side, expr.Prop):
            found.append(of(side.name))
        else:
            assert isinstance(side, expr.Const)
            found.append(F.lit(_bound(other, side)))
    left, right = found
    made: Column = {
        "=": left == right, "!=": left != right, "<": left < right,
        "<=": left <= right, ">": left > right, ">=": left >= right,
    }[e.op]  # fmt: skip
    return made


def _bound(compared: expr.Expr, constant: expr.Const) -> Any:
    """A constant as one of the type of what it is compared with."""
    value: Any = constant.value
    return float(value) if compared.type.name == "double" else value
