"""The kinds of statement that may deliver otherwise if the clock leaps: the table of docs/concepts/replay.md.

A statement is of a kind if its plan says so. `ROWS` kinds may deliver other rows, `TIMES` kinds the same rows at other
times, in other deliveries. A module without any kind delivers the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.runtime import Runtime
from cepbook.engine.statements.statement import RunningStatement
from cepbook.lang.plan import context as c
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import pattern as pt
from cepbook.lang.plan import traversal

OUTPUT = "`output … every` a period, `output at`, `output when`; `output first` only over the rows of other statements"
BATCHES = "`time_batch`, `time_length_batch`"
PATTERNS = "timers of patterns: `timer:interval`, `timer:at`, `timer:within`"
CONTEXTS = "contexts that start or end by time"
EVICTIONS = "`rstream` and `irstream` of a time window"
RESULTS = "aggregates, derived values and `output` by number over a time window; a time window beside others"
JOINS = "joins and subqueries over time windows"
READERS = "statements that read what leaves by time, through `insert into` or a named window"
NOW = "`current_timestamp` in any of these"
INTERVALS = "`match_recognize … interval`"
VARIABLES = "windows whose condition reads a variable"
ROWS, TIMES = "rows", "times"
KINDS = {
    OUTPUT: ROWS,
    BATCHES: ROWS,
    PATTERNS: ROWS,
    CONTEXTS: ROWS,
    RESULTS: ROWS,
    JOINS: ROWS,
    READERS: ROWS,
    NOW: ROWS,
    EVICTIONS: TIMES,
    INTERVALS: TIMES,
    VARIABLES: TIMES,
}
_TIMERS = pt.IntervalTimer | pt.CrontabTimer | pt.ScheduleTimer | pt.WithinGuard


def leap_kinds(runtime: Runtime) -> set[str]:
    """Return the kinds of the statements of a module."""
    statements = list(runtime.statements.values())
    kinds = {kind for statement in statements for kind in _kinds_of(statement, runtime)}
    if kinds and any(_reads_now(statement) for statement in statements):
        kinds.add(NOW)
    return kinds


def may_differ(kinds: set[str]) -> str | None:
    """Return what a leap may change in a module of these kinds: `ROWS`, `TIMES`, or None."""
    effects = {KINDS[kind] for kind in kinds}
    return ROWS if ROWS in effects else TIMES if effects else None


def _kinds_of(statement: RunningStatement, runtime: Runtime) -> Iterator[str]:
    steps, output = statement.steps, statement.steps.output
    context = () if statement.context is None else tuple(traversal.walk(statement.context.plan))
    plan = (*traversal.walk(statement.plan), *context)
    forgets = (isinstance(node, pt.EveryPattern) and node.expiry is not None for node in plan)
    timed_pattern = any(isinstance(node, _TIMERS) for node in plan) or any(forgets)
    if timed_pattern:
        yield PATTERNS
    if any(isinstance(node, c.OnCrontab | c.AfterPeriod) for node in context):
        yield CONTEXTS
    first = output is not None and output.which == "first" and output.kind in ("time", "at")
    if output is not None and not first and output.kind in ("time", "at", "when"):
        yield OUTPUT
    of_windows = list(_of_windows(statement))
    if any(part.watched for part in _parts(statement)):
        yield VARIABLES
    if first and set(of_windows) <= {EVICTIONS, BATCHES, RESULTS}:
        of_windows = [EVICTIONS] * bool(of_windows)  # decides by due time
    yield from of_windows
    moves = of_windows or timed_pattern
    if moves and (steps.emit.targets or steps.owned_store is not None or steps.touches_store):
        yield READERS


def _of_windows(statement: RunningStatement) -> Iterator[str]:
    steps = statement.steps
    for part in _parts(statement):
        timed = [window.row for window in part.windows if window.row.timed]
        if part.recognize is not None and part.recognize.interval is not None:
            yield INTERVALS
        if any(row.batch for row in timed):
            yield BATCHES
        if all(row.batch for row in timed) or part.lazy:
            continue
        if part.lookup is not None or steps.inputs:
            yield JOINS
            continue
        yield EVICTIONS
        several = len(steps.data_window_names) > 1 or len(steps.stages) > 1
        computed = steps.kind != "unaggregated" or steps.derived is not None or steps.recognize is not None
        if several or computed or (steps.output is not None and steps.output.which != "first"):
            yield RESULTS


def _parts(statement: RunningStatement) -> list[PhysicalPlan]:
    steps = statement.steps
    return [steps, *steps.inputs, *(each.steps for each in statement.program.subqueries)]


def _reads_now(statement: RunningStatement) -> bool:
    expressions = (node for node in traversal.walk(statement.plan) if isinstance(node, x.BoundExpr))
    return any(isinstance(inner, x.CurrentTimestamp) for e in expressions for inner in x.walk(e))
