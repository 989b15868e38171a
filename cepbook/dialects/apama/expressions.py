"""Expressions of Apama queries: names, types, operators and aggregates.

Apama's values are never null: an aggregate over an empty window returns a default value of its type. Comparisons with
NaN are false, and aggregates ignore NaN. Integers and floats mix (Apama itself requires conversions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from cepbook.dialects.apama import tree as a
from cepbook.errors import Span, did_you_mean, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import coerce
from cepbook.lang.bind.scope import DiagnosticCollector, Reporting
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import Catalog, EventType
from cepbook.lang.plan.nodes import AggregateCall
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.types import Type

SCALAR_TYPES: Mapping[str, Type] = {"float": t.DOUBLE, "integer": t.LONG, "string": t.STRING, "boolean": t.BOOLEAN}
VALUE_COLUMN = "value"  # the one column of a stream of plain values
EMPTY_WINDOW_VALUES: Mapping[Type, object] = {t.LONG: 0, t.DOUBLE: math.nan, t.STRING: "", t.BOOLEAN: False}


@dataclass(frozen=True, slots=True)
class InputItem:
    """The item of an input: events of a type, or plain values of type `scalar` in the column `VALUE_COLUMN`."""

    number: int
    event_type: EventType
    scalar: Type | None


@dataclass(slots=True)
class ApamaScope(Reporting):
    """The names that an expression may refer to. `calls` are the aggregates so far; `place` names a clause without
    aggregates.
    """

    problems: DiagnosticCollector = field()
    catalog: Catalog
    items: Mapping[str, InputItem] = field(default_factory=dict)
    calls: dict[AggregateCall, int] = field(default_factory=dict)
    place: str | None = None

    def without_aggregates(self, place: str) -> ApamaScope:
        return replace(self, place=place)


def apama_type(type_: Type) -> Type | None:
    """Return the Apama type of an EPL type's values, or None for types that Apama does not have."""
    if t.is_integral(type_):
        return t.LONG
    if type_ in (t.FLOAT, t.DOUBLE):
        return t.DOUBLE
    return t.STRING if type_ in (t.STRING, t.CHAR) else t.BOOLEAN if type_ == t.BOOLEAN else None


def apama_text(type_: Type) -> str:
    """Return a type as Apama names it."""
    names = {of: name for name, of in SCALAR_TYPES.items()}
    apama = apama_type(type_)
    return names[apama] if apama is not None else f"event {type_.event}" if type_.event else str(type_)


def bind_expression(node: a.Expr, scope: ApamaScope) -> x.BoundExpr:
    """Return the value of `node`. Raises AlreadyReported."""
    match node:
        case a.ApamaLiteral(value=value):
            return x.Const(_literal_type(value), value, span=node.span)
        case a.ApamaName():
            return _name(node, scope)
        case a.ApamaMember(args=None):
            return _member(node, scope)
        case a.ApamaMember():
            return _method(node, scope)
        case a.ApamaCall():
            return _call(node, scope)
        case a.ApamaUnary():
            return _unary(node, scope)
        case a.ApamaBinary():
            return _binary(node, scope)


def bind_value(node: a.Expr, scope: ApamaScope) -> x.BoundExpr:
    """Return a value that is no event. Raises AlreadyReported."""
    value = bind_expression(node, scope)
    if apama_type(value.type) is None:
        scope.mismatch(f"expected a value, found {apama_text(value.type)}", node.span, "name a field")
    return value


def bind_boolean(node: a.Expr, what: str, scope: ApamaScope) -> x.BoundExpr:
    """Return a boolean value. Raises AlreadyReported."""
    value = bind_expression(node, scope)
    if value.type != t.BOOLEAN:
        fact = f"{what} must be a boolean, found {apama_text(value.type)}"
        scope.mismatch(fact, node.span, "write a comparison, such as x > 0")
    return value


def bind_constant(node: a.Expr, what: str, scope: ApamaScope) -> x.Const:
    """Return a number that is known when the query is created. Raises AlreadyReported."""
    value = fold_expr(bind_expression(node, replace(scope, items={}, place=what)))
    if not isinstance(value, x.Const) or apama_type(value.type) not in (t.LONG, t.DOUBLE):
        shown_ = apama_text(value.type) if isinstance(value, x.Const) else "an expression"
        fact = f"{what} must be a number, found {shown_}"
        scope.reject(fact, node.span, "it is known when the query is created, such as 10")
    return value


