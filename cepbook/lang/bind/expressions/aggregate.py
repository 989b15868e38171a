"""Aggregate calls: their parameters, filters, criteria, local grouping.

Esper reference, sections "Aggregation Functions" and "Specifying Grouping for Each Aggregation Function".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cepbook.errors import did_you_mean
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import TEXT_TYPES, cast_hint, coerce, sortable
from cepbook.lang.bind.expressions.lambdas import refuse_lambda_parameters
from cepbook.lang.bind.expressions.time_period import seconds_period
from cepbook.lang.bind.scope import (
    DATA_WINDOW,
    ERROR,
    Binder,
    Scope,
    bind_whole_event,
    count_text,
    error_expression,
    type_text,
)
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import AggregateCall
from cepbook.lang.registry.aggregates import AggregateRow, aggregate_row
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.types import is_integral

NAMED_PARAMETERS = ("filter", "group_by")


@dataclass(slots=True)
class _Parts:
    """The arguments of one aggregate call by purpose."""

    args: list[x.BoundExpr]
    filter: x.BoundExpr | None = None
    index: x.BoundExpr | None = None
    star: bool = False
    criteria: tuple[tuple[x.BoundExpr, bool], ...] = ()
    group_by: tuple[x.BoundExpr, ...] | None = None

    def all(self) -> list[x.BoundExpr]:
        optional = [e for e in (self.filter, self.index) if e is not None]
        return [*self.args, *optional, *(e for e, _ in self.criteria), *(self.group_by or ())]


def bind_aggregate(row: AggregateRow, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Register the call with the scope and return a reference to it; equal calls share one accumulator."""
    if scope.rows is not None:
        return scope.rows.folded(row, step, scope, bind)
    call = aggregate_call(row, step, scope, bind)
    if call is None:
        return error_expression(step.span)
    index = scope.calls.setdefault(call, len(scope.calls))
    return x.AggregateRef(call.type, index, span=step.span)


def aggregate_call(row: AggregateRow, step: ast.NameStep, scope: Scope, bind: Binder) -> AggregateCall | None:
    """Return the call of an aggregate, or None if an argument was reported. Raises AlreadyReported."""
    if scope.no_aggregates is not None:
        hint = None
        if scope.no_aggregates == "the where-clause":
            hint = "write the condition in having: it is tested after aggregation"
        elif scope.no_subqueries == DATA_WINDOW:
            hint = "conditions of #expr and #expr_batch have aggregates"
        scope.fail("aggregate-not-allowed", f"aggregate `{row.name}` in {scope.no_aggregates}", step.span, hint)
    if row.column and scope.into_table is None:
        hint = f"declare a table with a column {row.column}(), and write into table … select {step.name}(…)"
        scope.reject(f"`{step.name}` outside of into table", step.span, hint)
    parts = _arguments(row, step, scope, bind)
    refuse_lambda_parameters(parts.all(), f"`{row.name}`", scope)
    _check_window(row, parts, step, scope)
    _check_streams(row, parts, step, scope)
    if any(expr.type == ERROR for expr in parts.all()):
        return None
    name = row.plain or row.name
    type_ = row.result(parts.args[0].type if parts.args else None)
    args = [coerce(arg, t.DOUBLE) for arg in parts.args] if row.computes else parts.args
    if scope.module.only_functions and row.values == "numbers" and not row.computes:
        args = [_not_too_small(arg, row) for arg in args]  # as in SQL: int and its kin are summed without a bound
        type_ = row.result(args[0].type)
    return AggregateCall(
        name,
        () if parts.star and row.counts else tuple(args),
        type_,
        step.distinct,
        parts.filter,
        row.ever or (scope.unwindowed and (row if row.plain is None else aggregate_row(row.plain)).ever_without_window),
        parts.index,
        parts.group_by,
        parts.criteria,
        span=step.span,
    )


def _not_too_small(value: x.BoundExpr, row: AggregateRow) -> x.BoundExpr:
    """Widen an integer to the type of sums of longs: Java's int overflows at 2 to the power of 31."""
    wide = row.result(t.LONG)
    return value if value.type == wide or not is_integral(value.type) else x.Convert(wide, value, span=value.span)


