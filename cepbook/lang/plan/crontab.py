"""Crontabs in plans: points in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.plan_node import PlanNode

CronKind = Literal["star", "value", "range", "step", "list", "last", "nth_last", "weekday", "lastweekday"]


@dataclass(frozen=True, slots=True)
class CronField(PlanNode):
    """One field of a crontab; `operands` are ints, constants or variables.

    `kind`: ``*`` star; ``5`` value; ``8:17`` range; ``*/15`` step; ``[1, 3:5]`` list of `parts`; ``last``; ``5 last``
    nth_last; ``10 weekday`` weekday; ``lastweekday``.
    """

    kind: CronKind
    operands: tuple[BoundExpr, ...] = ()
    parts: tuple[CronField, ...] = ()


# What the fields of a crontab are called, and their lowest and highest value
CRON_FIELDS = (
    ("minutes", 0, 59),
    ("hours", 0, 23),
    ("days of the month", 1, 31),
    ("months", 1, 12),
    ("days of the week", 0, 6),
    ("seconds", 0, 59),
    ("milliseconds", 0, 999),
    ("microseconds", 0, 999),
)


@dataclass(frozen=True, slots=True)
class CrontabSpec(PlanNode):
    """Points in time: `fields` are minutes, hours, days of the month, months, days of the week (0: Sunday), seconds.

    There may also be milliseconds and microseconds. `zone` names the time zone that they are read in, that of the
    configuration where none is written; None: UTC.
    """

    fields: tuple[CronField, ...]
    zone: str | None = None