def _literal_type(value: object) -> Type:
    if isinstance(value, bool):
        return t.BOOLEAN
    return t.LONG if isinstance(value, int) else t.DOUBLE if isinstance(value, float) else t.STRING


def _name(node: a.ApamaName, scope: ApamaScope) -> x.BoundExpr:
    item = scope.items.get(node.name)
    if item is None:
        known = [*scope.items, *APAMA_AGGREGATES]
        if not scope.items:
            fact = f"{scope.place or 'this'} must be a constant, found `{node.name}`"
            template = f'several conditions are separated by commas; strings use double quotes: "{node.name}"'
            how = template if scope.place == "a template" else "it is known when the query is created, such as 10"
            scope.fail("unknown-name", fact, node.span, how)
        fields = [f"{n}.{node.name}" for n, i in scope.items.items() if i.scalar is None and _has(i, node.name)]
        hint = f"did you mean `{fields[0]}`?" if fields else did_you_mean(node.name, known)
        hint = hint or nearest_or_known_names(node.name, scope.items)
        hint = "values are never null; only NaN is no number" if node.name.lower() == "null" else hint
        scope.fail("unknown-name", f"no item `{node.name}`", node.span, hint)
    if item.scalar is not None:
        return x.Prop(item.scalar, item.number, VALUE_COLUMN, span=node.span)
    return x.EventOf(t.event_of(item.event_type.name), item.number, span=node.span)


def _has(item: InputItem, name: str) -> bool:
    return name in item.event_type.properties


def _member(node: a.ApamaMember, scope: ApamaScope) -> x.BoundExpr:
    target = bind_expression(node.target, scope)
    event_type = scope.catalog.event_types.get(target.type.event or "")
    if event_type is None and isinstance(target, x.EventOf):
        event_type = next(i.event_type for i in scope.items.values() if i.number == target.stream)
    name_at = Span(node.span.end - len(node.name), node.span.end)
    if event_type is None:
        how = f"write .{node.name}()" if node.name in VALUE_METHODS else "only events have fields"
        scope.fail("unknown-field", f"{apama_text(target.type)} has no field `{node.name}`", name_at, how)
    type_ = event_type.properties.get(node.name)
    if type_ is None:
        hint = nearest_or_known_names(node.name, event_type.properties)
        scope.fail("unknown-field", f"`{event_type.name}` has no field `{node.name}`", name_at, hint)
    if isinstance(target, x.EventOf):
        return x.Prop(type_, target.stream, node.name, span=node.span)
    return x.MemberAccess(type_, target, node.name, span=node.span)


def _round(scope: ApamaScope, target: x.BoundExpr, name: str) -> x.BoundExpr:
    if apama_type(target.type) == t.LONG:
        return target
    inner = x.FunctionCall(t.LONG if name == "round" else t.DOUBLE, f"Math.{name}", (coerce(target, t.DOUBLE),))
    return inner if name == "round" else x.Convert(t.LONG, inner)


# Methods of values: the types of the receiver, and a function that binds the call
VALUE_METHODS: Mapping[str, tuple[tuple[Type, ...], Callable[[ApamaScope, x.BoundExpr, str], x.BoundExpr]]] = {
    "abs": ((t.LONG, t.DOUBLE), lambda scope, e, name: x.FunctionCall(_widened(e.type), "Math.abs", (e,))),
    "ceil": ((t.LONG, t.DOUBLE), _round),
    "floor": ((t.LONG, t.DOUBLE), _round),
    "round": ((t.LONG, t.DOUBLE), _round),
    "toFloat": ((t.LONG, t.DOUBLE), lambda scope, e, name: coerce(e, t.DOUBLE)),
    "toString": (
        (t.LONG, t.DOUBLE, t.STRING, t.BOOLEAN),
        lambda scope, e, name: x.Concat(t.STRING, (x.Const(t.STRING, ""), e)),
    ),
}


def _widened(type_: Type) -> Type:
    return apama_type(type_) or type_


