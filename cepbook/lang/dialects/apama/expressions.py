"""Expressions of Apama queries as those of the plan: names, types, aggregates, what empty windows and NaN give.

Apama's values are never null: what an aggregate gives over an empty window is a value of its type. Comparisons with
NaN are false, aggregates ignore it. Numbers of both kinds mix (Apama wants conversions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from cepbook.errors import Span, nearest_or_known
from cepbook.lang import expr as x
from cepbook.lang import types as t
from cepbook.lang.bind.names import Problems, did_you_mean
from cepbook.lang.bind.typing import coerce
from cepbook.lang.catalog import Catalog, EventType
from cepbook.lang.dialects.apama import tree as a
from cepbook.lang.plan import AggregateCall
from cepbook.lang.rewrite.expressions import fold
from cepbook.lang.types import Type

SCALARS: Mapping[str, Type] = {"float": t.DOUBLE, "integer": t.LONG, "string": t.STRING, "boolean": t.BOOLEAN}
VALUE = "value"  # the one column of a stream of plain values
DEFAULTS: Mapping[Type, object] = {t.LONG: 0, t.DOUBLE: math.nan, t.STRING: "", t.BOOLEAN: False}


@dataclass(frozen=True, slots=True)
class Item:
    """The item of an input: events of a type, or plain values of `scalar`, which are its column `VALUE`."""

    number: int
    event_type: EventType
    scalar: Type | None


@dataclass(slots=True)
class Scope:
    """Where an expression stands. `calls` are the aggregates so far; `place` says why there may be none."""

    problems: Problems
    catalog: Catalog
    items: Mapping[str, Item] = field(default_factory=dict)
    calls: dict[AggregateCall, int] = field(default_factory=dict)
    place: str | None = None

    def without_aggregates(self, place: str) -> Scope:
        return replace(self, place=place)


def kind(type_: Type) -> Type | None:
    """The Apama type that values of an EPL type have; None for those that Apama has not."""
    if t.is_integral(type_):
        return t.LONG
    if type_ in (t.FLOAT, t.DOUBLE):
        return t.DOUBLE
    return t.STRING if type_ in (t.STRING, t.CHAR) else t.BOOLEAN if type_ == t.BOOLEAN else None


def shown(type_: Type) -> str:
    """A type as Apama calls it."""
    names = {of: name for name, of in SCALARS.items()}
    found = kind(type_)
    return names[found] if found is not None else f"event {type_.event}" if type_.event else str(type_)


def bind(node: a.Expr, scope: Scope) -> x.Expr:
    """The value of `node`. Errors: Refused, reported."""
    match node:
        case a.Literal(value=value):
            return x.Const(_of_literal(value), value, span=node.span)
        case a.Name():
            return _name(node, scope)
        case a.Member(args=None):
            return _member(node, scope)
        case a.Member():
            return _method(node, scope)
        case a.Call():
            return _call(node, scope)
        case a.Unary():
            return _unary(node, scope)
        case a.Binary():
            return _binary(node, scope)


def plain(node: a.Expr, scope: Scope) -> x.Expr:
    """A value that is no event. Errors: Refused, reported."""
    found = bind(node, scope)
    if kind(found.type) is None:
        scope.problems.fail("type-mismatch", f"expected a value, found {shown(found.type)}", node.span, "name a field")
    return found


def condition(node: a.Expr, what: str, scope: Scope) -> x.Expr:
    """A boolean. Errors: Refused, reported."""
    found = bind(node, scope)
    if found.type != t.BOOLEAN:
        fact = f"{what} must be a boolean, found {shown(found.type)}"
        scope.problems.fail("type-mismatch", fact, node.span, "write a comparison, such as x > 0")
    return found


def constant(node: a.Expr, what: str, scope: Scope) -> x.Const:
    """A number that is known when the query is created. Errors: Refused, reported."""
    found = fold(bind(node, replace(scope, items={}, place=what)))
    if not isinstance(found, x.Const) or kind(found.type) not in (t.LONG, t.DOUBLE):
        shown_ = shown(found.type) if isinstance(found, x.Const) else "an expression"
        fact = f"{what} must be a number, found {shown_}"
        scope.problems.fail("wrong-parameter", fact, node.span, "it is known when the query is created, such as 10")
    return found


def _of_literal(value: object) -> Type:
    if isinstance(value, bool):
        return t.BOOLEAN
    return t.LONG if isinstance(value, int) else t.DOUBLE if isinstance(value, float) else t.STRING


# ---------------------------------------------------------------- names
def _name(node: a.Name, scope: Scope) -> x.Expr:
    item = scope.items.get(node.name)
    if item is None:
        known = [*scope.items, *AGGREGATES]
        if not scope.items:
            fact = f"{scope.place or 'this'} must be a constant, found `{node.name}`"
            template = f'several conditions are separated by commas; text stands in double quotes: "{node.name}"'
            how = template if scope.place == "a template" else "it is known when the query is created, such as 10"
            scope.problems.fail("unknown-name", fact, node.span, how)
        fields = [f"{n}.{node.name}" for n, i in scope.items.items() if i.scalar is None and _has(i, node.name)]
        hint = f"did you mean `{fields[0]}`?" if fields else did_you_mean(node.name, known)
        hint = hint or nearest_or_known(node.name, scope.items)
        hint = "values are never null; only NaN is no number" if node.name.lower() == "null" else hint
        scope.problems.fail("unknown-name", f"no item `{node.name}`", node.span, hint)
    if item.scalar is not None:
        return x.Prop(item.scalar, item.number, VALUE, span=node.span)
    return x.EventOf(t.event_of(item.event_type.name), item.number, span=node.span)


def _has(item: Item, name: str) -> bool:
    return name in item.event_type.properties


def _member(node: a.Member, scope: Scope) -> x.Expr:
    target = bind(node.target, scope)
    event_type = scope.catalog.event_types.get(target.type.event or "")
    if event_type is None and isinstance(target, x.EventOf):
        event_type = next(i.event_type for i in scope.items.values() if i.number == target.stream)
    name_at = Span(node.span.end - len(node.name), node.span.end)
    if event_type is None:
        how = f"write .{node.name}()" if node.name in METHODS else "only events have fields"
        scope.problems.fail("unknown-field", f"{shown(target.type)} has no field `{node.name}`", name_at, how)
    type_ = event_type.properties.get(node.name)
    if type_ is None:
        hint = nearest_or_known(node.name, event_type.properties)
        scope.problems.fail("unknown-field", f"`{event_type.name}` has no field `{node.name}`", name_at, hint)
    if isinstance(target, x.EventOf):
        return x.Prop(type_, target.stream, node.name, span=node.span)
    return x.Member(type_, target, node.name, span=node.span)


def _round(scope: Scope, target: x.Expr, name: str) -> x.Expr:
    if kind(target.type) == t.LONG:
        return target
    inner = x.Call(t.LONG if name == "round" else t.DOUBLE, f"Math.{name}", (coerce(target, t.DOUBLE),))
    return inner if name == "round" else x.Convert(t.LONG, inner)


# What methods values have: the types of what they are called on, and what they give
METHODS: Mapping[str, tuple[tuple[Type, ...], Callable[[Scope, x.Expr, str], x.Expr]]] = {
    "abs": ((t.LONG, t.DOUBLE), lambda scope, e, name: x.Call(_wide(e.type), "Math.abs", (e,))),
    "ceil": ((t.LONG, t.DOUBLE), _round),
    "floor": ((t.LONG, t.DOUBLE), _round),
    "round": ((t.LONG, t.DOUBLE), _round),
    "toFloat": ((t.LONG, t.DOUBLE), lambda scope, e, name: coerce(e, t.DOUBLE)),
    "toString": (
        (t.LONG, t.DOUBLE, t.STRING, t.BOOLEAN),
        lambda scope, e, name: x.Concat(t.STRING, (x.Const(t.STRING, ""), e)),
    ),
}


def _wide(type_: Type) -> Type:
    return kind(type_) or type_


def _method(node: a.Member, scope: Scope) -> x.Expr:
    target = bind(node.target, scope)
    found = METHODS.get(node.name)
    if found is None or kind(target.type) not in found[0]:
        near = did_you_mean(node.name, METHODS) if found is None else None
        own = [name for name, (types, _) in METHODS.items() if kind(target.type) in types]
        hint = near or (f"it has {', '.join(own)}" if own else None)
        scope.problems.fail("unknown-method", f"{shown(target.type)} has no method `{node.name}`", node.span, hint)
    if node.args:
        fact = f"`{node.name}` takes no parameters"
        scope.problems.fail("wrong-parameter", fact, node.span, f"write .{node.name}()")
    return replace(found[1](scope, target, node.name), span=node.span)


# ---------------------------------------------------------------- operators
def _unary(node: a.Unary, scope: Scope) -> x.Expr:
    operand = bind(node.operand, scope)
    if node.op == "not":
        if operand.type != t.BOOLEAN:
            _mismatch(node, operand, "a boolean", scope)
        return x.Not(t.BOOLEAN, operand, span=node.span)
    if kind(operand.type) not in (t.LONG, t.DOUBLE):
        _mismatch(node, operand, "a number", scope)
    if node.op == "+":
        return operand
    return fold(x.Negate(_wide(operand.type), operand, span=node.span))


def _mismatch(node: a.Unary | a.Binary, found: x.Expr, wanted: str, scope: Scope) -> None:
    fact = f"`{node.op}` takes {wanted}, found {shown(found.type)}"
    hint = "booleans go with and, or, xor and not" if found.type == t.BOOLEAN else "of texts there is +, with a text"
    if found.type.event:
        hint = "name a field of it"
    elif "number" not in wanted:
        hint = "write a comparison, such as x > 0"
    elif node.op == "+" and kind(found.type) == t.STRING:
        hint = "text is added to text: write .toString() behind the other"
    scope.problems.fail("type-mismatch", fact, found.span if found.span.end else node.span, hint)


def _binary(node: a.Binary, scope: Scope) -> x.Expr:
    left, right = bind(node.left, scope), bind(node.right, scope)
    kinds = kind(left.type), kind(right.type)
    if node.op in ("and", "or", "xor"):
        for side in (left, right):
            if side.type != t.BOOLEAN:
                _mismatch(node, side, "booleans", scope)
        if node.op == "xor":
            return x.Compare(t.BOOLEAN, "!=", left, right, span=node.span)
        return x.Logic(t.BOOLEAN, node.op, (left, right), span=node.span)
    if node.op in ("=", "!=", "<", "<=", ">", ">="):
        return compared(node.op, left, right, node.span, scope)
    if node.op == "+" and kinds == (t.STRING, t.STRING):
        return x.Concat(t.STRING, (left, right), span=node.span)
    for side, of in zip((left, right), kinds, strict=True):
        if of not in (t.LONG, t.DOUBLE):
            _mismatch(node, side, "numbers", scope)
    if kinds == (t.LONG, t.LONG):
        if node.op in "/%":
            name = "whole division" if node.op == "/" else "whole remainder"
            return fold(x.Call(t.LONG, name, (left, right), span=node.span))
        return fold(x.Arith(t.LONG, node.op, left, right, span=node.span))
    both = coerce(left, t.DOUBLE), coerce(right, t.DOUBLE)
    return fold(x.Arith(t.DOUBLE, node.op, *both, span=node.span))


def compared(op: str, left: x.Expr, right: x.Expr, span: Span, scope: Scope) -> x.Expr:
    """A comparison of values that have an order or are equal. Those with NaN are false. Errors: Refused, reported."""
    kinds = kind(left.type), kind(right.type)
    numbers = set(kinds) <= {t.LONG, t.DOUBLE}
    if None in kinds or (kinds[0] != kinds[1] and not numbers):
        fact = f"{shown(left.type)} and {shown(right.type)} cannot be compared"
        more = "; .toString() makes text of others" if t.STRING in kinds else ""
        hint = f"values of one type are compared{more}"
        hint = "name fields of events" if None in kinds else hint
        scope.problems.fail("type-mismatch", fact, span, hint)
    if op not in ("=", "!=") and kinds[0] == t.BOOLEAN:
        scope.problems.fail("type-mismatch", "booleans have no order", span, "compare them with = or !=")
    known = isinstance(left, x.Const) or isinstance(right, x.Const)
    if t.DOUBLE not in kinds or op not in ("=", "!=") or (op == "=" and known):
        return x.Compare(t.BOOLEAN, op, left, right, span=span)
    ends = ("<=", ">=") if op == "=" else ("<", ">")
    parts = tuple(x.Compare(t.BOOLEAN, each, left, right, span=span) for each in ends)
    return x.Logic(t.BOOLEAN, "and" if op == "=" else "or", parts, span=span)


# ---------------------------------------------------------------- aggregates
def _call(node: a.Call, scope: Scope) -> x.Expr:
    rule = AGGREGATES.get(node.name)
    if rule is None:
        if node.name in scope.catalog.event_types:
            fact = f"a new `{node.name}` stands inside an expression"
            scope.problems.fail("wrong-event", fact, node.span, "a new event is what a query selects")
        known = (*AGGREGATES, *scope.catalog.event_types)
        declared = f"an event is declared before the query: event {node.name} {{ … }}"
        others = f"there are {', '.join(AGGREGATES)}; {declared}"
        hint = did_you_mean(node.name, known) or others
        scope.problems.fail("unknown-name", f"no aggregate or event type `{node.name}`", node.span, hint)
    if scope.place is not None:
        fact = f"the aggregate `{node.name}` in {scope.place}"
        scope.problems.fail("aggregate-not-allowed", fact, node.span, "aggregate in a stream of its own")
    least, most = rule.counts
    if not least <= len(node.args) <= most:
        wanted = f"{least}" if least == most else f"{least} or {most}"
        fact = f"`{node.name}` takes {wanted} parameter{'s' if most != 1 else ''}, found {len(node.args)}"
        scope.problems.fail("wrong-parameter", fact, node.span, f"write {rule.form(node.name)}")
    args = [plain(arg, scope) for arg in node.args[: rule.values]]
    if rule.numbers:
        for arg in args:
            if kind(arg.type) not in (t.LONG, t.DOUBLE):
                fact = f"`{node.name}` takes numbers, found {shown(arg.type)}"
                hint = f"other values are taken by {', '.join(n for n, r in AGGREGATES.items() if not r.numbers)}"
                scope.problems.fail("type-mismatch", fact, arg.span, hint)
    index = None
    if len(node.args) > rule.values:
        at = constant(node.args[rule.values], f"the index of `{node.name}`", scope)
        if not isinstance(at.value, int):
            fact = f"the index of `{node.name}` must be an integer"
            scope.problems.fail("wrong-parameter", fact, at.span, f"write {rule.form(node.name)}")
        index = at.value
    return rule.make(_Aggregate(node.name, node.span, scope), args, index)


@dataclass(frozen=True, slots=True)
class _Aggregate:
    """An aggregate call that is being bound."""

    name: str
    span: Span
    scope: Scope

    def of(self, name: str, args: tuple[x.Expr, ...], type_: Type, **more: object) -> x.Expr:
        """The value of the plan's aggregate `name`; null over an empty window."""
        call = AggregateCall(name, args, type_, span=self.span, **more)  # type: ignore[arg-type]
        number = self.scope.calls.setdefault(call, len(self.scope.calls))
        return x.AggregateRef(type_, number, span=self.span)

    def never_null(self, value: x.Expr, empty: object = None) -> x.Expr:
        """`value`, and over an empty window that of its type, or `empty`."""
        default = DEFAULTS[value.type] if empty is None else empty
        return x.Call(value.type, "coalesce", (value, x.Const(value.type, default)), span=self.span)


