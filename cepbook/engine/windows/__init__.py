"""One module per data window, named as in EPL: `WINDOW` says what it contributes, of derived-value windows `STATISTIC`.

The modules are found by the rows of `lang.windows`; a row without its module fails here.
"""

from collections.abc import Callable
from importlib import import_module

from cepbook.engine.windows.derived_value import Statistic
from cepbook.engine.windows.python_window import CLOCKED_WINDOW
from cepbook.engine.windows.python_window import WINDOW as SUPPLIED_WINDOW
from cepbook.engine.windows.window_codegen import WindowCodegen
from cepbook.lang.registry.windows import USER_WINDOW, USER_WINDOW_WITH_CLOCK, WINDOWS


def _found(name: str, *kinds: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for row in WINDOWS.values():
        if row.kind in kinds and row.supported:
            made = getattr(import_module(f"{__name__}.{row.name}"), name, None)
            if made is None:
                raise TypeError(f"the row of window {row.name} has no {name} in its module {__name__}.{row.name}")
            found[row.name] = made
    return found


WINDOW_FORMS: dict[str, WindowCodegen] = _found("WINDOW", "window", "batch")  # type: ignore[assignment]
WINDOW_FORMS[USER_WINDOW.name] = SUPPLIED_WINDOW
WINDOW_FORMS[USER_WINDOW_WITH_CLOCK.name] = CLOCKED_WINDOW
STATISTICS: dict[str, Callable[[], Statistic]] = _found("STATISTIC", "derived")  # type: ignore[assignment]
