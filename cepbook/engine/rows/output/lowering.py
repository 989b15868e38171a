"""The expressions of an output clause as functions of the statement's generated module (see `limiter.Form`)."""

from __future__ import annotations

from cepbook.engine.crontab import Schedule
from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.assign import new_values, put
from cepbook.engine.rows.expr import Scope
from cepbook.lang import expr as x
from cepbook.lang.plan import Assignment, Crontab, Output

COUNTERS = "C"  # as `rows.expr` calls them


def write_output(output: Output, scope: Scope) -> None:
    """Write the functions."""
    own = scope.at(props={}, events={}, aggregates=(), keys=(), partition="P", state="state_of(P)", now="now")
    if output.rate is not None:
        _write_amount("output_rate", output.rate, own)
    if output.after is not None:
        _write_amount("output_after", output.after, own)
    if output.crontab is not None:
        _write_point(output.crontab, own)
    for name, condition in (("output_when", output.when), ("output_ends", output.terminated_when)):
        if condition is not None:
            with scope.source.block(f"def {name}({COUNTERS}, P, now):"):
                scope.source.line(f"return {lower.truth(own, condition)}", condition.span)
    for name, assignments in (("output_then", output.then_set), ("output_ended", output.terminated_then)):
        if assignments:
            _write_assignments(name, assignments, own)


def _write_amount(name: str, amount: x.Expr, scope: Scope) -> None:
    """A number of events; of a period its months, its clock units and what months are counted in."""
    with scope.source.block(f"def {name}(P, now):"):
        if isinstance(amount, x.Period):
            parts = ("0" if e is None else lower.value(scope, e) for e in (amount.months, amount.millis))
            scope.source.line(f"return ({', '.join(parts)}, {scope.calendar})", amount.span)
        else:
            scope.source.line(f"return {lower.value(scope, amount)}", amount.span)


def _write_point(crontab: Crontab, scope: Scope) -> None:
    schedule = Schedule(crontab, scope.second)
    next_time = scope.source.bind("_next_time", schedule.next_time)
    numbers = "".join(f"{lower.value(scope, e)}, " for e in schedule.operands)
    with scope.source.block("def output_point(P, now):"):
        scope.source.line(f"return {next_time}(now, ({numbers}))", crontab.span)


def _write_assignments(name: str, assignments: tuple[Assignment, ...], scope: Scope) -> None:
    with scope.source.block(f"def {name}({COUNTERS}, P, now):"):
        put(new_values(assignments, scope), scope, "now")
