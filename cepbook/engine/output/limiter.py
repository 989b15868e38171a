"""The limiter of one state: collects what the statement makes, and hands out what is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cepbook.engine.output.collectors import (
    CollectorOptions,
    DeferredRow,
    RowCollector,
    RowFactory,
    Rows,
    make_collector,
)
from cepbook.engine.output.first_rows import (
    ConditionGate,
    CountGate,
    CrontabGate,
    FirstRows,
    FirstRowsOfGroups,
    GridGate,
    OutputGate,
    PeriodGate,
    StimulusGate,
    end_of_period,
)
from cepbook.engine.output.rate_triggers import (
    ConditionTrigger,
    CrontabTrigger,
    EventCountTrigger,
    ImmediateTrigger,
    LastKnownNumber,
    OutputCounters,
    OutputTrigger,
    PeriodTrigger,
    TerminationTrigger,
)
from cepbook.engine.state import State
from cepbook.engine.time.clock import NEVER
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import OutputClause

DeliveredRows = tuple[Rows, Rows]
TimedRows = tuple[Rows, Rows, bool]  # the last: it is delivered even without rows


@dataclass(frozen=True, slots=True)
class LimiterSpec:
    """What all limiters of a statement share. `functions` are those that `lowering` writes, as far as there are any:

    ``output_rate(P, now)``, ``output_after(P, now)``: a number, or a `Length`; ``output_point(P, now)``: the next
    point of the crontab; ``output_when(C, P, now)``, ``output_ends(C, P, now)``: conditions over the counters ``C``;
    ``output_then(C, P, now)``, ``output_ended(C, P, now)``: assignments. ``P`` is the context partition.
    """

    output: OutputClause
    rows: CollectorOptions
    make: RowFactory
    functions: Mapping[str, Callable[..., Any]]

    @property
    def steady(self) -> bool:
        """Whether the rate is the same at all times."""
        rate = self.output.rate
        parts = (rate.months, rate.millis) if isinstance(rate, x.Period) else (rate,)
        return all(part is None or isinstance(part, x.Const) for part in parts)

    def rate(self, partition: Any) -> Callable[[int], Any]:
        """What gives the number of events, or the period, of the output."""
        if self.steady:
            return ConstantRate(self.functions["output_rate"](partition, 0))
        return BoundFunction(self, "output_rate", (partition,))

    def limiter(self, partition: Any, now: int) -> Limiter:
        """A fresh limiter for a state that starts at `now`."""
        if self.output.which == "first":
            return FirstLimiter(self, partition, now)
        return Limiter(self, partition, now)

    def present(self, state: Any, rows: Rows, now: int) -> Rows:
        """The rows; those that are made when they are delivered, as they are at `now`."""
        made = self.functions
        return [made[row.maker](state, now, *row.kept) if isinstance(row, DeferredRow) else row for row in rows]


@dataclass(frozen=True, slots=True)
class BoundFunction(State):
    """The function `name` of `form` with its first arguments: the counters, if it reads them, and the partition."""

    form: LimiterSpec
    name: str
    args: tuple[Any, ...]

    def __call__(self, *rest: Any) -> Any:
        return self.form.functions[self.name](*self.args, *rest)


class ConstantRate(State):
    """A number or a period that does not change."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self, now: int) -> Any:
        return self._value


class Limiter(State):
    """Stands between one state and its deliveries. `due` is when `advance` must be called.

    `armed` is the earliest time for which the statement has a timer running.
    """

    def __init__(self, form: LimiterSpec, partition: Any, now: int) -> None:
        self.armed = NEVER
        self._form = form
        self._counters = OutputCounters(now)
        self._partition = partition
        self._left_out = _left_out(form, partition, now)
        self._trigger = _trigger(form, partition, self._counters)
        self._collector: RowCollector = make_collector(form.rows, form.make)
        self._told: int | None = None  # when a timer delivered, if nothing has moved since

    @property
    def due(self) -> int:
        """The time of the next timed output; `NEVER` if there is none."""
        return self._trigger.due

    def take(self, state: Any, now: int, ins: Rows, rem: Rows, n_in: int, n_out: int) -> DeliveredRows | None:
        """What one stimulus made; `n_in` and `n_out` events entered and left that the where-clause accepts.

        The rows that are delivered at once; None if there are none.
        """
        if not (n_in or n_out or ins or rem):
            return None
        self._told = None
        if self._left_out is not None and not self._passes(now, n_in):
            if self._collector.keeps:
                self._collector.add(state, now, ins, rem)
            return None
        self._counters.add(n_in, n_out)
        self._collector.add(state, now, ins, rem)
        if not self._trigger.arrived(now, n_in, n_out):
            return None
        return self._posted(state, now)

    def advance(self, state: Any, now: int) -> TimedRows | None:
        """What is delivered when time has reached `due`; None if it has not."""
        if now < self.due:
            return None
        self._trigger.fired(now)
        self._told = now
        return (*self._posted(state, now), True)

    def changed(self, now: int) -> None:
        """A variable that the condition reads was assigned; `due` may be `now` then."""
        if isinstance(self._trigger, ConditionTrigger) and self._left_out is None:
            self._trigger.changed(now)

    def terminate(self, state: Any, now: int) -> TimedRows | None:
        """What is delivered at the end of the context partition: the rows since the last output.

        What a timer delivered at this very instant is not told again (recorded: output_every_and_terminated).
        """
        output, functions = self._form.output, self._form.functions
        if not output.and_terminated or self._told == now:
            return None
        holds = "output_ends" not in functions or functions["output_ends"](self._counters, self._partition, now)
        if "output_ended" in functions:
            functions["output_ended"](self._counters, self._partition, now)
        if not holds or not self._passes(now, 0):
            return None
        return self._rest(state, now)

    def _rest(self, state: Any, now: int) -> TimedRows | None:
        return (*self._posted(state, now), self._form.output.which == "snapshot")

    def _posted(self, state: Any, now: int) -> DeliveredRows:
        self._counters.reset(now)
        ins, rem = self._collector.take(state, now)
        if not self._form.rows.late:
            return ins, rem
        return self._form.present(state, ins, now), self._form.present(state, rem, now)

    def _passes(self, now: int, n_in: int) -> bool:
        """Whether ``after`` is over."""
        if self._left_out is None:
            return True
        if self._left_out.over(now, n_in):
            self._left_out = None
        return self._left_out is None


