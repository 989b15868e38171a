"""Lookback: how far back in time or events the state of a statement reaches.

A task can start in the middle of the history if it first sees the events on which its state depends. A statement has a
lookback if that state is bounded:

* time windows, and patterns every part of which ends in time: a period;
* batches on a fixed grid: the batch that is collected and the one before it, two periods;
* the last events of a stream (``length``, ``prior``): a number of events.

The lookback is a sequence of steps. Each step starts at a time at which all state must be right. It goes to the last
stop of the clock before that time and a period further back, or over a number of events::

    first event that the task reads  <-- step 2: 3 events --  <-- step 1: 10 min --  the slice begins

Aggregates that count from the beginning have no lookback, nor do sums of floating-point numbers, whose last digits
depend on every number that ever entered or left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cepbook.lang.plan import expressions as expr
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan import pattern as patterns
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies
from cepbook.lang.plan.pattern import furthest_steps
from cepbook.lang.plan.references import event_types_read, expressions_in
from cepbook.lang.registry.aggregates import aggregate_row
from cepbook.lang.types import BITS
from cepbook.spark.frames.sql_conditions import is_expressible

_DAY = 86_400_000  # milliseconds


@dataclass(frozen=True, slots=True)
class LastEvents:
    """Back over the last `count` events of a type that pass `filter`."""

    event_type: str
    count: int
    filter: expr.BoundExpr | None


LookbackBound = float | LastEvents  # a period in ms
LookbackStep = tuple[LookbackBound, ...]  # as far as the furthest of its bounds


@dataclass(frozen=True, slots=True)
class Lookback:
    """Steps back in time, one after the other. Each step goes as far as the furthest of its bounds."""

    steps: tuple[LookbackStep, ...]

    @property
    def reason(self) -> str:
        """How far back the state reaches, for reports."""
        bounds = [bound for step in self.steps for bound in step]
        time = sum(max((m for m in step if not isinstance(m, LastEvents)), default=0) for step in self.steps)
        events = max((m.count for m in bounds if isinstance(m, LastEvents)), default=0)
        lengths = [f"{time / 1000:g} s"] if time else []
        lengths += [f"{events} event{'s' if events > 1 else ''}"] if events else []
        return f"its state reaches back {' and '.join(lengths)}: each slice of time begins that much earlier"


class _Unbounded(Exception):
    """The reason why a statement has no lookback; empty if other reasons say more."""


EventTimeProperties = frozenset[tuple[str, str]]  # types, each with the property that is the time of all its events


def lookback_of(deps: StatementDependencies, catalog: Catalog, clocks: Mapping[str, str]) -> Lookback | str | None:
    """Return the lookback of a statement with all that feeds it.

    Otherwise return the reason why it is unbounded, or None if other reasons say more. `clocks` gives by input type the
    property that holds the time of its events.
    """
    if deps.contexts or deps.stores or deps.triggers:
        return None
    selects = [s for s in deps.selects if type(s) is plan.SelectStatement]
    if len(selects) != len(deps.selects):
        return None
    try:
        steps = _statement_steps(deps.target, selects, (), catalog, _stamps(deps, catalog, clocks))
    except _Unbounded as error:
        return str(error) or None
    return Lookback(steps) if steps else None


def _stamps(deps: StatementDependencies, catalog: Catalog, clocks: Mapping[str, str]) -> EventTimeProperties:
    pairs = set()
    for name in catalog.event_types:
        clocks_ = {clocks.get(input_type) for input_type in deps.inputs if catalog.is_a(input_type, name)}
        pairs |= {(name, name_) for name_ in clocks_ if name_ is not None and len(clocks_) == 1}
    return frozenset(pairs)


def _statement_steps(
    name: str,
    selects: Sequence[plan.SelectStatement],
    before: tuple[str, ...],
    catalog: Catalog,
    stamps: EventTimeProperties,
) -> tuple[LookbackStep, ...]:
    """Return the steps of the statement `name`, then those of the statements that feed it. `before` lists its
    consumers.
    """
    if name in before:
        raise _Unbounded("its own rows are inserted into its input")
    statement = next(s for s in selects if s.name == name)
    read = set(event_types_read(statement))
    feeders = [s for s in selects if s.insert is not None and any(catalog.is_a(s.insert.target, r) for r in read)]
    own_steps = _own_steps(statement, bool(feeders), stamps)
    return own_steps + furthest_steps(
        [_statement_steps(s.name, selects, (*before, name), catalog, stamps) for s in feeders]
    )


def _own_steps(statement: plan.SelectStatement, fed: bool, stamps: EventTimeProperties) -> tuple[LookbackStep, ...]:
    if statement.drop or statement.lots or statement.into or statement.context is not None or statement.output:
        raise _Unbounded
    if statement.derived is not None or statement.recognition is not None or statement.iterable_unbound:
        raise _Unbounded
    if any(expressions_in(statement, expr.VariableRead)) or any(expressions_in(statement, expr.TableRead)):
        raise _Unbounded
    aggregation = statement.aggregation
    if aggregation is not None:
        if aggregation.reclaim is not None:
            raise _Unbounded
        _check_calls(aggregation.calls)
        if statement.join is not None and any(input_.kind != "inner" for input_ in statement.join.inputs):
            raise _Unbounded("rows without a partner stay in its aggregates forever")
    chains = [(chain, True) for chain in plan.streams(statement.root)]
    one_sided = set()
    if statement.join is not None:
        one_sided = {i for i, input_ in enumerate(statement.join.inputs) if input_.unidirectional}
    stream_steps = []
    for number, (stream, _) in enumerate(chains):
        alone = statement.join is None and aggregation is None
        stream_steps.append(_stream_steps(stream, alone or number in one_sided, fed, stamps))
    for subquery in statement.subqueries:
        if any(plan.stages(subquery.root, plan.Derivation)) or any(plan.stages(subquery.root, plan.Recognition)):
            raise _Unbounded
        for inner in plan.stages(subquery.root, plan.Aggregation):
            _check_calls(inner.calls)
        (stream,) = plan.streams(subquery.root)
        stream_steps.append(_stream_steps(stream, False, fed, stamps))
    counts = [e.index for e in expressions_in(statement.root, expr.Prior)]
    if counts:
        if statement.join is not None or statement.subqueries or fed:
            raise _Unbounded
        return (
            *furthest_steps(stream_steps),
            (_last_events(statement.source, max(counts) + 1),),
        )  # before any that the window holds
    return furthest_steps(stream_steps)


def _check_calls(calls: Sequence[plan.AggregateCall]) -> None:
    """Raise `_Unbounded` for an aggregate whose value depends on more than the events that are in the window."""
    for call in calls:
        exact = aggregate_row(call.name).exact
        if exact == "whole" and not call.ever and call.args[0].type.name not in BITS:
            raise _Unbounded(f"the last digits of {call.name} depend on all numbers that ever entered or left")
        if not exact or call.ever:
            raise _Unbounded


def _stream_steps(
    stream: plan.StreamNode, free: bool, fed: bool, stamps: EventTimeProperties
) -> tuple[LookbackStep, ...]:
    """Return the steps of the events that a stream keeps; unless `free`, an event must leave at some time."""
    source = plan.source_of(stream)
    if source.without_from or source.store is not None or source.contained or source.lot:
        raise _Unbounded
    below = () if source.pattern is None else _pattern_steps(source.pattern)
    stages = plan.stages(stream, plan.Windowed)
    windows = [w for stage in stages for w in stage.windows]
    if windows and windows[0].row.grouping and windows[0].reclaim is None:
        windows = windows[1:]
        if windows and (windows[0].row.forgets in ("size", "one") or windows[0].row.stamped):
            raise _Unbounded  # the last events of each group may be long ago
    if not windows:
        if not free:
            raise _Unbounded
        return below
    if len(windows) > 1 or len(stages) > 1:
        raise _Unbounded
    (window,) = windows
    if window.row.stamped:
        return _stamped_window_steps(window, source, fed, stamps)
    forgets, constants = window.row.forgets, window.constants
    if forgets == "period":
        return ((_constant_millis(window.args[0]),), *below)
    if forgets == "grid" and len(window.args) == 2 and constants and not window.options:
        period = _grid_millis(window.args[0])
        return ((period,), (period,), *below)  # the batch that is collected, and the one before it
    size = 1 if forgets == "one" else constants[0] if forgets == "size" and constants else None
    if isinstance(size, int) and not fed:
        return ((_last_events(source, size),),)
    raise _Unbounded


def _stamped_window_steps(
    window: plan.WindowSpec, source: plan.SourceNode, fed: bool, stamps: EventTimeProperties
) -> tuple[LookbackStep, ...]:
    """Return the steps of a window whose time is a property of its events: only an event moves it."""
    forgets = window.row.forgets
    if not forgets or fed or window.options:
        raise _Unbounded
    stamp, period, *_ = window.args
    if (source.event_type, stamp.property_name) not in stamps:
        raise _Unbounded(f"the timestamps of its window {window.name} are not those of a time column that is long")
    back: tuple[LookbackStep, ...] = ((_last_events(source, 1),), (_constant_millis(period),))
    if forgets == "period":
        return back
    if not window.constants:
        raise _Unbounded(f"the first event sets the batches of its window {window.name}, which has no reference point")
    # the batch that is collected, and the one before it, however long ago
    return ((_last_events(source, 1),), (_grid_millis(period),)) * 2


def _last_events(source: plan.SourceNode, count: int) -> LastEvents:
    if source.pattern is not None or (source.filter is not None and not is_expressible(source.filter)):
        raise _Unbounded("its filter is not one that Spark expresses itself, so that events cannot be counted")
    return LastEvents(source.event_type, count, source.filter)


def _grid_millis(period: expr.BoundExpr) -> float:
    """Return the greatest length of the constant period of a grid: days of a time zone may be longer than others."""
    millis = _constant_millis(period)
    return millis + _DAY if millis % _DAY == 0 else millis


def _constant_millis(period: expr.BoundExpr) -> float:
    """Return the length of a period that never changes, in milliseconds."""
    if period.constant_millis is None:
        raise _Unbounded
    return float(period.constant_millis)


def _pattern_steps(pattern: patterns.Pattern) -> tuple[LookbackStep, ...]:
    """Return the steps of ``every a=A -> …`` if everything after the first event ends in time."""
    first, rest = pattern.leading_every
    if first is None or pattern.suppress_overlapping or pattern.discard_partials:
        raise _Unbounded
    steps: tuple[LookbackStep, ...] = ()
    for operand in rest:
        if operand.duration is None:
            raise _Unbounded("it has no `timer:within` that ends what it began")
        steps = tuple(tuple(map(_constant_millis, periods)) for periods in operand.duration) + steps
    return steps
