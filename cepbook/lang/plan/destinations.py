"""The destinations of rows and the times of output: output clause, ``insert into``, ``into table``, assignments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.crontab import CrontabSpec
from cepbook.lang.plan.expressions import BoundExpr, Const, Period
from cepbook.lang.plan.plan_node import PlanNode
from cepbook.lang.plan.relational import Selector


@dataclass(frozen=True, slots=True)
class VariableAssignment(PlanNode):
    """``variable = value`` of ``on … set`` and ``then set``; `value` is of the variable's type.

    With a `path` it is that of a part: keys are ints for elements of arrays, strings for properties of an event and
    for values of a map. With an index out of range, or null on the way, the assignment is left out; so is null for an
    element of an array of `primitive` values.
    """

    variable: str
    value: BoundExpr
    path: tuple[BoundExpr, ...] = ()
    primitive: bool = False


@dataclass(frozen=True, slots=True)
class OutputClause(PlanNode):
    """The output clause (output rate limiting).

    `which`: what is delivered (None: the default). `kind`: what triggers it; None with only `after`. `rate` is the
    number of events (int) or the `expr.Period`; `after` likewise. `when` may refer to `expr.OutputCounter`.
    `and_terminated`: what is pending is delivered when the context partition ends (always so with kind
    ``terminated``), if `terminated_when` holds; `terminated_then` is executed in any case. `every_row`: it is to keep
    all rows, not only what it needs of them (a hint).
    """

    kind: Literal["events", "time", "at", "when", "terminated"] | None
    which: Literal["all", "first", "last", "snapshot"] | None = None
    rate: BoundExpr | None = None
    after: BoundExpr | None = None
    crontab: CrontabSpec | None = None
    when: BoundExpr | None = None
    then_set: tuple[VariableAssignment, ...] = ()
    and_terminated: bool = False
    terminated_when: BoundExpr | None = None
    terminated_then: tuple[VariableAssignment, ...] = ()
    every_row: bool = False

    @property
    def begins_after_period(self) -> bool:
        """True if output begins after a period, not after a number of events."""
        return isinstance(self.after, Period)

    @property
    def uses_clock(self) -> bool:
        """True if it depends on more than the number of events."""
        return self.kind not in (None, "events") or self.begins_after_period

    @property
    def order_reason(self) -> str:
        """The reason why the clause needs all events in order."""
        effect = "follows the events and the clock" if self.uses_clock else "counts the events"
        return f"its output clause {effect} of the whole stream"

    @property
    def has_constant_rate(self) -> bool:
        """True if the number of events or the period does not change."""
        rate = self.rate
        amounts = (rate.months, rate.millis) if isinstance(rate, Period) else (rate,)
        return all(amount is None or isinstance(amount, Const) for amount in amounts)


@dataclass(frozen=True, slots=True)
class Insert(PlanNode):
    """The destination of rows: event type `target` and which of the statement's streams feeds it.

    Columns that need widening hold `expr.Convert`; properties of the target that are not selected are null columns. The
    `precedence` reads the inserted event.
    """

    target: str
    selector: Selector
    creates: bool  # the target type is created by this statement
    table: bool = False  # the target is a table, whose rows are inserted at once
    inside: bool = False  # the table is in the statement's context: each partition's rows go into its own
    precedence: BoundExpr | None = None


@dataclass(frozen=True, slots=True)
class IntoTable(PlanNode):
    """``into table``: the cells of aggregate calls, by number, are those of columns of `store`."""

    store: StoreType
    columns: tuple[tuple[int, str], ...]
