"""Batches that Spark calculates itself, as groups: ``ext_timed_batch`` on a grid, see `forms`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from cepbook.lang import expr, plan
from cepbook.spark.columns import MADE_OF
from cepbook.spark.native import as_column, meta_of, not_early, there
from cepbook.spark.schema import shape_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cepbook.lang.catalog import EventType
    from cepbook.spark.columns import Form
    from cepbook.spark.hosted import Program

_BITS = 63  # of a place within a batch: what of the time there is, then the sequence number
_LOW = 2**32 - 1


def delivered(form: Form, program: Program, stream: DataFrame) -> DataFrame:
    """What a program of the one statement delivers of its tagged events: the columns of `hosted.output_schema`."""
    from pyspark.sql import functions as F

    from cepbook.spark.names import SEQ, TIME

    type_name = form.event_type
    ((_, _, properties, columns),) = program.inputs
    ((name, output),) = program.outputs
    place = dict(zip(properties, columns, strict=True))
    if form.filter is not None:
        stream = stream.where(as_column(form.filter, lambda p: F.col(place[p])))
    at = there(not_early(type_name, program.start), "time", type_name)
    stream = stream.withColumns({TIME: at, SEQ: there(F.col(SEQ), "sequence number", type_name)})
    wanted = [c for c in form.columns if isinstance(c, plan.AggregateCall)]
    rows, base = _in_batches(form, stream, place, wanted, program.nested[type_name])
    shown = [_value(c, base) if isinstance(c, plan.AggregateCall) else F.col(place[c]) for c in form.columns]
    types = [shape_of(t, program.nested).ddl for t in output.properties.values()]
    own = F.struct(*(v.cast(t).alias(f"c{i}") for i, (v, t) in enumerate(zip(shown, types, strict=True))))
    return rows.select(*meta_of(name), own.alias("s0"))


Base = Callable[[str, str], "Column"]
"""A base of aggregates (`_bases`) by its name and the property."""


def _bases(calls: Sequence[plan.AggregateCall]) -> list[tuple[str, str]]:
    """What aggregates are made of: (name, property)."""
    found: dict[tuple[str, str], None] = {}
    for call in calls:
        of = call.args[0].name if call.args and isinstance(call.args[0], expr.Prop) else ""
        made = MADE_OF[call.name]
        if made == "total":
            parts = ("low", "high") if call.args[0].type.name == "long" else (made,)
            found |= {(part, of): None for part in (*parts, "number")}
        else:
            found[(made if of else "rows", of)] = None
    return list(found)


def _aggregate(name: str, value: Column) -> Column:
    """A base as an aggregate of Spark; sums of long are added in halves, which do not overflow."""
    from pyspark.sql import functions as F

    if name == "lowest":
        return F.min(value)
    if name == "highest":
        return F.max(value)
    if name == "rows":
        return F.count(F.lit(1))
    if name == "number":
        return F.count(value)
    halves = {"low": value.bitwiseAND(F.lit(_LOW)), "high": F.shiftright(value, 32), "total": value.cast("bigint")}
    return F.sum(halves[name])


def _value(call: plan.AggregateCall, base: Base) -> Column:
    """The value of an aggregate, as the engine has it: sums wrap at the width of Java's type."""
    from pyspark.sql import functions as F

    of = call.args[0] if call.args else None
    name = of.name if isinstance(of, expr.Prop) else ""
    made = MADE_OF[call.name]
    if made != "total":
        return base(made if name else "rows", name)
    assert of is not None
    if of.type.name == "long":
        low = base("low", name)
        high = base("high", name) + F.shiftright(low, 32)
        total = F.shiftleft(high, 32).bitwiseOR(low.bitwiseAND(F.lit(_LOW)))
    else:
        total = F.shiftright(F.shiftleft(base("total", name), 32), 32)
    number = base("number", name)
    value = total if call.name == "sum" else total.cast("double") / number
    return F.when(number > 0, value)


def _in_batches(
    form: Form, stream: DataFrame, place: Mapping[str, str], calls: Sequence[plan.AggregateCall], of: EventType
) -> tuple[DataFrame, Base]:
    """A row for each batch that another one follows, with its time and sequence number: those of the other's first.

    The first event of a batch is the lowest of numbers that hold the time since its beginning and the sequence number,
    because Spark's quick way of grouping finds no lowest pair; those that do not fit are looked for as decimals.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from cepbook.spark.names import SEQ, TIME

    bits = _BITS - (form.period - 1).bit_length()
    since = F.pmod(F.col(TIME) - F.lit(form.reference), F.lit(form.period).cast("bigint"))
    fits = F.col(SEQ).between(F.lit(0), F.lit(2**bits - 1))
    wide, half = (F.lit(Decimal(2**power)).cast("decimal(20,0)") for power in (64, 63))
    shifted = F.col(SEQ).cast("decimal(20,0)") + half
    first = F.when(fits, F.shiftleft(since, bits) + F.col(SEQ))
    odd = F.when(~fits, since.cast("decimal(17,0)") * wide + shifted)
    keys = {f"k{i}": key for i, key in enumerate(_keyed(form, place, of))}
    found = {"begin": F.col(TIME) - since, "first": first, "odd": odd}
    of_calls = {place[p]: F.col(place[p]) for _, p in _bases(calls) if p}
    events = stream.select(*(column.alias(name) for name, column in {**keys, **found, **of_calls}.items()))
    number = {base: i for i, base in enumerate(_bases(calls))}
    sums = [_aggregate(name, F.col(place[p]) if p else F.lit(1)).alias(f"b{i}") for (name, p), i in number.items()]
    ends = F.min("first").alias("first"), F.min("odd").alias("odd")
    batches = events.groupBy(*keys, "begin").agg(*sums, *ends)
    next_ = Window.partitionBy(*keys).orderBy("begin")
    after = [F.lead(name).over(next_).alias(f"next_{name}") for name in ("begin", "first", "odd")]
    own = [F.col(f"k{i}").alias(place[key]) for i, key in enumerate(form.keys)]
    rows = batches.select(*own, *(f"b{i}" for i in number.values()), *after).where(F.col("next_begin").isNotNull())
    plain = F.shiftright("next_first", bits), F.col("next_first").bitwiseAND(F.lit(2**bits - 1))
    large = F.col("next_odd")
    apart = F.expr(f"next_odd div {2**64}BD"), (large % wide - half).cast("bigint")
    before = F.col("next_first").isNull() | (apart[0] < plain[0]) | ((apart[0] == plain[0]) & (apart[1] < plain[1]))
    is_odd = large.isNotNull() & before
    since, sequence = (F.when(is_odd, a).otherwise(p) for a, p in zip(apart, plain, strict=True))
    rows = rows.withColumns({TIME: F.col("next_begin") + since, SEQ: sequence})
    return rows, lambda name, p: F.col(f"b{number[name, p]}")


def _keyed(form: Form, place: Mapping[str, str], of: EventType) -> list[Column]:
    """The keys; texts are the same where all their characters are, whatever the collation of a column."""
    from pyspark.sql import functions as F

    keys = {key: F.col(place[key]) for key in form.keys}
    return [k.cast("string") if of.properties[name].name in ("string", "char") else k for name, k in keys.items()]
