"""The steps of a dotted chain behind its first name: members, entries, indexes and methods of the value before.

No name is looked up here: what a step means depends on the type of the value alone. `fail`, `mismatch` and
`refuse_method` report a problem and raise AlreadyReported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cepbook.errors import Span, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import UNTYPED
from cepbook.lang.bind.expressions import call
from cepbook.lang.bind.expressions.date_methods import bind_date_method, event_type_of
from cepbook.lang.bind.expressions.method_call import bind_method, refuse_method
from cepbook.lang.bind.expressions.table_access import bind_method_of_row
from cepbook.lang.bind.expressions.variant import variant_property
from cepbook.lang.bind.scope import ERROR, Binder, Scope, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.registry.aggregates import aggregate_row
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.methods import is_enumeration_method
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


def apply_steps(target: x.BoundExpr, steps: Sequence[ast.NameStep], scope: Scope, bind: Binder) -> x.BoundExpr:
    """Apply members and methods to `target`."""
    length: x.BoundExpr | None = None  # the length of the interval that an event with timestamps stands for
    for step in steps:
        if target.type == ERROR:
            return target
        if not step.name:
            target = apply_index(target, step, scope, bind)
        elif step.args is not None:
            dated = bind_date_method(target, length, step, scope, bind)
            target, length = dated if dated is not None else (_method(target, step, scope, bind), None)
        else:
            target = apply_index(bind_member(target, step, scope), step, scope, bind)
    return target


def is_plain(type_: Type, scope: Scope) -> bool:
    """Return whether values of `type_` have no members, not even dynamic ones."""
    return members_of(type_, scope) is None and type_ not in UNTYPED


def members_of(type_: Type, scope: Scope) -> Mapping[str, Type] | None:
    if type_.event is not None:
        event_type = event_type_of(type_, scope)
        return event_type.properties if event_type is not None else None
    return dict(type_.fields) if type_.fields is not None else None


def bind_member(target: x.BoundExpr, step: ast.NameStep, scope: Scope) -> x.BoundExpr:
    span = target.span.to(step.span)
    inserted = variant_property(target, step, scope)
    if inserted is not None:
        return inserted
    members = members_of(target.type, scope)
    if members is not None and step.name in members:
        if isinstance(target, x.EventOf):
            return x.Prop(members[step.name], target.stream, step.name, span=span)
        return x.MemberAccess(members[step.name], target, step.name, span=span)
    if target.type == t.MAP or (step.optional and not is_plain(target.type, scope)):
        return x.MemberAccess(t.OBJECT, target, step.name, span=span)
    hint = nearest_or_known_names(step.name, visible_names(members or ()))
    if target.type.of is not None and step.name in (members_of(target.type.of, scope) or ()):
        hint = f"it is an array: take one of its events, such as [0].{step.name} or lastOf().{step.name}"
    if target.type == t.STRING and step.name == "str":
        hint = "leave str out: the methods are those of the text, such as symbol.toUpperCase()"
    owner = type_text(target.type) if target.type.event is None else f"`{target.type.event}`"
    if isinstance(target, x.ContextProp) and target.type.event is None:
        owner = f"`context.{target.name}`"
    scope.fail("unknown-property", f"no property `{step.name}` in {owner}", step.span, hint)


def apply_index(target: x.BoundExpr, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    if step.index is None or target.type == ERROR:
        return target
    if isinstance(step.index, ast.Tuple_):
        scope.fail("not-supported-yet", "not supported yet: several indexes", step.index.span)
    index = bind(step.index, scope)
    if index.type == ERROR:
        return index
    span = target.span.to(step.span)
    if (target.type == t.MAP and index.type == t.STRING) or (step.optional and target.type == t.OBJECT):
        return x.IndexAccess(t.OBJECT, target, index, span=span)
    if target.type.of is None:
        before = Span(target.span.start, min(target.span.end, step.span.start))  # an index by itself has no name
        indexed = step.name or scope.module.text(before)
        scope.mismatch(f"`{indexed}` is {type_text(target.type)}, not an array", step.span)
    if index.type not in (t.INT, t.SHORT, t.BYTE):
        scope.mismatch(f"an array index must be an int, found {type_text(index.type)}", step.index.span)
    return x.IndexAccess(target.type.of, target, index, span=span)


# The prefix in `FUNCTIONS` of the methods of values, by the names of types
_METHOD_OWNERS = {
    "string": "string",
    "char": "string",
    "biginteger": "bignumber",
    "bigdecimal": "bignumber",
    "event": "event",
}


def _is_single_event(target: x.BoundExpr, scope: Scope) -> bool:
    """Return True if enumeration methods take `target` as an array of one: an event, or a value of another event."""
    if isinstance(target, x.AggregateRef):
        return target.type.event is not None or aggregate_row(list(scope.calls)[target.index].name).needs_window != ""
    return target.type.event is not None or isinstance(target, x.Prev)


def _method(target: x.BoundExpr, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind an entry, or a method of a table's row, of `FUNCTIONS` (texts, numbers), of `registry.methods` (arrays)."""
    members = members_of(target.type, scope)
    if members is not None and is_entry_access(members.get(step.name), step):
        return bind_entry(bind_member(target, step, scope), step, scope, bind)
    of_row = bind_method_of_row(target, step, scope, bind) if isinstance(target, x.Prop) else None
    if of_row is not None:
        return apply_index(of_row, step, scope, bind)
    function = FUNCTIONS.get(f"{_METHOD_OWNERS.get(target.type.name, '')}.{step.name}")
    if function is not None:
        return apply_index(call.bind_function(function, step, scope, bind, receiver=target), step, scope, bind)
    call_ = bind_method(target, step, scope, bind)
    if call_ is None and is_enumeration_method(step.name) and _is_single_event(target, scope):
        only = x.FunctionCall(t.array_of(target.type), "array of one", (target,), span=target.span)
        call_ = bind_method(only, step, scope, bind)
    if call_ is not None:
        return apply_index(call_, step, scope, bind)
    refuse_method(target, step, scope)


def is_entry_access(type_: Type | None, step: ast.NameStep) -> bool:
    """Return True if `step` with one parameter is an entry of a property of the type."""
    listed = type_ is not None and (type_ == t.MAP or type_.of is not None)
    return listed and len(step.args or ()) == 1 and not (step.wildcard or step.named or step.distinct)


def bind_entry(target: x.BoundExpr, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind ``m('key')`` of a map or ``x(0)`` of an array, and the index behind it."""
    (key,) = step.args or ()
    if target.type.of is not None:
        return apply_index(apply_index(target, replace(step, index=key), scope, bind), step, scope, bind)
    bound = bind(key, scope)
    if bound.type not in (t.STRING, t.CHAR, ERROR):
        scope.mismatch(f"the key must be a string, found {type_text(bound.type)}", key.span)
    return x.IndexAccess(t.OBJECT, target, bound, span=target.span.to(key.span))


def visible_names(names: Iterable[str]) -> list[str]:
    return [name for name in names if name[:1] not in ("$", " ")]