def _number(e: x.Expr) -> x.Expr | None:
    """The condition that a floating value is not NaN; None where it cannot be."""
    return x.Compare(t.BOOLEAN, "<=", e, x.Const(t.DOUBLE, math.inf)) if kind(e.type) == t.DOUBLE else None


def _sum(call: _Aggregate, args: list[x.Expr], index: int | None) -> x.Expr:
    (arg,), of = args, _wide(args[0].type)
    summed = arg if arg.type == of else x.Convert(of, arg, span=arg.span)  # the sum is of the type of what is summed
    return call.never_null(call.of("sum", (summed,), of, filter=_number(arg)), 0 if of == t.LONG else 0.0)


def _count(call: _Aggregate, args: list[x.Expr], index: int | None) -> x.Expr:
    if args and args[0].type == t.BOOLEAN:
        return call.of("count", (), t.LONG, filter=args[0])
    return call.of("count", tuple(args), t.LONG, filter=_number(args[0]) if args else None)


def _count_unique(call: _Aggregate, args: list[x.Expr], index: int | None) -> x.Expr:
    return call.of("count", (args[0],), t.LONG, distinct=True, filter=_number(args[0]))


def _statistic(name: str) -> Callable[[_Aggregate, list[x.Expr], int | None], x.Expr]:
    def make(call: _Aggregate, args: list[x.Expr], index: int | None) -> x.Expr:
        return call.never_null(call.of(name, (coerce(args[0], t.DOUBLE),), t.DOUBLE, filter=_number(args[0])))

    return make