def _arguments(row: AggregateRow, step: ast.NameStep, scope: Scope, bind: Binder) -> _Parts:
    parts = _Parts([])
    nodes = _without_star(row, step, parts, scope)
    if step.distinct and not (row.distinct or parts.star):
        hint = "count(distinct …) counts the values in a window" if row.counts else None
        scope.reject(f"`{row.name}` takes no `distinct`", step.span, hint)
    _named(row, step, parts, scope, bind)
    if row.sorts:
        _criteria(row, nodes, step, parts, scope, bind)
        return parts
    for arg in nodes:
        if isinstance(arg, ast.SortKey):
            scope.reject(f"`{row.name}` takes no sort order", arg.span)
    values = [bind(arg, scope) for arg in nodes]
    value_count = 0 if parts.star else row.arity
    named = parts.filter is not None
    required = value_count + (row.second in _REQUIRED or (row.second == "filter" and not named))
    if len(values) < required:
        hint = f"write {row.name}(*) for whole events" if row.wildcard else None
        hint = f"such as {row.example}" if row.second in _REQUIRED else hint
        scope.reject(f"`{row.name}` takes {count_text(required, required)}, found {len(values)}", step.span, hint)
    parts.args.extend(values[:value_count])
    _extras(row, values[value_count:], parts, step, scope)
    if row.second == "amount?":
        _rate(parts, scope, named=named)
    else:
        _check_value(row, parts.args[:1], scope)
    return parts


def _without_star(row: AggregateRow, step: ast.NameStep, parts: _Parts, scope: Scope) -> Sequence[ast.Expr]:
    """Return the arguments after ``*`` or ``alias.*``, which stands for the whole event."""
    nodes = step.args or ()
    stream: str | None = None
    star = step.wildcard
    if nodes and isinstance(nodes[0], ast.Star):
        star, stream, nodes = True, nodes[0].stream, nodes[1:]
    if star:
        if not row.wildcard or step.distinct:
            word = "distinct *" if step.distinct else "*"
            scope.reject(f"`{row.name}({word})` has no meaning", step.span)
        if stream is None and len(scope.streams) > 1 and not row.counts:
            fact = f"`{row.name}(*)` over several streams: it keeps the events of one"
            scope.reject(fact, step.span, f"name the stream, such as {row.name}({scope.streams[0].label}.*)")
        parts.star = True
        parts.args.append(bind_whole_event(scope, stream, step.span) if scope.streams else error_expression(step.span))
    return nodes


def _named(row: AggregateRow, step: ast.NameStep, parts: _Parts, scope: Scope, bind: Binder) -> None:
    for name, values in step.named:
        if name == "filter" and len(values) == 1:
            parts.filter = _filter(bind(values[0], scope), scope)
        elif name == "group_by" and scope.into_table is not None:
            hint = "the group by clause has the keys of the table"
            scope.reject("into table takes no `group_by:` of an aggregate", step.span, hint)
        elif name == "group_by":
            inner = scope.without_aggregates("the group_by of an aggregate")
            parts.group_by = tuple(bind(value, inner) for value in values)
        elif name in NAMED_PARAMETERS:
            scope.reject(f"`{row.name}` takes no such `{name}:`", step.span)
        else:
            scope.reject(f"no parameter `{name}:`", step.span, did_you_mean(name, NAMED_PARAMETERS))


def _filter(bound: x.BoundExpr, scope: Scope) -> x.BoundExpr:
    if bound.type not in (t.BOOLEAN, ERROR):
        scope.mismatch(f"the filter of an aggregate must be boolean, found {type_text(bound.type)}", bound.span)
    return bound


