"""The output clause (Esper reference, section "Stabilizing and Controlling Output: The Output Clause")."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cepbook.lang import types as t
from cepbook.lang.bind.clauses.assignments import bind_assignments
from cepbook.lang.bind.clauses.crontab import bind_crontab
from cepbook.lang.bind.expressions.expression import bind_condition, bind_expr
from cepbook.lang.bind.scope import ERROR, AlreadyReported, Scope, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

# Built-in names of conditions and assignments
OUTPUT_COUNTERS: dict[str, Type] = {
    "count_insert": t.INT,
    "count_insert_total": t.INT,
    "count_remove": t.INT,
    "count_remove_total": t.INT,
    "last_output_timestamp": t.LONG,
}
_KINDS: dict[str | None, Any] = {"every-events": "events", "every-time": "time"}  # the others have the same name


def bind_output_rate(node: ast.Output, scope: Scope) -> plan.OutputClause | None:
    """Return the output clause, or None if it was reported. `scope` is that of the select-clause."""
    own = scope.without_aggregates("the output clause")
    counting = replace(own, aliases={name: x.OutputCounter(type_, name) for name, type_ in OUTPUT_COUNTERS.items()})
    _check_form(node, scope)
    kind = _KINDS.get(node.kind, node.kind)
    terminated = kind == "terminated"
    ending = node.when if terminated else node.terminated_when
    try:
        clause = plan.OutputClause(
            kind,
            node.which,  # type: ignore[arg-type]
            rate=None if node.rate is None else _amount(node.rate, "the output rate", 1, own),
            after=None if node.after is None else _amount(node.after, "the part left out by `after`", 0, own),
            crontab=None
            if node.crontab is None
            else _require_crontab(bind_crontab(node.crontab.fields, node.crontab.span, own)),
            when=None if node.when is None or terminated else _condition(node.when, counting),
            then_set=() if terminated else _assignments(node.then_set, counting),
            and_terminated=node.and_terminated or terminated,
            terminated_when=None if ending is None else _condition(ending, counting),
            terminated_then=_assignments(node.then_set if terminated else node.terminated_then, counting),
            span=node.span,
        )
    except AlreadyReported:
        return None
    return clause


def _check_form(node: ast.Output, scope: Scope) -> None:
    if node.kind is None and node.which is not None:
        hint = f"say when: output {node.which} every 10 events, every 5 sec, at (…), when …"
        scope.wrong(f"`output {node.which}` without a rate", node.span, hint)
    elif node.kind is None and node.and_terminated:
        hint = "output when terminated, or output every 2 events and when terminated"
        scope.wrong("`and when terminated` without an output rate before it", node.span, hint)
    if (node.and_terminated or node.kind == "terminated") and scope.context is None and not scope.unknown_context:
        hint = "begin the statement with `context NAME`"
        scope.report("wrong-context", "`when terminated` outside of a context", node.span, hint)


def _require_crontab(crontab: plan.CrontabSpec | None) -> plan.CrontabSpec:
    if crontab is None:
        raise AlreadyReported("crontab")
    return crontab


def _amount(node: ast.Expr, what: str, least: int, scope: Scope) -> x.BoundExpr:
    bound = fold_expr(_without_events(bind_expr(node, scope), scope))
    if bound.type == ERROR:
        raise AlreadyReported(what)
    if isinstance(bound, x.Period):
        parts = [e for e in (bound.months, bound.millis) if e is not None]
        amounts = [e.value for e in parts if isinstance(e, x.Const) and isinstance(e.value, int | float)]
        if any(a < 0 for a in amounts) or (len(amounts) == len(parts) and sum(amounts) < least):
            fact = "must be above 0" if least else "must not be negative"
            scope.reject(f"{what} {fact}", node.span)
        return bound
    if not t.is_integral(bound.type) or bound.type == t.BIGINTEGER:
        scope.reject(f"{what} must be a whole number of events, found {type_text(bound.type)}", node.span)
    if isinstance(bound, x.Const) and isinstance(bound.value, int) and bound.value < least:
        fact = "must be above 0" if least else "must not be negative"
        scope.reject(f"{what} {fact}, found {bound.value}", node.span)
    return bound


def _condition(node: ast.Expr, scope: Scope) -> x.BoundExpr:
    bound = _without_events(bind_condition(node, scope, "the condition of the output clause"), scope)
    if bound.type == ERROR:
        raise AlreadyReported("condition")
    return bound


def _assignments(nodes: tuple[ast.Assignment, ...], scope: Scope) -> tuple[plan.VariableAssignment, ...]:
    assignments = bind_assignments(nodes, replace(scope, calls={}))
    if len(assignments) < len(nodes):
        raise AlreadyReported("then set")
    for assignment in assignments:
        for e in (assignment.value, *assignment.path):
            if e is not None and _without_events(e, scope).type == ERROR:
                raise AlreadyReported("then set")
    return assignments


def _without_events(bound: x.BoundExpr, scope: Scope) -> x.BoundExpr:
    """Return `bound`, or report the event that it reads: the clause covers rows of many events."""
    also = f", and {', '.join(scope.aliases)}" if scope.aliases else ""
    for subexpr in x.walk(bound):
        if isinstance(subexpr, (x.Prop, x.EventOf, x.Prev, x.Prior)):
            hint = f"it reads variables and constants{also}"
            scope.reject("the output clause cannot depend on an event", subexpr.span, hint)
    return bound
