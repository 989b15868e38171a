"""The workbench: define event types, run EPL, replay events, read what statements deliver."""

from __future__ import annotations

from cepbook.engine.rows.windows.supplied import WindowClock
from cepbook.session.driving.replay import Replay
from cepbook.session.inspect.selectors import ByCategory, ByHash, ById, ByKey, ByProperties, Nested
from cepbook.session.inspect.timeline import Timeline
from cepbook.session.past.marble import Marble
from cepbook.session.running.results import Progress, ReplayResult, RunResult
from cepbook.session.values.clock import ClockTime
from cepbook.session.workbench import Workbench

__all__ = [
    "ByCategory",
    "ByHash",
    "ById",
    "ByKey",
    "ByProperties",
    "ClockTime",
    "Marble",
    "Nested",
    "Progress",
    "Replay",
    "ReplayResult",
    "RunResult",
    "Timeline",
    "WindowClock",
    "Workbench",
]
