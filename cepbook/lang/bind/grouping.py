"""The query kind of a select statement and what its expressions refer to under it.

In rows per group and in single rows there is no event to read from: there, expressions equal to a group key become
`KeyRef`, and the keys of the partition of a keyed context become `ContextProp` (recorded: a statement that selects
only the partition key and aggregates is fully aggregated).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cepbook.errors import Span
from cepbook.lang import expr as x
from cepbook.lang.bind.names import ERROR, Scope
from cepbook.lang.plan import Column, QueryKind
from cepbook.lang.rewrite.expressions import substitute

_Mapping = Mapping[x.Expr, x.Expr]


@dataclass(frozen=True, slots=True)
class Shape:
    """The clauses that depend on the query kind."""

    kind: QueryKind
    keys: tuple[x.Expr, ...]
    columns: tuple[Column, ...]
    wildcard: bool
    having: x.Expr | None
    order_by: tuple[tuple[x.Expr, bool], ...]


def shape(written: Shape, scope: Scope, span: Span) -> Shape:
    """`written` with its kind decided and its expressions made to fit."""
    if not scope.calls and not written.keys:
        return written
    grouped = bool(written.keys)
    mapping = {**_context_keys(scope), **_group_keys(written.keys)}
    lean = _substituted(written, mapping)
    if lean.wildcard or any(_reads_event(c.value) for c in lean.columns):
        return replace(written, kind="aggregated_grouped" if grouped else "aggregated")
    if not grouped:
        if lean.having is not None and _reads_event(lean.having):
            return replace(written, kind="aggregated")
        return replace(lean, kind="fully_aggregated", order_by=())  # one row has no order
    _check_grouped(lean, scope)
    return replace(lean, kind="fully_aggregated_grouped")


def _group_keys(keys: tuple[x.Expr, ...]) -> dict[x.Expr, x.Expr]:
    return {key: x.KeyRef(key.type, index, span=key.span) for index, key in enumerate(keys) if key.type != ERROR}


def _context_keys(scope: Scope) -> dict[x.Expr, x.Expr]:
    """The key expressions of the statement's event type in its keyed context, as context properties."""
    context = scope.context
    if context is None or len(scope.streams) != 1 or scope.streams[0].event_type is None:
        return {}
    name = scope.streams[0].event_type.name
    for listed, keys in context.keys.items():
        if scope.module.catalog.is_a(name, listed):
            return {key: x.ContextProp(key.type, f"key{i}") for i, key in enumerate(keys, 1)}
    return {}


def _substituted(written: Shape, mapping: _Mapping) -> Shape:
    return replace(
        written,
        columns=tuple(Column(c.name, substitute(c.value, mapping), span=c.span) for c in written.columns),
        having=substitute(written.having, mapping) if written.having is not None else None,
        order_by=tuple((substitute(e, mapping), descending) for e, descending in written.order_by),
    )


def _reads_event(e: x.Expr) -> bool:
    return any(isinstance(part, (x.Prop, x.EventOf)) for part in x.walk(e))


def _check_grouped(lean: Shape, scope: Scope) -> None:
    clauses = [("having", lean.having)] + [("order by", e) for e, _ in lean.order_by]
    for clause, e in clauses:
        for part in x.walk(e) if e is not None else ():
            if isinstance(part, (x.Prop, x.EventOf)):
                shown = f"`{part.name}`" if isinstance(part, x.Prop) else "the event"
                scope.problems.add(
                    "invalid-group-by", f"{shown} in {clause} is neither aggregated nor a group by key", part.span
                )