def _method(node: a.ApamaMember, scope: ApamaScope) -> x.BoundExpr:
    target = bind_expression(node.target, scope)
    rule = VALUE_METHODS.get(node.name)
    if rule is None or apama_type(target.type) not in rule[0]:
        near = did_you_mean(node.name, VALUE_METHODS) if rule is None else None
        own = [name for name, (types, _) in VALUE_METHODS.items() if apama_type(target.type) in types]
        hint = near or (f"it has {', '.join(own)}" if own else None)
        scope.fail("unknown-method", f"{apama_text(target.type)} has no method `{node.name}`", node.span, hint)
    if node.args:
        scope.reject(f"`{node.name}` takes no parameters", node.span, f"write .{node.name}()")
    return replace(rule[1](scope, target, node.name), span=node.span)


def _unary(node: a.ApamaUnary, scope: ApamaScope) -> x.BoundExpr:
    operand = bind_expression(node.operand, scope)
    if node.op == "not":
        if operand.type != t.BOOLEAN:
            _mismatch(node, operand, "a boolean", scope)
        return x.LogicalNot(t.BOOLEAN, operand, span=node.span)
    if apama_type(operand.type) not in (t.LONG, t.DOUBLE):
        _mismatch(node, operand, "a number", scope)
    if node.op == "+":
        return operand
    return fold_expr(x.Negate(_widened(operand.type), operand, span=node.span))


def _mismatch(node: a.ApamaUnary | a.ApamaBinary, operand: x.BoundExpr, expected: str, scope: ApamaScope) -> None:
    fact = f"`{node.op}` takes {expected}, found {apama_text(operand.type)}"
    hint = "text supports only + with another text"
    if operand.type == t.BOOLEAN:
        hint = "booleans go with and, or, xor and not"
    if operand.type.event:
        hint = "name a field of it"
    elif "number" not in expected:
        hint = "write a comparison, such as x > 0"
    elif node.op == "+" and apama_type(operand.type) == t.STRING:
        hint = "text is added to text: write .toString() after the other"
    scope.mismatch(fact, operand.span if operand.span.end else node.span, hint)


def _binary(node: a.ApamaBinary, scope: ApamaScope) -> x.BoundExpr:
    left, right = bind_expression(node.left, scope), bind_expression(node.right, scope)
    kinds = apama_type(left.type), apama_type(right.type)
    if node.op in ("and", "or", "xor"):
        for side in (left, right):
            if side.type != t.BOOLEAN:
                _mismatch(node, side, "booleans", scope)
        if node.op == "xor":
            return x.ComparisonExpr(t.BOOLEAN, "!=", left, right, span=node.span)
        return x.Logic(t.BOOLEAN, node.op, (left, right), span=node.span)
    if node.op in ("=", "!=", "<", "<=", ">", ">="):
        return bind_comparison(node.op, left, right, node.span, scope)
    if node.op == "+" and kinds == (t.STRING, t.STRING):
        return x.Concat(t.STRING, (left, right), span=node.span)
    for side, of in zip((left, right), kinds, strict=True):
        if of not in (t.LONG, t.DOUBLE):
            _mismatch(node, side, "numbers", scope)
    if kinds == (t.LONG, t.LONG):
        if node.op in "/%":
            name = "whole division" if node.op == "/" else "whole remainder"
            return fold_expr(x.FunctionCall(t.LONG, name, (left, right), span=node.span))
        return fold_expr(x.Arith(t.LONG, node.op, left, right, span=node.span))
    both = coerce(left, t.DOUBLE), coerce(right, t.DOUBLE)
    return fold_expr(x.Arith(t.DOUBLE, node.op, *both, span=node.span))


def bind_comparison(op: str, left: x.BoundExpr, right: x.BoundExpr, span: Span, scope: ApamaScope) -> x.BoundExpr:
    """Return a comparison that is false for NaN. Raises AlreadyReported for values that cannot be compared."""
    kinds = apama_type(left.type), apama_type(right.type)
    numbers = set(kinds) <= {t.LONG, t.DOUBLE}
    if None in kinds or (kinds[0] != kinds[1] and not numbers):
        fact = f"{apama_text(left.type)} and {apama_text(right.type)} cannot be compared"
        more = "; .toString() makes text of others" if t.STRING in kinds else ""
        hint = f"values of one type are compared{more}"
        hint = "name fields of events" if None in kinds else hint
        scope.mismatch(fact, span, hint)
    if op not in ("=", "!=") and kinds[0] == t.BOOLEAN:
        scope.mismatch("booleans have no order", span, "compare them with = or !=")
    known = isinstance(left, x.Const) or isinstance(right, x.Const)
    if t.DOUBLE not in kinds or op not in ("=", "!=") or (op == "=" and known):
        return x.ComparisonExpr(t.BOOLEAN, op, left, right, span=span)
    ends = ("<=", ">=") if op == "=" else ("<", ">")
    parts = tuple(x.ComparisonExpr(t.BOOLEAN, operator, left, right, span=span) for operator in ends)
    return x.Logic(t.BOOLEAN, "and" if op == "=" else "or", parts, span=span)


