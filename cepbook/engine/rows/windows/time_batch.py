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

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.form import Batch
from cepbook.engine.rows.windows.period import calendar_months, millis, next_on_grid


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
        ordinal = "S[3][gk]" if code.shape.group_window else "0"
        source.line(f"arm({w}[2], S, {w}, {ordinal})")


WINDOW = Batch(grid=_grid, arrive=_arrive)
