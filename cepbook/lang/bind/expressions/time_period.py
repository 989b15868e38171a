"""Time periods: ``1 hour 30 min``, numbers of seconds (Esper reference, section "Specifying Time Periods").

Durations are in clock units: milliseconds, or microseconds under `Options.microseconds`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.scope import ERROR, Scope, error_expression, type_text
from cepbook.lang.java.dates.fields import MICROSECONDS, MONTHS, ORDER
from cepbook.lang.plan import expressions as x
from cepbook.lang.rewrite.fold_constants import fold_expr


def bind_period(parts: Sequence[tuple[x.BoundExpr, str]], span: Span, scope: Scope) -> x.BoundExpr:
    """Return the period of (amount, unit) pairs; constant amounts become constants."""
    positions = [ORDER.index(unit) for _, unit in parts]
    if positions != sorted(set(positions)):
        scope.reject("units of a time period go from large to small, each once", span)
    for amount, unit in parts:
        if amount.type != ERROR and not t.is_numeric(amount.type):
            scope.mismatch(f"the number of {unit}s is {type_text(amount.type)}", amount.span)
    if any(amount.type == ERROR for amount, _ in parts):
        return error_expression(span)
    months = _months([(fold_expr(a), MONTHS[u]) for a, u in parts if u in MONTHS], span, scope)
    rest = [(fold_expr(a), MICROSECONDS[u]) for a, u in parts if u in MICROSECONDS]
    return x.Period(t.LONG, months, _clock_units(rest, scope) if rest else None, span=span)


def seconds_period(amount: x.BoundExpr, scope: Scope) -> x.Period:
    """Return a number of seconds as a period."""
    return x.Period(t.LONG, None, _clock_units([(amount, MICROSECONDS["second"])], scope), span=amount.span)


def bind_duration(bound: x.BoundExpr, what: str, scope: Scope) -> x.BoundExpr:
    """Return `bound`, a time period or a number of seconds, as a period; report other types and negative values."""
    if bound.type == ERROR:
        return bound
    if not isinstance(bound, x.Period):
        if not t.is_numeric(bound.type):
            fact = f"{what} must be a time period or a number of seconds, found {type_text(bound.type)}"
            scope.wrong(fact, bound.span, "such as 10 sec")
            return error_expression(bound.span)
        bound = seconds_period(bound, scope)
    for amount in (bound.months, bound.millis):
        if isinstance(amount, x.Const) and isinstance(amount.value, int | float) and amount.value < 0:
            scope.wrong(f"{what} must not be negative", bound.span)
    return bound


def _months(parts: Sequence[tuple[x.BoundExpr, int]], span: Span, scope: Scope) -> x.BoundExpr | None:
    total: x.BoundExpr | None = None
    for amount, factor in parts:
        if not t.is_integral(amount.type):
            scope.mismatch("the number of years and months must be whole", amount.span)
        months = amount if factor == 1 else x.Arith(amount.type, "*", amount, x.Const(amount.type, factor), span=span)
        if total is not None:
            months = x.Arith(t.arithmetic_type(total.type, months.type), "+", total, months, span=span)
        total = months
    return None if total is None else fold_expr(total)


def _clock_units(parts: Sequence[tuple[x.BoundExpr, int]], scope: Scope) -> x.BoundExpr:
    """Return the sum in clock units, rounded half up if constant (recorded: 500 us -> 1 ms, 1.4 ms -> 1 ms)."""
    unit = 1 if scope.module.options.microseconds else 1000
    total: x.BoundExpr | None = None
    constant = 0.0
    whole = 0
    for amount, micros in parts:
        if isinstance(amount, x.Const) and isinstance(amount.value, int):
            whole += amount.value * micros
        elif isinstance(amount, x.Const) and isinstance(amount.value, float):
            constant += amount.value * micros
        else:
            scaled = x.Arith(t.DOUBLE, "*", amount, x.Const(t.DOUBLE, micros / unit), span=amount.span)
            total = scaled if total is None else x.Arith(t.DOUBLE, "+", total, scaled, span=amount.span)
    if not math.isfinite(constant):
        scope.wrong("the time period is beyond all numbers", parts[0][0].span)
        constant = 0.0
    rounded = whole // unit + math.floor((whole % unit + constant) / unit + 0.5)
    if total is None:
        return x.Const(t.LONG, rounded, span=parts[0][0].span)
    if rounded:
        total = x.Arith(t.DOUBLE, "+", total, x.Const(t.DOUBLE, float(rounded)), span=parts[0][0].span)
    return x.FunctionCall(t.LONG, "Math.round", (total,), span=parts[0][0].span)
