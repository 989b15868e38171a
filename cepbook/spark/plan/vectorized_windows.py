"""Windows of which only the aggregates need the engine, or which Spark computes itself.

A statement qualifies only if its rows are provably those of the engine: one stream, divided by properties whose
equality means the same everywhere (a context ``partition by``, ``group by``, ``groupwin`` with the same keys) or not at
all, a filter that Spark can express (`sql_conditions`), and columns that are properties or aggregates. Two kinds exist:

* ``length(n)`` and ``time(t)`` deliver a row per event, over the last n events of its key, or those within t. The
  engine computes the aggregates (`aggregating_statement`): counts, sums, averages and extremes, for which there are
  kernels. All other columns are those of the events. No row shows what leaves, and none can fail.
* ``ext_timed_batch(t, p, reference)``, where t is the event time, delivers a row per batch when the first event of the
  next batch arrives. The row has the time and sequence number of that event; the last batch of a key never ends. Spark
  computes it itself (`native_batches`), for whole numbers only: their sums do not depend on the order of addition.

A missing time, a time before the start of the clock, and two events of a key without a defined order are errors on
every path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cepbook.engine.config import Config
from cepbook.lang.plan import expressions as expr
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import Catalog, EventType
from cepbook.lang.plan.dependencies import StatementDependencies
from cepbook.lang.types import BITS, EXACT_KEY_TYPES, LONG, Type
from cepbook.spark.frames.sql_conditions import is_expressible, is_plain_query
from cepbook.spark.plan.partitioning import depends_on_clock
from cepbook.spark.task.program import BASE_AGGREGATE, VectorizedWindow

_MAX_SIZE = 2**31 - 1  # rows of a window, or units of its time
_OUTPUT_TYPES = EXACT_KEY_TYPES | {"float", "double"}  # properties that are shown as they come
_DAY = 86_400_000  # milliseconds
_MAX_PERIOD = 2**42  # longer ones leave too few bits for sequence numbers


def vectorized_window_of(
    deps: StatementDependencies, catalog: Catalog, config: Config
) -> VectorizedWindow | str | None:
    """Return the vectorized window of a statement; the reason why it has none if it nearly qualifies; else None."""
    if len(deps.readers) != 1 or deps.stores or deps.triggers or deps.variables:
        return None
    (statement,) = deps.selects
    if not isinstance(statement, plan.SelectStatement) or not is_plain_query(statement):
        return None
    if statement.delivery_key is not None:
        return None
    aggregation, windowed, source = statement.aggregation, plan.stage(statement.root, plan.Windowed), statement.source
    other_clauses = len(list(plan.chain(statement.root))) > 4  # than projection, aggregation, windows and source
    if aggregation is None or windowed is None or other_clauses:
        return None
    keys = _partition_keys(deps, statement, aggregation, windowed)
    if keys is None or [name for name in deps.inputs if catalog.is_a(name, source.event_type)] != [source.event_type]:
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
    form: VectorizedWindow | str | None = None
    if batches:
        period = _whole(window.args[1].constant_millis) or 1
        days = config.time_zone != "UTC" and period % _DAY == 0  # not all of one length
        if keys and aggregation.kind in ("fully_aggregated", "fully_aggregated_grouped") and not days:
            form = _batch_window(source.event_type, keys, source.filter, columns, window, config.second)
    elif window.name == "time" and len(window.args) == 1 and not depends_on_clock(statement) and config.second == 1000:
        span = _whole(window.args[0].constant_millis)
        if span is not None and 0 < span < _MAX_SIZE:
            form = VectorizedWindow(source.event_type, keys, source.filter, columns, span=span)
    elif window.name == "length" and len(window.args) == 1:
        size = _whole(*window.constants)
        if size is not None and 0 < size < _MAX_SIZE:
            form = VectorizedWindow(source.event_type, keys, source.filter, columns, length=size)
    return (_aggregate_obstacle(form, config) or form) if isinstance(form, VectorizedWindow) else form


def aggregating_statement(
    statement: plan.SelectStatement, form: VectorizedWindow, properties: Mapping[str, Type]
) -> plan.SelectStatement:
    """Return the statement that computes the aggregates of a window: a row for each event, with `window_call_names`.

    It has groups instead of a context, and no filter, because Spark passes on the events that pass it. `properties` are
    those of the event type.
    """
    windowed = plan.stage(statement.root, plan.Windowed)
    assert windowed is not None
    keys = tuple(expr.Prop(properties[name], stream=0, name=name) for name in form.keys)
    calls = form.calls or (plan.AggregateCall("count", (), LONG),)
    columns = [
        plan.OutputColumn(f"a{number}", expr.AggregateRef(call.type, index=number)) for number, call in enumerate(calls)
    ]
    grouping: tuple[plan.WindowSpec, ...] = ()
    kind: plan.QueryKind = "fully_aggregated_grouped" if keys else "fully_aggregated"
    if form.span:  # a property of the event: a group has no row of its own when events leave
        name = next(column for column in form.columns if isinstance(column, str))
        columns.append(plan.OutputColumn("property", expr.Prop(properties[name], stream=0, name=name)))
        kind = "aggregated_grouped" if keys else "aggregated"
    elif keys:
        grouping = (plan.WindowSpec("groupwin", keys),)
    source = replace(statement.source, filter=None)
    window = plan.Windowed(source, (*grouping, windowed.windows[-1]))
    root = plan.Projection(plan.Aggregation(window, keys, calls, kind), tuple(columns))
    delivered = EventType(statement.name, {column.name: column.value.type for column in columns})
    return replace(statement, root=root, kind=kind, context=None, output_type=delivered)


def _partition_keys(
    deps: StatementDependencies, statement: plan.SelectStatement, aggregation: plan.Aggregation, windowed: plan.Windowed
) -> tuple[str, ...] | None:
    """Return the properties that divide the events of the window, and form its groups."""
    key_expressions: tuple[expr.BoundExpr, ...]
    windows = windowed.windows
    timed = windows[-1].row.timed
    if statement.context is None and len(windows) == 1:
        if aggregation.keys and not timed:  # whose events make room for those of others
            return None
        key_expressions = aggregation.keys
    elif statement.context is None:
        if [w.row.grouping for w in windows] != [True, False] or timed:  # there events go when others have come
            return None
        key_expressions = windowed.windows[0].args
        if set(key_expressions) != set(aggregation.keys):
            return None
    else:
        (context,) = deps.contexts
        if not context.permanent or len(windowed.windows) != 1 or aggregation.keys:
            return None
        keyed = [stream for _, level in context.levels for stream in level.keyed_streams]
        streams = [stream for stream in keyed if stream.event_type == statement.source.event_type]
        if len(streams) != 1 or streams[0].filter is not None:  # the others' events are not in the window
            return None
        key_expressions = streams[0].keys
    plain = [prop.name for key in key_expressions if (prop := key.key_property) is not None]
    return tuple(plain) if len(plain) == len(key_expressions) else None


def _columns(
    statement: plan.SelectStatement, aggregation: plan.Aggregation, keys: Sequence[str], rows: bool
) -> tuple[str | plan.AggregateCall, ...] | None:
    """Return the output columns if each is a key, an aggregate or, if there are `rows` per event, a property."""
    columns: list[str | plan.AggregateCall] = []
    types = statement.output_type.properties
    for column in statement.root.columns:
        value = column.value.of_group(aggregation.keys)
        if types.get(column.name) != value.type:
            return None
        if value.aggregate_number is not None:
            columns.append(aggregation.calls[value.aggregate_number])
        elif name := value.property_of(0):
            if not (name in keys or (rows and value.type.name in _OUTPUT_TYPES)):
                return None
            columns.append(name)
        elif value.context_property in (names := [f"key{i + 1}" for i in range(len(keys))]):
            columns.append(keys[names.index(value.context_property)])
        else:
            return None
    return tuple(columns)


def _batch_window(
    source: str,
    keys: tuple[str, ...],
    condition: expr.BoundExpr | None,
    columns: tuple[str | plan.AggregateCall, ...],
    window: plan.WindowSpec,
    second: int,
) -> VectorizedWindow | str | None:
    clock, period = window.args[:2]
    if not clock.property_name or clock.type.name != "long":
        return None
    length = _whole(period.constant_millis)
    if length is None or not 0 < length < _MAX_PERIOD or second != 1000 or clock.property_name in keys:
        return None
    if len(window.args) < 3:
        return "Spark itself could compute batches with a reference point"
    reference = _whole(*window.constants)
    if reference is None:
        return None
    return VectorizedWindow(
        source, keys, condition, columns, period=length, reference=reference % length, clock=clock.property_name
    )


def _whole(value: object = None) -> int | None:
    """Return the value of a parameter if it is a whole number; None for any other and for one that is not constant."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _aggregate_obstacle(form: VectorizedWindow, config: Config) -> str:
    """Return why an aggregate cannot be computed as the engine computes it; empty if all can."""
    executor = "Spark itself" if form.clock is not None else "columns"
    for call in form.calls:
        plain = not (call.distinct or call.filter or call.ever or call.index or call.group_by or call.criteria)
        (argument,) = call.args if len(call.args) == 1 else (None,)
        if not plain or call.options or call.reference or call.name not in BASE_AGGREGATE:
            return f"{call.name} is not an aggregate of properties that {executor} could compute"
        if call.name == "count" and (not call.args or call.property_name):
            continue
        kind = argument.type.name if argument is not None and call.property_name else ""
        if kind == "double" and BASE_AGGREGATE[call.name] == "total" and form.clock is None:
            if config.compensated_sums:
                return "compensated sums of doubles need the engine"
        elif kind not in BITS:
            return f"{executor} could compute {call.name} of a property of whole numbers"
        if call.name == "avg" and kind == "long":
            return f"{executor} could compute avg of int, whose last digits do not depend on the division"
    return ""