def _wavg(call: _Aggregate, args: list[x.Expr], index: int | None) -> x.Expr:
    value, weight = (coerce(arg, t.DOUBLE) for arg in args)
    product = x.Arith(t.DOUBLE, "*", value, weight)
    known = _number(product)
    sums = [call.of("sum", (each,), t.DOUBLE, filter=known) for each in (product, weight)]
    return call.never_null(x.Arith(t.DOUBLE, "/", sums[0], sums[1], span=call.span))


def _extreme(call: _Aggregate, args: list[x.Expr], index: int | None) -> x.Expr:
    return call.never_null(call.of(call.name, (args[0],), _wide(args[0].type), filter=_number(args[0])))


def _placed(end: str, of_index: Callable[[int], int]) -> Callable[[_Aggregate, list[x.Expr], int | None], x.Expr]:
    """The value at a place, counted from the first item; from the last where it is negative."""

    def make(call: _Aggregate, args: list[x.Expr], index: int | None) -> x.Expr:
        place = of_index(0 if index is None else index)
        name, at = ("first", place) if place >= 0 else ("last", -1 - place)
        more: dict[str, object] = {} if at == 0 else {"index": x.Const(t.INT, at)}
        return call.never_null(call.of(name, (args[0],), _wide(args[0].type), **more))

    return make


