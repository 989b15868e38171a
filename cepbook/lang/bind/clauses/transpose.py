"""``insert into T select transpose(value)``: the properties of a value become those of the event.

The value is an event, a row (``new {…}``, a subquery with several columns) or a map. Of a map, the properties of the
target type are read. A column next to ``transpose`` replaces a property of the same name (Esper reference, section
"Transposing an Expression Result").
"""

from __future__ import annotations

from collections.abc import Mapping

from cepbook.lang import types as t
from cepbook.lang.bind.scope import ERROR, Binder, Scope, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


def is_transpose_call(node: ast.Expr) -> bool:
    """Return whether `node` is a call of ``transpose``."""
    if not isinstance(node, ast.Chain) or len(node.steps) != 1:
        return False
    step = node.steps[0]
    return step.name.lower() == "transpose" and step.args is not None


def bind_transpose(item: ast.SelectItem, target: str | None, scope: Scope, bind: Binder) -> list[nodes.OutputColumn]:
    """Return the columns of a transposed value; `target` is the type that is inserted into. Raises AlreadyReported."""
    node = item.expr
    assert isinstance(node, ast.Chain)
    step, span = node.steps[0], item.span
    if target is None:
        hint = "select the value, or its parts"
        scope.reject("`transpose` is allowed only in the select-clause of insert into", span, hint)
    if item.alias is not None:
        scope.reject("`transpose` gives all properties, and takes no name", span)
    if step.args is None or len(step.args) != 1 or step.wildcard or step.named or step.distinct:
        scope.reject("`transpose` takes one value", span)
    (argument,) = step.args
    value = bind(argument, scope)
    known = _properties(value, target, scope)
    shared = x.SharedExpr(value.type, value, span=span)
    members = {name: x.MemberAccess(of, shared, name, span=span) for name, of in known.items()}
    return [nodes.OutputColumn(name, member, span=span) for name, member in members.items()]


def _properties(value: x.BoundExpr, target: str, scope: Scope) -> Mapping[str, Type]:
    catalog, type_ = scope.module.catalog, value.type
    if type_ == ERROR:
        return {}
    if type_.fields is not None:
        return dict(type_.fields)
    event_type = catalog.event_types.get(type_.event or "")
    if event_type is None and type_.event is not None:
        types = (stream.event_type for stream in scope.streams)
        event_type = next((known for known in types if known and known.name == type_.event), None)
    if event_type is None and type_ in (t.MAP, t.OBJECT):
        event_type = catalog.event_types.get(target)
        if event_type is None:
            hint = f"declare its properties: create schema {target}(…)"
            scope.reject(f"the properties of `{target}` are unknown", value.span, hint)
    if event_type is None:
        scope.mismatch(f"`transpose` takes an event, a row or a map, found {type_text(type_)}", value.span)
    return event_type.properties
