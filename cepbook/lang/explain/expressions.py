"""Bound expressions as text: ``(price > 10) and symbol = a.symbol``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.registry.functions import FUNCTIONS


@dataclass(frozen=True, slots=True)
class _Display:
    streams: tuple[str, ...] = ()  # names of the streams; an empty name is shown as its number
    second: int = 1000  # units of the clock in a second


_PLAIN = _Display()
_DISPLAY: ContextVar[_Display] = ContextVar("display", default=_PLAIN)


@contextmanager
def display_names(*, streams: Sequence[str] | None = None, second: int | None = None) -> Iterator[None]:
    """Within the block, show streams under these names and periods in a clock of this resolution."""
    now = _DISPLAY.get()
    streams = now.streams if streams is None else tuple(streams)
    token = _DISPLAY.set(_Display(streams, now.second if second is None else second))
    try:
        yield
    finally:
        _DISPLAY.reset(token)


def stream_names(statement: nodes.StatementPlan) -> tuple[str, ...]:
    """Return the aliases or types of the streams of a statement, if it has several; an ambiguous name is empty."""
    if isinstance(statement, nodes.MergeStatement):
        event = statement.source.alias or statement.source.event_type
        target = statement.target.name
        return (target, event if event != target else "", "initial") if event else (target,)
    sources = statement.sources if isinstance(statement, nodes.SelectStatement) else ()
    return source_names(sources)


def source_names(sources: Sequence[nodes.SourceNode]) -> tuple[str, ...]:
    """Return the names of the sources of a join."""
    names = [source.alias or source.event_type for source in sources]
    return tuple(name if names.count(name) == 1 else "" for name in names) if len(names) > 1 else ()


def show_expr(e: x.BoundExpr, calls: list[str] | None = None) -> str:
    """Return one expression as text; `calls` are the texts of its statement's aggregate calls."""
    rule = _EXPRESSIONS.get(type(e))
    return type(e).__name__ if rule is None else rule(e, lambda inner: show_expr(inner, calls), calls or [])


_Show = Callable[[x.BoundExpr], str]


def _const(e: Any, show: _Show, calls: list[str]) -> str:
    if isinstance(e.value, bool):
        return str(e.value).lower()
    if isinstance(e.value, str):
        return "'" + e.value.replace("'", "\\'") + "'"
    return "null" if e.value is None else str(e.value)


def _prop(e: Any, show: _Show, calls: list[str]) -> str:
    streams = _DISPLAY.get().streams
    known = streams[e.stream] if 0 <= e.stream < len(streams) else ""
    return f"{known}.{e.name}" if known else str(e.name) if e.stream == 0 else f"[{e.stream}].{e.name}"


def _event(e: Any, show: _Show, calls: list[str]) -> str:
    streams = _DISPLAY.get().streams
    known = streams[e.stream] if 0 <= e.stream < len(streams) else ""
    return known or ("event" if e.stream == 0 else f"event {e.stream}")


def _aggregate(e: Any, show: _Show, calls: list[str]) -> str:
    return calls[e.index] if e.index < len(calls) else f"aggregate {e.index}"


def _table_read(e: Any, show: _Show, calls: list[str]) -> str:
    row = f"{e.table}[{', '.join(map(show, e.keys))}]" if e.keys else str(e.table)
    return f"{row}.keys()" if e.all_keys else row if e.column is None else f"{row}.{e.column}"


def _prev(e: x.Prev, show: _Show) -> str:
    name = "prev" if e.kind == "prev" else f"prev{e.kind}"
    return f"{name}({', '.join(show(operand) for operand in (e.index, e.value) if operand is not None)})"


def _infix(show: _Show, op: str, *operands: x.BoundExpr) -> str:
    """Operands that have operators themselves get parentheses."""
    return f" {op} ".join(f"({show(o)})" if isinstance(o, _COMPOUND) else show(o) for o in operands)


_COMPOUND = (x.Arith, x.Logic, x.ComparisonExpr, x.Is, x.LogicalNot, x.RangeTest, x.InList, x.StringMatch, x.Concat)


def _between(e: Any, show: _Show, calls: list[str]) -> str:
    word = "not in" if e.negated else "in"
    brackets = ("[" if e.include_low else "(", "]" if e.include_high else ")")
    return f"{show(e.operand)} {word} {brackets[0]}{show(e.low)}:{show(e.high)}{brackets[1]}"


def _in_list(e: Any, show: _Show, calls: list[str]) -> str:
    return f"{show(e.operand)} {'not in' if e.negated else 'in'} ({', '.join(show(o) for o in e.options)})"


def _like(e: Any, show: _Show, calls: list[str]) -> str:
    word = ("not " if e.negated else "") + ("regexp" if e.regexp else "like")
    escape = f" escape {show(e.escape)}" if e.escape is not None else ""
    return f"{show(e.operand)} {word} {show(e.pattern)}{escape}"


def _case(e: Any, show: _Show, calls: list[str]) -> str:
    branches = " ".join(f"when {show(c)} then {show(v)}" for c, v in e.branches)
    default = f" else {show(e.default)}" if e.default is not None else ""
    return f"case {branches}{default} end"


