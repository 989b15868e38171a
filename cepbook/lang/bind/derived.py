"""Derived-value windows: the type of their events (Esper reference, section "Derived-Value Windows").

A derived event has the keys of ``groupwin``, the statistic's own fields, then the extra expressions of the parameters;
a name occurs once, where it stands first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cepbook.errors import Span
from cepbook.lang import ast
from cepbook.lang import expr as x
from cepbook.lang.bind.expr import bind_expr
from cepbook.lang.bind.names import Scope
from cepbook.lang.bind.parameters import Parameters, check_plain
from cepbook.lang.catalog import EventType
from cepbook.lang.normal import unparse
from cepbook.lang.plan import Column, Derived, Source, Windowed
from cepbook.lang.types import Type
from cepbook.lang.windows import WINDOWS


@dataclass(frozen=True, slots=True)
class DerivedWindow:
    """A `plan.Derived` before its input is known."""

    name: str
    args: tuple[x.Expr, ...]
    extra: tuple[Column, ...]
    keys: tuple[Column, ...]
    event_type: EventType
    span: Span

    def over(self, rows: Windowed | Source) -> Derived:
        return Derived(rows, self.name, self.args, self.extra, self.keys, self.event_type, span=self.span)


def bind_derived(name: str, given: Parameters, keys: Sequence[Column], scope: Scope, span: Span) -> DerivedWindow:
    """The window called `name` with its parameters, behind a ``groupwin`` with `keys`."""
    fields = WINDOWS[name].fields
    properties: dict[str, Type] = {column.name: column.value.type for column in keys}
    properties.update({field: type_ for field, type_ in fields.items() if field not in properties})
    extra: list[Column] = []
    for column, chosen in _extra(given.rest, f"a property of `{name}`", scope):
        if column.name not in properties:
            properties[column.name] = column.value.type
            extra.append(column)
        elif chosen and column.name in fields:
            scope.problems.add("duplicate-name", f"`{name}` has a field `{column.name}` of its own", column.span)
    return DerivedWindow(name, tuple(given.args), tuple(extra), tuple(keys), EventType(f"<{name}>", properties), span)


def key_columns(nodes: Sequence[ast.Expr], keys: Sequence[x.Expr], scope: Scope) -> tuple[Column, ...]:
    """The keys of ``groupwin`` as columns, called by their text."""
    names = [_name(node, scope) for node in nodes]
    return tuple(Column(name, key, span=key.span) for name, key in zip(names, keys, strict=True))


def _extra(nodes: Sequence[ast.Expr], what: str, scope: Scope) -> Iterator[tuple[Column, bool]]:
    """The extra columns; False beside those of ``*``."""
    own = replace(scope.without_aggregates(what), no_rows=what)
    for node in nodes:
        if not isinstance(node, ast.Star):
            check_plain(node, what, scope)
            yield Column(_name(node, scope), bind_expr(node, own), span=node.span), True
            continue
        event_type = own.streams[0].event_type
        for name, type_ in event_type.properties.items() if event_type is not None else ():
            yield Column(name, x.Prop(type_, 0, name, span=node.span), span=node.span), False


def _name(node: ast.Expr, scope: Scope) -> str:
    return unparse(node, frozenset(name.lower() for name in scope.module.catalog.functions))
