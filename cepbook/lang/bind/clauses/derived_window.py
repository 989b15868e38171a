"""Derived-value windows: the type of their events (Esper reference, section "Derived-Value Windows").

A derived event has the keys of ``groupwin``, then the fields of the statistic, then the extra expressions of the
parameters. A name that occurs twice keeps its first position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cepbook.errors import Span
from cepbook.lang.bind.clauses.window_parameters import WindowArguments, refuse_order_and_star
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.scope import Scope
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.nodes import Derivation, OutputColumn, SourceNode, Windowed
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.unparser import unparse
from cepbook.lang.types import Type


@dataclass(frozen=True, slots=True)
class BoundDerivedWindow:
    """A bound derived-value window whose input is not known yet."""

    name: str
    args: tuple[x.BoundExpr, ...]
    extra: tuple[OutputColumn, ...]
    keys: tuple[OutputColumn, ...]
    event_type: EventType
    span: Span

    def over(self, rows: Windowed | SourceNode) -> Derivation:
        return Derivation(rows, self.name, self.args, self.extra, self.keys, self.event_type, span=self.span)


def bind_derived(
    name: str, arguments: WindowArguments, keys: Sequence[OutputColumn], scope: Scope, span: Span
) -> BoundDerivedWindow:
    """Bind the derived-value window called `name`, after a ``groupwin`` with `keys`."""
    fields = WINDOWS[name].fields
    properties: dict[str, Type] = {column.name: column.value.type for column in keys}
    properties.update({field: type_ for field, type_ in fields.items() if field not in properties})
    extra: list[OutputColumn] = []
    for column, chosen in _extra(arguments.rest, f"a property of `{name}`", scope):
        if column.name not in properties:
            properties[column.name] = column.value.type
            extra.append(column)
        elif chosen and column.name in fields:
            scope.report("duplicate-name", f"`{name}` has a field `{column.name}` of its own", column.span)
    return BoundDerivedWindow(
        name, tuple(arguments.args), tuple(extra), tuple(keys), EventType(f"<{name}>", properties), span
    )


def group_key_columns(nodes: Sequence[ast.Expr], keys: Sequence[x.BoundExpr], scope: Scope) -> tuple[OutputColumn, ...]:
    """Return the keys of ``groupwin`` as columns that are named by their text."""
    names = [_name(node, scope) for node in nodes]
    return tuple(OutputColumn(name, key, span=key.span) for name, key in zip(names, keys, strict=True))


def _extra(nodes: Sequence[ast.Expr], what: str, scope: Scope) -> Iterator[tuple[OutputColumn, bool]]:
    """Yield the extra columns, each with True if it was written and False if it comes from ``*``."""
    own = replace(scope.without_aggregates(what), no_row_functions=what)
    for node in nodes:
        if not isinstance(node, ast.Star):
            refuse_order_and_star(node, what, scope)
            yield OutputColumn(_name(node, scope), bind_expr(node, own), span=node.span), True
            continue
        event_type = own.streams[0].event_type
        for name, type_ in event_type.properties.items() if event_type is not None else ():
            yield OutputColumn(name, x.Prop(type_, 0, name, span=node.span), span=node.span), False


def _name(node: ast.Expr, scope: Scope) -> str:
    return unparse(node, frozenset(name.lower() for name in scope.module.catalog.functions))
