"""Filters: the conditions in front of a statement (Esper reference, "Filter Expressions").

A filter index looks up a property by the property's own type and never narrows a number. A number of a wider type that
is compared with a property is therefore refused (recorded: in_list_of_wider_constants). A where-clause over a stream
without a data window is a filter, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.lang import types as t
from cepbook.lang.bind.expressions.expression import bind_condition
from cepbook.lang.bind.scope import Scope, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

_WHOLE = (t.BYTE, t.SHORT, t.INT, t.LONG)


def bind_filter(node: ast.Expr, scope: Scope) -> x.BoundExpr:
    """Bind the condition of a filter."""
    condition = bind_condition(node, scope, "the filter")
    check_index_types(condition, scope)
    return condition


def check_index_types(condition: x.BoundExpr, scope: Scope) -> None:
    """Report numbers that are wider than the property that an index would look up."""
    for conjunct in x.conjuncts(condition):
        match conjunct:
            case x.ComparisonExpr(_, _, left, right):
                _check(left, (right,), scope, tags=False)
                _check(right, (left,), scope, tags=False)
            case x.InList(_, operand, options):
                _check(operand, options, scope, tags=True)


def _check(looked_up: x.BoundExpr, values: tuple[x.BoundExpr, ...], scope: Scope, *, tags: bool) -> None:
    if not isinstance(looked_up, x.Prop):
        return
    for value in values:
        type_ = value.type.of or value.type
        if not _wider(type_, looked_up.type):
            continue
        known = isinstance(fold_expr(value), x.Const)
        read = x.find(x.Prop, value)
        other = tags and bool(read) and all(e.stream != looked_up.stream for e in read)
        if known or other:
            fact = f"{type_text(type_)} is wider than `{looked_up.name}`, which is {type_text(looked_up.type)}"
            hint = f"cast(…, {looked_up.type}), or a column of the wider type"
            scope.report("type-mismatch", fact, value.span, hint)


def _wider(source: Type, expected: Type) -> bool:
    """Return whether an integer of type `source` would have to be narrowed to `expected`; literals are at least int."""
    if expected not in _WHOLE or not t.is_numeric(source):
        return False
    if source not in _WHOLE:
        return True
    return _WHOLE.index(source) > max(_WHOLE.index(expected), _WHOLE.index(t.INT))


def conjunction(conditions: Sequence[x.BoundExpr]) -> x.BoundExpr | None:
    """Join `conditions` with ``and``; return None if there are none."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    span = conditions[0].span.to(conditions[-1].span)
    return x.Logic(t.BOOLEAN, "and", tuple(conditions), span=span)
