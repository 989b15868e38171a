"""The group by clause, and the query kind of a select statement.

The *query kind* says what a row of the result stands for. Rows per group and single rows have no event to read from.
There, expressions equal to a group key become `KeyRef`, and the keys of a keyed context become `ContextProp` (recorded:
a statement that selects only the partition key and aggregates is fully aggregated).

Rollup, cube and grouping sets are lists of sets of keys. Several items of a clause multiply, as in SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, product

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.scope import ERROR, Scope
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import AggregateCall, OutputColumn, QueryKind
from cepbook.lang.plan.traversal import substitute_expr
from cepbook.lang.syntax import ast

_Mapping = Mapping[x.BoundExpr, x.BoundExpr]
_Sets = list[tuple[int, ...]]  # grouping sets as indexes of keys
_OF_EVENT = (x.Prop, x.EventOf, x.Prev, x.Prior)
_Item = ast.Expr | ast.Rollup | ast.GroupingSets


@dataclass(frozen=True, slots=True)
class BoundGroupBy:
    """The group by clause. `levels` are the grouping sets, as in `plan.Aggregation`."""

    keys: tuple[x.BoundExpr, ...] = ()
    levels: tuple[tuple[int, ...], ...] = ()


def bind_group_by(node: ast.GroupBy | None, scope: Scope) -> BoundGroupBy:
    """Return the keys, each once, and the grouping sets; tell `scope` the keys that ``grouping()`` may name."""
    if node is None:
        return BoundGroupBy()
    place = "the group by clause"
    inner = replace(scope.without_aggregates(place), no_row_functions=place, no_subqueries=place)
    keys: list[x.BoundExpr] = []
    sets = [_merge_keys(chosen) for chosen in product(*[_sets(item, keys, inner) for item in node.items])]
    if all(not isinstance(item, (ast.Rollup, ast.GroupingSets)) for item in node.items):
        return BoundGroupBy(tuple(keys))
    if not keys:
        scope.report("invalid-group-by", "grouping sets without a group by key", node.span)
    scope.grouping_keys = tuple(keys)
    return BoundGroupBy(tuple(keys), tuple(dict.fromkeys(sets)))


def _sets(item: _Item, keys: list[x.BoundExpr], scope: Scope) -> _Sets:
    if isinstance(item, ast.GroupingSets):
        sets = [(item_part, _sets(item_part, keys, scope)) for item_part in item.items]
        plain = [key_sets[0] for item_part, key_sets in sets if isinstance(item_part, ast.Expr)]
        _check_distinct(plain, "grouping sets", item.span, scope)
        return [key_set for _, key_sets in sets for key_set in key_sets]
    if isinstance(item, ast.Rollup):
        parts = [_keys(item_part, keys, scope) for item_part in item.items]
        _check_distinct(parts, item.kind, item.span, scope)
        if item.kind == "rollup":
            return [_merge_keys(parts[:size]) for size in range(len(parts), -1, -1)]
        # counted in binary, the last key being the lowest bit (recorded: cube_of_three_keys_in_a_batch)
        return [_merge_keys(list(compress(parts, flags))) for flags in product((True, False), repeat=len(parts))]
    return [_keys(item, keys, scope)]


def _check_distinct(parts: Sequence[tuple[int, ...]], where: str, span: Span, scope: Scope) -> None:
    if len({frozenset(keys) for keys in parts}) < len(parts):
        scope.report("invalid-group-by", f"the same key twice in {where}", span, "leave one out")


def _keys(item: ast.Expr, keys: list[x.BoundExpr], scope: Scope) -> tuple[int, ...]:
    """Return the index of a key, or the indexes of the keys of ``(a, b)``, which count as one."""
    if isinstance(item, ast.Tuple_):
        parts = [_keys(element, keys, scope) for element in item.elements]
        _check_distinct(parts, "one grouping set", item.span, scope)
        return _merge_keys(parts)
    key = bind_expr(item, scope)
    if isinstance(key, x.Const) and key.type != ERROR:
        scope.report(
            "invalid-group-by", "a constant is not a group by key", item.span, "name the property: group by symbol"
        )
    if key not in keys:
        keys.append(key)
    return (keys.index(key),)


def _merge_keys(parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(index for key_set in parts for index in key_set))


@dataclass(frozen=True, slots=True)
class QueryShape:
    """The clauses that depend on the query kind."""

    kind: QueryKind
    keys: tuple[x.BoundExpr, ...]
    columns: tuple[OutputColumn, ...]
    wildcard: bool
    having: x.BoundExpr | None
    order_by: tuple[tuple[x.BoundExpr, bool], ...]
    levels: tuple[tuple[int, ...], ...] = ()
    where: x.BoundExpr | None = None


def resolve_query_kind(written: QueryShape, scope: Scope, span: Span, *, gathered: bool = False) -> QueryShape:
    """Return `written` with its query kind and with expressions that fit the kind.

    `gathered` is true if rows of several changes are delivered together: by an output clause, or by a pattern with
    several matches at once.
    """
    if not scope.calls and not written.keys:
        return written
    grouped = bool(written.keys)
    keys_ = enumerate(written.keys)
    group_keys = {key: x.KeyRef(key.type, i, span=key.span) for i, key in keys_ if key.type != ERROR}
    mapping = {**_context_keys(scope), **group_keys}
    lean = _substituted(written, mapping)
    _refuse_other_events(scope)
    if _has_prev(lean, scope):
        return written
    if written.levels:
        return _with_grouping_sets(_substituted(lean, _properties_in_keys(lean, scope)), scope, span)
    keys = set(written.keys)
    if any(not keys.issuperset(call.group_by or ()) for call in scope.calls):  # a local group of its own for each event
        return replace(written, kind="aggregated_grouped" if grouped else "aggregated")
    if lean.wildcard or any(_reads_event(c.value) for c in lean.columns):
        return replace(written, kind="aggregated_grouped" if grouped else "aggregated")
    if not grouped:
        if lean.having is not None and _reads_event(lean.having):
            return replace(written, kind="aggregated")
        ordered = gathered and not any(_reads_event(e) for e, _ in lean.order_by)  # one row alone has no order
        return replace(lean, kind="fully_aggregated", order_by=lean.order_by if ordered else ())
    reads_in_having = lean.having is not None and _reads_event(lean.having)
    selects_aggregates = any(isinstance(e, x.AggregateRef) for c in lean.columns for e in x.walk(c.value))
    if any(_reads_event(e) for e, _ in lean.order_by) or (reads_in_having and not selects_aggregates):
        return replace(written, kind="aggregated_grouped")  # a row per event
    _check_grouped(lean, scope)
    return replace(lean, kind="fully_aggregated_grouped")


def _with_grouping_sets(lean: QueryShape, scope: Scope, span: Span) -> QueryShape:
    if lean.wildcard:
        scope.report("invalid-group-by", "`*` selects events, grouping sets make rows per group", span)
    for call in scope.calls:
        if call.group_by is not None:
            scope.report("invalid-group-by", "group_by in an aggregate does not go with grouping sets", call.span)
    for column in lean.columns:
        _check_clause("the select-clause", column.value, scope)
    _check_grouped(lean, scope)
    return replace(lean, kind="fully_aggregated_grouped")


def _refuse_other_events(scope: Scope) -> None:
    """Report aggregates of prev, prior and istream, whose event is not known when another one leaves."""
    for call in scope.calls:
        values = [*call.args, *(e for e, _ in call.criteria), *(e for e in (call.filter, call.index) if e is not None)]
        for subexpr in (subexpr for value in values for subexpr in x.walk(value)):
            if isinstance(subexpr, (x.Prev, x.Prior, x.InsertStream)):
                scope.unsupported("prev, prior and istream in an aggregate", subexpr.span)


def _has_prev(written: QueryShape, scope: Scope) -> bool:
    """Report prev in a condition of a statement with aggregates: a row that leaves is not tested by it."""
    for condition, clause in ((written.where, "the where-clause"), (written.having, "having")):
        for subexpr in x.walk(condition) if condition is not None and scope.calls else ():
            if isinstance(subexpr, x.Prev):
                hint = "first, last, window and nth read other events of the window in having"
                scope.wrong(f"`prev` in {clause} of a statement with aggregates", subexpr.span, hint)
                return True
    return False


def _properties_in_keys(lean: QueryShape, scope: Scope) -> dict[x.BoundExpr, x.BoundExpr]:
    """Return replacements for properties that occur inside group keys: the value of the group's latest event.

    They are null where the grouping set has none of the keys (recorded: rollup_over_an_expression_with_a_plain_column).
    """
    read = [*(c.value for c in lean.columns), *(e for e, _ in lean.order_by), lean.having]
    replacements: dict[x.BoundExpr, x.BoundExpr] = {}
    for prop in (prop for e in read if e is not None for prop in x.walk(e) if isinstance(prop, x.Prop)):
        within = tuple(i for i, key in enumerate(lean.keys) if prop in x.walk(key))
        if within and prop not in replacements:
            call = AggregateCall("last", (prop,), prop.type, ever=True, span=prop.span)
            latest = x.AggregateRef(prop.type, scope.calls.setdefault(call, len(scope.calls)), span=prop.span)
            none = x.Const(t.INT, (1 << len(within)) - 1)
            there = x.ComparisonExpr(t.BOOLEAN, "!=", x.Grouping(t.INT, within), none)
            replacements[prop] = x.CaseWhen(prop.type, ((there, latest),), None, span=prop.span)
    return replacements


def _context_keys(scope: Scope) -> dict[x.BoundExpr, x.BoundExpr]:
    """Return replacements for the key expressions of the statement's keyed context: context properties.

    Keys of a level of a nested context are read from the event (recorded: nested_inner_partition_without_events).
    """
    context = scope.context
    if context is None or len(scope.streams) != 1 or scope.streams[0].event_type is None:
        return {}
    name = scope.streams[0].event_type.name
    keys = next((keys for of, keys in context.keys.items() if scope.module.catalog.is_a(name, of)), ())
    return {key: x.ContextProp(key.type, f"key{number}") for number, key in enumerate(keys, 1)}


def _substituted(written: QueryShape, mapping: _Mapping) -> QueryShape:
    return replace(
        written,
        columns=tuple(OutputColumn(c.name, substitute_expr(c.value, mapping), span=c.span) for c in written.columns),
        having=substitute_expr(written.having, mapping) if written.having is not None else None,
        order_by=tuple((substitute_expr(e, mapping), descending) for e, descending in written.order_by),
    )


def _reads_event(e: x.BoundExpr) -> bool:
    return any(isinstance(subexpr, _OF_EVENT) for subexpr in x.walk(e))


def _check_grouped(lean: QueryShape, scope: Scope) -> None:
    if lean.having is not None:
        _check_clause("having", lean.having, scope)
    for e, _ in lean.order_by:
        _check_clause("order by", e, scope)


def _check_clause(clause: str, e: x.BoundExpr, scope: Scope) -> None:
    if not isinstance(e, _OF_EVENT):
        for child in x.children(e):
            _check_clause(clause, child, scope)
        return
    text = f"`{e.name}`" if isinstance(e, x.Prop) else "the event" if isinstance(e, x.EventOf) else "another event"
    fact = f"{text} in {clause} is neither aggregated nor a group by key"
    scope.report("invalid-group-by", fact, e.span, "add it to group by, or take an aggregate of it")
