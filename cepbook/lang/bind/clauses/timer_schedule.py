"""``timer:schedule`` of patterns: ISO 8601 text, or named parameters (Esper reference, section "Schedule")."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NoReturn

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.expressions.time_period import bind_duration
from cepbook.lang.bind.scope import ERROR, AlreadyReported, Scope, type_text
from cepbook.lang.java.dates.fields import MICROSECONDS
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import pattern as p
from cepbook.lang.syntax import ast

_REPEAT = re.compile(r"R(-?\d{0,18})")
_PERIOD = re.compile(
    r"P(?=.)(?:(\d{1,18})Y)?(?:(\d{1,18})M)?(?:(\d{1,18})W)?(?:(\d{1,18})D)?"
    r"(?:T(?=.)(?:(\d{1,18})H)?(?:(\d{1,18})M)?(?:(\d{1,18}(?:\.\d+)?)S)?)?"
)
_UNITS = ("week", "day", "hour", "minute", "second")
_FORM = "'R3/2024-03-04T09:00:00Z/PT10M': repetitions, date, period, in this order"
_PARAMETERS = ("iso", "date", "period", "repetitions")
_Value = Callable[[ast.Expr], x.BoundExpr]


def bind_schedule(node: ast.PatternObserver, value: _Value, scope: Scope) -> p.ScheduleTimer:
    """Return the schedule; `value` binds an expression that reads no event.

    Without repetitions the schedule is one point in time, one period after the date if both are written.
    """
    nothing = p.ScheduleTimer(None, None, None, span=node.span)
    try:
        parameters = _named_parameters(node, scope)
        if "iso" in parameters:
            return _iso(parameters["iso"], value, scope)
        date = _date(parameters["date"], value, scope) if "date" in parameters else None
        period: x.BoundExpr | None = None
        if "period" in parameters:
            bound = value(parameters["period"])
            if bound.type != ERROR and not isinstance(bound, x.Period):
                fact = "the period of `timer:schedule` must be a time period, found a number"
                scope.reject(fact, node.span, "such as 10 seconds")
            period = bind_duration(bound, "the period of `timer:schedule`", scope)
        once: x.BoundExpr = x.Const(t.INT, 1, span=node.span)
        count = _repetitions(parameters["repetitions"], value, scope) if "repetitions" in parameters else once
    except AlreadyReported:
        return nothing
    delayed = date is not None and period is not None and "repetitions" not in parameters
    return p.ScheduleTimer(date, period, count, delayed, span=node.span)


def _named_parameters(node: ast.PatternObserver, scope: Scope) -> dict[str, ast.Expr]:
    parameters: dict[str, ast.Expr] = {}
    for name, values in node.named:
        if name.lower() not in _PARAMETERS or len(values) != 1:
            fact = f"`timer:schedule` has no parameter `{name}:`" if values else f"`{name}:` needs a value"
            scope.reject(fact, node.span, f"there is {', '.join(_PARAMETERS)}")
        parameters[name.lower()] = values[0]
    if node.args:
        scope.reject("the parameters of `timer:schedule` have names", node.span, "iso: '…'")
    if "iso" in parameters and len(parameters) > 1:
        scope.reject("`iso:` stands alone", node.span)
    if not {"iso", "date", "period"} & set(parameters):
        scope.reject("`timer:schedule` needs `iso:`, `date:` or `period:`", node.span)
    return parameters


def _constant_text(bound: x.BoundExpr) -> str | None:
    return bound.value if isinstance(bound, x.Const) and isinstance(bound.value, str) else None


def _date(node: ast.Expr, value: _Value, scope: Scope) -> x.BoundExpr:
    """Return a date: text in ISO 8601, or a number of clock units."""
    bound = value(node)
    text = _constant_text(bound)
    if text is not None:
        return _parse_instant(text, node.span, scope)
    if bound.type == ERROR:
        raise AlreadyReported("date")
    if bound.type not in (t.LONG, t.INT) or isinstance(bound, x.Period):
        fact = f"the date of `timer:schedule` must be a text or long, found {type_text(bound.type)}"
        scope.reject(fact, node.span, "a constant such as '2024-03-04T09:00:00Z'")
    return bound


def _repetitions(node: ast.Expr, value: _Value, scope: Scope) -> x.BoundExpr | None:
    bound = value(node)
    if bound.type == ERROR:
        raise AlreadyReported("repetitions")
    if bound.type not in (t.LONG, t.INT, t.SHORT, t.BYTE):
        fact = f"the repetitions of `timer:schedule` must be a whole number, found {type_text(bound.type)}"
        scope.reject(fact, node.span)
    forever = isinstance(bound, x.Const) and isinstance(bound.value, int) and bound.value < 0
    return None if forever else bound


def _iso(node: ast.Expr, value: _Value, scope: Scope) -> p.ScheduleTimer:
    bound = value(node)
    if bound.type == ERROR:
        raise AlreadyReported("iso")
    text = _constant_text(bound)
    if text is None:
        scope.reject("`iso:` must be a constant text", node.span, _FORM)
    count: x.BoundExpr | None = x.Const(t.INT, 1, span=node.span)
    date = period = None
    order = 0  # of sections: each kind occurs at most once, in this order
    for section in text.split("/"):
        repeat = _REPEAT.fullmatch(section)
        kind = 1 if repeat else 3 if section.startswith("P") else 2
        if kind <= order:
            _malformed(text, node.span, scope)
        order = kind
        if repeat:
            forever = repeat[1] == "" or int(repeat[1]) < 0
            count = None if forever else x.Const(t.INT, int(repeat[1]), span=node.span)
        elif kind == 2:
            date = _parse_instant(section, node.span, scope)
        else:
            period = _parse_period(section, text, node.span, scope)
    if date is None and period is None:
        _malformed(text, node.span, scope)
    delayed = date is not None and period is not None and not text.startswith("R")
    return p.ScheduleTimer(date, period, count, delayed, span=node.span)


def _malformed(text: str, span: Span, scope: Scope) -> NoReturn:
    scope.reject(f"`{text}` is not a schedule", span, _FORM)


def _parse_instant(text: str, span: Span, scope: Scope) -> x.BoundExpr:
    """Return clock units since 1970 UTC; a date without a zone is in the configured time zone."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        scope.reject(f"`{text}` is not an ISO 8601 date", span, "such as 2024-03-04T09:00:00Z")
    zoned = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=zone_of(scope.module.options.time_zone))
    since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return x.Const(t.LONG, micros if scope.module.options.microseconds else micros // 1000, span=span)


def _parse_period(section: str, text: str, span: Span, scope: Scope) -> x.BoundExpr:
    match = _PERIOD.fullmatch(section)
    if match is None:
        _malformed(text, span, scope)
    years, months, *rest = match.groups()
    micros = round(sum(float(n) * MICROSECONDS[unit] for n, unit in zip(rest, _UNITS, strict=True) if n is not None))
    calendar = 12 * int(years or 0) + int(months or 0)
    units = micros if scope.module.options.microseconds else micros // 1000
    if calendar == 0 and units == 0:
        scope.reject(f"the period `{section}` must be above 0", span)
    return x.Period(
        t.LONG,
        x.Const(t.INT, calendar, span=span) if calendar else None,
        x.Const(t.LONG, units, span=span) if units else None,
        span=span,
    )
