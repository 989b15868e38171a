"""The workbench: define event types, run EPL, replay events, read what statements deliver."""

from __future__ import annotations

from cepbook.engine.windows.python_window import WindowClock
from cepbook.session.core.run_results import RunResult
from cepbook.session.explain.marble import Marble
from cepbook.session.inspect.partition_selectors import ByCategory, ByHash, ById, ByKey, ByProperties, Nested
from cepbook.session.inspect.timeline import Timeline
from cepbook.session.io.time_conversion import ClockTime
from cepbook.session.replay.replay import Replay
from cepbook.session.replay.replay_results import Progress, ReplayResult
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