class FirstLimiter(Limiter):
    """``output first``. For grouped statements `take` is given keys of events in place of their numbers."""

    def __init__(self, form: LimiterSpec, partition: Any, now: int) -> None:
        super().__init__(form, partition, now)
        gate = _gate(form, partition)
        self._first = FirstRowsOfGroups(form.rows, gate) if form.rows.grouped else FirstRows(form.rows, gate)

    @property
    def due(self) -> int:
        """Nothing waits for a time."""
        return NEVER

    def take(self, state: Any, now: int, ins: Rows, rem: Rows, n_in: Any, n_out: Any) -> DeliveredRows | None:
        """As `Limiter.take`; of grouped statements `n_in` and `n_out` are the keys of the events."""
        if not (n_in or n_out):
            return None
        counts = (len(n_in), len(n_out)) if self._form.rows.grouped else (n_in, n_out)
        if not self._passes(now, counts[0]):
            return None
        self._counters.add(*counts)
        if isinstance(self._trigger, ConditionTrigger) and self._trigger.arrived(now, *counts):
            self._first.reopen()
        found = self._first.take(now, ins, rem, n_in, n_out)
        if found is not None:
            self._counters.reset(now)
        return found

    def changed(self, now: int) -> None:
        if isinstance(self._trigger, ConditionTrigger) and self._left_out is None and self._trigger.changed(now):
            self._first.reopen()

    def _rest(self, state: Any, now: int) -> TimedRows | None:
        return None


# ---------------------------------------------------------------- the parts of a limiter
@dataclass(slots=True)
class _UntilTime(State):
    """``after`` a period."""

    end: int

    def over(self, now: int, n_in: int) -> bool:
        """Whether ``after`` is over, given the time and the number of arriving events."""
        return now >= self.end


@dataclass(slots=True)
class _UntilCount(State):
    """``after`` a number of events."""

    amount: int
    count: int = 0

    def over(self, now: int, n_in: int) -> bool:
        """As of `_UntilTime`."""
        self.count += n_in
        return self.count > self.amount


def _left_out(form: LimiterSpec, partition: Any, start: int) -> _UntilTime | _UntilCount | None:
    if form.output.after is None:
        return None
    amount = form.functions["output_after"](partition, start)
    return _UntilTime(end_of_period(amount, start)) if isinstance(amount, tuple) else _UntilCount(amount or 0)


def _trigger(form: LimiterSpec, partition: Any, counters: OutputCounters) -> OutputTrigger:
    match form.output.kind:
        case "events":
            return EventCountTrigger(_number(form, partition))
        case "time":
            return PeriodTrigger(form.rate(partition))
        case "at":
            return CrontabTrigger(BoundFunction(form, "output_point", (partition,)))
        case "when":
            then = BoundFunction(form, "output_then", (counters, partition)) if form.output.then_set else None
            return ConditionTrigger(BoundFunction(form, "output_when", (counters, partition)), then)
        case "terminated":
            return TerminationTrigger()
    return ImmediateTrigger()


def _number(form: LimiterSpec, partition: Any) -> Callable[[int], int | None]:
    """What gives a number of events; where it is null the last one that was not."""
    rate = form.rate(partition)
    return rate if isinstance(rate, ConstantRate) else LastKnownNumber(rate)


def _gate(form: LimiterSpec, partition: Any) -> OutputGate:
    match form.output.kind:
        case "events":
            counts = CountGate if form.rows.grouped else StimulusGate
            return counts(_number(form, partition))
        case "time":
            period = form.rate(partition)
            on_grid = not (form.rows.grouped or form.rows.having or form.rows.releases)
            return GridGate(period) if on_grid else PeriodGate(period, within=form.rows.releases)
        case "at":
            return CrontabGate(BoundFunction(form, "output_point", (partition,)))
    return ConditionGate()