def _call(e: Any, show: _Show, calls: list[str]) -> str:
    row = FUNCTIONS.get(e.name)
    args = [show(a) for a in e.args[: len(e.args) - (0 if row is None else row.implicit_arguments)]]
    owner, _, method = e.name.partition(".")
    if owner in ("string", "array") and row is not None:
        return f"{args[0]}.{method}({', '.join(args[1:])})"
    return f"{e.name}({', '.join(args)})"


def _period(e: Any, show: _Show, calls: list[str]) -> str:
    parts = []
    if e.months is not None:
        parts.append(_counted(e.months, ((12, "year"), (1, "month"))) or f"{show(e.months)} months")
    if e.millis is not None:
        second = _DISPLAY.get().second
        small = [(second // 1000, "msec")] + [(1, "microsecond")] * (second > 1000)
        units = [(86_400 * second, "day"), (3600 * second, "hour"), (60 * second, "min"), (second, "sec"), *small]
        text = _counted(e.millis, units)
        parts.append(text or f"{show(e.millis)} {'ms' if second == 1000 else 'us'}")
    return " ".join(parts)


def _counted(e: x.BoundExpr, units: Sequence[tuple[int, str]]) -> str | None:
    """Split a constant number of the last unit into larger units; None if it is not constant."""
    if not isinstance(e, x.Const) or not isinstance(e.value, int) or e.value < 1:
        return None
    left, words = e.value, []
    for size, unit in units:
        count, left = divmod(left, size)
        many = "s" if count > 1 and unit in ("day", "hour", "year", "month", "microsecond") else ""
        words += [f"{count} {unit}{many}"] * bool(count)
    return " ".join(words)


_EXPRESSIONS: dict[type[x.BoundExpr], Callable[[Any, _Show, list[str]], str]] = {
    x.Const: _const,
    x.Prop: _prop,
    x.TableRead: _table_read,
    x.MemberAccess: lambda e, show, calls: f"{show(e.target)}.{e.name}",
    x.IndexAccess: lambda e, show, calls: f"{show(e.target)}[{show(e.index)}]",
    x.EventOf: _event,
    x.EventTypeName: lambda e, show, calls: f"typeof({show(e.event)})",
    x.ContextProp: lambda e, show, calls: f"context.{e.name}",
    x.CurrentTimestamp: lambda e, show, calls: "current_timestamp",
    x.VariableRead: lambda e, show, calls: str(e.name),
    x.Prev: lambda e, show, calls: _prev(e, show),
    x.Prior: lambda e, show, calls: f"prior({e.index}, {show(e.value)})",
    x.InsertStream: lambda e, show, calls: "istream()",
    x.Grouping: lambda e, show, calls: f"grouping({', '.join(f'key {k}' for k in e.keys)})",
    x.WindowValue: lambda e, show, calls: str(e.name),
    x.OutputCounter: lambda e, show, calls: str(e.name),
    x.AggregateRef: _aggregate,
    x.KeyRef: lambda e, show, calls: f"key {e.index}",
    x.BooleanCheck: lambda e, show, calls: show(e.operand),
    x.SharedExpr: lambda e, show, calls: show(e.operand),
    x.MeasureAggregate: lambda e, show, calls: (
        f"{e.name}({'distinct ' if e.distinct else ''}{show(e.value)} of {show(e.rows)})"
    ),
    x.SubqueryRef: lambda e, show, calls: f"subquery {e.index}({', '.join(map(show, e.args))})",
    x.SubqueryParameter: lambda e, show, calls: f"parameter {e.index}",
    x.Arith: lambda e, show, calls: _infix(show, e.op, e.left, e.right),
    x.Negate: lambda e, show, calls: f"-({show(e.operand)})",
    x.Concat: lambda e, show, calls: _infix(show, "||", *e.operands),
    x.ComparisonExpr: lambda e, show, calls: _infix(show, e.op, e.left, e.right),
    x.Is: lambda e, show, calls: _infix(show, "is not" if e.negated else "is", e.left, e.right),
    x.Logic: lambda e, show, calls: _infix(show, e.op, *e.operands),
    x.LogicalNot: lambda e, show, calls: f"not ({show(e.operand)})",
    x.RangeTest: _between,
    x.InList: _in_list,
    x.StringMatch: _like,
    x.CaseWhen: _case,
    x.FunctionCall: _call,
    x.UserCall: _call,
    x.UserClass: lambda e, show, calls: str(e.name),
    x.MethodCall: lambda e, show, calls: (
        f"{show(e.receiver)}.{e.name.partition('.')[2]}({', '.join(map(show, e.args))})"
    ),
    x.LambdaExpr: lambda e, show, calls: f"({', '.join(f'{role}{e.level}' for role in e.roles)}) => {show(e.body)}",
    x.LambdaParameter: lambda e, show, calls: f"{e.role}{e.level}",
    x.Convert: lambda e, show, calls: f"cast({show(e.operand)}, {e.type})",
    x.ArrayOf: lambda e, show, calls: f"{{{', '.join(show(o) for o in e.elements)}}}",
    x.StructOf: lambda e, show, calls: f"new {{{', '.join(f'{n} = {show(v)}' for n, v in e.columns)}}}",
    x.InstanceOf: lambda e, show, calls: f"instanceof({show(e.operand)}, {', '.join(str(t) for t in e.types)})",
    x.Period: _period,
}
