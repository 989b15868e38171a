"""``time_batch(p [, reference] [, flow control])``: collects events, releases them every p.

::

    time_batch(1 sec)     0     0.4   1           2           3
    arrivals              a     b           c
    enters                            ab          c
    leaves                                        ab          c

The grid starts with the first event (or a reference point, in ms) and is kept over idle stretches. An event of the
release's millisecond belongs to the next batch. FORCE_UPDATE delivers empty intervals too; START_EAGER starts the grid
at deployment and forces as well.
"""

from __future__ import annotations

from cepbook.engine.clock import NEVER
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.duration import Duration
from cepbook.engine.rows.windows.form import Batch, General, period
from cepbook.engine.rows.windows.period import calendar_months, millis, next_on_grid
from cepbook.engine.rows.windows.view import FORCED, Change, Collecting, Item
from cepbook.lang.plan import WindowSpec


def _grid(code: Code) -> str:
    window = code.shape.window
    assert window is not None
    if len(window.args) > 1 and "START_EAGER" not in window.options:
        return code.parameter(window.args[1])
    return "None"


def forces(code: Code) -> bool:
    """Whether empty intervals are delivered."""
    return code.shape.window is not None and bool(code.shape.window.options)


def next_due(code: Code, w: str, now: str = "now") -> str:
    """Code of the next release after `now`."""
    grid = code.source.bind("_next_on_grid", next_on_grid)
    return f"{grid}({now}, {w}[3], {calendar_months(code) or 0}, {millis(code)})"


def _arrive(code: Code, w: str, count: str) -> None:
    source = code.source
    with source.block(f"if {w}[2] is None:"):
        with source.block(f"if {w}[3] is None:"):
            source.line(f"{w}[3] = now")
        source.line(f"{w}[2] = {next_due(code, w)}")
        ordinal = "(S[3][gk], gk)" if code.shape.group_window else "0"
        source.line(f"arm({w}[2], S, {w}, {ordinal})")


WINDOW = Batch(grid=_grid, arrive=_arrive)


class TimeBatch(Collecting):
    """The view of ``time_batch``. `grid` is a point of its release grid, None until the first event sets it."""

    __slots__ = ("forces", "grid", "period")

    def __init__(self, period: Duration, grid: int | None, forces: bool, starts_at: int | None) -> None:
        super().__init__()
        self.period = period
        self.grid = grid if starts_at is None else starts_at
        self.forces = forces
        if starts_at is not None:
            self.due = period.on_grid(starts_at, starts_at)

    def arrive(self, item: Item, now: int) -> None:
        if self.due == NEVER:
            if self.grid is None:
                self.grid = now
            self.due = self.period.on_grid(now, self.grid)
        self.items.append(item)

    def advance(self, now: int) -> Change | None:
        idle = self.idle
        if idle and not self.forces:
            self.due = NEVER
            return None
        change = FORCED if idle else self.post()
        self.grid, self.due = self.due, NEVER
        if self.forces or self.former:
            self.due = self.period.on_grid(now, self.grid)
        return change


def _view(code: Code, spec: WindowSpec, at: int) -> str:
    name = code.source.bind("_TimeBatch", TimeBatch)
    grid = code.parameter(spec.args[1]) if len(spec.args) > 1 else "None"
    starts_at = "now" if "START_EAGER" in spec.options else "None"
    return f"{name}({period(code, spec, apart=True)}, {grid}, {bool(spec.options)}, {starts_at})"


VIEW = General(_view)
