"""Patterns and crontabs of plans as text, one line per node.

::

    pattern
      ->
        every
          a = Tick
            filter price > 10
        within 10000 ms
          b = Tick
            filter symbol = a.symbol
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.lang.explain.expressions import show_expr as show
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan import pattern as p
from cepbook.lang.plan.traversal import rebuild_expr
from cepbook.lang.syntax.unparser import cron_text


def indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def with_filter(head: str, condition: x.BoundExpr | None) -> list[str]:
    return [head] if condition is None else [head, f"  filter {show(condition)}"]


def show_crontab(crontab: nodes.CrontabSpec) -> str:
    """Return ``(0, 8:17, *, *, *, 0, 'Europe/Berlin')``: the time zone stands behind the seconds."""
    fields = [_cron_field(field) for field in crontab.fields]
    zone = [] if crontab.zone is None and len(fields) == 6 else ["null"]
    if crontab.zone is not None:
        zone = [f"'{crontab.zone}'"]
    return f"({', '.join([*fields[:6], *zone, *fields[6:]])})"


def _cron_field(field: nodes.CronField) -> str:
    operands = [*map(show, field.operands), *map(_cron_field, field.parts)]
    return cron_text(field.kind, operands, ", ")


def show_pattern(pattern: p.Pattern) -> list[str]:
    """Return the annotations, and below them the tree."""
    words = ["pattern"]
    words += ["@SuppressOverlappingMatches"] if pattern.suppress_overlapping else []
    words += ["@DiscardPartialsOnMatch"] if pattern.discard_partials else []
    return [" ".join(words), *indented(_pattern(pattern.root))]


def _show_tagged(e: x.BoundExpr) -> str:
    return show(rebuild_expr(e, _tag))


def _tag(e: x.BoundExpr) -> x.BoundExpr:
    return replace(e, stream=p.EVENT_STREAM) if isinstance(e, x.Prop) and e.stream == p.MATCH_STREAM else e


def _pattern(node: p.PatternExpr) -> list[str]:
    if isinstance(node, p.Atom):
        tag = f"{node.tag} = " if node.tag is not None else ""
        consume = f" @consume({node.consume})" if node.consume else ""
        brackets = "".join(f"[{_show_tagged(step.path)}]" for step in node.contained)
        condition = None if node.filter is None else rebuild_expr(node.filter, _tag)
        return with_filter(f"{tag}{node.event_type}{brackets}{consume}", condition)
    lines = [_head(node)]
    for operand in p.operands(node):
        lines += indented(_pattern(operand))
    return lines


def _head(node: p.PatternExpr) -> str:
    match node:
        case p.IntervalTimer():
            return f"timer:interval {_show_tagged(node.period)}"
        case p.CrontabTimer():
            return f"timer:at {show_crontab(node.crontab)}"
        case p.ScheduleTimer():
            parts = {"date": node.date, "period": node.period, "repetitions": node.repetitions}
            settings = [f"{k} {_show_tagged(e)}" for k, e in parts.items() if e is not None]
            return " ".join(["timer:schedule", *settings, *["delayed"] * node.delayed])
        case p.FollowedByPattern():
            limits = ["->" if limit is None else f"-[{_show_tagged(limit)}]>" for limit in node.maxima]
            return " ".join(limits if len(set(limits)) > 1 else limits[:1])
        case p.LogicalPattern():
            return node.op
        case p.NotPattern():
            return "not"
        case p.EveryPattern():
            if node.keys is None:
                return "every"
            expiry = f", expiry {_show_tagged(node.expiry)}" if node.expiry is not None else ""
            return f"every distinct {', '.join(_show_tagged(key) for key in node.keys)}{expiry}"
        case p.RepeatPattern():
            low, high = ("" if e is None else _show_tagged(e) for e in (node.low, node.high))
            bounds = low if low == high else f"{low}:{high}"
            return "repeat" + (f" [{bounds}]" if bounds else "") + (" until" if node.until is not None else "")
        case p.WithinGuard():
            count = f", {_show_tagged(node.count)} matches" if node.count is not None else ""
            return f"within {_show_tagged(node.period)}{count}"
        case p.WhileGuard():
            return f"while {_show_tagged(node.condition)}"
    return type(node).__name__.lower()