def _criteria(
    row: AggregateRow, sort_nodes: Sequence[ast.Expr], step: ast.NameStep, parts: _Parts, scope: Scope, bind: Binder
) -> None:
    if not sort_nodes:
        scope.reject(f"`{row.name}` takes {count_text(1, None)}, found 0", step.span)
    criteria: list[tuple[x.BoundExpr, bool]] = []
    for node in sort_nodes:
        operand, descending = (node.operand, node.descending) if isinstance(node, ast.SortKey) else (node, False)
        criteria.append((bind(operand, scope), descending))
    parts.criteria = tuple(criteria)
    _check_value(row, [e for e, _ in criteria], scope)
    position = next(iter(_streams_read([e for e, _ in criteria])), 0)
    stream = scope.streams[position] if position < len(scope.streams) else None
    if stream is None or stream.event_type is None:
        parts.args.append(error_expression(step.span))
    else:
        parts.args.append(x.EventOf(t.event_of(stream.event_type.name), position, span=step.span))


def _extras(row: AggregateRow, values: list[x.BoundExpr], parts: _Parts, step: ast.NameStep, scope: Scope) -> None:
    """Sort the arguments after the value: an index, an amount, a filter."""
    for position, value in enumerate(values):
        if position == 0 and row.second in ("index", "index?") and value.type in (*_INDEXES, ERROR):
            parts.index = _index(row, value, scope)
        elif position == 0 and row.second in _CHECKS:
            parts.index = _CHECKS[row.second](row, value, scope)
        elif position == 0 and row.second == "index":
            scope.mismatch(f"the index of `{row.name}` must be an int, found {type_text(value.type)}", value.span)
        elif position == 0 and row.second == "amount?" and value.type != t.BOOLEAN:
            parts.args.append(value)
        elif (
            parts.filter is None and row.arity and len(values) <= 1 + (row.second in (*_REQUIRED, "index?", "amount?"))
        ):
            parts.filter = _filter(value, scope)
        else:
            scope.reject(f"too many parameters for `{row.name}`", step.span)


def _percent(row: AggregateRow, value: x.BoundExpr, scope: Scope) -> x.BoundExpr:
    """Return the second parameter of ``percentile``: a number from 0 to 100 that does not depend on events."""
    if value.type not in (ERROR, t.OBJECT) and not t.is_numeric(value.type):
        scope.mismatch(
            f"{_NAMES['percent']} of `{row.name}` must be a number, found {type_text(value.type)}", value.span
        )
    value = _index(row, value, scope)
    number = value.value if isinstance(value, x.Const) else None
    if isinstance(number, int | float) and not 0 <= number <= 100:
        scope.reject(f"the percentage of `{row.name}` must be between 0 and 100", value.span)
    return value


def _separator(row: AggregateRow, value: x.BoundExpr, scope: Scope) -> x.BoundExpr:
    if value.type not in (*TEXT_TYPES, ERROR):
        fact = f"the separator of `{row.name}` must be a string, found {type_text(value.type)}"
        scope.mismatch(fact, value.span, f"such as {row.example}")
    return _index(row, value, scope)


_CHECKS = {"percent": _percent, "separator": _separator}
_NAMES = {"percent": "the percentage", "separator": "the separator"}
_REQUIRED = ("index", *_CHECKS)  # second parameters that every call has
_INDEXES = (t.BYTE, t.SHORT, t.INT)


def _index(row: AggregateRow, value: x.BoundExpr, scope: Scope) -> x.BoundExpr:
    """Return the index of first, last and nth, which must not read events; for nth it is a constant of at least 0."""
    value = fold_expr(value)
    if row.second == "index" and not (isinstance(value, x.Const) and isinstance(value.value, int)):
        scope.reject(f"the index of `{row.name}` must be a constant", value.span)
    if row.second == "index" and isinstance(value, x.Const) and isinstance(value.value, int) and value.value < 0:
        scope.reject(f"the index of `{row.name}` is negative", value.span)
    if any(isinstance(subexpr, (x.Prop, x.EventOf, x.AggregateRef)) for subexpr in x.walk(value)):
        scope.reject(
            f"{_NAMES.get(row.second, 'the index')} of `{row.name}` must not depend on events",
            value.span,
            "use a variable",
        )
    return value


