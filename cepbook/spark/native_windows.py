"""Windows by key that Spark calculates itself: sums of the last rows as window functions, batches as groups.

Only where the rows are provably those of the engine. In the plan: one stream, its events divided by properties whose
equality is the same in both engines (a context `partition by`, or ``groupwin`` and ``group by`` of the same), a
condition that Spark expresses (`native`), and in the columns the keys and aggregates of whole numbers: these do not
depend on the order of adding, and wrap as in Java. What is added of floating point numbers, the engine carries from
event to event, rounding as it goes; that is done in tasks.

``length(n)``: a row for each event, over the last n of its key in the contract's order. Sums are differences of running
sums, so that a window's length costs nothing; lowest and highest values are looked for in each window, which is `NEAR`.

``ext_timed_batch(t, p, reference)`` where t is the time of the events: a row for each batch, when the first event of
the next one comes, which has its time and sequence number. The last batch of a key waits for ever.

A time that is missing, or before the clock's start, is an error as in tasks, and so are two events of a key whose order
is not defined, where it matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from cepbook.lang import expr, plan
from cepbook.lang.reads import stores_in
from cepbook.lang.types import BITS
from cepbook.spark.native import as_column, is_expressible, meta_of, not_early, there
from cepbook.spark.pipeline import KEY_TYPES, Pipeline
from cepbook.spark.schema import shape_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cepbook.lang.catalog import Catalog, EventType
    from cepbook.spark.hosted import Program

NEAR = 100  # rows of a window that are looked through for each row
_FURTHEST = 2**31 - 1  # how far back a frame of rows may reach
_BITS = 63  # of a place within a batch: what of the time there is, then the sequence number
_LOW = 2**32 - 1
_EXTREMES = {"min": "lowest", "max": "highest"}
_MADE_OF = {"count": "number", "sum": "total", "avg": "total", **_EXTREMES}  # aggregate -> its base
_BATCHES = 2**42  # longer ones leave too few bits for sequence numbers


@dataclass(frozen=True, slots=True)
class Form:
    """A statement of one event type as Spark calculates it: `columns` are its own, each a property or an aggregate.

    `length` rows, or batches of the `period` (units of the clock) on the grid through `reference`; then `clock` is the
    property that must be the event's time.
    """

    event_type: str
    keys: tuple[str, ...]
    filter: expr.Expr | None
    columns: tuple[str | plan.AggregateCall, ...]
    length: int = 0
    period: int = 0
    reference: int = 0
    clock: str | None = None

    @property
    def reason(self) -> str:
        """What Spark does, in words."""
        keys = "+".join(self.keys)
        if self.clock is None:
            return f"whole numbers over the last {self.length} events of each {keys}: Spark's own window functions"
        return f"whole numbers over batches of each {keys}: Spark's own groups"


def form_of(line: Pipeline, catalog: Catalog, second: int) -> Form | str | None:
    """How Spark calculates a statement; why it cannot, where that is not far off; None where it is."""
    if len(line.readers) != 1 or line.stores or line.triggers or line.variables:
        return None
    (statement,) = line.selects
    if not isinstance(statement, plan.SelectStatement) or not _is_plain(statement):
        return None
    nodes = list(plan.chain(statement.root))
    if [type(node) for node in nodes] != [plan.Projection, plan.Aggregation, plan.Windowed, plan.Source]:
        return None
    _, aggregation, windowed, source = nodes
    assert isinstance(aggregation, plan.Aggregation) and isinstance(windowed, plan.Windowed)
    assert isinstance(source, plan.Source)
    keys = _keys(line, statement, aggregation, windowed)
    if keys is None or [name for name in line.inputs if catalog.is_a(name, source.event_type)] != [source.event_type]:
        return None
    if source.filter is not None and not is_expressible(source.filter):
        return None
    window = windowed.windows[-1]
    if windowed.union or aggregation.levels or aggregation.reclaim is not None:
        return None
    if window.options or window.criteria or window.calls or any(w.reclaim is not None for w in windowed.windows):
        return None
    batches = window.name == "ext_timed_batch"
    columns = _columns(statement, aggregation, keys, rows=not batches)
    if columns is None:
        return None
    if batches and aggregation.kind in ("fully_aggregated", "fully_aggregated_grouped"):
        form = _batches(source.event_type, keys, source.filter, columns, window, second)
    else:
        size = _whole(window.args[0]) if window.name == "length" and len(window.args) == 1 else None
        form = None
        if size is not None and 0 < size < _FURTHEST:
            form = Form(source.event_type, keys, source.filter, columns, length=size)
    return (_unfit(form) or form) if isinstance(form, Form) else form


def _is_plain(statement: plan.SelectStatement) -> bool:
    """Whether it is nothing but a query of one stream that delivers what enters."""
    source, root = statement.source, statement.root
    odd = statement.output or statement.into or statement.subqueries or statement.lots or statement.drop
    arranged = root.wildcard or root.distinct or root.order_by or root.limit or root.offset
    other = source.nothing or source.pattern or source.store or source.contained or source.lot
    plain = type(statement) is plan.SelectStatement and statement.selector == "istream" and statement.parcels is None
    return plain and not (odd or arranged or other or stores_in(statement))


def _keys(
    line: Pipeline, statement: plan.SelectStatement, aggregation: plan.Aggregation, windowed: plan.Windowed
) -> tuple[str, ...] | None:
    """The properties by which the events are divided."""
    found: tuple[expr.Expr, ...]
    if statement.context is None:
        if [w.row.grouping for w in windowed.windows] != [True, False]:
            return None
        found = windowed.windows[0].args
        if set(found) != set(aggregation.keys):
            return None
    else:
        (context,) = line.contexts
        if not isinstance(context, plan.CreateContextStatement) or len(windowed.windows) != 1 or aggregation.keys:
            return None
        streams = [s for s in context.spec.streams if s.event_type == statement.source.event_type]
        if len(streams) != 1 or streams[0].filter is not None:  # the others' events are not in the window
            return None
        found = streams[0].keys
    plain = [e.name for e in found if isinstance(e, expr.Prop) and e.type.name in KEY_TYPES]
    return tuple(plain) if len(plain) == len(found) > 0 else None


def _columns(
    statement: plan.SelectStatement, aggregation: plan.Aggregation, keys: Sequence[str], rows: bool
) -> tuple[str | plan.AggregateCall, ...] | None:
    """The columns, where all are keys, aggregates and (of `rows` for each event) properties."""
    found: list[str | plan.AggregateCall] = []
    types = statement.output_type.properties
    for column in statement.root.columns:
        value = column.value
        if types.get(column.name) != value.type:
            return None
        if isinstance(value, expr.AggregateRef):
            found.append(aggregation.calls[value.index])
        elif isinstance(value, expr.Prop) and value.stream == 0 and (rows or value.name in keys):
            found.append(value.name)
        elif isinstance(value, expr.KeyRef) and isinstance(key := aggregation.keys[value.index], expr.Prop):
            found.append(key.name)
        elif isinstance(value, expr.ContextProp) and value.name in (names := [f"key{i + 1}" for i in range(len(keys))]):
            found.append(keys[names.index(value.name)])
        else:
            return None
    return tuple(found)


def _batches(
    source: str,
    keys: tuple[str, ...],
    condition: expr.Expr | None,
    columns: tuple[str | plan.AggregateCall, ...],
    window: plan.WindowSpec,
    second: int,
) -> Form | str | None:
    clock, period = window.args[:2]
    if not isinstance(clock, expr.Prop) or clock.type.name != "long" or not isinstance(period, expr.Period):
        return None
    length = _whole(period.millis) if period.months is None else None
    if length is None or not 0 < length < _BATCHES or second != 1000 or clock.name in keys:
        return None
    if len(window.args) < 3:
        return "Spark itself could group batches that have a reference point"
    reference = _whole(window.args[2])
    if reference is None:
        return None
    return Form(source, keys, condition, columns, period=length, reference=reference % length, clock=clock.name)


def _whole(e: expr.Expr | None) -> int | None:
    value = e.value if isinstance(e, expr.Const) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _unfit(form: Form) -> str:
    """Why the aggregates are none that Spark has as the engine calculates them, if they are not."""
    for call in form.columns:
        if not isinstance(call, plan.AggregateCall):
            continue
        plain = not (call.distinct or call.filter or call.ever or call.index or call.group_by or call.criteria)
        (of,) = call.args if len(call.args) == 1 else (None,)
        if not plain or call.options or call.reference or call.name not in _MADE_OF:
            return f"{call.name} is not one that Spark calculates itself"
        if call.name == "count" and (not call.args or isinstance(of, expr.Prop)):
            continue
        if not isinstance(of, expr.Prop) or of.type.name not in BITS:
            return f"Spark itself could calculate {call.name} of a property of whole numbers"
        if call.name == "avg" and of.type.name == "long":
            return "Spark itself could calculate avg of int, whose last digits do not depend on how one divides"
        if call.name in _EXTREMES and form.length > NEAR:
            return f"Spark itself could calculate {call.name} of {NEAR} events"
    return ""


# -------------------------------------------------------------- what Spark does


def delivered(form: Form, program: Program, stream: DataFrame) -> DataFrame:
    """What a program of the one statement delivers of its tagged events: the columns of `hosted.output_schema`."""
    from pyspark.sql import functions as F

    from cepbook.spark.names import SEQ, TAG, TIME

    type_name = form.event_type
    ((tag, _, properties, columns),) = (each for each in program.inputs if each[1] == type_name)
    if len(program.inputs) > 1:  # a context may have other types
        stream = stream.where(F.col(TAG) == tag)
    ((name, output),) = program.outputs
    place = dict(zip(properties, columns, strict=True))
    if form.filter is not None:
        stream = stream.where(as_column(form.filter, lambda p: F.col(place[p])))
    at = there(not_early(type_name, program.start), "time", type_name)
    stream = stream.withColumns({TIME: at, SEQ: there(F.col(SEQ), "sequence number", type_name)})
    wanted = [c for c in form.columns if isinstance(c, plan.AggregateCall)]
    made = _in_batches if form.clock is not None else _over_rows
    rows, base = made(form, stream, place, wanted, program.nested[type_name])
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
        made = _MADE_OF[call.name]
        if made == "total":
            parts = ("low", "high") if call.args[0].type.name == "long" else (made,)
            found |= {(part, of): None for part in (*parts, "number")}
        else:
            found[(made if of else "rows", of)] = None
    return list(found)


def _aggregate(name: str, value: Column) -> Column:
    """A base as an aggregate of Spark; sums of long are added in halves, which do not overflow."""
    from pyspark.sql import functions as F

    if name in _EXTREMES.values():
        return F.min(value) if name == "lowest" else F.max(value)
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
    made = _MADE_OF[call.name]
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


def _over_rows(
    form: Form, stream: DataFrame, place: Mapping[str, str], calls: Sequence[plan.AggregateCall], of: EventType
) -> tuple[DataFrame, Base]:
    """A row for each event, with what aggregates of the last rows are made of."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from cepbook.spark.names import SEQ, TIME

    last = Window.partitionBy(*_keyed(form, place, of)).orderBy(TIME, SEQ)
    upto = last.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    gone = last.rowsBetween(Window.unboundedPreceding, -form.length)
    near = last.rowsBetween(1 - form.length, Window.currentRow)
    kept = {column: F.col(column) for column in (TIME, SEQ)}
    kept |= {place[c]: F.col(place[c]) for c in form.columns if isinstance(c, str)}
    kept |= {"time_before": F.lag(TIME).over(last), "seq_before": F.lag(SEQ).over(last)}
    for i, (name, p) in enumerate(_bases(calls)):
        made = _aggregate(name, F.col(place[p]) if p else F.lit(1))
        if name in _EXTREMES.values():
            kept[f"b{i}"] = made.over(near)
        else:
            kept |= {f"b{i}": made.over(upto), f"g{i}": made.over(gone)}
    number = {base: i for i, base in enumerate(_bases(calls))}

    def base(name: str, p: str) -> Column:
        i = number[name, p]
        if name in _EXTREMES.values():
            return F.col(f"b{i}")
        return F.col(f"b{i}") - F.coalesce(F.col(f"g{i}"), F.lit(0))

    twice = F.concat(
        F.lit(f"cepbook.errors.EventError: two events of {of.name} at time "),
        F.col(TIME).cast("string"),
        F.lit(" have the sequence number "),
        F.col(SEQ).cast("string"),
        F.lit(": their order is not defined"),
    )
    same = (F.col("time_before") == F.col(TIME)) & (F.col("seq_before") == F.col(SEQ))
    rows = stream.select(*(column.alias(name) for name, column in kept.items()))
    return rows.withColumn(SEQ, F.when(same, F.raise_error(twice).cast("bigint")).otherwise(F.col(SEQ))), base


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
