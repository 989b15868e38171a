"""``timetolive(timestamp)``: keeps an event until the clock reaches its timestamp; ``time_order`` with no period."""

from __future__ import annotations

from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.duration import Duration
from cepbook.engine.rows.windows.form import Window, timestamp
from cepbook.engine.rows.windows.time_order import TimeOrder
from cepbook.lang.plan import WindowSpec


def _view(code: Code, spec: WindowSpec, at: int) -> str:
    return f"{code.source.bind('_TimeOrder', TimeOrder)}({at}, {code.source.bind('_Duration', Duration)}(0))"


WINDOW = Window(_view, timestamp)
