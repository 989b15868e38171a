"""The expressions of an output clause as functions of the statement's module (see `limiter.LimiterSpec`)."""

from __future__ import annotations

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.assignments import write_assignments, write_new_values
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.time.crontab import CrontabSchedule
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import CrontabSpec, OutputClause

COUNTERS_PARAMETER = "C"  # the name that `to_python` uses


def write_clause_functions(output: OutputClause, scope: CodeScope) -> None:
    own = scope.at(props={}, events={}, aggregates=(), keys=(), partition="P", state="state_of(P)", now="now")
    if output.rate is not None:
        _write_amount("output_rate", output.rate, own)
    if output.after is not None:
        _write_amount("output_after", output.after, own)
    if output.crontab is not None:
        _write_point(output.crontab, own)
    for name, condition in (("output_when", output.when), ("output_ends", output.terminated_when)):
        if condition is not None:
            with scope.source.block(f"def {name}({COUNTERS_PARAMETER}, P, now):"):
                scope.source.line(f"return {lower.truth(own, condition)}", condition.span)
    for name, assignments in (("output_then", output.then_set), ("output_ended", output.terminated_then)):
        if assignments:
            with scope.source.block(f"def {name}({COUNTERS_PARAMETER}, P, now):"):
                write_assignments(write_new_values(assignments, own), own, "now")


def _write_amount(name: str, amount: x.BoundExpr, scope: CodeScope) -> None:
    """Write a function that returns a number of events, or a period: months, clock units, and the unit of months."""
    with scope.source.block(f"def {name}(P, now):"):
        if isinstance(amount, x.Period):
            amounts = ("0" if e is None else lower.value(scope, e) for e in (amount.months, amount.millis))
            scope.source.line(f"return ({', '.join(amounts)}, {scope.calendar})", amount.span)
        else:
            scope.source.line(f"return {lower.value(scope, amount)}", amount.span)


def _write_point(crontab: CrontabSpec, scope: CodeScope) -> None:
    schedule = CrontabSchedule(crontab, scope.second)
    next_time = scope.source.bind("_next_time", schedule.next_time)
    numbers = "".join(f"{lower.value(scope, e)}, " for e in schedule.operands)
    with scope.source.block("def output_point(P, now):"):
        scope.source.line(f"return {next_time}(now, ({numbers}))", crontab.span)
