"""Data windows: the events that a statement keeps.

One module per window, named as in EPL. Its `WINDOW` is the window's code generation; the `STATISTIC` of a derived-value
window is its class of statistics. Modules are found by the rows of `lang.registry.windows`; a row without a module is
an error at import.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from cepbook.engine.windows.python_window import CLOCKED_WINDOW
from cepbook.engine.windows.python_window import WINDOW as SUPPLIED_WINDOW
from cepbook.engine.windows.running_statistics import Statistic
from cepbook.engine.windows.window_codegen import WindowCodegen
from cepbook.lang.registry.windows import USER_WINDOW, USER_WINDOW_WITH_CLOCK, WINDOWS


def _load(name: str, *kinds: str) -> dict[str, object]:
    registered: dict[str, object] = {}
    for row in WINDOWS.values():
        if row.kind in kinds:
            contribution = getattr(import_module(f"{__name__}.{row.name}"), name, None)
            if contribution is None:
                raise TypeError(f"the row of window {row.name} has no {name} in its module {__name__}.{row.name}")
            registered[row.name] = contribution
    return registered


WINDOW_FORMS: dict[str, WindowCodegen] = _load("WINDOW", "window", "batch")  # type: ignore[assignment]
WINDOW_FORMS[USER_WINDOW.name] = SUPPLIED_WINDOW
WINDOW_FORMS[USER_WINDOW_WITH_CLOCK.name] = CLOCKED_WINDOW
STATISTICS: dict[str, Callable[[], Statistic]] = _load("STATISTIC", "derived")  # type: ignore[assignment]
