"""Patterns, contexts and crontabs of plans as text, one line per node.

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

from collections.abc import Callable, Sequence
from dataclasses import replace

from cepbook.lang.plan import context as c
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan import pattern as p
from cepbook.lang.rewrite.expressions import rebuild_expr

Show = Callable[[x.BoundExpr], str]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _with_filter(head: str, condition: x.BoundExpr | None, show: Show) -> list[str]:
    return [head] if condition is None else [head, f"  filter {show(condition)}"]


# ---------------------------------------------------------------- crontabs
def show_crontab(crontab: nodes.CrontabSpec, show: Show) -> str:
    """``(0, 8:17, *, *, *, 0, 'Europe/Berlin')``: as it is written, the time zone stands behind the seconds."""
    fields = [_cron_field(field, show) for field in crontab.fields]
    zone = [] if crontab.zone is None and len(fields) == 6 else ["null"]
    if crontab.zone is not None:
        zone = [f"'{crontab.zone}'"]
    return f"({', '.join([*fields[:6], *zone, *fields[6:]])})"


def _cron_field(field: nodes.CronField, show: Show) -> str:
    operands = [show(e) for e in field.operands]
    match field.kind:
        case "star":
            return "*"
        case "range":
            return ":".join(operands)
        case "step":
            return f"*/{operands[0]}"
        case "list":
            return f"[{', '.join(_cron_field(part, show) for part in field.parts)}]"
        case "nth_last":
            return f"{operands[0]} last"
        case "weekday":
            return f"{operands[0]} weekday"
        case "value":
            return operands[0]
    return field.kind


# ---------------------------------------------------------------- patterns
def show_pattern(pattern: p.Pattern, show: Show) -> list[str]:
    """The tree below its annotations; tags are written as such."""

    def tagged(e: x.BoundExpr) -> str:
        return show(rebuild_expr(e, _tag))

    words = ["pattern"]
    words += ["@SuppressOverlappingMatches"] if pattern.suppress_overlapping else []
    words += ["@DiscardPartialsOnMatch"] if pattern.discard_partials else []
    return [" ".join(words), *_indented(_pattern(pattern.root, tagged))]


def _tag(e: x.BoundExpr) -> x.BoundExpr:
    return replace(e, stream=p.EVENT_STREAM) if isinstance(e, x.Prop) and e.stream == p.MATCH_STREAM else e


def _pattern(node: p.PatternExpr, show: Show) -> list[str]:
    if isinstance(node, p.Atom):
        tag = f"{node.tag} = " if node.tag is not None else ""
        consume = f" @consume({node.consume})" if node.consume else ""
        brackets = "".join(f"[{show(step.path)}]" for step in node.contained)
        return _with_filter(f"{tag}{node.event_type}{brackets}{consume}", node.filter, show)
    lines = [_head(node, show)]
    for operand in p.operands(node):
        lines += _indented(_pattern(operand, show))
    return lines


def _head(node: p.PatternExpr, show: Show) -> str:
    match node:
        case p.IntervalTimer():
            return f"timer:interval {show(node.period)}"
        case p.CrontabTimer():
            return f"timer:at {show_crontab(node.crontab, show)}"
        case p.ScheduleTimer():
            parts = {"date": node.date, "period": node.period, "repetitions": node.repetitions}
            shown = [f"{k} {show(e)}" for k, e in parts.items() if e is not None]
            return " ".join(["timer:schedule", *shown, *["delayed"] * node.delayed])
        case p.FollowedByPattern():
            limits = ["->" if limit is None else f"-[{show(limit)}]>" for limit in node.maxima]
            return " ".join(limits if len(set(limits)) > 1 else limits[:1])
        case p.LogicalPattern():
            return node.op
        case p.NotPattern():
            return "not"
        case p.EveryPattern():
            if node.keys is None:
                return "every"
            expiry = f", expiry {show(node.expiry)}" if node.expiry is not None else ""
            return f"every distinct {', '.join(show(key) for key in node.keys)}{expiry}"
        case p.RepeatPattern():
            low, high = ("" if e is None else show(e) for e in (node.low, node.high))
            bounds = low if low == high else f"{low}:{high}"
            return " ".join(
                ["repeat", *([f"[{bounds}]"] if bounds else []), *(["until"] if node.until is not None else [])]
            )
        case p.WithinGuard():
            count = f", {show(node.count)} matches" if node.count is not None else ""
            return f"within {show(node.period)}{count}"
        case p.WhileGuard():
            return f"while {show(node.condition)}"
    return type(node).__name__.lower()


# ---------------------------------------------------------------- contexts
def show_context(spec: c.ContextSpec, show: Show) -> list[str]:
    """What begins and ends partitions."""
    match spec:
        case c.KeyedSpec():
            lines = [show_keyed(stream, show) for stream in spec.streams.streams]
            for on in spec.initiated:
                lines += _condition("initiated by", on, show)
            return lines + _condition("terminated by", spec.terminated, show)
        case c.HashSpec():
            lines = []
            for stream in spec.streams:
                call = f"{stream.function}({', '.join(show(arg) for arg in stream.args)})"
                lines += _with_filter(f"coalesce by {call} from {stream.event_type}", stream.filter, show)
            return [*lines, f"granularity {spec.granularity}{' preallocate' if spec.preallocate else ''}"]
        case c.CategorySpec():
            groups = [f"group {show(condition)} as {label}" for label, condition in spec.categories]
            return [*groups, *_with_filter(f"from {spec.event_type}", spec.filter, show)]
        case c.NonOverlappingSpec():
            return _condition("start", spec.start, show) + _condition("end", spec.end, show)
        case c.OverlappingSpec():
            now = " @now and" if spec.also_now else ""
            distinct = f" distinct {', '.join(show(key) for key in spec.distinct)}" if spec.distinct else ""
            begin = _condition(f"initiated by{distinct}{now}", spec.initiated, show)
            return begin + _condition("terminated by", spec.terminated, show)
        case c.NestedSpec():
            lines = []
            for depth, (name, level) in enumerate(spec.levels):
                inner = [f"context {name}", *_indented(show_context(level, show))]
                lines += [f"{'  ' * depth}{line}" for line in inner]
            return lines


def show_keyed(stream: nodes.KeyedStream, show: Show) -> str:
    """One stream of ``partition by``."""
    keys = ", ".join(f"{show(k)}: {k.type}" for k in stream.keys)
    where = f" filter {show(stream.filter)}" if stream.filter is not None else ""
    alias = f" as {stream.alias}" if stream.alias is not None else ""
    return f"partition by {keys} from {stream.event_type}{where}{alias}"


def _condition(word: str, condition: c.PartitionCondition | None, show: Show) -> list[str]:
    match condition:
        case None:
            return []
        case c.AtOnce():
            return [f"{word} @now"]
        case c.OnEvent():
            alias = f" as {condition.alias}" if condition.alias is not None else ""
            brackets = "".join(f"[{show(step.path)}]" for step in condition.contained)
            return _with_filter(f"{word} {condition.event_type}{brackets}{alias}", condition.filter, show)
        case c.OnPattern():
            inclusive = " @inclusive" if condition.inclusive else ""
            alias = f" as {condition.alias}" if condition.alias is not None else ""
            head, *tree = show_pattern(condition.pattern, show)
            return [f"{word} {head}{inclusive}{alias}", *tree]
        case c.OnCrontab():
            return [f"{word} {', '.join(show_crontab(crontab, show) for crontab in condition.crontabs)}"]
        case c.AfterPeriod():
            return [f"{word} after {show(condition.period)}"]
    return [word]
