"""Date-time methods and interval relations (Esper reference, chapter "EPL Reference: Date-Time Methods").

An event with a start timestamp stands for the timestamp: ``e.plus(1 day)`` adds to it. In relations the event is the
whole interval up to its end timestamp, and it keeps its length when it moves: ``e.plus(1 day).before(f)``.
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.expressions.method_call import resolve_method_form
from cepbook.lang.bind.scope import ERROR, Binder, Scope, error_expression, type_text
from cepbook.lang.java.dates.chronology import (
    Chronology,
    EpochChronology,
    InstantChronology,
    LocalChronology,
    ZonedChronology,
)
from cepbook.lang.java.dates.date_pattern import LETTERS_EXPLAINED, DatePatternError, parse_date_pattern
from cepbook.lang.java.dates.fields import FIELDS, MONTHS, ORDER
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.registry.methods import MethodRow, methods_named
from cepbook.lang.registry.methods.datetime import DISTANCE_RELATIONS, INTERVAL_RELATIONS
from cepbook.lang.registry.methods.method_row import CallTypes, MethodParameter
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

_POINT = x.Const(t.LONG, 0)  # the length of a moment
_ROUNDING = ("roundFloor", "roundCeiling", "roundHalf")


def bind_date_method(
    target: x.BoundExpr, length: x.BoundExpr | None, step: ast.NameStep, scope: Scope, bind: Binder
) -> tuple[x.BoundExpr, x.BoundExpr | None] | None:
    """Bind ``target.step(…)``; return it and the length of its interval, or None if `step` is no date-time method.

    `length` is the length of `target` if it came from an event. Raises AlreadyReported.
    """
    rows = [row for row in methods_named(step.name) if row.forms[0].receivers == ("date",)]
    event = event_type_of(target.type, scope)
    if not rows or not (event is not None or target.type in (t.LONG, *t.DATETIMES)):
        return None
    (row,) = rows
    if event is not None:
        target, length = _interval(target, event, scope)
    if step.wildcard or step.distinct or step.named:
        scope.reject(f"`{row.short}` takes plain values only", step.span)
    form = resolve_method_form(row, row.forms, step, scope)
    relation = row.name in INTERVAL_RELATIONS
    args: list[x.BoundExpr] = []
    if relation:
        args += [] if row.short == "between" else [length or _POINT]
    else:
        args.append(x.Const(t.CHRONOLOGY, chronology_of(target.type, scope)))
    reader = _Reader(row, target, scope, bind)
    for parameter, node in zip(form.parameters, step.args or (), strict=True):
        args += reader.read(parameter, node)
        if row.short == "after" and parameter.kind == "interval":
            reader.begin = args[-2]  # the other interval is the earlier one
    if any(arg.type == ERROR for arg in args):
        return error_expression(step.span), None
    type_ = row.result(CallTypes(target.type, t.OBJECT, ()))
    receiver = to_clock_time(target, scope) if relation else target
    call = x.MethodCall(type_, row.name, receiver, tuple(args), span=target.span.to(step.span))
    return call, length if row.result(CallTypes(target.type, t.OBJECT, ())) == target.type else None


def event_type_of(type_: Type, scope: Scope) -> EventType | None:
    """Return the event type of an event from the streams or the catalog, or None.

    Derived events are not in the catalog.
    """
    if type_.event is None:
        return None
    for stream in scope.streams:  # derived events are not in the catalog
        if stream.event_type is not None and stream.event_type.name == type_.event:
            return stream.event_type
    return scope.module.catalog.event_types.get(type_.event)


def chronology_of(type_: Type, scope: Scope) -> Chronology:
    """Return how values of the type are read as dates."""
    options = scope.module.options
    if type_ == t.LONG:
        return EpochChronology(1_000_000 if options.microseconds else 1000, zone=options.time_zone)
    if type_ == t.TIMESTAMP:
        return InstantChronology(zone=options.time_zone)
    if type_ == t.LOCALDATETIME:
        return LocalChronology(iso=True, zone=options.time_zone)
    return ZonedChronology(iso=type_ == t.ZONEDDATETIME, zone=options.time_zone)


def to_clock_time(e: x.BoundExpr, scope: Scope) -> x.BoundExpr:
    """Return `e` in clock units since 1970 UTC."""
    if e.type == t.LONG:
        return e
    of = x.Const(t.CHRONOLOGY, chronology_of(e.type, scope))
    value: x.BoundExpr = x.MethodCall(t.LONG, "datetime.toMillisec", e, (of,), span=e.span)
    if scope.module.options.microseconds:
        value = x.Arith(t.LONG, "*", value, x.Const(t.LONG, 1000), span=e.span)
    return value


def _interval(e: x.BoundExpr, type_: EventType, scope: Scope) -> tuple[x.BoundExpr, x.BoundExpr]:
    if type_.time_property is None:
        hint = f"create schema {type_.name}(…) starttimestamp NAME"
        scope.reject(f"`{type_.name}` has no start timestamp", e.span, hint)
    for name in (type_.time_property, type_.end_time_property or type_.time_property):
        of = type_.properties[name]
        if of not in (t.LONG, *t.DATETIMES):  # event types from Python may declare any type
            fact = f"the timestamp `{name}` of `{type_.name}` is {type_text(of)}, not a long or a date-time"
            scope.mismatch(fact, e.span)
    start = _member(e, type_, type_.time_property)
    if type_.end_time_property is None:
        return start, _POINT
    end = _member(e, type_, type_.end_time_property)
    return start, x.Arith(t.LONG, "-", to_clock_time(end, scope), to_clock_time(start, scope), span=e.span)


def _member(e: x.BoundExpr, type_: EventType, name: str) -> x.BoundExpr:
    of = type_.properties[name]
    if isinstance(e, x.EventOf):
        return x.Prop(of, e.stream, name, span=e.span)
    return x.MemberAccess(of, e, name, span=e.span)


class _Reader:
    """Binds the arguments of one call; an argument becomes one or more arguments of the row's function."""

    def __init__(self, row: MethodRow, target: x.BoundExpr, scope: Scope, bind: Binder) -> None:
        self.row, self.target, self.scope, self.bind = row, target, scope, bind
        self.begin: x.BoundExpr | None = None  # where the months of a threshold begin, if not at the target

    def read(self, parameter: MethodParameter, node: ast.Expr) -> Sequence[x.BoundExpr]:
        if parameter.kind == "period" and isinstance(node, ast.TimePeriod):
            return self._period(node)
        bound = self.bind(node, self.scope)
        if bound.type == ERROR:
            return (bound,)
        if parameter.kind == "field":
            return (self._field(bound),)
        if parameter.kind in ("moment", "interval"):
            return self._moment(bound, parameter.kind == "interval")
        if parameter.kind == "pattern":
            check_date_pattern(bound, f"the pattern of `{self.row.short}`", self.target.type in _ISO, self.scope)
            return (bound,)
        if parameter.kind == "span":
            return (self._span(bound),)
        if parameter.kind == "period":
            expected, text = "a time period or milliseconds", self.scope.module.text
            apart = self.row.short == "minus" and bound.type in t.DATETIMES
            hint = f"write `{text(self.target.span)} - {text(bound.span)}` without minus" if apart else None
            fits = t.is_numeric(bound.type)
            return x.Const(t.CHRONOLOGY, ("number",)), self._typed(bound, fits, parameter, expected, hint)
        if parameter.kind == "whole":
            return (self._typed(bound, t.is_integral(bound.type), parameter, "an int"),)
        return (self._typed(bound, bound.type == t.BOOLEAN, parameter, "boolean"),)

    def _typed(
        self, bound: x.BoundExpr, fits: bool, parameter: MethodParameter, expected: str, hint: str | None = None
    ) -> x.BoundExpr:
        if not fits and bound.type != t.NULL:
            fact = f"the {parameter.name} of `{self.row.short}` must be {expected}, found {type_text(bound.type)}"
            self.scope.mismatch(fact, bound.span, hint)
        return bound

    def _field(self, bound: x.BoundExpr) -> x.BoundExpr:
        known = "one of 'msec', 'sec', 'min', 'hour', 'day', 'week', 'month', 'year'"
        if not isinstance(bound, x.Const) or not isinstance(bound.value, str):
            self.scope.reject(f"the field of `{self.row.short}` must be a constant text", bound.span, known)
        field_name = FIELDS.get(bound.value.strip().lower())
        if field_name is None:
            self.scope.reject(f"no field '{bound.value}' of dates", bound.span, known)
        if field_name == "week" and self.row.short in _ROUNDING:
            self.scope.reject(f"`{self.row.short}` does not round to weeks", bound.span)
        return x.Const(t.STRING, field_name, span=bound.span)

    def _moment(self, bound: x.BoundExpr, whole: bool) -> Sequence[x.BoundExpr]:
        event = event_type_of(bound.type, self.scope)
        if event is not None:
            start, length = _interval(bound, event, self.scope)
            return (to_clock_time(start, self.scope), length) if whole else (to_clock_time(start, self.scope),)
        if bound.type == t.NULL or bound.type in (t.LONG, *t.DATETIMES):
            value = bound if bound.type == t.NULL else to_clock_time(bound, self.scope)
            return (value, _POINT) if whole else (value,)
        advice = "write 5L, or cast it: cast(…, long)" if bound.type in (t.INT, t.SHORT, t.BYTE) else None
        fact = f"`{self.row.short}` needs a date-time or a long, found {type_text(bound.type)}"
        self.scope.mismatch(fact, bound.span, advice)

    def _span(self, bound: x.BoundExpr) -> x.BoundExpr:
        """Return a threshold in clock units; its months are those after the start of the earlier interval."""
        if not t.is_numeric(bound.type) and bound.type != t.NULL:
            fact = f"the threshold of `{self.row.short}` must be a time period or a number"
            self.scope.mismatch(f"{fact}, found {type_text(bound.type)}", bound.span, "such as 10 sec")
        if not isinstance(bound, x.Period):
            threshold = fold_expr(bound)
        elif bound.months is None:
            threshold = fold_expr(bound.millis) if bound.millis is not None else x.Const(t.LONG, 0, span=bound.span)
        else:
            start = to_clock_time(self.target, self.scope) if self.begin is None else self.begin
            of = x.Const(t.CHRONOLOGY, chronology_of(t.LONG, self.scope))
            moved = x.MethodCall(
                t.LONG, "datetime.plus", start, (of, x.Const(t.CHRONOLOGY, ("month",)), bound.months), span=bound.span
            )
            threshold = x.Arith(t.LONG, "-", moved, start, span=bound.span)
            if bound.millis is not None:
                threshold = x.Arith(t.LONG, "+", threshold, bound.millis, span=bound.span)
        negative = isinstance(threshold, x.Const) and isinstance(threshold.value, (int, float)) and threshold.value < 0
        if negative and self.row.short in DISTANCE_RELATIONS:
            self.scope.reject(f"the threshold of `{self.row.short}` must not be negative", bound.span)
        return threshold

    def _period(self, node: ast.TimePeriod) -> Sequence[x.BoundExpr]:
        """Return the units of a time period and the amount of each; they are added one after the other."""
        units = tuple(unit for _, unit in node.parts)
        positions = [ORDER.index(unit) for unit in units]
        if positions != sorted(set(positions)):
            self.scope.reject("units of a time period go from large to small, each once", node.span)
        amounts = [self.bind(amount, self.scope) for amount, _ in node.parts]
        for amount, unit in zip(amounts, units, strict=True):
            if amount.type == ERROR:
                return (amount,)
            if not t.is_numeric(amount.type) and amount.type != t.NULL:
                self.scope.mismatch(f"the number of {unit}s is {type_text(amount.type)}", amount.span)
            if unit in MONTHS and not t.is_integral(amount.type) and amount.type != t.NULL:
                self.scope.mismatch("the number of years and months must be whole", amount.span)
        return x.Const(t.CHRONOLOGY, units), *amounts


_ISO = (t.LOCALDATETIME, t.ZONEDDATETIME, t.LOCALDATE, t.LOCALTIME)


def check_date_pattern(bound: x.BoundExpr, what: str, iso: bool, scope: Scope) -> None:
    """Report a constant that is not a date pattern."""
    if bound.type not in (t.STRING, t.NULL):
        scope.mismatch(f"{what} must be a string, found {type_text(bound.type)}", bound.span)
    if not isinstance(bound, x.Const) or not isinstance(bound.value, str):
        return
    try:
        parse_date_pattern(bound.value, iso)
    except DatePatternError as error:
        span = bound.span
        if span.end - span.start == len(bound.value) + 2:  # a text without escapes: show the very letter
            span = Span(span.start + 1 + error.at, span.start + 2 + error.at)
        scope.reject(f"{what} is not a date pattern: {error}", span, LETTERS_EXPLAINED)
