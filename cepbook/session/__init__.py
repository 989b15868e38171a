"""The workbench: define event types, run EPL, replay events, read what statements deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepbook.lazy_imports import exports_on_demand

if TYPE_CHECKING:
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
_ON_DEMAND = {  # name -> the module that has it
    "WindowClock": "cepbook.engine.windows.python_window",
    "RunResult": "cepbook.session.core.run_results",
    "Marble": "cepbook.session.explain.marble",
    **dict.fromkeys(
        ("ByCategory", "ByHash", "ById", "ByKey", "ByProperties", "Nested"),
        "cepbook.session.inspect.partition_selectors",
    ),
    "Timeline": "cepbook.session.inspect.timeline",
    "ClockTime": "cepbook.session.io.time_conversion",
    "Replay": "cepbook.session.replay.replay",
    **dict.fromkeys(("Progress", "ReplayResult"), "cepbook.session.replay.replay_results"),
    "Workbench": "cepbook.session.workbench",
}


# The imports wait until they are needed: the playground runs explanations of `session` where pandas does not exist.
__getattr__, __dir__ = exports_on_demand(__name__, _ON_DEMAND, __all__)