@dataclass(frozen=True, slots=True)
class Rule:
    """One aggregate: how many parameters it takes (`values` of them per item, then an index), and what it is."""

    make: Callable[[_Aggregate, list[x.Expr], int | None], x.Expr]
    doc: str
    counts: tuple[int, int] = (1, 1)
    values: int = 1
    numbers: bool = False

    def form(self, name: str) -> str:
        """A call of the aggregate `name`, as it is written."""
        most = ("value", "weight")[: self.values] + ("0",) * (self.counts[1] - self.values)
        return f"{name}({', '.join(most)})"


AGGREGATES: Mapping[str, Rule] = {
    "avg": Rule(_statistic("avg"), "the mean; NaN of none", numbers=True),
    "count": Rule(_count, "how many items; with a value those that have one, of booleans those that are true", (0, 1)),
    "countUnique": Rule(_count_unique, "how many different values"),
    "first": Rule(_placed("first", lambda i: 0), "the value of the oldest item"),
    "last": Rule(_placed("last", lambda i: -1), "the value of the newest item"),
    "max": Rule(_extreme, "the largest value"),
    "mean": Rule(_statistic("avg"), "the mean; NaN of none", numbers=True),
    "min": Rule(_extreme, "the smallest value"),
    "nth": Rule(_placed("nth", lambda i: i), "the value of item i, 0 being the oldest, -1 the newest", (2, 2)),
    "prior": Rule(_placed("prior", lambda i: -1 - i), "the value i items before the newest", (2, 2)),
    "stddev": Rule(_statistic("stddevpop"), "the standard deviation of a population", numbers=True),
    "stddev2": Rule(_statistic("stddev"), "the standard deviation of a sample", numbers=True),
    "sum": Rule(_sum, "the sum; 0 of none", numbers=True),
    "wavg": Rule(_wavg, "the mean weighted by a second value", (2, 2), 2, numbers=True),
}
