"""Statements that the clock alone can make deliver rows."""

from __future__ import annotations

from cepbook.engine.physical.lowering import lower_statement
from cepbook.lang.plan import expressions as expr
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.dependencies import event_sources
from cepbook.lang.plan.pattern import (
    CrontabTimer,
    EveryPattern,
    IntervalTimer,
    Pattern,
    ScheduleTimer,
    WithinGuard,
    walk,
)
from cepbook.lang.plan.references import expressions_in


def depends_on_clock(statement: plan.StreamStatement) -> bool:
    """Return whether an advance of the clock can make the statement deliver rows, or drop state that a row would show.

    The answer is conservative: True may be returned for a statement whose timers never fire.
    """
    if isinstance(statement, plan.CycleStatement):
        return True
    if any(pattern_uses_clock(source.pattern) for source in event_sources(statement)):
        return True
    if not isinstance(statement, plan.SelectStatement):
        return False
    recognition, output = statement.recognition, statement.output
    if recognition is not None and recognition.interval is not None:
        return True
    if output is not None and (output.kind not in (None, "events") or isinstance(output.after, expr.Period)):
        return True
    inner = [stage for subquery in statement.subqueries for stage in plan.stages(subquery.root, plan.Windowed)]
    if any(window.row.timed and not window.row.lazy_expiry for stage in inner for window in stage.windows):
        return True
    arguments = tuple(window.args for window in statement.windows)
    if any(expressions_in(arguments, expr.VariableRead)):
        return True
    if not any(window.row.timed for window in statement.windows):
        return False
    # No row shows the events that leave a lazy window.
    plain = type(statement) is plan.SelectStatement and not statement.subqueries
    return not (plain and lower_statement(statement).lazy)


def pattern_uses_clock(pattern: Pattern | None) -> bool:
    """Return whether there is a pattern that has a timer, or a part that ends at a time."""
    nodes = [] if pattern is None else walk(pattern.root)
    timers = IntervalTimer | CrontabTimer | ScheduleTimer | WithinGuard
    return any(
        isinstance(node, timers) or (isinstance(node, EveryPattern) and node.expiry is not None) for node in nodes
    )
