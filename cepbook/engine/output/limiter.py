"""The limiter of one state: it collects the rows that the statement makes and releases those that are due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cepbook.engine.output import collectors, first_rows
from cepbook.engine.output import rate_triggers as triggers
from cepbook.engine.output.collectors import Rows
from cepbook.engine.state import State, initial
from cepbook.engine.time.clock import NEVER
from cepbook.lang.plan.nodes import OutputClause

DeliveredRows = tuple[Rows, Rows]
TimedRows = tuple[Rows, Rows, bool]  # the last: it is delivered even without rows


ClauseFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ClauseFunctions:
    """The generated functions of an output clause; None where the clause has no such part. ``P`` is the context
    partition, ``C`` the counters.
    """

    output_rate: ClauseFunction | None = None  # (P, now): a number or a `PeriodLength`
    output_after: ClauseFunction | None = None  # (P, now): likewise
    output_point: ClauseFunction | None = None  # (P, now): the next point of the crontab
    output_when: ClauseFunction | None = None  # (C, P, now): a condition
    output_ends: ClauseFunction | None = None  # (C, P, now): a condition
    output_then: ClauseFunction | None = None  # (C, P, now): assignments
    output_ended: ClauseFunction | None = None  # (C, P, now): assignments


@dataclass(frozen=True, slots=True)
class LimiterSpec:
    """The properties that all limiters of a statement share."""

    output: OutputClause
    rows: collectors.CollectorOptions
    make: collectors.RowFactory
    functions: ClauseFunctions

    def rate(self, partition: Any) -> Callable[[int], Any]:
        """Return the function of the number of events, or of the period, of the output."""
        if self.output.has_constant_rate:
            return ConstantRate(BoundFunction(self.functions.output_rate, (partition,))(0))
        return BoundFunction(self.functions.output_rate, (partition,))

    def limiter(self, partition: Any, now: int) -> Limiter:
        if self.output.which == "first":
            return FirstLimiter(self, partition, now)
        return Limiter(self, partition, now)

    def present(self, state: Any, rows: Rows, now: int) -> Rows:
        """Return the rows at `now`, with deferred rows made."""
        deferred = collectors.DeferredRow
        return [row.maker(state, now, *row.values) if isinstance(row, deferred) else row for row in rows]


class BoundFunction(State):
    """A function of the generated module with its first arguments: the counters, if needed, and the partition."""

    function: ClauseFunction | None
    args: tuple[Any, ...]

    def __call__(self, *rest: Any) -> Any:
        assert self.function is not None
        return self.function(*self.args, *rest)


class ConstantRate(State):
    """A number or a period that does not change."""

    _value: Any

    def __call__(self, now: int) -> Any:
        return self._value


class Limiter(State):
    """Holds the rows of one state back until they are due. `advance` must be called at `due`. `armed` is the earliest
    time for which the statement has a timer. Where the `collector` needs only keys of groups
    (`PhysicalPlan.collects_groups`), generated code puts them there, and calls `begin` at the first one.
    """

    __slots__ = (
        "_counters",
        "_delivered_at",
        "_form",
        "_left_out",
        "_partition",
        "_trigger",
        "armed",
        "collector",
    )

    def __init__(self, form: LimiterSpec, partition: Any, now: int) -> None:
        self.armed = NEVER
        self._form = form
        self._counters = triggers.OutputCounters(now)
        self._partition = partition
        self._left_out = _left_out(form, partition, now)
        self._trigger = _trigger(form, partition, self._counters)
        self.collector: collectors.RowCollector = collectors.make_collector(form.rows, form.make)
        self._delivered_at: int | None = None  # time of the last timed delivery, None after a change

    @property
    def due(self) -> int:
        return self._trigger.due

    @property
    def waiting(self) -> int:
        """The number of rows that wait."""
        return self.collector.waiting

    def take(self, state: Any, now: int, ins: Rows, rem: Rows, n_in: int, n_out: int) -> DeliveredRows | None:
        """Collect the rows of one change; return those that are due at once, None if there are none. `n_in` and `n_out`
        are the numbers of entered and left events that pass the where clause.
        """
        if not (n_in or n_out or ins or rem):
            return None
        self._delivered_at = None
        if self._left_out is not None and not self._passes(now, n_in):
            if self.collector.keeps:
                self.collector.add(state, now, ins, rem)
            return None
        self._counters.add(n_in, n_out)
        self.collector.add(state, now, ins, rem)
        return None if not self._trigger.arrived(now, n_in, n_out) else self._posted(state, now)

    def advance(self, state: Any, now: int) -> TimedRows | None:
        """Return the rows that are due at `now`; None if no output is due."""
        if now < self.due:
            return None
        self._trigger.fired(now)
        if not self._passes(now, 0):
            return None
        self._delivered_at = now
        return (*self._posted(state, now), True)

    def stop_time(self, due: int, now: int) -> int:
        """Return the time up to which windows advance that are due at `due`, if the clock leaps to `now`."""
        end = self._left_out.end if isinstance(self._left_out, _UntilTime) else due
        return end - 1 if due < end <= now else now

    def begin(self, now: int) -> None:
        """Start the clock of the output without an event."""
        self._trigger.arrived(now, 0, 0)

    def changed(self, now: int) -> None:
        """Reevaluate the condition after a variable that it reads was assigned; `due` may become `now`."""
        if isinstance(self._trigger, triggers.ConditionTrigger) and self._left_out is None:
            self._trigger.changed(now)

    def terminate(self, state: Any, now: int) -> TimedRows | None:
        """Return the rows since the last output, at the end of the context partition. Rows that a timer delivered at
        this very instant are not repeated (recorded: output_every_and_terminated).
        """
        output, functions = self._form.output, self._form.functions
        if not output.and_terminated or self._delivered_at == now:
            return None
        holds = functions.output_ends is None or functions.output_ends(self._counters, self._partition, now)
        if functions.output_ended is not None:
            functions.output_ended(self._counters, self._partition, now)
        if not holds or not self._passes(now, 0):
            return None
        return self._rest(state, now)

    def _rest(self, state: Any, now: int) -> TimedRows | None:
        return (*self._posted(state, now), self._form.output.which == "snapshot")

    def _posted(self, state: Any, now: int) -> DeliveredRows:
        self._counters.reset(now)
        ins, rem = self.collector.take(state, now)
        if not self._form.rows.deferred:
            return ins, rem
        return self._form.present(state, ins, now), self._form.present(state, rem, now)

    def _passes(self, now: int, n_in: int) -> bool:
        if self._left_out is None:
            return True
        if self._left_out.over(now, n_in):
            self._left_out = None
        return self._left_out is None


class FirstLimiter(Limiter):
    """The limiter of ``output first``. For grouped statements `take` receives keys of events instead of numbers."""

    __slots__ = ("_first",)

    def __init__(self, form: LimiterSpec, partition: Any, now: int) -> None:
        super().__init__(form, partition, now)
        self._first: first_rows.FirstRowsOfGroups | first_rows.FirstRows
        if form.rows.grouped:
            of_condition = isinstance(self._trigger, triggers.ConditionTrigger)
            gate = GroupConditionGate(form, partition, now) if of_condition else _gate(form, partition)
            self._first = first_rows.FirstRowsOfGroups(form.rows, gate)
        else:
            self._first = first_rows.FirstRows(form.rows, _gate(form, partition))

    @property
    def due(self) -> int:
        return NEVER

    def take(self, state: Any, now: int, ins: Rows, rem: Rows, n_in: Any, n_out: Any) -> DeliveredRows | None:
        """Return the rows that pass, as `Limiter.take`; for grouped statements `n_in` and `n_out` are keys."""
        if not (n_in or n_out):
            return None
        counts = (len(n_in), len(n_out)) if self._form.rows.grouped else (n_in, n_out)
        if not self._passes(now, counts[0]):
            return None
        self._counters.add(*counts)
        condition = self._trigger if isinstance(self._trigger, triggers.ConditionTrigger) else None
        if isinstance(self._first, first_rows.FirstRows) and condition is not None and condition.arrived(now, *counts):
            self._first.reopen()
        rows = self._first.take(now, ins, rem, n_in, n_out)
        if rows is not None:
            if self._form.rows.grouped and condition is not None:
                condition.assign(now)
            self._counters.reset(now)
        return rows

    def stop_time(self, due: int, now: int) -> int:
        return due

    def changed(self, now: int) -> None:
        trigger, first = self._trigger, self._first
        if (
            isinstance(trigger, triggers.ConditionTrigger)
            and isinstance(first, first_rows.FirstRows)
            and self._left_out is None
            and trigger.changed(now)
        ):
            first.reopen()

    def _rest(self, state: Any, now: int) -> TimedRows | None:
        return None


class GroupConditionGate(first_rows.OutputGate):
    """Lets rows of a group pass when an event of the group finds the condition true. The counters are those of the
    group (recorded: output_first_when_with_groups_waits_for_the_condition).
    """

    __slots__ = ("_counters", "_form", "_partition")
    memory = True

    def __init__(self, form: LimiterSpec, partition: Any, now: int) -> None:
        self._counters = triggers.OutputCounters(now)
        self._form = form
        self._partition = partition

    def arrived(self, now: int, n_in: int, n_out: int) -> bool:
        self._counters.add(n_in, n_out)
        when = self._form.functions.output_when
        assert when is not None
        return bool(when(self._counters, self._partition, now))

    def shut(self, now: int, n_in: int, n_out: int) -> None:
        self._counters.reset(now)

    def another(self) -> first_rows.OutputGate:
        return GroupConditionGate(self._form, self._partition, self._counters.last_output_timestamp)


class _UntilTime(State):
    """The end of ``after`` a period."""

    end: int

    def over(self, now: int, n_in: int) -> bool:
        """Return whether ``after`` is over, given the time and the number of arriving events."""
        return now >= self.end


class _UntilCount(State):
    """The end of ``after`` a number of events."""

    amount: int
    count: int = initial(0)

    def over(self, now: int, n_in: int) -> bool:
        self.count += n_in
        return self.count > self.amount


def _left_out(form: LimiterSpec, partition: Any, start: int) -> _UntilTime | _UntilCount | None:
    if form.output.after is None:
        return None
    amount = BoundFunction(form.functions.output_after, (partition,))(start)
    return (
        _UntilTime(first_rows.end_of_period(amount, start)) if isinstance(amount, tuple) else _UntilCount(amount or 0)
    )


def _trigger(form: LimiterSpec, partition: Any, counters: triggers.OutputCounters) -> triggers.OutputTrigger:
    match form.output.kind:
        case "events":
            return triggers.EventCountTrigger(_number(form, partition))
        case "time":
            return triggers.PeriodTrigger(form.rate(partition))
        case "at":
            return triggers.CrontabTrigger(BoundFunction(form.functions.output_point, (partition,)))
        case "when":
            then = BoundFunction(form.functions.output_then, (counters, partition)) if form.output.then_set else None
            return triggers.ConditionTrigger(BoundFunction(form.functions.output_when, (counters, partition)), then)
        case "terminated":
            return triggers.TerminationTrigger()
    return triggers.ImmediateTrigger()


def _number(form: LimiterSpec, partition: Any) -> Callable[[int], int | None]:
    rate = form.rate(partition)
    return rate if isinstance(rate, ConstantRate) else triggers.LastKnownNumber(rate)


def _gate(form: LimiterSpec, partition: Any) -> first_rows.OutputGate:
    match form.output.kind:
        case "events":
            counts = first_rows.CountGate if form.rows.grouped else first_rows.StimulusGate
            return counts(_number(form, partition))
        case "time":
            period = form.rate(partition)
            on_grid = not (form.rows.grouped or form.rows.having or form.rows.releases)
            return first_rows.GridGate(period) if on_grid else first_rows.PeriodGate(period, form.rows.releases)
        case "at":
            return first_rows.CrontabGate(BoundFunction(form.functions.output_point, (partition,)))
    return first_rows.ConditionGate()
