"""Crontabs: ``(0, 8:17, *, *, 1:5)`` (Esper reference, section "Crontab (timer:at)").

The fields are minutes, hours, days of the month, months and days of the week (0 is Sunday), then optionally seconds, a
time zone, milliseconds and microseconds, which a clock of milliseconds ignores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC
from functools import partial
from zoneinfo import ZoneInfo

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.scope import ERROR, AlreadyReported, Scope, type_text
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import CRON_FIELDS, CronField, CronKind, CrontabSpec
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast

DAYS, WEEKDAYS, SECONDS, ZONE = 2, 4, 5, 6
MICROSECONDS = 7  # behind milliseconds; the zone is not among the bound fields
_OFFSET = re.compile(r"GMT[+-]([01]?\d|2[0-3])(:?[0-5]\d)?")  # as Java writes zones without a name
# The fields that allow forms other than numbers
_ONLY_IN: dict[str, tuple[int, ...]] = {
    "last": (DAYS, WEEKDAYS),
    "nth_last": (WEEKDAYS,),
    "weekday": (DAYS,),
    "lastweekday": (DAYS,),
}
_FORM_TEXTS = {"last": "last", "nth_last": "n last", "weekday": "n weekday", "lastweekday": "lastweekday"}
_Value = Callable[[ast.Expr], x.BoundExpr]


def bind_crontab(
    fields: Sequence[ast.Expr], span: Span, scope: Scope, value: _Value | None = None, most: int = 9
) -> CrontabSpec | None:
    """Return the crontab, or None if it was reported. Operands may read variables, but no events.

    `value` binds operands that may depend on earlier events of a pattern. `most` is the largest number of fields.
    """
    bind_operand = value if value is not None else partial(_without_events, scope=scope)
    if not 5 <= len(fields) <= most:
        hint = "minutes, hours, days of the month, months, days of the week, maybe seconds: (0, 9, *, *, 1:5)"
        scope.wrong(f"a crontab has 5 to {most} fields, found {len(fields)}", span, hint)
        return None
    try:
        numbers = [*fields[:ZONE], *fields[ZONE + 1 :]]
        bound_fields = [_field(node, position, bind_operand, scope) for position, node in enumerate(numbers)]
        zone = _zone(fields[ZONE], scope) if len(fields) > ZONE else None
    except AlreadyReported:
        return None
    if not scope.module.options.microseconds:
        del bound_fields[MICROSECONDS:]
    if len(bound_fields) == SECONDS:
        bound_fields.append(CronField("value", (x.Const(t.INT, 0),)))
    if bound_fields[DAYS].kind != "star" and bound_fields[WEEKDAYS].kind != "star":
        fact = "a crontab cannot restrict both the days of the month and the days of the week"
        scope.wrong(fact, bound_fields[DAYS].span.to(bound_fields[WEEKDAYS].span), "write * for one of them")
        return None
    local = scope.module.options.time_zone
    return CrontabSpec(tuple(bound_fields), zone or (None if zone_of(local) is UTC else local), span=span)


def _field(node: ast.Expr, position: int, value: _Value, scope: Scope) -> CronField:
    if not isinstance(node, ast.CronStep):
        return CronField("value", (_number(node, position, value, scope),), span=node.span)
    kind: CronKind = node.kind  # type: ignore[assignment]
    allowed = _ONLY_IN.get(kind)
    if allowed is not None and position not in allowed:
        where = " and ".join(CRON_FIELDS[p][0] for p in allowed)
        message = f"`{_FORM_TEXTS[kind]}` cannot be among the {CRON_FIELDS[position][0]}, only among the {where}"
        scope.reject(message, node.span)
    if kind == "list":
        parts = tuple(_list_item(element, position, value, scope) for element in node.operands)
        return CronField(kind, parts=parts, span=node.span)
    operands = tuple(_number(operand, position, value, scope, step=kind == "step") for operand in node.operands)
    if kind == "range":
        low, high = (e.value if isinstance(e, x.Const) else None for e in operands)
        if isinstance(low, int) and isinstance(high, int) and low > high:
            scope.reject(f"the range {low}:{high} runs backwards", node.span)
    return CronField(kind, operands, span=node.span)


def _list_item(node: ast.Expr, position: int, value: _Value, scope: Scope) -> CronField:
    if isinstance(node, ast.CronStep) and node.kind not in ("range", "step"):
        scope.reject("a list in a crontab holds numbers, ranges and frequencies", node.span, "[0, 20:22, */15]")
    return _field(node, position, value, scope)


def _without_events(node: ast.Expr, scope: Scope) -> x.BoundExpr:
    bound = fold_expr(bind_expr(node, scope.without_aggregates("a crontab")))
    for subexpr in x.walk(bound):
        if isinstance(subexpr, (x.Prop, x.EventOf)):
            scope.reject("a crontab cannot depend on an event", subexpr.span)
    return bound


def _number(node: ast.Expr, position: int, value: _Value, scope: Scope, *, step: bool = False) -> x.BoundExpr:
    name, low, high = CRON_FIELDS[position]
    bound = value(node)
    if bound.type == ERROR:
        raise AlreadyReported(name)
    if bound.type not in (t.INT, t.SHORT, t.BYTE):
        scope.reject(f"the {name} of a crontab must be ints, found {type_text(bound.type)}", node.span)
    if isinstance(bound, x.Const) and isinstance(bound.value, int):
        if step and bound.value <= 0:
            scope.reject(f"a frequency must be above 0, found {bound.value}", node.span)
        if not step and not low <= bound.value <= high:
            scope.reject(f"the {name} of a crontab are {low} to {high}, found {bound.value}", node.span)
    return bound


def _zone(node: ast.Expr, scope: Scope) -> str | None:
    if isinstance(node, ast.CronStep) and node.kind == "star":
        return None  # none, where further fields follow
    bound = fold_expr(bind_expr(node, scope.without_aggregates("a crontab")))
    if bound.type == ERROR:
        raise AlreadyReported("zone")
    if bound.type == t.NULL:
        return None
    if not isinstance(bound, x.Const) or not isinstance(bound.value, str):
        zone_text = type_text(bound.type) if isinstance(bound, x.Const) else "an expression"
        scope.reject(f"the time zone of a crontab must be a constant string, found {zone_text}", node.span)
    if not _is_zone(bound.value):
        scope.reject(f"no time zone `{bound.value}`", node.span, "such as 'Europe/Berlin' or 'GMT+5'")
    return bound.value


def _is_zone(name: str) -> bool:
    if _OFFSET.fullmatch(name):
        return True
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, no key at all, a folder of the database
        return False
    return True
