"""Applying a function to every expression of a pattern, a context, a crontab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cepbook.lang import contexts as c
from cepbook.lang import patterns as p
from cepbook.lang import plan
from cepbook.lang.expr import Expr

Change = Callable[[Expr], Expr]


def _maybe(e: Expr | None, fn: Change) -> Expr | None:
    return None if e is None else fn(e)


def map_crontab(crontab: plan.Crontab, fn: Change) -> plan.Crontab:
    """`crontab` with `fn` applied to the operands of its fields."""
    return replace(crontab, fields=tuple(_cron_field(f, fn) for f in crontab.fields))


def _cron_field(field: plan.CronField, fn: Change) -> plan.CronField:
    operands = tuple(fn(e) for e in field.operands)
    return replace(field, operands=operands, parts=tuple(_cron_field(part, fn) for part in field.parts))


def map_contained(node: plan.Contained, fn: Change) -> plan.Contained:
    """`node` with `fn` applied to its path, columns and condition."""
    columns = tuple(replace(c, value=fn(c.value)) for c in node.columns)
    return replace(node, path=fn(node.path), columns=columns, where=_maybe(node.where, fn))


# ---------------------------------------------------------------- patterns
def map_pattern(pattern: p.Pattern, fn: Change) -> p.Pattern:
    """`pattern` with `fn` applied to its filters, periods, counts, keys, conditions."""
    return replace(pattern, root=_node(pattern.root, fn))


def _node(node: p.PatternNode, fn: Change) -> p.PatternNode:
    match node:
        case p.Atom():
            contained = tuple(map_contained(each, fn) for each in node.contained)
            return replace(node, filter=_maybe(node.filter, fn), contained=contained)
        case p.Interval():
            return replace(node, period=fn(node.period))
        case p.At():
            return replace(node, crontab=map_crontab(node.crontab, fn))
        case p.Schedule():
            date, period, repetitions = (_maybe(e, fn) for e in (node.date, node.period, node.repetitions))
            return replace(node, date=date, period=period, repetitions=repetitions)
        case p.FollowedBy():
            operands = tuple(_node(operand, fn) for operand in node.operands)
            return replace(node, operands=operands, maxima=tuple(_maybe(m, fn) for m in node.maxima))
        case p.Logical():
            return replace(node, operands=tuple(_node(operand, fn) for operand in node.operands))
        case p.Not():
            return replace(node, operand=_node(node.operand, fn))
        case p.Every():
            keys = None if node.keys is None else tuple(fn(key) for key in node.keys)
            return replace(node, operand=_node(node.operand, fn), keys=keys, expiry=_maybe(node.expiry, fn))
        case p.Repeat():
            until = None if node.until is None else _node(node.until, fn)
            low, high = _maybe(node.low, fn), _maybe(node.high, fn)
            return replace(node, operand=_node(node.operand, fn), low=low, high=high, until=until)
        case p.Within():
            return replace(node, operand=_node(node.operand, fn), period=fn(node.period), count=_maybe(node.count, fn))
        case p.While():
            return replace(node, operand=_node(node.operand, fn), condition=fn(node.condition))
    raise TypeError(f"no rule for {type(node).__name__}")


# ---------------------------------------------------------------- contexts
def map_context(spec: c.ContextSpec, fn: Change) -> c.ContextSpec:
    """`spec` with `fn` applied to its filters, periods and so on; keys of ``partition by`` stay as written."""
    match spec:
        case c.Keyed():
            return replace(
                spec,
                streams=map_keyed(spec.streams, fn),
                initiated=tuple(replace(on, filter=_maybe(on.filter, fn)) for on in spec.initiated),
                terminated=_condition(spec.terminated, fn),
            )
        case c.Hash():
            streams = tuple(
                replace(s, args=tuple(fn(arg) for arg in s.args), filter=_maybe(s.filter, fn)) for s in spec.streams
            )
            return replace(spec, streams=streams)
        case c.Category():
            categories = tuple((label, fn(condition)) for label, condition in spec.categories)
            return replace(spec, filter=_maybe(spec.filter, fn), categories=categories)
        case c.NonOverlapping():
            return replace(spec, start=_begin(spec.start, fn), end=_condition(spec.end, fn))
        case c.Overlapping():
            return replace(
                spec,
                initiated=_begin(spec.initiated, fn),
                terminated=_condition(spec.terminated, fn),
                distinct=tuple(fn(key) for key in spec.distinct),
            )
        case c.Nested():
            return replace(spec, levels=tuple((name, map_context(level, fn)) for name, level in spec.levels))


def map_keyed(spec: plan.KeyedContextSpec, fn: Change) -> plan.KeyedContextSpec:
    """`spec` with `fn` applied to its filters."""
    return replace(spec, streams=tuple(replace(s, filter=_maybe(s.filter, fn)) for s in spec.streams))


def _condition(condition: c.Condition | None, fn: Change) -> c.Condition | None:
    return None if condition is None else _begin(condition, fn)


def _begin(condition: c.Condition, fn: Change) -> c.Condition:
    match condition:
        case c.OnEvent():
            contained = tuple(map_contained(step, fn) for step in condition.contained)
            return replace(condition, filter=_maybe(condition.filter, fn), contained=contained)
        case c.OnPattern():
            return replace(condition, pattern=map_pattern(condition.pattern, fn))
        case c.OnCrontab():
            return replace(condition, crontabs=tuple(map_crontab(crontab, fn) for crontab in condition.crontabs))
        case c.After():
            return replace(condition, period=fn(condition.period))
    return condition