def _rate(parts: _Parts, scope: Scope, *, named: bool) -> None:
    """Check the arguments of ``rate``.

    ``rate(seconds)`` counts arrivals by engine time; ``rate(timestamp, amount)`` uses the timestamps in the window. The
    filter of the former counts only if it is written as ``filter:`` (recorded: ag_rate).
    """
    first, *rest = parts.args
    if first.type == ERROR or any(amount.type == ERROR for amount in rest):
        return
    period = first if isinstance(first, x.Period) else None
    if period is None and isinstance(fold_expr(first), x.Const):
        if not t.is_numeric(first.type):
            scope.mismatch(f"`rate` needs a number of seconds, found {type_text(first.type)}", first.span)
        period = seconds_period(fold_expr(first), scope)
    if period is not None:
        _check_interval(period, rest, scope)
        parts.args = [x.CurrentTimestamp(t.LONG, span=first.span), period]
        parts.filter = parts.filter if named else None
        return
    if not any(isinstance(subexpr, (x.Prop, x.EventOf)) for subexpr in x.walk(first)):
        scope.reject("the interval of `rate` must be a constant", first.span)
    if not t.is_integral(first.type):
        scope.mismatch(f"`rate` needs a timestamp in milliseconds, found {type_text(first.type)}", first.span)
    for amount in rest:
        if not t.is_numeric(amount.type):
            scope.mismatch(f"the amount of `rate` must be a number, found {type_text(amount.type)}", amount.span)
    if scope.unwindowed:
        hint = "add one, such as #keepall, or give a number of seconds"
        scope.reject("`rate` by timestamps needs a data window", first.span, hint)


def _check_interval(period: x.Period, rest: Sequence[x.BoundExpr], scope: Scope) -> None:
    if rest:
        scope.reject("`rate` with a number of seconds takes no amount", rest[0].span)
    length = period.millis
    if period.months is not None or not isinstance(length, x.Const) or not isinstance(length.value, int):
        scope.reject("the interval of `rate` must be a constant", period.span)
    if length.value <= 0:
        scope.reject("the interval of `rate` must be above 0", period.span)


def _check_value(row: AggregateRow, values: Sequence[x.BoundExpr], scope: Scope) -> None:
    for value in values:
        if row.values == "numbers" and value.type != ERROR and not t.is_numeric(value.type):
            fact = f"`{row.name}` needs numbers, found {type_text(value.type)}"
            hint = None if scope.module.only_functions else cast_hint(value.type, t.DOUBLE)
            scope.mismatch(fact, value.span, hint)
        if row.values == "texts" and value.type not in (*TEXT_TYPES, ERROR):
            fact = f"`{row.name}` needs texts, found {type_text(value.type)}"
            scope.mismatch(fact, value.span, cast_hint(value.type, t.STRING) or "cast it: cast(…, string)")
        if row.values in ("ordered", "plain") and not sortable(value.type):
            fact = "cannot order values of" if row.values == "ordered" else "takes plain values, found"
            scope.mismatch(f"`{row.name}` {fact} {type_text(value.type)}", value.span)


def _check_window(row: AggregateRow, parts: _Parts, step: ast.NameStep, scope: Scope) -> None:
    indexed = parts.index is not None and row.second not in _CHECKS
    if scope.unwindowed and (
        (row.needs_window == "always" and scope.into_table is None) or (row.needs_window == "index" and indexed)
    ):
        aggregate_text = f"{row.name}(*)" if parts.star else f"{row.name} with an index" if indexed else row.name
        scope.reject(f"`{aggregate_text}` needs a data window", step.span, "add one, such as #keepall")


def _streams_read(values: Sequence[x.BoundExpr]) -> list[int]:
    parts = (subexpr for value in values for subexpr in x.walk(value))
    return [subexpr.stream for subexpr in parts if isinstance(subexpr, (x.Prop, x.EventOf))]


def _check_streams(row: AggregateRow, parts: _Parts, step: ast.NameStep, scope: Scope) -> None:
    values = [*parts.args, *(e for e, _ in parts.criteria)]
    if row.keeps_events and len(set(_streams_read(values))) > 1:
        fact = f"`{row.name}` reads several streams: it keeps the events of one"
        scope.reject(fact, step.span, "join first: insert the combined row into a stream and aggregate that stream")
