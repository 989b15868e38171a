"""Windows by key that need no engine: aggregates of the last rows or the last while, and of batches.

Only where the rows are provably those of the engine. In the plan: one stream, its events divided by properties whose
equality is the same everywhere (a context `partition by`, ``group by``, ``groupwin`` and ``group by`` of the same) or
not at all, a condition that Spark expresses (`native`), and in the columns properties and aggregates.

``length(n)``, ``time(t)``: a row for each event, over the last n of its key, or those within t, in the contract's
order. Tasks calculate these for whole columns (`columns`): sums and averages of whole numbers, which wrap as in Java,
and of doubles, which come and go in the order of the engine; lowest and highest whole numbers. Nobody sees what leaves.

``ext_timed_batch(t, p, reference)`` where t is the time of the events: a row for each batch, when the first event of
the next one comes, which has its time and sequence number. The last batch of a key waits for ever. Spark calculates
these itself (`native_batches`), of whole numbers, whose sums do not depend on the order of adding.

A time that is missing, or before the clock's start, is an error everywhere, and so are two events of a key whose order
is not defined, where it matters.
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.engine.config import Config
from cepbook.lang.plan import expressions
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies
from cepbook.lang.plan.references import stores_read
from cepbook.lang.types import BITS, EXACT_KEY_TYPES
from cepbook.spark.frames.sql_conditions import is_expressible
from cepbook.spark.plan.clock_dependence import depends_on_clock
from cepbook.spark.task.program import BASE_AGGREGATE, VectorizedWindow

_FURTHEST = 2**31 - 1  # rows of a window, or units of its time
_SHOWN = EXACT_KEY_TYPES | {"float", "double"}  # properties that are shown as they come
_BATCHES = 2**42  # longer ones leave too few bits for sequence numbers


def vectorized_window_of(
    line: StatementDependencies, catalog: Catalog, config: Config
) -> VectorizedWindow | str | None:
    """The form of a statement; why it has none, where that is not far off; None where it is."""
    if len(line.readers) != 1 or line.stores or line.triggers or line.variables:
        return None
    (statement,) = line.selects
    if not isinstance(statement, plan.SelectStatement) or not _is_plain(statement):
        return None
    nodes = list(plan.chain(statement.root))
    if [type(node) for node in nodes] != [plan.Projection, plan.Aggregation, plan.Windowed, plan.SourceNode]:
        return None
    _, aggregation, windowed, source = nodes
    assert isinstance(aggregation, plan.Aggregation) and isinstance(windowed, plan.Windowed)
    assert isinstance(source, plan.SourceNode)
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
    form: VectorizedWindow | str | None = None
    if batches:
        if keys and aggregation.kind in ("fully_aggregated", "fully_aggregated_grouped"):
            form = _batches(source.event_type, keys, source.filter, columns, window, config.second)
    elif window.name == "time" and len(window.args) == 1 and not depends_on_clock(statement) and config.second == 1000:
        span = _millis(window.args[0])
        if span is not None and 0 < span < _FURTHEST:
            form = VectorizedWindow(source.event_type, keys, source.filter, columns, span=span)
    elif window.name == "length" and len(window.args) == 1:
        size = _whole(window.args[0])
        if size is not None and 0 < size < _FURTHEST:
            form = VectorizedWindow(source.event_type, keys, source.filter, columns, length=size)
    return (_unfit(form, config) or form) if isinstance(form, VectorizedWindow) else form


def _is_plain(statement: plan.SelectStatement) -> bool:
    """Whether it is nothing but a query of one stream that delivers what enters."""
    source, root = statement.source, statement.root
    odd = statement.output or statement.into or statement.subqueries or statement.lots or statement.drop
    arranged = root.wildcard or root.distinct or root.order_by or root.limit or root.offset
    other = source.nothing or source.pattern or source.store or source.contained or source.lot
    plain = type(statement) is plan.SelectStatement and statement.selector == "istream" and statement.parcels is None
    return plain and not (odd or arranged or other or stores_read(statement))


def _keys(
    line: StatementDependencies, statement: plan.SelectStatement, aggregation: plan.Aggregation, windowed: plan.Windowed
) -> tuple[str, ...] | None:
    """The properties by which the events of the window are divided, and the groups."""
    found: tuple[expressions.BoundExpr, ...]
    windows = windowed.windows
    timed = windows[-1].row.timed
    if statement.context is None and len(windows) == 1:
        if aggregation.keys and not timed:  # whose events make room for those of others
            return None
        found = aggregation.keys
    elif statement.context is None:
        if [w.row.grouping for w in windows] != [True, False] or timed:  # there events go when others have come
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
    plain = [e.name for e in found if isinstance(e, expressions.Prop) and e.type.name in EXACT_KEY_TYPES]
    return tuple(plain) if len(plain) == len(found) else None


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
        if isinstance(value, expressions.AggregateRef):
            found.append(aggregation.calls[value.index])
        elif isinstance(value, expressions.Prop) and value.stream == 0 and _is_shown(value, keys, rows):
            found.append(value.name)
        elif isinstance(value, expressions.KeyRef) and isinstance(
            key := aggregation.keys[value.index], expressions.Prop
        ):
            found.append(key.name)
        elif isinstance(value, expressions.ContextProp) and value.name in (
            names := [f"key{i + 1}" for i in range(len(keys))]
        ):
            found.append(keys[names.index(value.name)])
        else:
            return None
    return tuple(found)


def _is_shown(value: expressions.Prop, keys: Sequence[str], rows: bool) -> bool:
    return value.name in keys or (rows and value.type.name in _SHOWN)


def _batches(
    source: str,
    keys: tuple[str, ...],
    condition: expressions.BoundExpr | None,
    columns: tuple[str | plan.AggregateCall, ...],
    window: plan.WindowSpec,
    second: int,
) -> VectorizedWindow | str | None:
    clock, period = window.args[:2]
    if not isinstance(clock, expressions.Prop) or clock.type.name != "long":
        return None
    length = _millis(period)
    if length is None or not 0 < length < _BATCHES or second != 1000 or clock.name in keys:
        return None
    if len(window.args) < 3:
        return "Spark itself could group batches that have a reference point"
    reference = _whole(window.args[2])
    if reference is None:
        return None
    return VectorizedWindow(
        source, keys, condition, columns, period=length, reference=reference % length, clock=clock.name
    )


def _millis(e: expressions.BoundExpr) -> int | None:
    """The length of a period that is always the same, where it is a whole number."""
    return _whole(e.millis) if isinstance(e, expressions.Period) and e.months is None else None


def _whole(e: expressions.BoundExpr | None) -> int | None:
    value = e.value if isinstance(e, expressions.Const) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _unfit(form: VectorizedWindow, config: Config) -> str:
    """Why the aggregates are none that are calculated here as in the engine, if they are not."""
    who = "Spark itself" if form.clock is not None else "columns"
    for call in form.columns:
        if not isinstance(call, plan.AggregateCall):
            continue
        plain = not (call.distinct or call.filter or call.ever or call.index or call.group_by or call.criteria)
        (of,) = call.args if len(call.args) == 1 else (None,)
        if not plain or call.options or call.reference or call.name not in BASE_AGGREGATE:
            return f"{call.name} is none of the aggregates of properties that {who} could calculate"
        if call.name == "count" and (not call.args or isinstance(of, expressions.Prop)):
            continue
        kind = of.type.name if isinstance(of, expressions.Prop) else ""
        if kind == "double" and BASE_AGGREGATE[call.name] == "total" and form.clock is None:
            if config.compensated_sums:
                return "sums of doubles that are compensated need the engine"
        elif kind not in BITS:
            return f"{who} could calculate {call.name} of a property of whole numbers"
        if call.name == "avg" and kind == "long":
            return f"{who} could calculate avg of int, whose last digits do not depend on how one divides"
    return ""
