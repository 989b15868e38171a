"""Contexts of plans as text, one line per condition."""

from __future__ import annotations

from cepbook.lang.explain.expressions import show_expr as show
from cepbook.lang.explain.pattern import indented, show_crontab, show_pattern, with_filter
from cepbook.lang.plan import context as c


def show_context(spec: c.ContextSpec | c.KeyedStreams) -> list[str]:
    """Return the conditions that begin and end partitions, one per line."""
    lines = [_keyed(stream) for stream in spec.keyed_streams]
    match spec:
        case c.KeyedStreams():
            return lines
        case c.KeyedSpec():
            for on in spec.initiated:
                lines += _condition("initiated by", on)
            return lines + _condition("terminated by", spec.terminated)
        case c.HashSpec():
            for stream in spec.streams:
                call = f"{stream.function}({', '.join(show(arg) for arg in stream.args)})"
                lines += with_filter(f"coalesce by {call} from {stream.event_type}", stream.filter)
            return [*lines, f"granularity {spec.granularity}{' preallocate' if spec.preallocate else ''}"]
        case c.CategorySpec():
            groups = [f"group {show(condition)} as {label}" for label, condition in spec.categories]
            return [*groups, *with_filter(f"from {spec.event_type}", spec.filter)]
        case c.NonOverlappingSpec():
            return _condition("start", spec.start) + _condition("end", spec.end)
        case c.OverlappingSpec():
            now = " @now and" if spec.also_now else ""
            distinct = f" distinct {', '.join(show(key) for key in spec.distinct)}" if spec.distinct else ""
            begin = _condition(f"initiated by{distinct}{now}", spec.initiated)
            return begin + _condition("terminated by", spec.terminated)
        case c.NestedSpec():
            for depth, (name, level) in enumerate(spec.levels):
                inner = [f"context {name}", *indented(show_context(level))]
                lines += [f"{'  ' * depth}{line}" for line in inner]
            return lines


def _keyed(stream: c.KeyedStream) -> str:
    keys = ", ".join(f"{show(k)}: {k.type}" for k in stream.keys)
    where = f" filter {show(stream.filter)}" if stream.filter is not None else ""
    alias = f" as {stream.alias}" if stream.alias is not None else ""
    return f"partition by {keys} from {stream.event_type}{where}{alias}"


def _condition(word: str, condition: c.PartitionCondition | None) -> list[str]:
    match condition:
        case None:
            return []
        case c.AtOnce():
            return [f"{word} @now"]
        case c.OnEvent():
            alias = f" as {condition.alias}" if condition.alias is not None else ""
            brackets = "".join(f"[{show(step.path)}]" for step in condition.contained)
            return with_filter(f"{word} {condition.event_type}{brackets}{alias}", condition.filter)
        case c.OnPattern():
            inclusive = " @inclusive" if condition.inclusive else ""
            alias = f" as {condition.alias}" if condition.alias is not None else ""
            head, *tree = show_pattern(condition.pattern)
            return [f"{word} {head}{inclusive}{alias}", *tree]
        case c.OnCrontab():
            return [f"{word} {', '.join(show_crontab(crontab) for crontab in condition.crontabs)}"]
        case c.AfterPeriod():
            return [f"{word} after {show(condition.period)}"]
    return [word]