def _call(node: a.ApamaCall, scope: ApamaScope) -> x.BoundExpr:
    rule = APAMA_AGGREGATES.get(node.name)
    if rule is None:
        if node.name in scope.catalog.event_types:
            fact = f"a new `{node.name}` inside an expression"
            scope.fail("wrong-event", fact, node.span, "a new event is what a query selects")
        known = (*APAMA_AGGREGATES, *scope.catalog.event_types)
        declared = f"an event is declared before the query: event {node.name} {{ … }}"
        others = f"there are {', '.join(APAMA_AGGREGATES)}; {declared}"
        hint = did_you_mean(node.name, known) or others
        scope.fail("unknown-name", f"no aggregate or event type `{node.name}`", node.span, hint)
    if scope.place is not None:
        fact = f"the aggregate `{node.name}` in {scope.place}"
        scope.fail("aggregate-not-allowed", fact, node.span, "aggregate in a separate stream")
    least, most = rule.counts
    if not least <= len(node.args) <= most:
        count_text = f"{least}" if least == most else f"{least} or {most}"
        fact = f"`{node.name}` takes {count_text} parameter{'s' if most != 1 else ''}, found {len(node.args)}"
        scope.reject(fact, node.span, f"write {rule.form(node.name)}")
    args = [bind_value(arg, scope) for arg in node.args[: rule.values]]
    if rule.numbers:
        for arg in args:
            if apama_type(arg.type) not in (t.LONG, t.DOUBLE):
                fact = f"`{node.name}` takes numbers, found {apama_text(arg.type)}"
                hint = f"other values are taken by {', '.join(n for n, r in APAMA_AGGREGATES.items() if not r.numbers)}"
                scope.mismatch(fact, arg.span, hint)
    index = None
    if len(node.args) > rule.values:
        at = bind_constant(node.args[rule.values], f"the index of `{node.name}`", scope)
        if not isinstance(at.value, int):
            scope.reject(f"the index of `{node.name}` must be an integer", at.span, f"write {rule.form(node.name)}")
        index = at.value
    return rule.make(_Aggregate(node.name, node.span, scope), args, index)


@dataclass(frozen=True, slots=True)
class _Aggregate:
    """An aggregate call that is being bound."""

    name: str
    span: Span
    scope: ApamaScope

    def of(self, name: str, args: tuple[x.BoundExpr, ...], type_: Type, **more: object) -> x.BoundExpr:
        call = AggregateCall(name, args, type_, span=self.span, **more)  # type: ignore[arg-type]
        number = self.scope.calls.setdefault(call, len(self.scope.calls))
        return x.AggregateRef(type_, number, span=self.span)

    def never_null(self, value: x.BoundExpr, empty: object = None) -> x.BoundExpr:
        default = EMPTY_WINDOW_VALUES[value.type] if empty is None else empty
        return x.FunctionCall(value.type, "coalesce", (value, x.Const(value.type, default)), span=self.span)


def _number(e: x.BoundExpr) -> x.BoundExpr | None:
    return x.ComparisonExpr(t.BOOLEAN, "<=", e, x.Const(t.DOUBLE, math.inf)) if apama_type(e.type) == t.DOUBLE else None


def _sum(call: _Aggregate, args: list[x.BoundExpr], index: int | None) -> x.BoundExpr:
    (arg,), of = args, _widened(args[0].type)
    summed = arg if arg.type == of else x.Convert(of, arg, span=arg.span)  # the sum is of the type of what is summed
    return call.never_null(call.of("sum", (summed,), of, filter=_number(arg)), 0 if of == t.LONG else 0.0)


