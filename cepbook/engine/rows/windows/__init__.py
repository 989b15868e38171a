"""One module per data window, named as in EPL: `WINDOW` says what it contributes, of derived-value windows `STATISTIC`.

The modules are found by the rows of `lang.windows`; a row without its module fails here.
"""

from collections.abc import Callable
from importlib import import_module

from cepbook.engine.rows.windows.derived import Statistic
from cepbook.engine.rows.windows.form import Window
from cepbook.engine.rows.windows.supplied import CLOCKED_WINDOW
from cepbook.engine.rows.windows.supplied import WINDOW as SUPPLIED_WINDOW
from cepbook.lang.windows import CLOCKED, SUPPLIED, WINDOWS


def _found(name: str, *kinds: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for row in WINDOWS.values():
        if row.kind in kinds and row.supported:
            made = getattr(import_module(f"{__name__}.{row.name}"), name, None)
            if made is None:
                raise TypeError(f"the row of window {row.name} has no {name} in its module {__name__}.{row.name}")
            found[row.name] = made
    return found


WINDOW_FORMS: dict[str, Window] = _found("WINDOW", "window", "batch")  # type: ignore[assignment]
WINDOW_FORMS[SUPPLIED.name] = SUPPLIED_WINDOW
WINDOW_FORMS[CLOCKED.name] = CLOCKED_WINDOW
STATISTICS: dict[str, Callable[[], Statistic]] = _found("STATISTIC", "derived")  # type: ignore[assignment]