def _count(call: _Aggregate, args: list[x.BoundExpr], index: int | None) -> x.BoundExpr:
    if args and args[0].type == t.BOOLEAN:
        return call.of("count", (), t.LONG, filter=args[0])
    return call.of("count", tuple(args), t.LONG, filter=_number(args[0]) if args else None)


def _count_unique(call: _Aggregate, args: list[x.BoundExpr], index: int | None) -> x.BoundExpr:
    return call.of("count", (args[0],), t.LONG, distinct=True, filter=_number(args[0]))


def _statistic(name: str) -> Callable[[_Aggregate, list[x.BoundExpr], int | None], x.BoundExpr]:
    def make(call: _Aggregate, args: list[x.BoundExpr], index: int | None) -> x.BoundExpr:
        return call.never_null(call.of(name, (coerce(args[0], t.DOUBLE),), t.DOUBLE, filter=_number(args[0])))

    return make


def _wavg(call: _Aggregate, args: list[x.BoundExpr], index: int | None) -> x.BoundExpr:
    value, weight = (coerce(arg, t.DOUBLE) for arg in args)
    product = x.Arith(t.DOUBLE, "*", value, weight)
    known = _number(product)
    sums = [call.of("sum", (summand,), t.DOUBLE, filter=known) for summand in (product, weight)]
    return call.never_null(x.Arith(t.DOUBLE, "/", sums[0], sums[1], span=call.span))


def _extreme(call: _Aggregate, args: list[x.BoundExpr], index: int | None) -> x.BoundExpr:
    return call.never_null(call.of(call.name, (args[0],), _widened(args[0].type), filter=_number(args[0])))


def _positional(
    of_index: Callable[[int], int],
) -> Callable[[_Aggregate, list[x.BoundExpr], int | None], x.BoundExpr]:
    def make(call: _Aggregate, args: list[x.BoundExpr], index: int | None) -> x.BoundExpr:
        place = of_index(0 if index is None else index)
        name, at = ("first", place) if place >= 0 else ("last", -1 - place)
        more: dict[str, object] = {} if at == 0 else {"index": x.Const(t.INT, at)}
        return call.never_null(call.of(name, (args[0],), _widened(args[0].type), **more))

    return make


@dataclass(frozen=True, slots=True)
class AggregateRule:
    """One aggregate: the fewest and most parameters (`values` of them per item, then an index), and how to bind it."""

    make: Callable[[_Aggregate, list[x.BoundExpr], int | None], x.BoundExpr]
    doc: str
    counts: tuple[int, int] = (1, 1)
    values: int = 1
    numbers: bool = False

    def form(self, name: str) -> str:
        """Return an example call of the aggregate `name`."""
        most = ("value", "weight")[: self.values] + ("0",) * (self.counts[1] - self.values)
        return f"{name}({', '.join(most)})"


APAMA_AGGREGATES: Mapping[str, AggregateRule] = {
    "avg": AggregateRule(_statistic("avg"), "the mean; NaN of none", numbers=True),
    "count": AggregateRule(
        _count, "how many items; with a value those that have one, of booleans those that are true", (0, 1)
    ),
    "countUnique": AggregateRule(_count_unique, "how many different values"),
    "first": AggregateRule(_positional(lambda i: 0), "the value of the oldest item"),
    "last": AggregateRule(_positional(lambda i: -1), "the value of the newest item"),
    "max": AggregateRule(_extreme, "the largest value"),
    "mean": AggregateRule(_statistic("avg"), "the mean; NaN of none", numbers=True),
    "min": AggregateRule(_extreme, "the smallest value"),
    "nth": AggregateRule(_positional(lambda i: i), "the value of item i, 0 being the oldest, -1 the newest", (2, 2)),
    "prior": AggregateRule(_positional(lambda i: -1 - i), "the value i items before the newest", (2, 2)),
    "stddev": AggregateRule(_statistic("stddevpop"), "the standard deviation of a population", numbers=True),
    "stddev2": AggregateRule(_statistic("stddev"), "the standard deviation of a sample", numbers=True),
    "sum": AggregateRule(_sum, "the sum; 0 of none", numbers=True),
    "wavg": AggregateRule(_wavg, "the mean weighted by a second value", (2, 2), 2, numbers=True),
}
